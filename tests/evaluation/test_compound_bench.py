"""Compound-QA behind the protocol: on its demo split, on written questions, with and without a language model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.evaluation.benched import done, items_of, minilm, values
from tests.evaluation.compounds import CONTEXT, QUESTION, row, written
from tests.servers import Raw, Say, ScriptedServer
from turnmark.assistant.generators import GeneratorError, open_generator
from turnmark.corpora import compound_qa
from turnmark.corpora.errors import RequestError
from turnmark.corpora.rows import Source
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.benchmarks.compound_qa import CompoundQA
from turnmark.evaluation.benchmarks.turns import Parts
from turnmark.evaluation.records import Sample

DEMO = compound_qa.locate(None)
NAMES = [
    "part_coverage", "omitted[code]", "merged[code]", "wrong_language[code]", "words_per_part",
    "rouge_l.word", "rouge_l.word[unicode]", "token_recall", "k_precision", "k_precision[+history]",
    "rouge_l.word[lead]", "rouge_l.word[-lead]", "token_recall[lead]", "token_recall[-lead]", "answer_words",
    "idk_rate",
]  # fmt: skip


def answered(bench: CompoundQA, item: Item, *replies: Any) -> tuple[Sample, list[dict[str, Any]]]:
    with ScriptedServer(*replies) as server:
        return bench.answer(item, open_generator(f"openai:tiny@{server.url}?retries=0&max_tokens=50")), server.bodies


# --- without a model -------------------------------------------------------------------------------------------------


def test_every_demo_question_is_answered_and_measured_without_a_model():
    bench = CompoundQA(DEMO, Parts())
    items = items_of(bench)
    assert len(items) == len(list(bench.items())) == 17
    for item in items:
        sample = bench.answer(item, None)
        assert (sample.id, sample.status, sample.domain) == (item.id, "done", item.task.capability)
        assert len(sample.sub_answers) > 1
        answers = [part.answer for part in sample.sub_answers]
        assert {"answer": all(answers), "unknown": not any(answers), "partial": any(answers) and not all(answers)}[
            sample.decision or ""
        ]
        scores = values(bench, item, sample)
        assert list(scores) == NAMES
        without = {name for name, value in scores.items() if value is None}
        closed = {name for name in NAMES if "k_precision" in name or "lead]" in name}
        coded = {"omitted[code]", "merged[code]"}
        assert without == {"part_coverage"} | coded | (closed if item.task.closed_book else set())


def test_each_part_is_answered_from_the_context_in_the_order_asked(tmp_path):
    bench = CompoundQA(written(tmp_path, row()), Parts(embed=minilm))
    [item] = items_of(bench)
    sample = bench.answer(item, None)
    assert sample.decision == "answer"
    first, second = sample.sub_answers
    assert (first.question, second.question) == ("When was the lamp lit?", "What did the lamp burn?")
    assert first.answer.startswith("The lamp was lit in 1868.")
    assert "At first the lamp burned rape oil." in second.answer
    text = sample.prediction or ""
    assert text.startswith("The lamp was lit in 1868. [1]")
    assert text.count("At first the lamp burned rape oil. [1]") == 1
    assert [context.document_id for context in sample.contexts] == [f"{item.id}-0-{len(CONTEXT)}"]
    assert (sample.query, sample.usage) == (QUESTION, {})
    scores = values(bench, item, sample)
    assert scores["part_coverage"] == 1.0
    assert scores["k_precision"] == 1.0


def test_a_sentence_that_answers_two_parts_is_said_once(tmp_path):
    context = "The lamp of the tower was lit in 1868 by a girl. Goats graze on the hill."
    question = "When was the lamp of the tower lit? By whom was the lamp of the tower lit?"
    bench = CompoundQA(written(tmp_path, row(context=context, com_question=question)), Parts(embed=minilm))
    [item] = items_of(bench)
    sample = bench.answer(item, None)
    assert [part.answer for part in sample.sub_answers] == ["The lamp of the tower was lit in 1868 by a girl."] * 2
    assert sample.prediction == "The lamp of the tower was lit in 1868 by a girl. [1]"


def test_a_context_about_something_else_answers_nothing(tmp_path):
    context = "Quarterly dividends are taxed at the rate of the fiscal year."
    bench = CompoundQA(written(tmp_path, row(context=context)), Parts(embed=minilm))
    [item] = items_of(bench)
    sample = bench.answer(item, None)
    assert sample.decision == "unknown"
    assert [part.answer for part in sample.sub_answers] == ["", ""]
    scores = values(bench, item, sample)
    assert (scores["idk_rate"], scores["part_coverage"]) == (1.0, 0.0)


def test_no_text_is_embedded_twice_for_one_answer(tmp_path):
    embedded: list[str] = []

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        embedded.extend(texts)
        return minilm(texts)

    bench = CompoundQA(written(tmp_path, row()), Parts(embed=embed))
    [item] = items_of(bench)
    bench.answer(item, None)
    assert len(embedded) == len(set(embedded))
    assert "Goats graze on the hill." in embedded


def test_closed_book_without_a_model_is_unknown(tmp_path):
    bench = CompoundQA(written(tmp_path, row(context=None)), Parts(embed=minilm))
    [item] = items_of(bench)
    sample = bench.answer(item, None)
    assert (sample.decision, sample.confidence, sample.contexts) == ("unknown", 0.0, ())
    assert [part.answer for part in sample.sub_answers] == ["", ""]
    scores = values(bench, item, sample)
    assert scores["k_precision"] is None
    assert (scores["part_coverage"], scores["idk_rate"]) == (0.0, 1.0)


def test_a_long_context_becomes_several_passages(tmp_path):
    long = " ".join(f"In {year} the keeper of the tower counted {year - 1000} birds." for year in range(1850, 1890))
    bench = CompoundQA(written(tmp_path, row(context=long)), Parts())
    [item] = items_of(bench)
    places = [tuple(map(int, ref.document_id.rsplit("-", 2)[1:])) for ref in bench.answer(item, None).contexts]
    assert len(places) > 2
    assert (min(start for start, _ in places), max(end for _, end in places)) == (0, len(long))


# --- with a model ----------------------------------------------------------------------------------------------------


def test_a_model_answers_from_the_context_and_its_sentences_are_dealt_out(tmp_path):
    bench = CompoundQA(written(tmp_path, row()), Parts(embed=minilm))
    [item] = items_of(bench)
    sample, [body] = answered(bench, item, Say("The lamp was lit in 1868 [1]. The lamp burned rape oil [1]."))
    prompt = body["messages"][-1]["content"]
    assert CONTEXT in prompt
    assert QUESTION in prompt
    assert [part.answer for part in sample.sub_answers] == ["The lamp was lit in 1868.", "The lamp burned rape oil."]
    assert sample.prediction == "The lamp was lit in 1868 [1]. The lamp burned rape oil [1]."
    assert sample.usage["answer"].calls == 1
    scores = values(bench, item, sample)
    assert scores["answer_words"] == 11
    assert scores["part_coverage"] == 1.0


def test_a_part_that_the_model_leaves_out_is_empty(tmp_path):
    bench = CompoundQA(written(tmp_path, row()), Parts(embed=minilm))
    [item] = items_of(bench)
    sample, _ = answered(bench, item, Say("The lamp burned rape oil [1]."))
    assert [part.answer for part in sample.sub_answers] == ["", "The lamp burned rape oil."]
    assert values(bench, item, sample)["part_coverage"] == 0.5


def test_a_closed_book_question_is_put_to_the_model_by_its_own_prompt(tmp_path):
    bench = CompoundQA(written(tmp_path, row(context=None)), Parts(embed=minilm))
    [item] = items_of(bench)
    sample, [body] = answered(bench, item, Say("<think>Hm.</think>The lamp was lit in 1868. The lamp burned oil."))
    system, user = body["messages"]
    assert "answer every one of them" in system["content"]
    assert user["content"] == QUESTION
    assert (sample.decision, sample.contexts) == ("answer", ())
    assert sample.prediction == "The lamp was lit in 1868. The lamp burned oil."
    assert [part.answer for part in sample.sub_answers] == ["The lamp was lit in 1868.", "The lamp burned oil."]
    assert (sample.usage["answer"].calls, sample.usage["answer"].prompt_tokens) == (1, 11)
    scores = values(bench, item, sample)
    assert scores["k_precision"] is None
    assert scores["part_coverage"] == 1.0


def test_a_prompt_of_ones_own_is_used(tmp_path):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "compound.txt").write_text("Answer in one word: {{ question }}", encoding="utf-8")
    parts = Parts(prompts=tmp_path / "prompts")
    bench = CompoundQA(written(tmp_path, row(context=None)), parts)
    [item] = items_of(bench)
    sample, [body] = answered(bench, item, Say("1868."))
    assert [message["content"] for message in body["messages"]] == [f"Answer in one word: {QUESTION}"]
    assert sample.sub_answers == ()


def test_a_model_that_does_not_know_answers_no_part(tmp_path):
    bench = CompoundQA(written(tmp_path, row(), row(ID="x_2", context=None)), Parts(embed=minilm))
    for item in items_of(bench):
        sample, _ = answered(bench, item, Say("I don't know."))
        assert sample.decision == "unknown"
        assert [part.answer for part in sample.sub_answers] == ["", ""]
        scores = values(bench, item, sample)
        assert (scores["idk_rate"], scores["part_coverage"]) == (1.0, 0.0)


def test_a_reply_that_was_cut_says_so_and_an_empty_one_is_kept_as_empty(tmp_path):
    bench = CompoundQA(written(tmp_path, row(context=None)), Parts())
    [item] = items_of(bench)
    sample, bodies = answered(bench, item, Say("The lamp was", finish_reason="length"))
    assert sample.prediction == "The lamp was"
    assert ["not whole" in note for note in sample.notes] == [True]
    assert sample.usage["answer"].calls == len(bodies) == 2  # once more, with twice the room
    assert bodies[1]["max_tokens"] == 100
    sample, _ = answered(bench, item, Say("The lamp was", finish_reason="length"), Say("The lamp was lit."))
    assert (sample.prediction, sample.notes) == ("The lamp was lit.", ())
    sample, _ = answered(bench, item, Say("<think>Nothing comes.</think>"))
    assert (sample.status, sample.prediction, sample.usage["answer"].completion_tokens) == ("done", "", 7)
    assert ["gave an empty reply" in note for note in sample.notes] == [True]
    with pytest.raises(GeneratorError):
        answered(bench, item, Raw(b"{"))


# --- scoring, data, requests -----------------------------------------------------------------------------------------


def test_values_by_hand(tmp_path):
    bench = CompoundQA(written(tmp_path, row(context="The lamp burned.")), Parts())
    [item] = items_of(bench)
    scores = values(bench, item, done(item, "In 1868, oil [1].", decision="answer"))
    assert scores == pytest.approx({
        "part_coverage": None,
        "omitted[code]": None,
        "merged[code]": None,
        "wrong_language[code]": None,  # six letters
        "words_per_part": 1.5,
        "rouge_l.word": 6 / 7,  # three of "in 1868 oil", three of "in 1868 rape oil"
        "rouge_l.word[unicode]": 6 / 7,
        "token_recall": 3 / 4,
        "k_precision": 0.0,
        "k_precision[+history]": 0.0,
        "rouge_l.word[lead]": 0.0,
        "rouge_l.word[-lead]": 6 / 7,
        "token_recall[lead]": 0.0,
        "token_recall[-lead]": 3 / 4,
        "answer_words": 3.0,
        "idk_rate": 0.0,
    })  # fmt: skip


def test_labels_tell_the_halves_apart_and_questions_about_one_context_are_one_cluster(tmp_path):
    written(tmp_path, row(), row(ID="x_2", context=None), row(ID="x_3", context=None))
    source = written(tmp_path, row(), kind="Cause-and-Effect")
    bench = CompoundQA(source, Parts())
    facts = {item.id: bench.facts(item) for item in items_of(bench)}
    first, second, third = (facts[f"Understanding/Factual-Statement/x_{n}"] for n in (1, 2, 3))
    assert first.labels == {"capability": ("Understanding",), "type": ("Factual-Statement",), "context": ("with",)}
    assert second.labels["context"] == ("closed-book",)
    assert first.cluster == facts["Understanding/Cause-and-Effect/x_1"].cluster
    assert len({first.cluster, second.cluster, third.cluster}) == 3
    assert "lamp" not in first.cluster


def test_unreadable_rows_are_problems_and_domains_are_capabilities(tmp_path):
    written(tmp_path, row(), "[]", row(ID="x_2", com_question=" "), row(ID="x_1"), row(ID="x_3"))
    source = written(tmp_path, row(), capability="Reasoning")
    entries = list(CompoundQA(source, Parts(), ["Understanding"]).items())
    assert [item.id[-3:] if isinstance(item, Item) else item.line for item in entries] == ["x_1", 2, 3, 4, "x_3"]
    bench = CompoundQA(source, Parts(), ["Reasoning"])
    assert [item.domain for item in items_of(bench)] == ["Reasoning"]
    with pytest.raises(RequestError, match="no 'Cooking'"):
        CompoundQA(source, Parts(), ["Cooking"])
    with pytest.raises(RequestError, match="there is none"):
        CompoundQA(source, Parts(), ["Knowledge"])


@pytest.mark.data
def test_five_thousand_questions_stream_through(real_data: Path):
    """Nothing is held back: the answers' memory is that of one."""
    import tracemalloc

    bench = CompoundQA(Source(root=real_data / "compound-qa", demo=False), Parts())
    peaks: list[int] = []
    tracemalloc.start()
    try:
        for number, item in enumerate(bench.items(), 1):
            assert not isinstance(item, Problem)
            sample = bench.answer(item, None)
            values(bench, item, sample)
            bench.facts(item)
            if number % 1000 == 0:
                peaks.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert len(peaks) == 5
    assert max(peaks[1:]) < peaks[0] + 4 * 2**20


def test_types_are_named_and_a_sample_has_equally_many_of_each(turnmark, tmp_path):
    kinds = ("Factual_Statement", "Cause_and_Effect", "Comparison_and_Selection")
    for size, kind in zip((30, 20, 10), kinds, strict=True):
        written(tmp_path, *(row(ID=f"x_{n}") for n in range(size)), kind=kind)
    words = ("eval", "compound-qa", "--data", tmp_path)
    printed = turnmark(*words, "--types", "Cause-and-Effect,Comparison-and-Selection", "--dry-run", "--json")
    assert json.loads(printed.out)["n"] == 30
    assert json.loads(printed.out)["specs"]["types"] == "Cause-and-Effect, Comparison-and-Selection"
    ran = turnmark(*words, "--sample", "6", "--out", tmp_path / "run", "--json")
    assert ran.code == 0, ran.err
    shares = {kind: metrics["answer_words"]["n"] for kind, metrics in json.loads(ran.out)["breakdowns"]["type"].items()}
    assert shares == {"Factual-Statement": 3, "Cause-and-Effect": 2, "Comparison-and-Selection": 1}
    wrong = turnmark(*words, "--types", "Odd,Hypothetical-Analysis")
    message = " ".join(wrong.err.split())
    assert wrong.code == 2
    assert "no type 'Odd'" in message
    assert "no type 'Hypothetical-Analysis' in the data" in message
    assert turnmark("eval", "mtrag", "--types", "Factual-Statement").code == 2
