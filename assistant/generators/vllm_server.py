"""A vLLM server of our own on loopback: started, waited for, stopped with this process.

It listens on vLLM's usual port where that is free, so that other processes find and use it. A small process of its own
watches it and ends it when this process ends, however that happens (also by SIGKILL): its standard input is a pipe from
here. Whoever did not start a server never stops it.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

from turnmark.assistant.generators.base import GeneratorError
from turnmark.corpora.console import notify
from turnmark.corpora.home import home
from turnmark.corpora.text import printable

COMMAND_ENV = "TURNMARK_VLLM_COMMAND"
USUAL_PORT = 8000
"""Where `vllm serve` listens unless it is told otherwise."""
REQUEST_SECONDS = 2.0
MODELS_BYTES = 1_000_000  # of a list of models
POLL_SECONDS = 0.2
GRACE_SECONDS = 15.0  # from SIGTERM to SIGKILL
FAILED_SECONDS = 30.0  # for so long a failed start is not tried again: every sample of a run would
LOG_LINES, LOG_CHARACTERS = 15, 2000

# Of other services; what a server of models has no use for.
_NOT_PASSED_ON = ("OPENAI_API_KEY", "OLLAMA_API_KEY", "ANTHROPIC_API_KEY")

_WATCHER = """
import os, signal, subprocess, sys, threading
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, start_new_session=True)
def kill(number):
    try:
        os.killpg(server.pid, number)
    except ProcessLookupError:
        pass
def stop(*_):
    kill(signal.SIGTERM)
    timer = threading.Timer(float(sys.argv[1]), kill, [signal.SIGKILL])
    timer.daemon = True
    timer.start()
signal.signal(signal.SIGTERM, stop)
threading.Thread(target=lambda: (os.read(0, 1), stop()), daemon=True).start()
code = server.wait()
kill(signal.SIGKILL)  # what the server left behind in its group
sys.exit(code & 0xFF)
"""


@dataclass(frozen=True)
class Plan:
    """A server as it is wanted.

    Attributes:
        command: what starts a server, without the model: `("vllm", "serve")`.
        model: name or path, as the server shall name it too.
        arguments: of the engine, behind the model.
        key: the key that the server shall ask for; empty: none.
        start: seconds that it may take until it answers.
        served_name: what requests ask for, and what the server must list: the model, or a LoRA adapter over it.
    """

    command: tuple[str, ...]
    model: str
    arguments: tuple[str, ...]
    key: str
    start: float
    served_name: str

    @property
    def log(self) -> Path:
        """Where the server's output goes."""
        digest = hashlib.sha256(json.dumps([self.command, self.model, self.arguments]).encode("utf-8", "replace"))
        return home() / "cache" / "vllm" / f"{digest.hexdigest()[:16]}.log"


NOTICED_SECONDS = 1.0
"""In which whoever watches a server notices that it has ended."""


@dataclass(frozen=True)
class Server:
    """A server that answers. `watcher`: the process that watches it; None where somebody else started it."""

    url: str
    watcher: subprocess.Popen[bytes] | None = None

    @property
    def ended(self) -> bool:
        """Whether its process has ended; of somebody else's that is not known."""
        return self.watcher is not None and self.watcher.poll() is not None

    def broke(self, plan: Plan) -> bool:
        """Whether it has ended, asked after a call that did not reach it: its end is known a moment after it."""
        if self.watcher is not None:
            with suppress(subprocess.TimeoutExpired):
                self.watcher.wait(NOTICED_SECONDS)
        return not self.alive(plan)

    def alive(self, plan: Plan) -> bool:
        """Whether it still serves what the plan wants, as far as that can be known."""
        return not self.ended if self.watcher is not None else serves(self.url, plan.served_name, plan.key)


def serves(url: str, model: str, key: str) -> bool:
    """Whether an endpoint lists the model."""
    request = Request(f"{url}/models", headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        # No proxy from the environment reaches this machine's own loopback.
        with build_opener(ProxyHandler({})).open(request, timeout=REQUEST_SECONDS) as reply:
            rows = json.loads(reply.read(MODELS_BYTES))["data"]
        return any(row["id"] == model for row in rows)
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        return False


_lock = threading.Lock()
_started: dict[Plan, Server] = {}
_owner = os.getpid()
_failures: dict[Plan, tuple[float, str]] = {}


def obtain(plan: Plan) -> Server:
    """A server for the plan: one that this process started, the one on the usual port, or one that is started now.

    Raises:
        GeneratorError: `unavailable`: it did not start; the message ends with the end of its log.
    """
    from filelock import FileLock, Timeout

    with _lock:
        failed_at, message = _failures.get(plan, (-FAILED_SECONDS, ""))
        if time.monotonic() < failed_at + FAILED_SECONDS:
            raise GeneratorError("unavailable", message)
        if server := _existing(plan):
            return server
        try:
            plan.log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Two processes that want a server: one starts it, the other finds it.
            with FileLock(plan.log.with_name("start.lock"), timeout=plan.start, mode=0o600):
                return _existing(plan) or _start(plan)
        except Timeout:
            raise GeneratorError(
                "unavailable", f"another process has been starting vLLM for {plan.start:g} s"
            ) from None
        except OSError as error:
            raise GeneratorError("unavailable", f"vLLM for {plan.model} cannot be started: {error}") from None
        except GeneratorError as error:
            _failures[plan] = (time.monotonic(), str(error))
            raise


def _existing(plan: Plan) -> Server | None:
    own = _started if os.getpid() == _owner else {}
    if (server := own.get(plan)) and server.alive(plan):
        return server
    usual = f"http://127.0.0.1:{USUAL_PORT}/v1"
    if any(server.url == usual and not server.ended for server in own.values()):  # it has other arguments
        return None
    if not serves(usual, plan.served_name, plan.key):
        return None
    if plan.arguments:
        notify(
            f"vLLM serves {plan.served_name} on port {USUAL_PORT} already: it is used as it runs, "
            "engine arguments and all"
        )
    return Server(usual)


def _start(plan: Plan) -> Server:
    if shutil.which(plan.command[0]) is None:
        hint = f"pip install 'turnmark[vllm]', or name the command of one that is installed in {COMMAND_ENV}"
        raise GeneratorError("unavailable", f"vLLM for {plan.model}: {plan.command[0]} cannot be run: {hint}")
    port = _free_port()
    command = [*plan.command, plan.model, "--host", "127.0.0.1", "--port", str(port), *plan.arguments]
    plan.log.unlink(missing_ok=True)
    log = os.open(plan.log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-c", _WATCHER, str(GRACE_SECONDS), *command],
        stdin=subprocess.PIPE, stdout=log, stderr=log, env=_environment(plan), start_new_session=True,
    )  # fmt: skip
    os.close(log)
    server = Server(f"http://127.0.0.1:{port}/v1", watcher)
    try:
        notify(f"starting vLLM for {plan.model} on port {port}; its log: {plan.log}")
        _wait(plan, server, watcher)
    except BaseException:
        _stop([server])
        raise
    _started[plan] = server
    return server


def _wait(plan: Plan, server: Server, watcher: subprocess.Popen[bytes]) -> None:
    """Until the server serves the model.

    Raises:
        GeneratorError: it ended, or did not answer in time.
    """
    began = time.monotonic()
    while (code := watcher.poll()) is None:
        passed = time.monotonic() - began
        if serves(server.url, plan.served_name, plan.key):
            notify(f"vLLM answers, after {passed:.0f} s")
            return
        if passed > plan.start:
            raise _failure(f"vLLM for {plan.model} did not answer within {plan.start:g} s", plan.log)
        time.sleep(POLL_SECONDS)
    raise _failure(f"vLLM for {plan.model} ended with code {code} before it answered", plan.log)


def _environment(plan: Plan) -> dict[str, str]:
    """Ours, without keys of other services, without reports to vLLM's makers, with the key that we will send."""
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    environment |= {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    return environment | ({"VLLM_API_KEY": plan.key} if plan.key else {})


def _free_port() -> int:
    """The usual port, else any."""
    for port in (USUAL_PORT, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no port is free")


@atexit.register
def _stop_started() -> None:
    """Stop every server that this process started; one that a parent started before a fork is not ours."""
    if os.getpid() == _owner:
        _stop(list(_started.values()))
    _started.clear()


def _stop(servers: list[Server]) -> None:
    watchers = [server.watcher for server in servers if server.watcher is not None]
    for watcher in watchers:
        if watcher.stdin is not None:
            watcher.stdin.close()
    for watcher in watchers:
        try:
            watcher.wait(GRACE_SECONDS + 5)
        except subprocess.TimeoutExpired:
            watcher.kill()


def _failure(problem: str, log: Path) -> GeneratorError:
    """A server did not start; the end of its log says why."""
    text = log.read_bytes().decode("utf-8", "replace") if log.exists() else ""
    # A progress bar writes one line over and over.
    lines = [line.rpartition("\r")[2].rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    lines = [f"  {printable(line)}" for line in lines if line.strip()]
    end = "\n".join(lines[-LOG_LINES:])[-LOG_CHARACTERS:]
    return GeneratorError("unavailable", f"{problem}; the end of its log, {log}:\n{end}".rstrip())
