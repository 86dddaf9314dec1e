"""What verify finds, repairs and leaves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.assistant.notes import hit
from turnmark.assistant.steps.marks import cited
from turnmark.assistant.steps.verify import BASELESS, procedure_valid, repair, verify
from turnmark.assistant.types import Draft, Step, Understanding

HITS = [hit("Bake the loaf at 240 degrees for forty minutes."), hit("The ferry sails at nine on weekdays.")]


QUESTION = Understanding(rewrite="How hot?", sub_questions=("How hot?",))
HOW = Understanding(rewrite="How?", sub_questions=("How?",), wants_procedure=True)


def test_grounded_is_the_share_of_sentences_that_rest_on_what_they_cite():
    text = "Bake the loaf at 240 degrees [1]. The ferry sails at nine [2]. Elephants paint ceilings [2]. It is nice."
    _, checks, parts = verify(Draft(text=text), "answer", QUESTION, HITS)
    assert checks.grounded == pytest.approx(2 / 4)
    assert not checks.citations_valid
    assert [part.answered for part in parts] == [True]


def test_the_space_before_a_name_that_begins_with_a_full_stop_stays():
    text = "APT keeps each .deb file [1] [7]. It is big [7] ."
    assert repair(Draft(text=text), 1)[0].text == "APT keeps each .deb file [1]. It is big."


def test_a_mark_after_the_full_stop_belongs_to_the_sentence_before():
    _, checks, _ = verify(Draft(text="Bake at 240 degrees. [1] The ferry sails at nine. [2]"), "answer", QUESTION, HITS)
    assert checks.grounded == 1.0
    assert checks.citations_valid


def test_nothing_supported_answers_no_part_and_is_said():
    notes: list[str | None] = []
    draft, checks, parts = verify(
        Draft(text="Elephants paint ceilings [1]."), "answer", QUESTION, HITS, note=notes.append
    )
    assert (checks.grounded, checks.parts_answered, parts[0].answered) == (0.0, 0.0, False)
    assert notes == [BASELESS]
    assert draft.text == "Elephants paint ceilings [1]."


@pytest.mark.parametrize("text", ["Bake it at 250 degrees for forty minutes [1].", "Bake it for 50 minutes [1]."])
def test_a_wrong_number_is_not_supported(text):
    assert verify(Draft(text=text), "answer", QUESTION, HITS)[1].grounded == 0.0


RIGHT, STRANGE = "Bake the loaf at 240 degrees [1].", "Elephants paint ceilings [2]."


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("The ferry sails at nine [1].", "The ferry sails at nine. [2]"),
        ("The ferry sails at nine. [1] Bake it [1].", "The ferry sails at nine. [2] Bake it [1]."),
        ("- The ferry sails at nine\n[1]\n\nBake the loaf [1].", "- The ferry sails at nine [2]\n\nBake the loaf [1]."),
    ],
)  # fmt: skip
def test_a_sentence_that_cites_the_wrong_passage_is_pointed_to_the_right_one(text, mended):
    draft, checks, _ = verify(Draft(text=text), "answer", QUESTION, HITS)
    assert draft.text == mended
    assert (checks.repaired, checks.grounded, checks.citations_valid) == (True, 1.0, True)


def test_a_step_too():
    steps = (Step(step="Bake the loaf at 240 degrees.", citations=(2,)), Step(step="Sail at nine.", citations=(2,)))
    draft, checks, _ = verify(Draft(text="", procedure=steps), "answer", HOW, HITS)
    assert [step.citations for step in draft.procedure] == [(1,), (2,)]
    assert (checks.procedure_valid, checks.repaired, checks.grounded) == (True, True, 1.0)


def test_what_nothing_supports_goes_from_a_models_answer_and_stays_in_another():
    text = f"{RIGHT} {STRANGE} It is nice."
    draft, checks, _ = verify(Draft(text=text), "answer", QUESTION, HITS)
    assert (draft.text, checks.repaired, checks.grounded) == (text, False, pytest.approx(1 / 3))
    draft, checks, _ = verify(Draft(text=text), "answer", QUESTION, HITS, written=True)
    assert (draft.text, checks.repaired, checks.grounded, checks.citations_valid) == (RIGHT, True, 1.0, True)


def test_nothing_goes_where_nothing_would_be_left_and_no_step_ever():
    draft = Draft(text=STRANGE)
    assert verify(draft, "answer", QUESTION, HITS, written=True)[0] == draft
    steps = (Step(step="Bake the loaf at 240 degrees.", citations=(1,)), Step(step="Paint elephants.", citations=(1,)))
    draft, checks, _ = verify(Draft(text="", procedure=steps), "answer", HOW, HITS, written=True)
    assert (draft.procedure, checks.grounded, checks.repaired) == (steps, 0.5, False)


def test_what_says_that_it_does_not_know_is_no_claim_and_stays():
    text = f"{RIGHT} I don't know when the ferry sails."
    draft, checks, _ = verify(Draft(text=text), "partial", QUESTION, HITS, written=True)
    assert (draft.text, checks.grounded, checks.citations_valid, checks.repaired) == (text, 1.0, True, False)


TEXTS = st.lists(
    st.sampled_from([RIGHT, STRANGE, "It is nice.", "The ferry sails [9].", "\n\n- Bake it", "[1]", "I don't know."]),
    max_size=6,
).map(" ".join)


@given(st.one_of(TEXTS, st.text(max_size=60)), st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_draft_can_be_verified_and_a_second_time_changes_nothing(text, written):
    once, checks, _ = verify(Draft(text=text), "answer", QUESTION, HITS, written=written)
    assert all(1 <= n <= len(HITS) for n in cited(once.text))
    assert checks.grounded is None or 0 <= checks.grounded <= 1
    if not checks.repaired:
        assert once.text == text.strip() or once == repair(Draft(text=text), len(HITS))[0]
    twice, again, _ = verify(once, "answer", QUESTION, HITS, written=written)
    assert twice.text.split() == once.text.split()
    assert again.grounded == checks.grounded


QUESTIONS = Understanding(
    rewrite="Both?", sub_questions=("How hot is the loaf baked?", "When does the ferry sail?"), wants_procedure=False
)


@pytest.mark.parametrize(
    ("text", "answered"),
    [
        ("Bake the loaf at 240 degrees [1]. The ferry sails at nine [2].", [True, True]),
        ("The ferry sails at nine [2].", [False, True]),
        ("Bake the loaf at 240 degrees [1]. The ferry sails at noon on 3 May [2].", [True, False]),
        ("Elephants paint ceilings [1].", [False, False]),
    ],
)
def test_a_part_is_answered_by_a_supported_sentence_that_is_about_it(text, answered):
    _, checks, parts = verify(Draft(text=text), "answer", QUESTIONS, HITS)
    assert [part.answered for part in parts] == answered
    assert checks.parts_answered == sum(answered) / 2


@pytest.mark.parametrize(
    ("steps", "valid"),
    [
        ([("Mix.", (1,)), ("Bake.", (1,))], True),
        ([("Mix.", (1,))], False),
        ([("Mix.", (1,)), ("Mix.", (1,))], False),
        ([("Mix.", (1,)), ("Bake.", ())], False),
        ([("Mix.", (1,)), ("Bake\n- slowly", (1,))], False),
    ],
)
def test_what_makes_a_procedure(steps, valid):
    assert procedure_valid([Step(step=text, citations=numbers) for text, numbers in steps]) is valid
