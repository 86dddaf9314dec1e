"""Compound-QA behind the protocol: on written questions, in all settings, with and without a language model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.evaluation.benched import asked, assistant_of, done, items_of, open_task, values
from tests.evaluation.compounds import CONTEXT, QUESTION, bench_of, row, written
from tests.servers import Raw, Say
from turnmark.assistant.llm.calls.protocols import GeneratorError
from turnmark.evaluation.benchmarks.compound_qa import answer_modes
from turnmark.evaluation.benchmarks.compound_qa.generation import CompoundQA
from turnmark.evaluation.records import SubAnswer


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


def test_samples_types_evenly_and_reports_name_the_part(turnmark, tmp_path: Path):
    kinds = ("Factual_Statement", "Cause_and_Effect", "Comparison_and_Selection")
    for size, kind in zip((30, 20, 10), kinds, strict=True):
        written(tmp_path, *(row(ID=f"x_{n}") for n in range(size)), kind=kind)
    words = ("eval", "compound-qa", "--data", tmp_path)
    planned = turnmark.json(*words, "--types", "Cause-and-Effect,Comparison-and-Selection", "--dry-run")
    assert (planned["n"], planned["specs"]["types"]) == (30, "Cause-and-Effect, Comparison-and-Selection")
    drawn = turnmark.json(*words, "--sample", "6", "--seed", "1", "--out", "run")
    assert drawn["selection"] == (part := "6 of 60, drawn with seed 1")
    report = turnmark.ok("report", "run", "--markdown", "run.md", "--html", "run.html")
    assert f"({part}): 6 samples" in " ".join(report.out.split())
    assert all(part in Path(name).read_text(encoding="utf-8") for name in ("run.md", "run.html"))
    assert {kind: metrics["answer_words"]["n"] for kind, metrics in drawn["breakdowns"]["type"].items()} == {
        "Factual-Statement": 3, "Cause-and-Effect": 2, "Comparison-and-Selection": 1,
    }  # fmt: skip
    message = turnmark.refused(*words, "--types", "Odd,Hypothetical-Analysis")
    assert "no type 'Odd'" in message
    assert "no type 'Hypothetical-Analysis' in the data" in message
    assert "--types" in turnmark.refused("eval", "mtrag", "--types", "Factual-Statement")


PARTS = ("When was the lamp lit?", "What did the lamp burn?", "Until when did the horn sound?")
THREE = " ".join(PARTS)
NAME = "Understanding/Factual-Statement/x_1"


@pytest.mark.parametrize("mode", list(answer_modes.PROMPTS))
def test_a_mode_asks_once_with_question_and_fenced_context(tmp_path, mode):
    bench, [with_context, closed] = bench_of(tmp_path, row(), row(ID="x_2", context=None), setting=mode)
    sample, [body] = asked(bench, with_context, Say("<think>Hm.</think>In 1868; rape oil."))
    [message] = body["messages"]
    assert message["role"] == "user"
    assert QUESTION in message["content"]
    assert f"\n{CONTEXT}\n</text-" in message["content"]
    assert ("step by step" in message["content"]) == (mode == "cot")
    assert ("ferry" in message["content"]) == (mode == "few-shot")
    assert (sample.prediction, sample.decision, sample.usage["answer"].calls) == ("In 1868; rape oil.", "answer", 1)
    sample, [body] = asked(bench, closed, Say("I don't know."))
    assert "<text-" not in body["messages"][0]["content"]
    assert sample.decision == "unknown"


def test_spec_overrides_the_papers_temperature_and_limit(tmp_path):
    bench, [item] = bench_of(tmp_path, row(), setting="vanilla")
    _, [body] = asked(bench, item, Say("Yes."), options="&deadline=20")
    assert (body["temperature"], body["max_tokens"]) == (0.3, 1024)
    spec = "openai:tiny?temperature=0.9&max_tokens=77"
    own, [item] = bench_of(tmp_path, row(), setting="vanilla", generator=spec)
    _, [body] = asked(own, item, Say("Yes."), options="&temperature=0.9&max_tokens=77")
    assert (body["temperature"], body["max_tokens"]) == (0.9, 77)


def test_keeps_truncated_and_empty_replies(tmp_path):
    bench, [item] = bench_of(tmp_path, row(), setting="cot")
    sample, bodies = asked(bench, item, Say("First, the lamp", finish_reason="length"))
    assert (sample.prediction, len(bodies)) == ("First, the lamp", 1)
    assert "cut at the limit of 1024 tokens" in sample.notes[0]
    sample, _ = asked(bench, item, Say("<think>So.</think>"))
    assert (sample.status, sample.prediction, sample.usage["answer"].calls) == ("done", "", 1)
    assert sample.notes == ("the reply is empty (stop)",)
    with pytest.raises(GeneratorError, match="content filter"):
        asked(bench, item, Say("", finish_reason="content_filter"))


def test_dialogue_asks_each_part_with_the_earlier_turns(tmp_path):
    bench, [item] = bench_of(tmp_path, row(com_question=THREE), setting="dialogue")
    replies = ("It was lit in 1868.", "I don't know.", "Until 2005.")
    sample, bodies = asked(bench, item, *map(Say, replies))
    assert [len(body["messages"]) for body in bodies] == [1, 3, 5]
    assert [body["temperature"] for body in bodies] == [0.3] * 3
    first, *later = bodies[2]["messages"]
    assert [message["role"] for message in later] == ["assistant", "user"] * 2
    assert PARTS[1] not in first["content"]
    assert [message["content"] for message in later] == [replies[0], PARTS[1], replies[1], PARTS[2]]
    assert sample.sub_answers == tuple(
        SubAnswer(question=part, answer=reply) for part, reply in zip(PARTS, replies, strict=True)
    )
    assert (sample.decision, sample.usage["answer"].calls) == ("partial", 3)
    assert sample.prediction == "\n\n".join(replies)


def test_model_splits_the_question_on_request(tmp_path):
    splitting = assistant_of(generator="openai:tiny", steps=("understand=llm",))
    bench = open_task(CompoundQA, written(tmp_path, row()), "dialogue", splitting)
    [item] = items_of(bench)
    listed = json.dumps({"questions": ["When was it lit?", " ", "What\ndid it burn?"]})
    sample, bodies = asked(bench, item, Say(listed), Say("1868."), Say("Oil."))
    assert [part.question for part in sample.sub_answers] == ["When was it lit?", "What did it burn?"]
    assert len(bodies) == sample.usage["answer"].calls == 3
    sample, _ = asked(bench, item, Say('{"questions": []}'), Say("1868."))
    assert [part.question for part in sample.sub_answers] == [QUESTION]
    with pytest.raises(GeneratorError, match="not split"):
        asked(bench, item, Say("no list"))


def references_of(case):
    return [text for name, text in case.more if name.startswith("reference ")]


def test_references_determine_the_parts(tmp_path):
    pairs = (SubAnswer(question="Lit when?", answer="In 1868."), SubAnswer(question="Burnt what?", answer="Oil."))
    bench, [item] = bench_of(tmp_path, row(), setting="dialogue", references={NAME: pairs})
    sample, bodies = asked(bench, item, Say("1868."), Say("Oil."))
    assert "Questions: Lit when?" in bodies[0]["messages"][0]["content"]
    context = bench.context(item, sample)
    assert (context.parts, context.replies) == (("Lit when?", "Burnt what?"), ("1868.", "Oil."))
    assert references_of(context) == ["In 1868.", "Oil."]


def test_four_orders_put_every_part_in_every_position(tmp_path):
    """Table 20, as printed."""
    _, items = bench_of(tmp_path, row(com_question=THREE), row(ID="x_2"), setting="positions")
    assert [item.id for item in items] == [f"{NAME}#order{n}" for n in (1, 2, 3, 4)]
    a, b, c = PARTS
    assert [item.task.question for item in items] == [THREE, f"{b} {a} {c}", f"{b} {c} {a}", f"{c} {a} {b}"]
    assert [item.facts.labels["order"] for item in items] == [(f"order{n}",) for n in (1, 2, 3, 4)]
    assert len({item.facts.cluster for item in items}) == 1
    assert len({(part, place) for order in answer_modes.ORDERS for place, part in enumerate(order)}) == 9
    source = written(tmp_path, row(com_question=THREE), kind="Cause-and-Effect")
    another = open_task(CompoundQA, source, "positions")
    assert len(items_of(another)) == 4, "only Factual-Statement questions are asked in other orders"


def test_demo_asks_whole_questions_in_four_orders(turnmark):
    words = ("eval", "compound-qa", "--setting", "positions", "--domains", "Understanding", "--dry-run")
    assert turnmark.json(*words)["n"] == 4
    assert turnmark.json(*words[:4], "--sample", "1", "--dry-run")["n"] == 4, "a question is drawn with all its orders"
    assert turnmark.json(*words[:4], "--dry-run")["n"] == 8


def test_references_must_cover_some_of_the_questions(turnmark):
    common = ("eval", "compound-qa", "--setting", "dialogue")
    turnmark.ok(*common, "--domains", "Knowledge", "--out", "refs")
    message = turnmark.refused(*common, "--domains", "Understanding", "--references", "refs", "--dry-run")
    assert "--references 'refs': it has answers to the sub-questions of none of the" in message
    notes = turnmark.json(*common, "--references", "refs", "--dry-run")["notes"]
    assert any("--references 'refs' has no answers to" in note for note in notes)


def test_coverage_is_measured_by_part_and_position(tmp_path):
    bench, [_, _, item, _] = bench_of(tmp_path, row(com_question=THREE), setting="positions")  # 2, 3, 1
    scores = values(bench, item, done(item, "The lamp burned rape oil. It was lit in 1868, the lamp."))
    cells = {name: value for name, value in scores.items() if name.startswith("part_coverage.") and value is not None}
    assert cells == {"part_coverage.q2@1": 1.0, "part_coverage.q3@2": 0.0, "part_coverage.q1@3": 1.0}
    assert scores["part_coverage"] == pytest.approx(2 / 3)


def test_reports_what_a_mode_needs(turnmark, tmp_path):
    for mode in answer_modes.PROMPTS:
        message = turnmark.refused("eval", "compound-qa", "--setting", mode, "--domains", "Baking")
        assert "--generator" in message
        assert "no domain 'Baking'" in message
    for flag in ([], ["--setting", "decompose"]):
        assert turnmark.json("eval", "compound-qa", *flag, "--limit", "2", "--dry-run")["setting"] == "decompose"
    assert "--references" in turnmark.refused("eval", "mtrag", "--references", "x")
    assert "--references" in turnmark.refused("eval", "compound-qa", "--references", tmp_path)
    written(tmp_path, row())
    message = turnmark.refused("eval", "compound-qa", "--data", tmp_path, "--setting", "positions")
    assert "compound-qa positions: there is nothing to answer" in message
