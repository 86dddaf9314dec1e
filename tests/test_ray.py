"""Tests on a real Ray cluster of two nodes: index, run and scores are the same as in one process, even if workers die.

The last tests connect through a client server, as from another machine.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DEMO
from tests.evaluation.requests import request_of
from tests.patience import PATIENCE
from tests.served import free_port
from turnmark.core.console import NoProgress
from turnmark.core.errors import TurnmarkError
from turnmark.evaluation.runs import benchmark_run
from turnmark.evaluation.runs.planning import plan_run
from turnmark.evaluation.runs.ray_workers import use_workers
from turnmark.evaluation.tasks.request import EvalRequest
from turnmark.retrieval.index import build
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.components import verify_index
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.services.ray_cluster import Workers

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  # otherwise other processes on the machine take precedence
pytestmark = [pytest.mark.slow, pytest.mark.server]


@pytest.fixture(autouse=True, scope="module")
def _installed() -> None:
    pytest.importorskip("ray", reason="needs the extra ray")


class Nodes:
    """A cluster of a head and a second node with one core each."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        node = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=node)
        del node["include_dashboard"]
        self.second = self.cluster.add_node(**node)

    def kill_worker(self) -> int:
        """Kill a worker of the second node with SIGKILL, and return how many workers the node had."""
        import psutil

        raylet = self.second.all_processes["raylet"][0].process.pid
        hosts = [child for child in psutil.Process(raylet).children() if "_Host" in " ".join(child.cmdline())]
        for host in hosts[:1]:
            host.send_signal(signal.SIGKILL)
        return len(hosts)

    def kill_node(self) -> None:
        """Remove the second node without notice, together with everything that runs on it."""
        self.cluster.remove_node(self.second, allow_graceful=False)


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    cluster = Nodes()
    monkeypatch.setenv("RAY_ADDRESS", cluster.cluster.address)
    yield cluster
    cluster.cluster.shutdown()


class KillsInTheMiddle(NoProgress):
    """Kills a worker of the second node once a number of passages has been embedded."""

    def __init__(self, nodes: Nodes, after: int) -> None:
        self.nodes, self.left, self.killed = nodes, after, 0
        self.phase = ""

    def start(self, phase: str, total: int | None) -> None:
        self.phase = phase

    def advance(self, n: int = 1) -> None:
        self.left -= n * (self.phase == "embedding")
        if self.left <= 0 and not self.killed:
            self.killed = self.nodes.kill_worker()


def content(name: str) -> dict[str, tuple[str, Any]]:
    """Return the text and vector of each passage by its id."""
    index = open_index(name)
    passages = [passage for page in index.store.pages() for _, _, passage in page]
    vectors = index.flat.of(range(len(passages)))
    return {passage.id: (passage.indexed_text, vector) for passage, vector in zip(passages, vectors, strict=True)}


def assert_same(first_name: str, second_name: str) -> None:
    first, second = content(first_name), content(second_name)
    assert list(first) == list(second)
    for name, (text, vector) in first.items():
        assert second[name][0] == text
        assert float(vector @ second[name][1]) > 0.999
    assert verify_index(open_index(second_name)) == []


def test_index_is_the_same_when_a_worker_is_killed_during_the_build(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "BLOCK_PASSAGES", 8)
    build_index(DEMO / "documents", "here")
    progress = KillsInTheMiddle(nodes, 16)
    report = build_index(DEMO / "documents", "there", engine="ray", progress=progress)
    assert progress.killed == 1, "there was one to kill"
    assert report.embedded == report.passages == open_index("here").manifest.passages
    assert_same("here", "there")


def rows(folder: Path) -> list[dict[str, Any]]:
    """Return the samples without their timings."""
    lines = (folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "timings"} for line in lines]


def test_run_is_the_same_when_a_node_dies_during_it(nodes: Nodes, tmp_path: Path) -> None:
    def request(name: str, engine: str) -> EvalRequest:
        return request_of(
            benchmark="mtrag", setting="rag", retriever="bm25", concurrency=4, engine=engine, out=tmp_path / name
        )

    local, _, _ = benchmark_run.run_plan(use_workers(plan_run(request("here", "local"))))
    there_file = tmp_path / "there" / "predictions.jsonl"
    killed = threading.Event()

    def kill_in_the_middle() -> None:
        while not there_file.is_file() or there_file.read_bytes().count(b"\n") < 3:
            time.sleep(0.02)
        nodes.kill_node()
        killed.set()

    threading.Thread(target=kill_in_the_middle, daemon=True).start()
    remote, _, gave_up = benchmark_run.run_plan(use_workers(plan_run(request("there", "ray"))))
    assert killed.is_set()
    assert not gave_up
    assert (remote.n, remote.failed, remote.skipped) == (local.n, 0, 0)
    assert remote.metrics == local.metrics
    assert remote.breakdowns == local.breakdowns
    assert rows(tmp_path / "there") == rows(tmp_path / "here")


@dataclass
class Head:
    """The head of a cluster in its own processes, with a client server that requires a token."""

    engine: str
    environment: dict[str, str]

    def turnmark(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run the command in a process that knows the token and nothing else about the cluster."""
        command = [sys.executable, "-c", "from turnmark.cli import main; main()", *map(str, words)]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=PATIENCE)


@pytest.fixture
def head() -> Iterator[Head]:
    port, client, agent = free_port(), free_port(), free_port()
    environment = {key: value for key, value in os.environ.items() if key not in ("RAY_ADDRESS", "RAY_AUTH_MODE")}
    environment |= {"RAY_AUTH_TOKEN": secrets.token_hex(32), "NO_COLOR": "1"}
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:  # sockets in it have short names only
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=1"),
                *("--include-dashboard=false", "--disable-usage-stats", "--object-store-memory=100000000"),
                *(f"--port={port}", f"--ray-client-server-port={client}", f"--dashboard-agent-listen-port={agent}"),
                *("--node-ip-address=127.0.0.1", f"--temp-dir={folder}"),
            ],
            env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            ends = time.monotonic() + PATIENCE
            while time.monotonic() < ends:
                with suppress(OSError), socket.create_connection(("127.0.0.1", client), timeout=1):
                    break
                assert process.poll() is None
                time.sleep(0.2)
            yield Head(f"ray://127.0.0.1:{client}", environment)
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_index_run_and_scores_are_the_same_through_a_client_server(head: Head, tmp_path: Path) -> None:
    words = ["eval", "kiwi", "--limit", "4", "--judge", "embedded", "--json"]
    local = head.turnmark(*words, "--out", tmp_path / "here")
    assert local.returncode == 0, local.stderr
    remote = head.turnmark(*words, "--out", tmp_path / "there", "--engine", head.engine)
    assert remote.returncode == 0, remote.stderr
    assert rows(tmp_path / "there") == rows(tmp_path / "here")
    assert (tmp_path / "there" / "scores.jsonl").read_bytes() == (tmp_path / "here" / "scores.jsonl").read_bytes()

    built = head.turnmark("index", "build", DEMO / "documents", "--name", "there", "--engine", head.engine)
    assert built.returncode == 0, built.stderr
    build_index(DEMO / "documents", "here")
    assert_same("here", "there")


def no_such_thing() -> Any:
    raise TurnmarkError("the model is not on this node")


def twice() -> tuple[Callable[[int], int], str]:
    def work(number: int) -> int:
        if number < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 13:
            raise ValueError("thirteen")
        return 2 * number

    return work, "twice"


def test_reports_messages_and_deaths_of_workers(nodes: Nodes) -> None:
    with pytest.raises(TurnmarkError, match="a worker cannot start: the model is not on this node"):
        Workers("ray", no_such_thing).__enter__()
    with pytest.raises(TurnmarkError, match="twice there; each node needs the same"):
        Workers("ray", twice, mark="thrice").__enter__()
    with Workers("ray", twice, at_once=2) as workers:
        assert dict(workers.spread((n, (n,)) for n in range(200) if n != 13)) == {
            n: 2 * n for n in range(200) if n != 13
        }
        assert workers.call((4,), 60.0) == 8
        with pytest.raises(TurnmarkError, match="a worker failed: ValueError: thirteen"):
            workers.call((13,), 60.0)
        with pytest.raises(TurnmarkError, match="3 workers died over one task"):
            workers.call((-1,), 120.0)
        assert workers.call((5,), 120.0) == 10, "others took the places of those that died"
