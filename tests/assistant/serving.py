"""A real `turnmark serve` in its own process, and requests to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import openai

from tests.conftest import ROOT
from tests.patience import PATIENCE

ASK = "How do I sharpen a kitchen knife?"


@dataclass
class Server:
    """A running server."""

    url: str
    process: subprocess.Popen[str]
    headers: dict[str, str] = field(default_factory=dict)

    def post(self, body: Any, **headers: str) -> httpx.Response:
        """Request a chat completion with a JSON object or raw bytes."""
        return self.post_to("/v1/chat/completions", body, **headers)

    def post_to(self, path: str, body: Any, **headers: str) -> httpx.Response:
        all_headers = {"Content-Type": "application/json", **self.headers, **headers}
        content = body if isinstance(body, bytes) else None
        return httpx.post(
            f"{self.url}{path}", json=None if content is not None else body, content=content,
            headers=all_headers, timeout=PATIENCE,
        )  # fmt: skip

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers={**self.headers, **headers}, timeout=PATIENCE)

    @cached_property
    def client(self) -> openai.OpenAI:
        """OpenAI's own client of this server, without retries."""
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)

    def end(self, with_signal: int) -> tuple[int, str]:
        """Send a signal; return the exit code and the output."""
        self.process.send_signal(with_signal)
        _, printed = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, printed


def said(text: str = ASK, **more: Any) -> dict[str, Any]:
    """Return the body of a request with one question."""
    return {"model": "demo", "messages": [{"role": "user", "content": text}], **more}


def write_token(folder: Path, token: str) -> str:
    """Write a token to a private file; return its path."""
    path = folder / "token"
    path.write_text(token)
    path.chmod(0o600)
    return str(path)


@contextmanager
def serving(
    home: Path, *flags: str, first: str = "", indexes: Sequence[str] = ("demo",), **environment: str
) -> Iterator[Server]:
    """Run `turnmark serve` at a free port, in a home with indexes; `first` is code that runs before it."""
    program = f"{first}\nfrom turnmark.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", *(word for name in indexes for word in ("--index", name))]
    process = subprocess.Popen(
        [*command, "--port", "0", *flags], cwd=ROOT, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        env={**os.environ, "TURNMARK_HOME": str(home), **environment},
    )  # fmt: skip
    try:
        # The preparation of a model is reported first.
        lines = iter(process.stderr.readline, "")
        told = next((line for line in lines if "endpoint http" in line), None)
        assert told is not None, f"it ended with code {process.wait()}"
        url = told.split("endpoint ")[1].split("/v1")[0]
        yield Server(url, process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
