"""KIWI's revisions behind the protocol: on the demo split, on written sessions, with and without a language model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.evaluation.kiwis import ANSWER, items_of, session, turn, written
from tests.servers import Say, ScriptedServer
from turnmark.assistant.generators import GeneratorError, open_generator
from turnmark.corpora import kiwi
from turnmark.corpora.errors import RequestError
from turnmark.corpora.rows import Source
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.base import Item, measured
from turnmark.evaluation.benchmarks.kiwi import Kiwi
from turnmark.evaluation.benchmarks.turns import Parts
from turnmark.evaluation.metrics.overlap import rouge_l_word
from turnmark.evaluation.records import Sample
from turnmark.retrieval.embed import open_embedder

DEMO = kiwi.locate(None)
NAMES = ["length_ratio", "edit_distance", "edit_ratio", "answer_words"]


def minilm(texts: Sequence[str]) -> NDArray[np.float32]:
    return open_embedder("minilm").encode(texts, "passage")


def values(bench: Kiwi, item: Item, sample: Sample) -> dict[str, float | None]:
    scores = measured(bench.metrics, sample, lambda: bench.context(item, sample))
    assert [score.metric for score in scores] == NAMES
    assert not [score for score in scores if score.status == "failed"]
    return {score.metric: score.value for score in scores}


def evidence(bench: Kiwi, item: Item) -> list[str]:
    return [context.document_id for context in bench.answer(item, None).contexts]


# --- answering -------------------------------------------------------------------------------------------------------


def revised(bench: Kiwi, item: Item) -> Sample:
    """What becomes of a turn of the demo split, with what has to hold for every one of them."""
    sample, recorded = bench.answer(item, None), item.task.turn
    assert (sample.id, sample.status, sample.turn) == (item.id, "done", recorded.turn)
    assert (sample.query, sample.previous) == (recorded.instruction, recorded.previous)
    assert (sample.usage, sample.prediction != "") == ({}, True)
    assert 0 < len(sample.contexts) <= 5
    scores = values(bench, item, sample)
    assert None not in scores.values()
    assert bool(sample.operations) == (scores["edit_distance"] != 0)
    return sample


def test_every_demo_turn_is_revised_and_measured_without_a_model():
    bench = Kiwi(DEMO, Parts())
    items = items_of(bench)
    assert len(items) == len(list(bench.items())) == 23
    assert [item.id for item in items[:5]] == ["0/0", "0/1", "0/2", "0/3", "1/0"]
    samples = [revised(bench, item) for item in items]
    assert sum(bool(sample.operations) for sample in samples) >= 12


def test_with_the_bundled_embedder_a_question_adds_what_a_passage_says():
    bench = Kiwi(DEMO, Parts(embed=minilm))
    sample = revised(bench, items_of(bench)[0])
    assert {operation["kind"] for operation in sample.operations} == {"insert"}
    assert "[1]" in (sample.prediction or "")


def test_a_sentence_is_removed_and_the_operation_taken_down(tmp_path):
    bench = Kiwi(written(tmp_path, session()), Parts())
    [item] = items_of(bench)
    sample = bench.answer(item, None)
    assert sample.prediction == "The lamp was lit in 1868."
    assert sample.operations == ({"kind": "remove", "before": "It burned rape oil.", "after": ""},)
    assert values(bench, item, sample) == {
        "length_ratio": 6 / 10, "edit_distance": 4.0, "edit_ratio": 4 / 10, "answer_words": 6.0,
    }  # fmt: skip


def test_a_turn_starts_from_the_recorded_answer_before_it(tmp_path):
    turns = [turn(answer_2="The lamp was lit. It burned."), turn(rating="bad", answer_1="No."), turn()]
    bench = Kiwi(written(tmp_path, session(*turns)), Parts())
    assert [bench.answer(item, None).previous for item in items_of(bench)] == [
        ANSWER,
        *["The lamp was lit. It burned."] * 2,
    ]


def test_a_model_revises_with_the_passages_at_hand(tmp_path):
    passages = [{"title": "Oil", "text": "From 1885 it burned paraffin."}]
    bench = Kiwi(written(tmp_path, session(turn(instruction="And later?", retrieved_passages=passages))), Parts())
    [item] = items_of(bench)
    edit = {"op": "insert", "sentence": 0, "after": 2, "text": "From 1885 it burned paraffin [1]."}
    replies = (
        Say('{"class": "information-seeking", "type": "More information"}'),
        Say("From 1885 it burned paraffin [1]."),
        Say(json.dumps({"operations": [edit], "whole": ""})),
    )
    with ScriptedServer(*replies) as server:
        sample = bench.answer(item, open_generator(f"openai:tiny@{server.url}?retries=0"))
    prompts = [body["messages"][-1]["content"] for body in server.bodies]
    for piece in (ANSWER, "And later?", "From 1885 it burned paraffin."):
        assert piece in prompts[1]
    for piece in ("What of the lamp?", "S2| It burned rape oil.", "And later?"):
        assert piece in prompts[2]
    assert sample.prediction == f"{ANSWER} From 1885 it burned paraffin [1]."
    assert [operation["kind"] for operation in sample.operations] == ["insert"]
    assert [used.calls for used in sample.usage.values()] == [3]
    assert values(bench, item, sample) == {
        "length_ratio": 1.5, "edit_distance": 5.0, "edit_ratio": 0.5, "answer_words": 15.0,
    }  # fmt: skip


def test_a_model_that_says_nothing_is_a_generator_error(tmp_path):
    bench = Kiwi(written(tmp_path, session()), Parts())
    [item] = items_of(bench)
    with ScriptedServer(Say("")) as server, pytest.raises(GeneratorError):
        bench.answer(item, open_generator(f"openai:tiny@{server.url}?retries=0"))


def test_a_reply_that_no_revision_can_be_made_of_is_a_failed_sample_with_a_type(tmp_path):
    bench = Kiwi(written(tmp_path, session()), Parts())
    [item] = items_of(bench)
    with ScriptedServer(Say("asdf qwer")) as server, pytest.raises(GeneratorError) as caught:
        bench.answer(item, open_generator(f"openai:tiny@{server.url}?retries=0"))
    assert caught.value.kind == "bad_reply"
    assert "the model's edits could not be used" in str(caught.value)
    assert caught.value.usage.calls == len(server.bodies) > 1


@pytest.mark.parametrize("reply", ["asdf qwer zxcv", '{"operations": "none"}'])
def test_an_endpoint_that_answers_garbage_gets_no_credit(turnmark, tmp_path, monkeypatch, reply):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody")
    with ScriptedServer(Say(reply)) as server:
        spec = f"openai:tiny@{server.url}?retries=0"
        ran = turnmark("eval", "kiwi", "--generator", spec, "--judge", "embedded", "--out", tmp_path / "r", "--json")
    assert ran.code == 0, ran.err
    summary = json.loads(ran.out)
    good = summary["metrics"]["good[embedded]"]
    assert good["n"] + good["failed"] == summary["n"] == 23
    assert good["failed"] == summary["failed"] >= 18
    assert not good["mean"]
    rows = [json.loads(line) for line in (tmp_path / "r/predictions.jsonl").read_text().splitlines()]
    assert {row["reason"].split(":")[0] for row in rows if row["status"] == "failed"} == {"bad_reply"}


# --- evidence --------------------------------------------------------------------------------------------------------


def test_evidence_is_the_turns_else_the_sessions_else_the_papers_else_none(tmp_path):
    mine, shared = ["Of the turn.", "Also of the turn."], ["Of the session."]
    rows = [
        session(turn(retrieved_passages=mine), turn(), retrieved_passages=shared),
        session(turn(), model_name="other"),
        session(turn(), original_question="What of the horn?"),
    ]
    source = written(tmp_path, *rows, papers=[f"Paragraph {n}." for n in range(7)])
    bench = Kiwi(source, Parts())
    places = [evidence(bench, item) for item in items_of(bench)]
    assert places == [
        ["0/0#passage-1", "0/0#passage-2"],
        ["0#passage-1"],
        [f"1#paragraph-{n}" for n in range(1, 6)],
        [],
    ]


def test_paragraphs_are_ranked_for_instruction_and_question(tmp_path):
    papers = [f"Number {n} is an even number." for n in range(0, 12, 2)] + ["The lamp burned paraffin from 1885."]
    row = session(turn(instruction="Which oil did the lamp burn later?"))
    bench = Kiwi(written(tmp_path, row, papers=papers), Parts(embed=minilm))
    [item] = items_of(bench)
    places = evidence(bench, item)
    assert len(places) == 5
    assert places[0] == "0#paragraph-7"


# --- scoring ---------------------------------------------------------------------------------------------------------


def test_marks_do_not_count_on_either_side_and_a_file_does_not_choose_the_previous_answer(tmp_path):
    bench = Kiwi(written(tmp_path, session(initial_answer="The lamp [0] was lit [1, 2].")), Parts())
    [item] = items_of(bench)
    sample = Sample(id=item.id, status="done", prediction="The lamp was lit at night [3].", previous="Something else.")
    assert values(bench, item, sample) == {
        "length_ratio": 6 / 4, "edit_distance": 3.0, "edit_ratio": 3 / 4, "answer_words": 6.0,
    }  # fmt: skip
    empty = sample.model_copy(update={"prediction": ""})
    assert values(bench, item, empty) == {
        "length_ratio": 0.0, "edit_distance": 4.0, "edit_ratio": 1.0, "answer_words": 0.0,
    }  # fmt: skip


def test_why_there_is_no_rouge_against_the_accepted_revision():
    """Doing nothing would score well, so the figure could not tell a good system from an idle one."""
    turns = [item.task.turn for item in items_of(Kiwi(DEMO, Parts()))]
    accepted = [(turn.previous, turn.edit or turn.answer) for turn in turns if turn.edit or turn.rating == "good"]
    idle = [rouge_l_word(before, after) or 0.0 for before, after in accepted]
    assert len(idle) == 18
    assert sum(idle) / len(idle) > 0.8


def test_labels_and_clusters():
    bench = Kiwi(DEMO, Parts())
    facts = [bench.facts(item) for item in items_of(bench)]
    assert facts[0].cluster == "session 0"
    assert facts[0].labels == {
        "instruction": ("More information",), "type": ("information-seeking",), "model": ("demo-large",),
        "turn": ("first",), "rating": ("good",),
    }  # fmt: skip
    assert Counter(fact.labels["turn"] for fact in facts) == {("first",): 6, ("later",): 17}
    assert {value for fact in facts for value in fact.labels["instruction"]} == set(kiwi.FINE_TYPES)
    assert len({fact.cluster for fact in facts}) == 6


def test_what_a_turn_does_not_say_is_no_value(tmp_path):
    bench = Kiwi(written(tmp_path, session()), Parts())
    [item] = items_of(bench)
    labels = bench.facts(item).labels
    assert (labels["instruction"], labels["type"], labels["rating"]) == ((), (), ("good",))


# --- data ------------------------------------------------------------------------------------------------------------


def test_unreadable_rows_are_problems_and_ids_stay(tmp_path):
    source = written(tmp_path, session(), "{", session(turn(), turn(rating="superb"), turn(), model_name="other"))
    entries = list(Kiwi(source, Parts()).items())
    assert [item.id for item in entries if isinstance(item, Item)] == ["0/0", "2/0"]
    problems = [item for item in entries if isinstance(item, Problem)]
    assert [problem.line for problem in problems] == [2, 3]
    assert "2 turns left out" in problems[1].what
    assert list(Kiwi(source, Parts()).items()) == entries


def test_a_folder_without_interactions(tmp_path):
    with pytest.raises(RequestError, match=r"interaction data of KIWI"):
        Kiwi(Source(root=tmp_path / "nowhere", demo=False), Parts())
