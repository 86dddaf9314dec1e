"""What verify finds, repairs and leaves."""

from __future__ import annotations

import pytest

from assistant.steps.verify import cited, procedure_valid, repair, verify
from assistant.types import Draft, Step, Understanding
from corpora.types import Passage
from retrieval.types import Hit


def hit(text: str) -> Hit:
    return Hit(passage=Passage(id="d-0-9", document="d", title="T", text=text, start=0, end=len(text)), score=1.0)


HITS = [hit("Bake the loaf at 240 degrees for forty minutes."), hit("The ferry sails at nine on weekdays.")]
ASKED = Understanding(rewrite="How hot?", sub_questions=("How hot?",))
HOW = Understanding(rewrite="How?", sub_questions=("How?",), wants_procedure=True)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("a [1]", [1]),
        ("[1][2]", [1, 2]),
        ("[1, 3]", [1, 3]),
        ("[2-4]", [2, 3, 4]),
        ("[1–2]", [1, 2]),
        ("[x] [] (1)", []),
        ("[4-2]", [4, 2]),
    ],
)
def test_citation_marks(text, numbers):
    assert cited(text) == numbers


def test_marks_that_point_at_nothing_are_taken_out():
    draft, repaired = repair(Draft(text="Bake it [1, 7]. It sails [9]."), 2)
    assert draft.text == "Bake it [1]. It sails."
    assert repaired


def test_a_good_draft_is_left_alone():
    draft = Draft(text="Bake it at 240 degrees [1]. It sails at nine [2].")
    assert repair(draft, 2) == (draft, False)


def test_a_step_given_twice_is_kept_once():
    draft, repaired = repair(Draft(text="", procedure=(Step(step="Bake."), Step(step="bake."))), 1)
    assert [step.step for step in draft.procedure] == ["Bake."]
    assert repaired


def test_grounded_is_the_share_of_sentences_that_rest_on_what_they_cite():
    text = "Bake the loaf at 240 degrees [1]. The ferry sails at nine [2]. Elephants paint ceilings [2]. It is nice."
    _, checks, parts = verify(Draft(text=text), "answer", ASKED, HITS)
    assert checks.grounded == pytest.approx(2 / 4)
    assert not checks.citations_valid
    assert [part.answered for part in parts] == [True]


def test_a_mark_after_the_full_stop_belongs_to_the_sentence_before():
    _, checks, _ = verify(Draft(text="Bake at 240 degrees. [1] The ferry sails at nine. [2]"), "answer", ASKED, HITS)
    assert checks.grounded == 1.0
    assert checks.citations_valid


def test_nothing_supported_answers_no_part():
    _, checks, parts = verify(Draft(text="Elephants paint ceilings [1]."), "answer", ASKED, HITS)
    assert (checks.grounded, checks.parts_answered, parts[0].answered) == (0.0, 0.0, False)


def test_an_unknown_is_not_checked_and_answers_nothing():
    _, checks, parts = verify(Draft(text="I don't know."), "unknown", ASKED, [])
    assert checks.grounded is None
    assert not parts[0].answered


def test_a_wanted_procedure_that_is_missing_is_not_valid():
    _, checks, _ = verify(Draft(text="Bake at 240 degrees [1]."), "answer", HOW, HITS)
    assert checks.procedure_valid is False


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
