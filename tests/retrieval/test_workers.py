"""`--engine`: errors before a cluster is reached, and the resources of workers. See also tests/test_ray.py."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from turnmark.core import engines
from turnmark.core.engines import check_engine
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.retrieval.services.ray_cluster import connect, worker_resources


@pytest.fixture
def with_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that Ray is installed: only the name of the module is looked up."""
    monkeypatch.setattr(engines, "require_extra", lambda *_: None)


@pytest.mark.parametrize(
    "engine", ["", "Ray", "dask", "ray://", "ray://a b", "ray://h:x", "ray://h:100000", "ray://u@h"]
)
def test_refuses_unknown_engines(engine: str, with_ray: None) -> None:
    for good in ("local", "ray", "ray://head", "ray://10.0.0.7:10001", "ray://[::1]:10001"):
        check_engine(good)
    with pytest.raises(RequestError, match=r"expected local, ray, or ray://HOST\[:PORT\]"):
        check_engine(engine)


def node(alive: bool = True, **resources: float) -> dict[str, object]:
    return {"Alive": alive, "Resources": resources}


def test_worker_takes_four_cores_or_the_smallest_node_or_a_gpu() -> None:
    assert worker_resources([node(CPU=8), node(CPU=2)]) == [{"num_cpus": 2}] * 5
    assert worker_resources([node(CPU=8), node(False, CPU=2)]) == [{"num_cpus": 4}] * 2
    # 8 cores by four, and two GPUs with a core each; a node of no cores (a head that only directs) has no worker.
    nodes = [node(CPU=8), node(CPU=32, GPU=2), node()]
    assert worker_resources(nodes) == [{"num_cpus": 4}] * 2 + [{"num_cpus": 1, "num_gpus": 1}] * 2
    assert worker_resources([node()]) == [{"num_cpus": 1}]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConnectionAbortedError("Traceback (most recent call last):\n  x\nZombie: pid 7\n"), "Zombie: pid 7"),
        (ConnectionError("ray client connection timeout"), "timeout.*RAY_AUTH_TOKEN"),
        (LookupError(), "cannot be used: LookupError"),
    ],
)
def test_reports_why_a_cluster_cannot_be_used(error: Exception, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: Any) -> None:
        raise error

    fake = SimpleNamespace(init=init, is_initialized=lambda: False, exceptions=SimpleNamespace(RayError=LookupError))
    monkeypatch.setitem(sys.modules, "ray", fake)
    with pytest.raises(
        TurnmarkError, match=rf"--engine ray://head: the cluster at ray://head:10001 .*{message}"
    ) as caught:
        connect("ray://head")
    assert "\n" not in str(caught.value)
