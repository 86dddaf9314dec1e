"""`--generator reference`: every benchmark answered with its own targets."""

from __future__ import annotations

from pathlib import Path

from tests.evaluation.judged_runs import lines
from turnmark.corpora import compound_qa, inscoqa, kiwi


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
