"""A vLLM of our own: started, shared and stopped. The server is a stand-in, a real process on a real port."""

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
from turnmark.assistant.generators import PromptMessage, open_generator, vllm
from turnmark.assistant.generators.vllm import _stop_all
from turnmark.core.home import home

pytestmark = pytest.mark.server

STAND_IN = ROOT / "tests" / "vllm_stand_in.py"
ASK = [PromptMessage(role="user", content="Who are you?")]


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch, tmp_path):
    """The stand-in is the command, and nothing is left behind."""
    monkeypatch.setenv("TURNMARK_VLLM_COMMAND", f"{sys.executable} '{STAND_IN}'")
    monkeypatch.setattr(vllm, "_failures", {})
    monkeypatch.setattr(vllm, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(vllm, "GRACE_SECONDS", 1.0)
    yield
    _stop_all()


def opened(options="", model="org/tiny"):
    return open_generator(f"vllm:{model}{options}")


def description(generator):
    """What the stand-in says of itself."""
    return json.loads(generator.complete(ASK).text)


def born(pid):
    """Whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone(pid, seconds=PATIENCE):
    """Whether a process ends within so many seconds."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if not born(pid):
            return True
        time.sleep(0.05)
    return False


def test_nothing_runs_before_the_first_call_and_then_a_server_on_loopback(capfd, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("MY_KEY", "k-2")
    options = "data_parallel=4&max_model_len=4096&temperature=0.5"
    generator = opened(f"?api_key_env=MY_KEY&{options}")
    assert generator.name == f"vllm:org/tiny?api_key_env=MY_KEY&{options}"
    assert not (home() / "cache").exists()
    server = description(generator)
    assert server["host"] == "127.0.0.1"
    assert server["engine"] == ["--data-parallel-size", "4", "--max-model-len", "4096"]
    assert born(server["pid"])
    notes = capfd.readouterr().err
    assert "turnmark: starting vLLM on port" in notes
    assert generator.context_tokens == 2048  # as the server says
    assert description(generator)["pid"] == server["pid"]  # one server for all calls

    # Keys of other services are not passed on, ours is asked for, and nothing is reported to vLLM's makers.
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
from turnmark.assistant.generators import PromptMessage, open_generator, vllm

vllm.GRACE_SECONDS = 1.0
try:
    open_generator("vllm:org/tiny").complete([PromptMessage(role="user", content="x")])
except KeyboardInterrupt:
    raise SystemExit(130)
"""


def test_the_children_of_a_server_are_ended_too_though_it_does_not_listen(monkeypatch, tmp_path):
    monkeypatch.setenv("STAND_IN_CHILD", str(tmp_path / "child"))
    monkeypatch.setenv("STAND_IN_STUBBORN", "1")
    pid = description(opened())["pid"]
    child = int((tmp_path / "child").read_text())
    assert born(child)
    _stop_all()
    assert gone(pid)
    assert gone(child)


def test_ctrl_c_while_it_loads_ends_what_was_begun(monkeypatch):
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
    assert gone(server)


def test_a_failed_start_shows_the_end_of_the_log_and_is_not_repeated_at_once(monkeypatch):
    monkeypatch.setenv("STAND_IN_FAIL", "\x1b[31mCUDA out of memory\x1b[0m\x07")
    generator = opened()
    error = failure(generator)
    assert error.kind == "unavailable"
    assert "ended with code 3 before it answered" in str(error)
    assert str(error).endswith("ERROR CUDA out of memory")  # nothing that moves a cursor
    (log,) = (home() / "cache" / "vllm").glob("*.log")
    assert str(log) in str(error)
    log.unlink()
    assert str(failure(generator)) == str(error)
    assert generator.context_tokens == 32_768
    assert not log.exists()  # nothing was started for these
