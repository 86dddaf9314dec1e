"""`turnmark tune`: made questions, recorded lists, the verdict on held-out documents, and the result that is used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.turn.assistant import Assistant
from turnmark.core.console import NoProgress
from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.core.home import write_atomic
from turnmark.corpora.types import Message
from turnmark.evaluation.check.own_questions.question_file import read_questions
from turnmark.evaluation.storage.corpus_passages import Span
from turnmark.evaluation.tune.gains import PassagePlaces, gain_of
from turnmark.evaluation.tune.plan import TunePlan, plan_tune
from turnmark.evaluation.tune.question_sources import locate_questions
from turnmark.evaluation.tune.questions import draw_questions, hide_answers
from turnmark.evaluation.tune.rankings import SearchChoice, all_choices, record_lists
from turnmark.evaluation.tune.request import TuneRequest
from turnmark.evaluation.tune.searches import queries_of
from turnmark.evaluation.tune.tune_run import run_tune
from turnmark.evaluation.tune.verdict import choose_finalists, compare_choices
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.search.retriever_factory import default_retriever, open_retriever
from turnmark.retrieval.search.tuned_search import (
    TunedSearch,
    describe_tuned,
    document_digests,
    models_of,
    read_tuned,
    tuned_file,
    write_tuned,
)

TUNED = "conversational?answers=0&rerank_weight=2&weight=1"


@pytest.fixture
def here(in_demo_home: None, tmp_path: Path) -> Iterator[Path]:
    """An empty working directory, and the home with the index `demo`, which is untuned again after the test."""
    yield tmp_path
    tuned_file(open_index("demo")).unlink(missing_ok=True)


def planned(**options: object) -> TunePlan:
    plan = plan_tune(TuneRequest(index="demo", n=56, **options), ErrorCollector())
    return replace(plan, choices=[choice for choice in plan.choices if {choice.weight, choice.late} <= {0.3, 1.0}])


def tuned_of_demo() -> TunedSearch:
    index = open_index("demo")
    return TunedSearch(
        retriever=TUNED, models=models_of(index.manifest), gain=0.04, ci95=(0.01, 0.07), questions={"sentence": 200},
        created="2026-01-01T00:00:00+00:00", documents=tuple(document_digests(index)),
    )  # fmt: skip


def test_a_made_question_shares_few_words_with_the_passage_that_hides_its_answer(here):
    index = open_index("demo")
    questions = draw_questions(index, 40, seed=0)
    hidden = hide_answers(index, questions)
    for question in questions:
        (name,) = [name for name, passage in hidden.items() if passage.document == question.document and
                   passage.start <= question.gold[0].start < passage.end]  # fmt: skip
        stored = index.store.by_rows([index.store.rows_of([name])[name]])[0]
        start, end = (at - stored.start for at in question.gold[0][1:])
        assert stored.text[start:end] not in hidden[name].text


def test_recorded_lists_rank_as_the_retriever_does(here):
    index = open_index("demo")
    questions = draw_questions(index, 12, seed=0)
    queries = queries_of(index, "conversational", questions)
    choices = [SearchChoice(), SearchChoice(weight=2.0, late=0.5, answers=0.0), SearchChoice(weight=1.0, late=0.0)]
    recorded = record_lists(index, "conversational", queries, choices)
    for choice in choices:
        retriever = open_retriever(choice.spec("conversational"), index)
        for hits, lists in zip(retriever.search(queries, 10), recorded, strict=True):
            fused = lists.fused(choice)
            ranked = fused.rows[lists.order(fused, choice.late)[:10]]
            assert [hit.passage.id for hit in hits] == [one.id for one in index.store.by_rows(ranked.tolist())]


def test_follow_ups_are_searched_with_their_conversation(here):
    index = open_index("demo")
    said = [
        Message(role="user", content="How is sourdough made?"),
        Message(role="assistant", content="With a starter."),
    ]
    (made,) = draw_questions(index, 1, seed=0)
    follow_up = made.model_copy(update={"message": "and how long does it rise?", "history": tuple(said)})
    alone, following = queries_of(index, "conversational", [made, follow_up])
    assert not alone.history
    assert following.history == tuple(said)
    defaults = all_choices(SearchChoice(), late=True, follow_ups=False)
    assert {choice.answers for choice in defaults} == {SearchChoice().answers}
    choices = all_choices(SearchChoice(), late=True, follow_ups=True)
    assert len(choices) > 3 * len(defaults)
    (recorded,) = record_lists(index, "conversational", [following], choices)
    assert recorded.dense[0.0].rows.rows.tolist() != recorded.dense[1.2].rows.rows.tolist()


def test_the_gain_falls_with_the_characters_read_before_the_answer():
    def gain(*passages: tuple[int, bool]) -> float:
        return gain_of(np.array([answers for _, answers in passages]), np.array([length for length, _ in passages]))

    assert gain((500, True), (1000, False)) == 1
    assert gain((1000, False), (500, True), (500, True)) == pytest.approx(1 / np.log2(3))
    assert gain((1000, False), (500, False)) == 0
    assert gain((9000, False), (500, True)) == 0


def test_passages_of_any_size_answer_if_they_have_most_of_the_place(here):
    index = open_index("demo")
    passages = [passage for page in index.store.pages() for _, _, passage in page]
    places = PassagePlaces(index)
    name, start = passages[5].document, passages[5].start
    assert places.answering([Span(name, start, start + 40)]).tolist() == [5]
    whole = [row for row, passage in enumerate(passages) if passage.document == name]
    assert places.answering([Span(name, 0, 10**6)]).tolist() == whole
    assert places.answering([Span("nowhere.md", 0, 10)]).tolist() == []


def test_a_question_of_a_file_is_answered_where_its_facts_stand(here):
    write_atomic(
        here / "mine.csv",
        "question,facts,document,unanswerable,conversation\n"
        "How long does sourdough rise?,sourdough,,,bread\n"
        "And what then?,,sourdough.md,,bread\n"
        "Who won the cup?,,,yes,\n"
        "Is there zzyzx?,zzyzx,,,\n",
    )
    index = open_index("demo")
    name = next(entry.document for entry in index.store.documents() if "sourdough" in entry.document)
    write_atomic(here / "mine.csv", (here / "mine.csv").read_text().replace("sourdough.md", name))
    found = list(locate_questions(index, read_questions(here / "mine.csv")))
    assert [question.message for question in found] == ["How long does sourdough rise?", "And what then?"]
    assert found[1].document == name
    assert found[1].history[0].content == "How long does sourdough rise?"


def test_a_clear_gain_is_proposed_and_a_random_one_is_not():
    rng = np.random.default_rng(0)
    choices = all_choices(SearchChoice(late=0.0), late=False, follow_ups=True)
    default = choices.index(SearchChoice(late=0.0))
    units = [f"{number // 2}.md" for number in range(200)]
    gains = rng.random((len(choices), 200)) * 0.2 + 0.3
    chosen = choose_finalists(choices, gains[:, :100], default)
    assert len(chosen) <= 3
    assert not any(one.is_better for one in compare_choices(choices, gains[:, 100:], default, chosen, units[100:], 0))
    gains[7] += 0.1
    chosen = choose_finalists(choices, gains[:, :100], default)
    better = [one for one in compare_choices(choices, gains[:, 100:], default, chosen, units[100:], 0) if one.is_better]
    assert [one.choice for one in better] == [choices[7]]


def test_equal_configurations_are_never_better():
    choices = all_choices(SearchChoice(late=0.0), late=False, follow_ups=True)
    gains = np.tile(np.random.default_rng(0).random(80), (len(choices), 1))
    assert choose_finalists(choices, gains, 0) == []
    (same,) = compare_choices(choices, gains, 0, [1], [f"{number}.md" for number in range(80)], 0)
    assert not same.is_better


class Interrupting(NoProgress):
    """Progress that is interrupted after some questions."""

    left = 24

    def advance(self, n: int = 1) -> None:
        self.left -= n
        if self.left < 0:
            raise KeyboardInterrupt


def test_an_interrupted_run_goes_on_with_the_same_result(here):
    with pytest.raises(KeyboardInterrupt):
        run_tune(planned(out=here / "cut"), Interrupting())
    measured = (here / "cut/gains.jsonl").read_text().splitlines()
    assert 0 < len(measured) < 56
    resumed = run_tune(planned(out=here / "cut"), NoProgress())
    whole = run_tune(planned(out=here / "whole"), NoProgress())
    differing = {"out", "seconds"}
    assert resumed.model_dump(exclude=differing) == whole.model_dump(exclude=differing)
    assert (here / "cut/gains.jsonl").read_text().splitlines()[: len(measured)] == measured
    assert whole.search_questions + whole.test_questions == sum(whole.questions.values())
    assert not (whole.winner is None and tuned_file(open_index("demo")).exists())


def test_a_tuned_index_is_searched_with_its_configuration_until_it_is_undone(here, turnmark):
    write_tuned(open_index("demo"), tuned_of_demo())
    shown = json.loads(turnmark("search", "ferry", "--index", "demo", "--json").out)
    assert shown["retriever"] == TUNED
    named = turnmark("search", "ferry", "--index", "demo", "--retriever", "bm25", "--json").out
    assert json.loads(named)["retriever"] == "bm25"
    assistant = Assistant.from_config(AssistantConfig(index="demo"))
    assert assistant.retriever.name == TUNED
    info = json.loads(turnmark("index", "info", "demo", "--json").out)
    assert info["retriever"] == TUNED
    assert "gain +0.040 (+0.010 to +0.070)" in info["tuned"]
    assert "conversational" in turnmark("tune", "demo", "--undo").out
    assert default_retriever(open_index("demo")) == "conversational"
    assert "was not tuned" in turnmark("tune", "demo", "--undo").out


def test_a_configuration_is_stale_once_a_fifth_of_the_documents_changed(here):
    index, tuned = open_index("demo"), tuned_of_demo()
    few = len(tuned.documents) // 5
    write_tuned(index, tuned.model_copy(update={"documents": ("0" * 8, *tuned.documents[1:])}))
    assert "stale" not in describe_tuned(index)
    changed = (*(f"{number:08}" for number in range(few)), *tuned.documents[few:])
    write_tuned(index, tuned.model_copy(update={"documents": changed}))
    assert "stale" in describe_tuned(index)


def test_a_configuration_for_other_models_or_a_damaged_one_is_not_used(here, capsys):
    index = open_index("demo")
    write_tuned(index, tuned_of_demo().model_copy(update={"models": "embedder another"}))
    assert read_tuned(index) is None
    write_atomic(tuned_file(index), "{")
    assert default_retriever(index) == "conversational"
    assert "turnmark tune demo --undo" in capsys.readouterr().err


def test_a_dry_run_changes_nothing(here, turnmark):
    expected = json.loads(turnmark("tune", "demo", "--dry-run", "--n", "20", "--json").out)
    assert expected["configurations"] == 84
    assert list(here.iterdir()) == []


def test_an_index_without_vectors_or_sentences_says_what_to_do(turnmark, tmp_path):
    write_atomic(tmp_path / "notes/kettle.md", "# Kettle\n\nIt is red.\n")
    build_index(tmp_path / "notes", "words", retriever="bm25")
    assert "turnmark index build" in turnmark("tune", "words").err
    build_index(tmp_path / "notes", "short")
    ran = turnmark("tune", "short", "--dry-run")
    assert ran.code == 1
    assert "--questions" in ran.err


def test_wrong_requests_and_too_few_questions_say_what_to_do(here):
    write_atomic(here / "mine.csv", "question,facts\nHow long does sourdough rise?,sourdough\n")
    with pytest.raises(TurnmarkError, match="1 questions have an answer in the documents"):
        run_tune(planned(questions=here / "mine.csv"), NoProgress())
    errors = ErrorCollector()
    with pytest.raises(RequestError) as raised:
        plan_tune(TuneRequest(index="nothing", questions=here / "lost.csv", budget="10k"), errors)
    assert len(raised.value.problems) == 3
