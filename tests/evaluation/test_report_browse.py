"""`browse.jsonl`: what of each benchmark's tasks is written down while a run is scored, and how a page takes it up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.evaluation.reported import SUMMARY, write_run
from turnmark.corpora import mtrag
from turnmark.corpora.types import Message
from turnmark.evaluation import planning, running
from turnmark.evaluation.benchmarks.mtrag_data import JudgedQuery
from turnmark.evaluation.journal import json_line
from turnmark.evaluation.records import ContextRef, Sample, Score
from turnmark.evaluation.report import browse
from turnmark.evaluation.report.browse import FILE, Browsed, SeenPassage, cut, material_of, read_browsed
from turnmark.evaluation.report.page_samples import samples_json
from turnmark.evaluation.report.stored import read_run, samples
from turnmark.evaluation.request import EvalRequest


def lines(run: Path) -> list[Browsed]:
    found = [read_browsed(line) for line in (run / FILE).read_bytes().splitlines()]
    assert None not in found
    return [one for one in found if one is not None]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each benchmark's demo split."""
    made = {}
    for name in ("mtrag", "inscoqa", "compound-qa", "kiwi"):
        path = tmp_path_factory.mktemp("runs") / name
        running.run(planning.plan(EvalRequest(benchmark=name, limit=3, out=path)))
        made[name] = path
    return made


@pytest.mark.parametrize("name", ["mtrag", "inscoqa", "compound-qa", "kiwi"])
def test_every_sample_of_every_benchmark_has_a_line(runs: dict[str, Path], name: str) -> None:
    there, answered = lines(runs[name]), list(samples(runs[name]))
    assert [one.key for one in there] == [sample.key for sample in answered]
    assert all(one.labels for one in there)
    assert all(one.question.text and one.reference.text for one in there)
    for one, sample in zip(there, answered, strict=True):
        found = [passage for passage in one.passages if passage.rank is not None]
        assert [passage.id for passage in found] == [ref.document_id for ref in sample.contexts]
        assert [passage.rank for passage in found] == list(range(1, len(found) + 1))
        # What was shown to the system is known, whichever way the benchmark gives it.
        assert all(passage.text is not None and passage.text.text for passage in found)
    assert any(one.passages for one in there)


def test_mtrag_says_which_passages_are_relevant_and_has_the_conversation(runs: dict[str, Path]) -> None:
    there = lines(runs["mtrag"])
    later = [one for one in there if one.labels["turn"] == ("later",)]
    assert later
    assert [said.role for said in later[0].history[:2]] == ["user", "assistant"]
    assert {passage.relevant for one in there for passage in one.passages} == {True}


def test_a_page_of_a_real_run_has_all_of_it(runs: dict[str, Path]) -> None:
    run = read_run(runs["mtrag"]).runs[0]
    found = json.loads(samples_json([("mine", run)]))
    (mine,) = found["runs"]
    one = next(sample for sample in mine["samples"] if "h" in sample)
    text = [entry if isinstance(entry, str) else entry[0] for entry in found["texts"]]
    there = next(line for line in lines(runs["mtrag"]) if line.id == one["i"])
    assert [(role, text[at]) for role, at in one["h"]] == [
        (int(said.role != "user"), said.text.text) for said in there.history
    ]
    assert text[one["f"]] == there.reference.text
    assert len(one["v"]) == len(mine["metrics"])
    assert dict(mine["dimensions"])["domain"] == list(
        dict.fromkeys(line.labels["domain"][0] for line in lines(runs["mtrag"]))
    )


TASK = mtrag.Task(
    id="c<::>2", conversation="c", turn=2, domain="clapnq", question="When?", reference="In 1858.",
    history=(Message(role="user", content="Who?"), Message(role="assistant", content="A founder.")),
    contexts=(
        mtrag.Context(document_id="p1", title="T", text="one"), mtrag.Context(document_id="p2", title="", text="two"),
    ),
)  # fmt: skip


def test_what_is_relevant_and_was_not_found_stands_after_what_was() -> None:
    sample = Sample(
        id="c<::>2",
        status="done",
        contexts=(ContextRef(document_id="p9", score=2.0), ContextRef(document_id="p2", score=1.0)),
    )
    made = list(browse._passages(sample, material_of(TASK), ("nine", "two, as it was shown")))
    assert made == [
        SeenPassage(id="p9", text=cut("nine"), rank=1, score=2.0, relevant=False),
        SeenPassage(id="p2", text=cut("two"), rank=2, score=1.0, relevant=True),
        SeenPassage(id="p1", title="T", text=cut("one"), relevant=True),
    ]
    # Texts that are not one for each passage belong to nobody knows which.
    assert next(iter(browse._passages(sample, material_of(TASK), ("two",)))).text is None


def test_lists_of_retrieval_say_what_is_relevant_and_what_was_missed() -> None:
    refs = (ContextRef(document_id="p9", score=2.0), ContextRef(document_id="p2", score=1.0))
    labels = {"turn": ("later",)}
    sample = Sample(id="c<::>2", status="done", query="q", contexts=refs)
    first = browse._line(sample, material_of(JudgedQuery(TASK, {"p2": 1, "p3": 1})), labels, ())
    assert (first.labels, first.question.text, len(first.history)) == (labels, "When?", 2)
    assert [(one.id, one.rank, one.relevant, one.text and one.text.text) for one in first.passages] == [
        ("p9", 1, False, None), ("p2", 2, True, "two"), ("p3", None, True, None),
    ]  # fmt: skip
    second = browse._line(sample, material_of(JudgedQuery(None, {"p9": 1})), {}, ())
    assert (second.labels, second.question.text) == ({}, "q")
    assert [one.relevant for one in second.passages] == [True, False]


def test_a_task_of_another_kind_shows_nothing_and_breaks_nothing() -> None:
    assert material_of(object()) == browse.Material()
    assert material_of(None) == browse.Material()


@pytest.mark.parametrize(
    "line", [b"", b"{}", b"[]", b'{"id": 1}', b"\xff", b'{"id": "a", "question": "x", "reference": "y"}']
)
def test_what_is_no_line_is_none(line: bytes) -> None:
    assert read_browsed(line) is None


def test_a_page_shows_what_it_can_where_the_file_is_damaged(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r")
    good = Browsed(id="c1<::>2", question=cut("When, then?"), reference=cut("In 1858."), labels={"turn": ("later",)})
    (folder / FILE).write_text("no line\n" + json_line(good) + '{"torn', encoding="utf-8")
    found = json.loads(samples_json([("mine", read_run(folder).runs[0])]))
    first, second, *_ = found["runs"][0]["samples"]
    assert found["texts"][first["q"]] == "Who made the bell?"
    assert "f" not in first
    assert [found["texts"][second[key]] for key in "qf"] == ["When, then?", "In 1858."]
    assert found["runs"][0]["dimensions"] == [
        ["domain", ["clapnq", "fiqa"]], ["decision", ["answer", "partial", "unknown"]], ["turn", ["later"]],
    ]  # fmt: skip


def test_passages_are_stored_once_and_lose_the_title_that_they_begin_with(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r")
    passage = SeenPassage(id="p", title="Bells", text=cut("Bells\nThey ring."), rank=1, score=1.0, relevant=True)
    made = [
        Browsed(id=name, question=cut("Q"), reference=cut(""), passages=(passage,)) for name in ("c1<::>1", "c1<::>2")
    ]
    (folder / FILE).write_text("".join(map(json_line, made)), encoding="utf-8")
    found = json.loads(samples_json([("mine", read_run(folder).runs[0])]))
    ((name, title, at),) = found["passages"]
    assert (name, title, found["texts"][at]) == ("p", "Bells", "They ring.")
    assert [one["c"] for one in found["runs"][0]["samples"][:2]] == [[[0, 1, 1, 1]]] * 2


def test_reasons_of_judges_stand_beside_their_scores(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", SUMMARY.model_copy(update={"metrics": {"rl_f": SUMMARY.metrics["k_precision"]}}))
    score = Score(id="c1<::>1", metric="rl_f", status="scored", value=0.5, reason="1 of 2 claims", by="openai:judge")
    (folder / "scores.jsonl").write_text(json_line(score), encoding="utf-8")
    found = json.loads(samples_json([("mine", read_run(folder).runs[0])]))
    (mine,) = found["runs"]
    assert mine["metrics"] == [["rl_f", 4, "openai:judge"]]
    assert mine["samples"][0]["v"] == [0.5]
    assert found["texts"][mine["samples"][0]["g"]["0"]] == "1 of 2 claims"
    assert mine["samples"][1]["v"] == [None]
