"""Compound-QA behind the protocol: on its demo split, on written questions, with and without a language model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluation.benched import asked, items_of, open_task, values
from tests.evaluation.compounds import CONTEXT, QUESTION, bench_of, row, written
from tests.servers import Raw, Say
from turnmark.assistant.llm.generators.registry import GeneratorError
from turnmark.corpora.benchmarks import compound_qa
from turnmark.evaluation.benchmarks.compound_qa.generation import CompoundQA

NAMES = [
    "part_coverage", "rouge_l.word", "rouge_l.word[unicode]", "token_recall", "k_precision", "k_precision[+history]",
    "rouge_l.word[lead]", "rouge_l.word[-lead]", "token_recall[lead]", "token_recall[-lead]", "answer_words",
    "idk_rate",
]  # fmt: skip


def test_every_demo_question_is_answered_and_measured_without_a_model():
    bench = open_task(CompoundQA, compound_qa.locate(None))
    items = items_of(bench)
    assert len(items) == len(list(bench.items())) == 17
    for item in items:
        sample = bench.answer(item, None)
        assert (sample.id, sample.status, sample.domain) == (item.id, "done", item.task.capability)
        answers = [part.answer for part in sample.sub_answers]
        assert len(answers) > 1
        assert sample.decision == ("answer" if all(answers) else "partial" if any(answers) else "unknown")
        scores = values(bench, item, sample)
        assert list(scores) == NAMES
        closed = (
            {name for name in NAMES if "k_precision" in name or "lead]" in name} if item.task.context is None else set()
        )
        without = {name for name, value in scores.items() if value is None}
        assert without == {"part_coverage"} | closed


def test_each_part_is_answered_from_the_context_in_the_order_asked(tmp_path):
    bench, [item] = bench_of(tmp_path, row())
    sample = bench.answer(item, None)
    assert sample.decision == "answer"
    first, second = sample.sub_answers
    assert (first.question, second.question) == ("When was the lamp lit?", "What did the lamp burn?")
    assert "The lamp was lit in 1868." in first.answer
    assert "At first the lamp burned rape oil." in second.answer
    assert sample.prediction.index("**The lamp was lit") < sample.prediction.index("**At first the lamp")
    assert [context.document_id for context in sample.contexts] == [f"{item.id}-0-{len(CONTEXT)}"]
    assert (sample.query, sample.usage) == (QUESTION, {})
    scores = values(bench, item, sample)
    assert scores["part_coverage"] == 1.0


@pytest.mark.parametrize("context", ["Quarterly dividends are taxed at the rate of the fiscal year.", None])
def test_answers_missing_from_the_context_are_unknown(tmp_path, context):
    """None: a question of the closed book."""
    bench, [item] = bench_of(tmp_path, row(context=context))
    sample = bench.answer(item, None)
    assert (sample.decision, bool(sample.contexts)) == ("unknown", context is not None)
    assert [part.answer for part in sample.sub_answers] == ["", ""]
    scores = values(bench, item, sample)
    assert (scores["idk_rate"], scores["part_coverage"]) == (1.0, 0.0)
    assert (scores["k_precision"] is None) == (context is None)


def test_sentences_of_a_model_answer_are_assigned_to_parts(tmp_path):
    bench, [item] = bench_of(tmp_path, row())
    reply = "The lamp was lit in 1868 [1]. The lamp burned rape oil [1]."
    sample, [body] = asked(bench, item, Say(reply))
    prompt = body["messages"][-1]["content"]
    assert CONTEXT in prompt
    assert QUESTION in prompt
    assert [part.answer for part in sample.sub_answers] == ["The lamp was lit in 1868.", "The lamp burned rape oil."]
    assert (sample.prediction, sample.usage["answer"].calls) == (reply, 1)
    scores = values(bench, item, sample)
    assert (scores["answer_words"], scores["part_coverage"]) == (11, 1.0)
    sample, _ = asked(bench, item, Say("The lamp burned rape oil [1]."))
    assert [part.answer for part in sample.sub_answers] == ["", "The lamp burned rape oil."]
    assert values(bench, item, sample)["part_coverage"] == 0.5


def test_notes_a_truncated_reply_and_keeps_an_empty_one(tmp_path):
    bench, [item] = bench_of(tmp_path, row(context=None), embed=False)
    cut = Say("The lamp was", finish_reason="length")
    sample, bodies = asked(bench, item, cut, options="&max_tokens=50")
    assert sample.prediction == "The lamp was"
    assert ["incomplete" in note for note in sample.notes] == [True]
    assert sample.usage["answer"].calls == len(bodies) == 2  # once more, with twice the room
    assert bodies[1]["max_tokens"] == 100
    sample, _ = asked(bench, item, cut, Say("The lamp was lit."))
    assert (sample.prediction, sample.notes) == ("The lamp was lit.", ())
    sample, _ = asked(bench, item, Say("<think>Nothing comes.</think>"))
    assert (sample.status, sample.prediction, sample.usage["answer"].completion_tokens) == ("done", "", 7)
    assert ["returned reasoning and no answer" in note for note in sample.notes] == [True]
    assert values(bench, item, sample)["rouge_l.word"] == 0.0
    with pytest.raises(GeneratorError):
        asked(bench, item, Raw(b"{"))


def test_questions_about_one_context_are_one_cluster(tmp_path):
    written(tmp_path, row(), row(ID="x_2", context=None), row(ID="x_3", context=None))
    bench = open_task(CompoundQA, written(tmp_path, row(), kind="Cause-and-Effect"))
    facts = {item.id: item.facts for item in items_of(bench)}
    first, second, third = (facts[f"Understanding/Factual-Statement/x_{n}"] for n in (1, 2, 3))
    assert first.labels == {"capability": ("Understanding",), "type": ("Factual-Statement",), "context": ("with",)}
    assert second.labels["context"] == ("closed-book",)
    assert first.cluster == facts["Understanding/Cause-and-Effect/x_1"].cluster
    assert len({first.cluster, second.cluster, third.cluster}) == 3
    assert "lamp" not in first.cluster


def test_selects_types_and_samples_them_evenly(turnmark, tmp_path: Path):
    kinds = ("Factual_Statement", "Cause_and_Effect", "Comparison_and_Selection")
    for size, kind in zip((30, 20, 10), kinds, strict=True):
        written(tmp_path, *(row(ID=f"x_{n}") for n in range(size)), kind=kind)
    words = ("eval", "compound-qa", "--data", tmp_path)
    planned = turnmark.json(*words, "--types", "Cause-and-Effect,Comparison-and-Selection", "--dry-run")
    assert (planned["n"], planned["specs"]["types"]) == (30, "Cause-and-Effect, Comparison-and-Selection")
    breakdown = turnmark.json(*words, "--sample", "6", "--out", "run")["breakdowns"]["type"]
    assert {kind: metrics["answer_words"]["n"] for kind, metrics in breakdown.items()} == {
        "Factual-Statement": 3, "Cause-and-Effect": 2, "Comparison-and-Selection": 1,
    }  # fmt: skip
    message = turnmark.refused(*words, "--types", "Odd,Hypothetical-Analysis")
    assert "no type 'Odd'" in message
    assert "no type 'Hypothetical-Analysis' in the data" in message
    assert "--types" in turnmark.refused("eval", "mtrag", "--types", "Factual-Statement")


def test_part_of_the_data_is_named_wherever_the_run_is_shown(turnmark):
    drawn = turnmark.json("eval", "compound-qa", "--sample", "6", "--seed", "1", "--out", "run")
    part = "6 of 17, drawn with seed 1"
    assert drawn["selection"] == part
    assert f"on a part of demo data ({part}): 6 samples" in turnmark.ok("report", "run").out
    turnmark.ok("report", "run", "--markdown", "run.md", "--html", "run.html")
    assert part in Path("run.md").read_text()
    assert part in Path("run.html").read_text()
    turnmark.ok("eval", "compound-qa", "--out", "whole")
    assert "part of" not in turnmark.ok("report", "whole").out
