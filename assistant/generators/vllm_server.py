"""A vLLM server of our own on loopback: found where one runs, started where none does, stopped with us.

What is started is watched by `keeper.py`, a process of its own that ends the server when this one ends, however that
happens. A file in the home says what runs, so that another process uses it too; whoever did not start a server never
stops it.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from turnmark.assistant.generators.base import GeneratorError
from turnmark.assistant.generators.notes import tell
from turnmark.assistant.generators.server_log import first_error, tail
from turnmark.corpora.home import home, write_json
from turnmark.corpora.types import Record

USUAL_URL = "http://localhost:8000/v1"
"""Where `vllm serve` listens unless it is told otherwise."""

KEEPER = Path(__file__).with_name("keeper.py")
ASK_SECONDS = 2.0
POLL_SECONDS = 0.2
SAY_EVERY = 10.0
STOP_SECONDS = 20.0  # a little longer than the keeper gives the server
FAILED_SECONDS = 30.0  # for so long a failed start is not tried again: every sample of a run would

# Of other services; what a server of models has no use for.
_NOT_PASSED_ON = ("OPENAI_API_KEY", "OLLAMA_API_KEY", "ANTHROPIC_API_KEY")


@dataclass(frozen=True)
class Plan:
    """A server as it is wanted.

    Attributes:
        command: what starts a server, without the model: `("vllm", "serve")`.
        model: name or path, as the server shall name it too.
        arguments: of the engine, behind the model.
        key: the key that the server shall ask for; empty: none.
        start: seconds that it may take until it answers.
        adapter: the name of a LoRA adapter among the arguments, which is asked in place of the model; empty: none.
    """

    command: tuple[str, ...]
    model: str
    arguments: tuple[str, ...]
    key: str
    start: float
    adapter: str = ""

    @property
    def asked(self) -> str:
        """The name under which requests ask for it, and which a server for this plan must list."""
        return self.adapter or self.model

    @property
    def folder(self) -> Path:
        """Where state, lock and log of all servers lie."""
        return home() / "cache" / "vllm"

    @property
    def stem(self) -> str:
        """The beginning of the names of its files."""
        whole = json.dumps([self.command, self.model, self.arguments])
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class State(Record):
    """What the file in the home says of a server that runs."""

    pid: int = Field(gt=1)
    born: str = Field(description="when the process began, as the system tells it: pids are used again")
    port: int = Field(ge=1, le=65_535)
    model: str

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}/v1"


@dataclass
class Server:
    """A server that answers.

    Attributes:
        url: base URL of its endpoint.
        state: None for one that somebody runs on vLLM's usual port.
        keeper: the process that watches it; None where we did not start it.
    """

    url: str
    state: State | None = None
    keeper: subprocess.Popen[bytes] | None = None

    @property
    def gone(self) -> bool:
        """Whether its process has ended, as far as that can be known."""
        if self.keeper is not None and self.keeper.poll() is not None:
            return True
        return self.state is not None and born(self.state.pid) != self.state.born


# --- finding ---------------------------------------------------------------------------------------------------------


def serves(url: str, model: str, key: str, seconds: float = ASK_SECONDS) -> bool:
    """Whether an endpoint lists the model."""
    import httpx

    from turnmark.assistant.generators.sizes import TooLarge, limited_here

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        within = {"response": [limited_here]}
        with httpx.Client(trust_env=False, timeout=seconds, event_hooks=within) as client:
            rows = client.get(f"{url}/models", headers=headers).json().get("data")
    except (httpx.HTTPError, TooLarge, ValueError, AttributeError):
        return False
    return isinstance(rows, list) and any(isinstance(row, dict) and row.get("id") == model for row in rows)


def born(pid: int) -> str:
    """When a process began, in the system's own words; "" where there is none with this number (or a dead one)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        pass
    if Path("/proc/self").exists():
        return ""
    ran = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return " ".join(ran.stdout.split())


def running(plan: Plan) -> Server | None:
    """The server that the file in the home tells of, if it still runs and serves the model; a stale file goes."""
    path = plan.folder / f"{plan.stem}.json"
    try:
        state = State.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError):
        path.unlink(missing_ok=True)
        return None
    # Whatever else listens on that port by now, it is not to be sent prompts.
    alive = bool(state.born) and born(state.pid) == state.born and state.model == plan.model
    if alive and serves(state.url, plan.asked, plan.key):
        return Server(state.url, state)
    path.unlink(missing_ok=True)
    return None


# --- starting and stopping -------------------------------------------------------------------------------------------

_lock = threading.Lock()
_started: list[tuple[int, subprocess.Popen[bytes], Path]] = []
_failures: dict[str, tuple[float, str]] = {}


def obtain(plan: Plan) -> Server:
    """A server for the plan: the one on the usual port, one that is known to run, or one that is started now.

    Raises:
        GeneratorError: `unavailable`: it did not start; the message ends with the end of its log.
    """
    with _lock:
        if serves(USUAL_URL, plan.asked, plan.key):
            if plan.arguments:
                tell(f"vLLM serves {plan.asked} on port 8000 already: it is used as it runs, engine arguments and all")
            return Server(USUAL_URL)
        before = _failures.get(plan.stem)
        if before is not None and time.monotonic() < before[0] + FAILED_SECONDS:
            raise GeneratorError("unavailable", before[1])
        try:
            return _running_or_started(plan)
        except GeneratorError as error:
            _failures[plan.stem] = (time.monotonic(), str(error))
            raise


def _running_or_started(plan: Plan) -> Server:
    from filelock import FileLock, Timeout

    try:
        plan.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Two processes that want the same model: one starts it, the other finds it.
        with FileLock(plan.folder / f"{plan.stem}.lock", timeout=plan.start, mode=0o600):
            return running(plan) or _start(plan)
    except Timeout:
        raise GeneratorError(
            "unavailable", f"another process is starting vLLM for {plan.model}, for {plan.start:g} s already"
        ) from None
    except OSError as error:
        raise GeneratorError("unavailable", f"vLLM for {plan.model} cannot be started: {error}") from None


def _start(plan: Plan) -> Server:
    port, log = _free_port(), plan.folder / f"{plan.stem}.log"
    command = [*plan.command, plan.model, "--host", "127.0.0.1", "--port", str(port), *plan.arguments]
    with _opened(log) as output:
        keeper = subprocess.Popen(
            [sys.executable, "-I", str(KEEPER), *command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, env=_environment(plan),
            start_new_session=True,
        )  # fmt: skip
    path = plan.folder / f"{plan.stem}.json"
    _started.append((os.getpid(), keeper, path))
    try:
        pid = _server_pid(plan, keeper, log)
        tell(f"starting vLLM for {plan.model} on port {port}; its log: {log}")
        began = time.monotonic()
        _wait(plan, keeper, port, log)
        state = State(pid=pid, born=born(pid), port=port, model=plan.model)
        write_json(path, state.model_dump())
        tell(f"vLLM answers, after {time.monotonic() - began:.0f} s")
        return Server(state.url, state, keeper)
    except BaseException:
        _stop(keeper)
        raise


def _server_pid(plan: Plan, keeper: subprocess.Popen[bytes], log: Path) -> int:
    """The number of the server's own process, which the keeper tells; the server's output follows it to the log."""
    assert keeper.stdout is not None
    line = keeper.stdout.readline()
    if line.strip().isdigit():
        return int(line)
    keeper.wait()
    where = "pip install 'turnmark[vllm]', or name the command of one that is installed in TURNMARK_VLLM_COMMAND"
    raise GeneratorError(
        "unavailable", f"vLLM for {plan.model}: {plan.command[0]} cannot be run: {where}\n{tail(log)}".rstrip()
    )


def _wait(plan: Plan, keeper: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Until the server is healthy and serves the model.

    Raises:
        GeneratorError: it ended, or did not answer in time.
    """
    began = said = time.monotonic()
    while True:
        code = keeper.poll()
        if code is not None:
            raise _failed(f"vLLM for {plan.model} ended with code {code} before it answered", log)
        if _healthy(port) and serves(f"http://127.0.0.1:{port}/v1", plan.asked, plan.key):
            return
        now = time.monotonic()
        if now - began > plan.start:
            raise _failed(f"vLLM for {plan.model} did not answer within {plan.start:g} s", log)
        if now - said >= SAY_EVERY:
            said = now
            tell(f"vLLM is loading {plan.model}, for {now - began:.0f} s now")
        time.sleep(POLL_SECONDS)


def _healthy(port: int) -> bool:
    import httpx

    try:
        with httpx.Client(trust_env=False, timeout=ASK_SECONDS) as client:
            return client.get(f"http://127.0.0.1:{port}/health").status_code == 200
    except httpx.HTTPError:
        return False


def _failed(what: str, log: Path) -> GeneratorError:
    last, first = tail(log), first_error(log)
    cause = f": {first}" if first and first not in last else ""
    return GeneratorError("unavailable", f"{what}{cause}; the end of its log, {log}:\n{last}".rstrip())


def _environment(plan: Plan) -> dict[str, str]:
    """Ours, without keys of other services, without reports to vLLM's makers, with the key that we will send."""
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    environment |= {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    if plan.key:
        environment["VLLM_API_KEY"] = plan.key
    return environment


@contextmanager
def _opened(log: Path) -> Iterator[int]:
    """A new log that only its owner reads."""
    log.unlink(missing_ok=True)
    number = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        yield number
    finally:
        os.close(number)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _stop(keeper: subprocess.Popen[bytes]) -> None:
    """Let the keeper end its server, and wait for that."""
    if keeper.stdin is not None:
        keeper.stdin.close()
    try:
        keeper.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        keeper.kill()
        keeper.wait()


@atexit.register
def stop_started() -> None:
    """Stop every server that this process started; one that a parent started before a fork is not ours."""
    ours = [(keeper, path) for owner, keeper, path in _started if owner == os.getpid()]
    _started.clear()
    for keeper, path in ours:
        if keeper.poll() is None:  # else the file may tell of a server that somebody else has started since
            path.unlink(missing_ok=True)
        if keeper.stdin is not None:
            keeper.stdin.close()
    for keeper, _ in ours:
        _stop(keeper)
