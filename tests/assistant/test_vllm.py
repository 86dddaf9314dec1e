"""vLLM servers started by this process: start, sharing and stop. The server is a stand-in process on a real port."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.assistant.endpoint import failure
from tests.conftest import ROOT
from tests.patience import PATIENCE
from turnmark.assistant.llm.calls.protocols import PromptMessage
from turnmark.assistant.llm.generators import vllm
from turnmark.assistant.llm.generators.registry import open_generator
from turnmark.assistant.llm.generators.vllm import _stop_all
from turnmark.core.home import home

pytestmark = pytest.mark.server

STAND_IN = ROOT / "tests" / "vllm_stand_in.py"
ASK = [PromptMessage(role="user", content="Who are you?")]


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch, tmp_path):
    """Use the stand-in as the command, and stop all servers afterwards."""
    monkeypatch.setenv("TURNMARK_VLLM_COMMAND", f"{sys.executable} '{STAND_IN}'")
    monkeypatch.setattr(vllm, "_failures", {})
    monkeypatch.setattr(vllm, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(vllm, "GRACE_SECONDS", 1.0)
    yield
    _stop_all()


def opened(options="", model="org/tiny"):
    return open_generator(f"vllm:{model}{options}")


def description(generator):
    """Return the stand-in's description of itself."""
    return json.loads(generator.complete(ASK).text)


def is_running(pid):
    """Return whether a process is running."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def exits(pid, seconds=PATIENCE):
    """Return whether a process ends within `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not is_running(pid):
            return True
        time.sleep(0.05)
    return False


def test_server_starts_on_loopback_at_the_first_call(capfd, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("MY_KEY", "k-2")
    options = "data_parallel=4&max_model_len=4096&temperature=0.5"
    generator = opened(f"?api_key_env=MY_KEY&{options}")
    assert generator.name == f"vllm:org/tiny?api_key_env=MY_KEY&{options}"
    assert not (home() / "cache").exists()
    server = description(generator)
    assert server["host"] == "127.0.0.1"
    assert server["engine"] == ["--data-parallel-size", "4", "--max-model-len", "4096"]
    assert is_running(server["pid"])
    notes = capfd.readouterr().err
    assert "turnmark: starting vLLM on port" in notes
    assert generator.context_tokens == 2048  # as reported by the server
    assert description(generator)["pid"] == server["pid"]  # one server for all calls

    # Keys of other services are not passed on, our own key is required, and usage statistics are off.
    assert "OPENAI_API_KEY" not in server["environment"]
    assert {"VLLM_API_KEY", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"} <= set(server["environment"])
    folder = home() / "cache" / "vllm"
    assert folder.stat().st_mode & 0o777 == 0o700
    (log,) = folder.glob("*.log")
    assert log.stat().st_mode & 0o777 == 0o600
    assert "loading the model" in log.read_text()

    pieces = []
    reply = generator.complete(ASK, on_text=pieces.append)
    assert "".join(pieces) == reply.text


USER = """
from turnmark.assistant.llm.calls.protocols import PromptMessage
from turnmark.assistant.llm.generators import vllm
from turnmark.assistant.llm.generators.registry import open_generator

vllm.GRACE_SECONDS = 1.0
try:
    open_generator("vllm:org/tiny").complete([PromptMessage(role="user", content="x")])
except KeyboardInterrupt:
    raise SystemExit(130)
"""


def test_child_processes_of_a_stubborn_server_are_stopped(monkeypatch, tmp_path):
    monkeypatch.setenv("STAND_IN_CHILD", str(tmp_path / "child"))
    monkeypatch.setenv("STAND_IN_STUBBORN", "1")
    pid = description(opened())["pid"]
    child = int((tmp_path / "child").read_text())
    assert is_running(child)
    _stop_all()
    assert exits(pid)
    assert exits(child)


def test_ctrl_c_while_loading_stops_the_server(monkeypatch):
    environment = {**os.environ, "STAND_IN_DELAY": "60"}
    ran = subprocess.Popen([sys.executable, "-c", USER], cwd=ROOT, stderr=subprocess.PIPE, text=True, env=environment)
    log = home() / "cache" / "vllm"
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends and not any(path.read_text() for path in log.glob("*.log")):
        time.sleep(0.05)
    listed = Path(f"/proc/{ran.pid}/task").glob("*/children")
    (server,) = (int(number) for path in listed for number in path.read_text().split())
    ran.send_signal(signal.SIGINT)
    _, err = ran.communicate(timeout=PATIENCE)
    assert ran.returncode == 130, err
    assert exits(server)


def test_failed_start_shows_the_log_and_is_not_repeated(monkeypatch):
    monkeypatch.setenv("STAND_IN_FAIL", "\x1b[31mCUDA out of memory\x1b[0m\x07")
    generator = opened()
    error = failure(generator)
    assert error.kind == "unavailable"
    assert "ended with code 3 before it answered" in str(error)
    assert str(error).endswith("ERROR CUDA out of memory")  # control sequences are removed
    (log,) = (home() / "cache" / "vllm").glob("*.log")
    assert str(log) in str(error)
    log.unlink()
    assert str(failure(generator)) == str(error)
    assert generator.context_tokens == 32_768
    assert not log.exists()  # no server was started for these calls
