"""Use vLLM: `vllm:MODEL@URL` is a running server; `vllm:MODEL` is one that this process starts and stops.

The command that starts a server is `TURNMARK_VLLM_COMMAND`, or `vllm serve`. A spec cannot set it, since a spec may
come from somebody else's run. A spec may only set the engine arguments in `ENGINE`, which affect how a model runs.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from turnmark.assistant.llm.calls.endpoint_client import client_of
from turnmark.assistant.llm.calls.protocols import Generator, GeneratorError, Seconds, option
from turnmark.assistant.llm.generators.openai import Endpoint, OpenAIGenerator, read_endpoint
from turnmark.core.console import notify
from turnmark.core.errors import ErrorCollector
from turnmark.core.extras import install_command
from turnmark.core.home import home
from turnmark.core.specs import Spec
from turnmark.core.untrusted import make_printable

if TYPE_CHECKING:
    from openai import AsyncOpenAI

COMMAND_ENV = "TURNMARK_VLLM_COMMAND"
ENGINE = {
    "data_parallel": "--data-parallel-size",
    "dtype": "--dtype",
    "gpu_memory_utilization": "--gpu-memory-utilization",
    "max_model_len": "--max-model-len",
    "quantization": "--quantization",
    "tensor_parallel": "--tensor-parallel-size",
}
"""Options of a spec that are passed to the engine."""
START_SECONDS = 600.0
"""Default maximum seconds until a started server answers."""
POLL_SECONDS, GRACE_SECONDS = 0.2, 15.0
"""Seconds between two checks of whether a server answers, and seconds from SIGTERM to SIGKILL."""
LOG_LINES, LOG_CHARACTERS = 15, 2000
# Keys of other services, which a model server does not need.
_NOT_PASSED_ON = ("OPENAI_API_KEY", "OLLAMA_API_KEY", "ANTHROPIC_API_KEY")


def _value(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", text):
        raise ValueError("letters, digits, '.', '_', '+' and '-', beginning with a letter or digit")
    return text


def open_vllm(spec: Spec) -> Generator:
    """Open `vllm:MODEL[@URL]`, with the key in `VLLM_API_KEY`, if set; a started server requires it."""
    if spec.url:
        return OpenAIGenerator(read_endpoint(spec, preset_url="", key_env="VLLM_API_KEY"))
    errors, extra = ErrorCollector(), {**dict.fromkeys(ENGINE, _value), "start": option(Seconds)}
    endpoint = errors.collect(
        read_endpoint, spec, preset_url="http://127.0.0.1/v1", key_env="VLLM_API_KEY", extra_options=extra
    )
    if spec.argument.startswith("-"):
        errors.add(f"generator 'vllm': a model is called {spec.argument!r}? A name that does not begin with '-'")
    words: list[str] = []
    try:
        words = shlex.split(os.environ.get(COMMAND_ENV, "").strip() or "vllm serve")
    except ValueError as error:
        errors.add(f"{COMMAND_ENV}: {error}")
    errors.raise_all()
    assert endpoint is not None, "a None marks a mistake that was reported"
    engine = [part for name, flag in ENGINE.items() if name in endpoint.more for part in (flag, endpoint.more[name])]
    return VllmGenerator(endpoint, (*words, endpoint.model, *engine), endpoint.more.get("start", START_SECONDS))


class VllmGenerator(OpenAIGenerator):
    """A model behind a vLLM server that this process starts at first use.

    Args:
        endpoint: the endpoint of the spec; its URL is ignored.
        command: the command that starts the server, without host and port.
        start: maximum seconds until the server answers.
    """

    def __init__(self, endpoint: Endpoint, command: tuple[str, ...], start: float) -> None:
        super().__init__(endpoint)
        self._command, self._start = command, start

    @property
    def identity(self) -> dict[str, Any]:
        """See `GeneratorBase.identity`; without the port, which is random."""
        return {"vllm": list(self._command), "seed": self._settings.seed}

    @cached_property
    def _client(self) -> AsyncOpenAI:
        url = _url_of(self._command, self._key, self._start)
        return client_of(url, self._key, self._settings.retries)


# --- servers of this process -----------------------------------------------------------------------------------------

_lock = threading.Lock()
_servers: dict[tuple[str, ...], tuple[subprocess.Popen[bytes], str]] = {}
_failures: dict[tuple[str, ...], str] = {}


def _url_of(command: tuple[str, ...], key: str, start: float) -> str:
    """Start one server for all generators with this command, and return its URL."""
    with _lock:
        if command in _servers and _servers[command][0].poll() is None:
            return _servers[command][1]
        if command not in _failures:
            try:
                return _start_server(command, key, start)
            except (OSError, GeneratorError) as error:
                _failures[command] = f"vLLM cannot be started: {error}"
        raise GeneratorError("unavailable", _failures[command])


def _start_server(command: tuple[str, ...], key: str, start: float) -> str:
    if shutil.which(command[0]) is None:
        hint = f"{install_command('vllm')}, or name the command of one that is installed in {COMMAND_ENV}"
        raise GeneratorError("unavailable", f"{command[0]} cannot be run: {hint}")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = home() / "cache" / "vllm"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file, log = tempfile.mkstemp(".log", dir=folder)  # created with mode 0600
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    environment |= {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"} | ({"VLLM_API_KEY": key} if key else {})
    with open(file, "wb") as output:
        # In a separate session, so that Ctrl-C in a chat stops the turn, not the server.
        server = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True,
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}/v1"
    _servers[command] = (server, url)
    notify(f"starting vLLM on port {port}; its log: {log}")
    try:
        problem = _wait(server, f"{url}/models", key, start)
    except BaseException:
        _stop(server)
        raise
    if problem:
        _stop(server)
        lines = Path(log).read_text("utf-8", "replace").split("\n")
        end = "\n".join(f"  {make_printable(line)}" for line in [*filter(str.strip, lines)][-LOG_LINES:])[
            -LOG_CHARACTERS:
        ]
        raise GeneratorError("unavailable", f"{problem}; the end of its log, {log}:\n{end}".rstrip())
    return url


def _wait(server: subprocess.Popen[bytes], url: str, key: str, start: float) -> str:
    """Wait until the server answers. Return the reason why it does not, or ""."""
    ends = time.monotonic() + start
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    while time.monotonic() < ends:
        code = server.poll()
        if code is not None:
            return f"it ended with code {code} before it answered"
        with suppress(httpx.HTTPError):
            if httpx.get(url, headers=headers, timeout=2.0, trust_env=False).is_success:
                return ""
        time.sleep(POLL_SECONDS)
    return f"it did not answer within {start:g} s"


@atexit.register
def _stop_all() -> None:
    for server, _ in _servers.values():
        _stop(server)
    _servers.clear()


def _stop(server: subprocess.Popen[bytes]) -> None:
    for number, grace in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, 5.0)):
        with suppress(ProcessLookupError):
            os.killpg(server.pid, number)
        with suppress(subprocess.TimeoutExpired):
            server.wait(grace)
