"""`--engine`: what is refused before a cluster is reached, what workers take of its nodes, a cluster that fails."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from turnmark.corpora.errors import MissingExtra, RequestError, TurnmarkError
from turnmark.retrieval import workers
from turnmark.retrieval.build import build_index
from turnmark.retrieval.cluster import ATTEMPTS, _by_client, _take_token, check_port, shapes
from turnmark.retrieval.workers import check_engine


@pytest.fixture
def with_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if Ray were installed, whether it is or not: only the name is looked at."""
    monkeypatch.setattr(workers, "find_spec", lambda name: name)


@pytest.mark.parametrize(
    "engine", ["", "Ray", "dask", "ray:", "ray://", "ray:///", "ray://a b", "ray://h:x", "ray://h:100000", "ray://u@h"]
)
def test_engines_there_are_and_are_not(engine: str, with_ray: None) -> None:
    for good in ("local", "ray", "ray://head", "ray://10.0.0.7:10001", "ray://[::1]:10001"):
        check_engine(good)
    with pytest.raises(RequestError, match=r"local, ray, or ray://HOST\[:PORT\] was expected"):
        check_engine(engine)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(workers, "find_spec", lambda _: None)
    check_engine("local")
    (tmp_path / "a.md").write_text("# A\n\nText.\n")
    with pytest.raises(MissingExtra, match=r"--engine ray://head needs .*pip install 'turnmark\[ray\]'"):
        build_index(tmp_path, "n", engine="ray://head")


def test_a_wrong_engine_is_one_of_all_mistakes(turnmark, with_ray: None) -> None:
    ran = turnmark("index", "build", "nowhere", "--name", "../x", "--engine", "spark")
    assert ran.code == 2
    assert [part in ran.err for part in ("nowhere", "'../x'", "--engine 'spark'")] == [True] * 3
    ran = turnmark("eval", "kiwi", "--engine", "spark", "--repeat", "0")
    assert ran.code == 2
    assert "--engine 'spark'" in ran.err
    assert "--repeat 0" in ran.err
    ran = turnmark("eval", "mtrag", "--task", "retrieval", "--engine", "ray")
    assert ran.code == 2
    assert "--engine belongs to generation" in ran.err


def node(alive: bool = True, **resources: float) -> dict[str, object]:
    return {"Alive": alive, "Resources": resources}


def test_workers_take_four_cores_or_the_smallest_node_or_a_gpu() -> None:
    assert shapes([node(CPU=16)]) == [{"num_cpus": 4}] * 4
    assert shapes([node(CPU=8), node(CPU=2)]) == [{"num_cpus": 2}] * 5
    assert shapes([node(CPU=8), node(False, CPU=2)]) == [{"num_cpus": 4}] * 2
    # 8 cores by four, and two GPUs with a core each; a node of no cores (a head that only directs) has no worker.
    nodes = [node(CPU=8), node(CPU=32, GPU=2), node()]
    assert shapes(nodes) == [{"num_cpus": 4}] * 2 + [{"num_cpus": 1, "num_gpus": 1}] * 2
    assert shapes([node()]) == [{"num_cpus": 1}]


ENGINE, ADDRESS = "ray://head", "ray://head:10001"
TRACE = 'Initialization failure from server:\nTraceback (most recent call last):\n  File "x", line 1\nZombie: pid 7\n'


class Client:
    """Ray's client, which fails as it is told to before it connects."""

    exceptions = SimpleNamespace(RayError=LookupError)

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.asked = list(errors), list[dict[str, Any]]()

    def init(self, **options: Any) -> None:
        self.asked.append(options)
        if self.errors:
            raise self.errors.pop(0)


def test_a_client_server_whose_process_dies_as_it_is_born_is_asked_again() -> None:
    client = Client(*[ConnectionAbortedError(TRACE)] * (ATTEMPTS - 1))
    _by_client(client, ENGINE, ADDRESS, {"log_to_driver": False})
    assert client.asked == [{"address": ADDRESS, "log_to_driver": False}] * ATTEMPTS


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConnectionAbortedError(TRACE), r"could start no process for this command, 3 times: Zombie: pid 7$"),
        (ConnectionError("ray client connection timeout"), r"no Ray client server answered; .*RAY_AUTH_TOKEN"),
        (RuntimeError("Python 3.11 there,\n3.12 here"), r"cannot be used: Python 3.11 there, 3.12 here$"),
        (LookupError(), r"cannot be used: LookupError$"),
    ],
)
def test_what_keeps_a_cluster_from_being_used_is_said_in_words(error: Exception, message: str) -> None:
    with pytest.raises(TurnmarkError, match=rf"--engine ray://head: a cluster at \S+ .*{message}") as caught:
        _by_client(Client(*[error] * ATTEMPTS), ENGINE, ADDRESS, {})
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_where_nobody_listens_it_is_said_at_once(host: str) -> None:
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.socket(family) as listener:
        try:
            listener.bind((host.strip("[]"), 0))
        except OSError:
            pytest.skip("this machine has no such address")
        port = listener.getsockname()[1]
        with pytest.raises(TurnmarkError, match="refused; does its head run"):
            check_port(f"ray://{host}", f"ray://{host}:{port}")
        listener.listen()
        check_port(f"ray://{host}", f"ray://{host}:{port}")


def test_a_token_that_is_there_is_used_unless_the_person_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")  # so that what is set below is undone
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    _take_token()
    assert "RAY_AUTH_MODE" not in os.environ
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("t")
    _take_token()
    assert os.environ["RAY_AUTH_MODE"] == "token"
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "t")
    _take_token()
    assert os.environ["RAY_AUTH_MODE"] == "disabled"
