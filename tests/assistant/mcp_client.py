"""A client of `turnmark mcp` over standard input and output."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters, stdio_client

from tests.conftest import ROOT


def program(*flags: str, first: str = "") -> list[str]:
    """Return the command line of `turnmark mcp`; `first` is code that runs before it."""
    return [sys.executable, "-c", f"{first}\nfrom turnmark.cli import main; main()", "mcp", *flags]


def over_stdio(home: Path, work: Callable[[Client], Awaitable[None]], *flags: str, mode: str = "auto") -> str:
    """Run a client with a server in its own process; return what the server wrote to standard error."""
    command, *arguments = program(*flags)
    # The client passes few variables on; without the shared cache the server converts the embedder anew.
    environment = {"TURNMARK_HOME": str(home), "PYTHONPATH": str(ROOT), "TURNMARK_CACHE": os.environ["TURNMARK_CACHE"]}
    parameters = StdioServerParameters(command=command, args=arguments, env=environment, cwd=ROOT)
    log = home / "mcp.log"

    async def talk() -> None:
        with log.open("w") as errors:
            async with Client(stdio_client(parameters, errlog=errors), mode=mode) as client:
                await work(client)

    anyio.run(talk)
    return log.read_text()
