"""`--engine`: what is refused before a cluster is reached for, and what workers take of its nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnmark.corpora.errors import MissingExtra, RequestError
from turnmark.retrieval import workers
from turnmark.retrieval.build import build_index
from turnmark.retrieval.cluster import shapes
from turnmark.retrieval.encoders import Models
from turnmark.retrieval.registry import build_settings
from turnmark.retrieval.workers import _difference, check_engine


@pytest.fixture
def with_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if Ray were installed, whether it is or not: only the name is looked at."""
    monkeypatch.setattr(workers, "find_spec", lambda name: name)


@pytest.mark.parametrize("engine", ["local", "ray", "ray://head", "ray://10.0.0.7:10001", "ray://[::1]:10001"])
def test_engines_there_are(engine: str, with_ray: None) -> None:
    check_engine(engine)


@pytest.mark.parametrize(
    "engine", ["", "Ray", "dask", "ray:", "ray://", "ray:///", "ray://a b", "ray://h:x", "ray://h:100000", "ray://u@h"]
)
def test_engines_there_are_not(engine: str, with_ray: None) -> None:
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


def test_marks_differ_by_the_lines_that_are_not_in_both() -> None:
    assert _difference("a 1\nb 2", "a 1\nb 3") == "b 2 here, b 3 there"
    assert _difference("a 1", "a 1\nb 3") == "nothing here, b 3 there"


def test_a_mark_has_a_line_a_model() -> None:
    assert Models(None, None).mark() == ""
    models = Models.open(build_settings("dense"))
    assert models.embedder is not None
    assert models.mark() == f"embedder {models.embedder.fingerprint}"
