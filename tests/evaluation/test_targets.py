"""`--generator reference`: every benchmark answered with its own targets."""

from __future__ import annotations

from pathlib import Path

from tests.evaluation.judged_runs import lines
from tests.evaluation.mtrag_runs import ran
from turnmark.corpora.benchmarks import compound_qa, inscoqa, kiwi


def test_every_benchmark_is_answered_with_its_targets(turnmark, check_run):
    def predictions(benchmark, *more):
        summary = turnmark.json("eval", benchmark, "--generator", "reference", "--out", benchmark, *more)
        check_run(Path(benchmark))
        assert (summary["failed"], summary["usage"]) == (0, {})
        if benchmark != "kiwi":
            assert summary["metrics"]["rouge_l.word"]["mean"] == summary["metrics"]["token_recall"]["mean"] == 1.0
        return {row["id"]: row for row in lines(Path(benchmark, "predictions.jsonl"))}

    for benchmark in ("mtrag", "mtrag-s"):
        assert len(predictions(benchmark, "--limit", "9")) == 9
    samples = predictions("inscoqa")
    for task in inscoqa.load_tasks(inscoqa.DEMO_ROOT).data.values():
        assert samples[task.id]["prediction"] == task.answer
        assert tuple(step["step"] for step in samples[task.id]["procedure"]) == task.procedure
    samples = predictions("compound-qa")
    references = {task.id: task.reference for task in compound_qa.load_tasks(compound_qa.DEMO_ROOT).data.values()}
    assert {name: row["prediction"] for name, row in samples.items()} == references
    samples = predictions("kiwi")
    turns = [turn for session in kiwi.load_sessions(kiwi.DEMO_ROOT).data for turn in session.turns]
    accepted = {turn.id for turn in turns if turn.edit or turn.rating == "good"}
    assert {name for name, row in samples.items() if row["status"] == "done"} == accepted
    assert {row["reason"] for row in samples.values() if row["status"] == "skipped"} == {
        "the data has no reference answer"
    }


def test_what_has_no_target_is_refused(turnmark):
    for words, message in (
        (("kiwi", "--task", "analyse", "--generator", "reference"), "no reference answers"),
        (("mtrag", "--judge", "reference"), "cannot judge"),
    ):
        assert message in turnmark.refused("eval", *words)
    assert turnmark.json("eval", "inscoqa", "--generator", "reference", "--dry-run")["estimated"] == {}


def test_reference_answers_have_the_passages_that_are_found_and_fail_without_a_query(
    benchmark_root, searching, tmp_path
):
    """The note said that tasks without a query fail, but they were done."""
    found = ran(benchmark_root, tmp_path / "found", setting="rag", generator="reference")
    answered = ran(benchmark_root, tmp_path / "answered", setting="rag")
    searches = {name: sample.contexts for name, sample in answered.samples.items() if sample.contexts}
    assert len(searches) > 5
    assert {name: found.samples[name].contexts for name in searches} == searches
    path = next((benchmark_root / "mtrag-human/retrieval_tasks/clapnq").glob("*rewrite.jsonl"))
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[1:]), encoding="utf-8")
    rewritten = ran(benchmark_root, tmp_path / "rewritten", setting="rag", generator="reference", query="rewrite")
    failed = [sample for sample in rewritten.samples.values() if sample.status == "failed"]
    assert failed
    assert {sample.reason for sample in failed} == {"missing: no query for it in the recorded rewrite queries"}
