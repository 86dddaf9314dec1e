"""Servers in their own processes, which can be killed and started again."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.patience import PATIENCE


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class ServerProcess:
    """A server in its own process that can be killed and started again; its output goes to a log.

    Args:
        command: command that starts the server.
        health: URL that answers as soon as the server is ready.
        more_environment: variables in addition to those of this process.
    """

    def __init__(self, command: Sequence[str | Path], health: str, log: Path, more_environment: dict[str, str]) -> None:
        self._command, self._health, self._log = command, health, log
        self._environment = {**os.environ, **more_environment}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdout=output, stderr=subprocess.STDOUT, env=self._environment
            )
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends and self._process.poll() is None:
            try:
                with urllib.request.urlopen(self._health, timeout=2):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)
        pytest.fail(f"{self._command[0]} did not start:\n{self._log.read_text(errors='replace')[-3000:]}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
