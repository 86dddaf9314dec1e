"""What docs/architecture.md says of adding a part, done: the smallest part of each kind, run as the page says."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs import own
from tests.docs.scene import Scene
from tests.evaluation.run_records import manifest
from turnmark.assistant.forms import STEPS
from turnmark.assistant.generators.replay import ReplayGenerator, ScriptLine
from turnmark.corpora.console import NoProgress
from turnmark.corpora.specs import Entry
from turnmark.evaluation.benchmarks.base import Case, Item
from turnmark.evaluation.budget import Ledger
from turnmark.evaluation.engine import Limits, SampleJob, generate
from turnmark.evaluation.request import EvalRequest
from turnmark.evaluation.rundir import open_run
from turnmark.evaluation.scoring import score_run

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
OWN = "python:tests.docs.own"
PROTOCOLS = {
    "How to add a retriever": ("turnmark.retrieval.types:Retriever", "turnmark.retrieval.rerank:Reranker"),
    "How to add a generator": ("turnmark.assistant.generators.base:Generator",),
    "How to add a benchmark": ("turnmark.evaluation.benchmarks.task:Task",),
}
"""Section -> the protocols whose members it names."""
ENTRY_POINTS = """[turnmark.retrievers]
first = tests.docs.own:named_retriever
[turnmark.generators]
parrot = tests.docs.own:generator
"""


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("title", PROTOCOLS)
def test_a_recipe_names_every_member_of_its_protocol(title: str) -> None:
    names = set(re.findall(r"`(\w+)[`(]", section(title)))
    for target in PROTOCOLS[title]:
        module, _, name = target.partition(":")
        protocol = getattr(importlib.import_module(module), name)
        members = {
            member for member in (*vars(protocol), *vars(protocol).get("__annotations__", {})) if member[0] != "_"
        }
        assert members
        assert members <= names, f"{title}: not told of {name}"


def test_a_retriever_by_its_module(scene: Scene) -> None:
    ran = scene.run("search", "x", "--index", "notes", "--retriever", f"{OWN}:retriever", "--json", folder=ROOT)
    assert ran.code == 0, ran.err
    assert [hit["found"].keys() for hit in json.loads(ran.out)["hits"]] == [{"first"}] * 2


def test_a_retriever_and_a_generator_by_entry_points(scene: Scene, tmp_path: Path) -> None:
    package = tmp_path / "own-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(ENTRY_POINTS)
    listed = json.loads(scene.run("list", "--json", folder=tmp_path).out)
    assert listed["retrievers"]["first"] == listed["generators"]["parrot"] == "from own"
    ran = scene.run("ask", "x", "--index", "notes", "--retriever", "first", "--generator", "parrot", "--json",
                    "--step", "understand=rules", folder=tmp_path)  # fmt: skip
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["generator"] == "parrot"


def test_a_reranker_in_its_table(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnmark.retrieval.rerank import RERANKERS

    monkeypatch.setitem(RERANKERS._entries, "shorter", Entry("tests.docs.own:shorter", "the shortest first"))
    words = ("search", "sourdough", "--index", "notes", "--retriever", "bm25?rerank=shorter", "--json")
    ran = scene.run(*words, folder=ROOT)
    assert ran.code == 0, ran.err
    assert all("shorter" in hit["found"] for hit in json.loads(ran.out)["hits"])


def test_a_generator_by_its_module(scene: Scene) -> None:
    # For BM25 alone: with the vectors of a model with random weights, which an example may have built, it is refused.
    scene.fine("index", "build", scene.root / "user" / "notes", "--name", "notes")
    words = ("ask", "How is a sourdough starter kept?", "--index", "notes", "--generator", f"{OWN}:generator")
    ran = scene.run(*words, "--json", folder=ROOT)
    assert ran.code == 0, ran.err
    reply = json.loads(ran.out)
    assert reply["usage"]["answer"]["calls"] == 1, "it was asked"
    assert reply["answer"].startswith("Polly."), "what a model says stays"
    assert reply["checks"]["unsupported"] == ["Polly."], "and what no passage supports is marked"


@pytest.mark.parametrize(("step", "form"), [(step, form) for step, named in STEPS.items() for form in named])
def test_every_form_of_a_step_runs(step: str, form: str, scene: Scene) -> None:
    words = ["ask", "How is a sourdough starter kept?", "--index", "notes", "--step", f"{step}={form}", "--json"]
    ran = scene.run(*words, "--generator", "openai:tiny", folder=ROOT)
    assert ran.code == 0, ran.err


def test_a_metric_and_a_benchmark(tmp_path: Path) -> None:
    benchmark = own.Capitals(EvalRequest(benchmark="capitals"))
    items = [item for item in benchmark.items() if isinstance(item, Item)]
    with open_run(tmp_path / "run", manifest()) as run:
        generate(map(SampleJob, items), benchmark.answer, None, run, Limits(), Ledger(), NoProgress())
        summary = score_run(run, benchmark, items, progress=NoProgress())
    assert summary.metrics["vowels"].mean == (4 / 4 + 2 / 4) / 2
    assert summary.breakdowns["half"]["c2"]["vowels"].mean == 2 / 4
    assert summary.metrics["vowels"].shown.text(0.5) == "0.50"


def test_a_judged_metric() -> None:
    judge = ReplayGenerator("replay:x", [ScriptLine(text="Hm."), ScriptLine(text="It does.\nVerdict: [[yes]]")])
    outcome = own.ASKS_BACK.ask(judge, Case(question="Why?", answer="Why what?"), None)
    assert (outcome.value, outcome.label, outcome.usage.calls) == (1.0, "yes", 2)
