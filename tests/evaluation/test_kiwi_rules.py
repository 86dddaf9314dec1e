"""KIWI's rules: the type of an instruction, what a revision did, and what code holds against it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnmark.assistant.citations.marks import spaced_sentences
from turnmark.corpora.benchmarks import kiwi
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.kiwi.rubrics import Operation, analyze_revision, operations, type_of

FERRY, TWO, THREE = "She is a ferry.", "She carries six cars.", "Otters follow her."
ANSWER = f"{FERRY} {TWO}\n\n{THREE}"
FOUR = "The lamp was lit in 1868. It burned rape oil. The horn came later. Both were built by Ellis."
OIL = "Remove the sentence about rape oil."


def demo_turns():
    sessions = [session for session in kiwi.stream_sessions(kiwi.DEMO_ROOT) if not isinstance(session, Problem)]
    return [turn for session in sessions for turn in session.turns]


@pytest.mark.parametrize(("instruction", "revised", "rating", "error", "reason"), [
    # done, and nothing else
    (OIL, "The lamp was lit in 1868. The horn came later. Both were built by Ellis.", "good", "Others", ""),
    ('Add "It stands on a rock." at the end.', f"{FOUR} It stands on a rock.", "good", "Others", ""),
    ("Who paid for it?", f"{FOUR} The crown paid.", "good", "Others", ""),
    ("Remove the second sentence.", "The lamp was lit in 1868. The horn came later. Both were built by Ellis.", "good",
     "Others", ""),
    ("Leave it exactly as it is.", FOUR, "good", "Others", ""),
    # ignored
    (OIL, FOUR, "bad", "Ignored", "nothing that was asked for was done"),
    # what was to be kept is gone
    ("Make it shorter, without losing any figure.", "It burned rape oil. The horn came later.", "neutral",
     "Constraint failure", "figures are gone: 1868"),
    # a change that nobody asked for: one sentence of four, beyond a fifth; three of four
    ("Copy the answer as it stands.", f"Yes. {FOUR}", "neutral", "Unrequested change", "insert 'Yes.'"),
    (OIL, "The lamp was lit in 1868. The horn came much later, in fog and snow and rain. Both were built by Ellis.",
     "neutral", "Unrequested change", "25% of the sentences changed unasked: replace 'The horn came later.'"),
    ("Who paid for it?", "The crown paid for all of the works on this rock.", "bad", "Unrequested change", "100% of"),
])  # fmt: skip
def test_rules_find_the_errors_of_revisions(instruction, revised, rating, error, reason):
    reading = analyze_revision(instruction, FOUR, revised)
    assert (reading.rating, reading.error) == (rating, error), reading
    assert (reason or "no broken constraint") in reading.reason


def test_tolerates_one_changed_sentence_unless_the_rest_must_stay():
    many = " ".join(f"Stone {n} was laid in 18{n}." for n in range(10, 20))
    first = many.replace("Stone 10 was laid in 1810. ", "").replace("laid in 1811", "blessed and painted red in 1811")
    loose = analyze_revision("Remove what is about Stone 10.", many, first)
    strict = analyze_revision("Remove what is about Stone 10. Leave the rest exactly as it is.", many, first)
    assert (loose.rating, strict.rating) == ("good", "neutral")


def test_rules_agree_with_most_ratings_of_the_demo_split():
    """What it misses there are faults of content: a figure that is wrong, a reason that is beside the point."""
    turns = demo_turns()
    wrong = {
        turn.id
        for turn in turns
        if (analyze_revision(turn.instruction, turn.previous, turn.answer).rating == "good") != (turn.rating == "good")
    }
    assert (wrong, len(turns)) == ({"3/1", "5/1", "5/2"}, 23)
    kinds = [type_of(turn.instruction) for turn in turns]
    assert sum(kind.coarse == turn.coarse for kind, turn in zip(kinds, turns, strict=True)) == 23
    assert sum(kind.fine == turn.fine for kind, turn in zip(kinds, turns, strict=True)) >= 21


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([OIL, "Who paid?", "Shorten it."]),
    st.lists(st.sampled_from(["A lamp.", "Oil.", "A horn."]), min_size=1),
)
def test_citation_marks_do_not_count(instruction, parts):
    marked = " ".join(f"{part[:-1]} [{n}]." for n, part in enumerate(parts, 1))
    assert analyze_revision(instruction, FOUR, marked) == analyze_revision(instruction, FOUR, " ".join(parts))


def test_citation_marks_count_where_the_instruction_is_about_them():
    before = "The lamp was lit in 1868 [1]. It burned rape oil [2]."
    instruction = "Remove all citations from the answer."
    assert analyze_revision(instruction, before, before).error == "Ignored"
    assert analyze_revision(instruction, before, "The lamp was lit in 1868. It burned rape oil.").rating == "good"


@pytest.mark.timeout(60)
def test_long_runs_of_blanks_are_read_quickly():
    """Rules tried each of them as a beginning, which took minutes; found by fuzzing."""
    order = f"Add a sentence{' ' * 100_000}at the end,\n\n but leave the rest."
    assert analyze_revision(order, f"One.{' ' * 20_000}Two.", "One. Two. Three.").rating == "good"


@pytest.mark.parametrize(
    ("instruction", "coarse", "fine"),
    [
        ("How well do the best models do on these datasets?", "information-seeking", "More information"),
        ("Keep the text as it is, but extract examples from papers 0 and 1.", "information-seeking", "Expand coverage"),
        ("Do all of the methods you mention require training?", "information-seeking", "Clarification"),
        ("Remove the repeated techniques in the last paragraph.", "stylistic", "Remove"),
        ('At the end, add the sentence "Evaluation is hard."', "stylistic", "Specific edit"),
        ("Please shorten the answer to a maximum of 6 paragraphs.", "stylistic", "Condense"),
        ("Reorganize the answer so that results come first", "stylistic", "Reorganize"),
        ("Don't change anything but copy it as it is.", "stylistic", "Others"),
        ("Make it sing!", "stylistic", "Others"),
    ],
)  # fmt: skip
def test_classifies_instruction_types(instruction, coarse, fine):
    kind = type_of(instruction)
    assert (kind.coarse, kind.fine) == (coarse, fine)


@given(st.text(max_size=80))
def test_any_instruction_has_a_type(instruction):
    assert type_of(instruction).fine in kiwi.FINE_TYPES


TEXTS = st.lists(
    st.sampled_from([FERRY, TWO, THREE, "It rained.", "Snow. [2]", "\n- An item here", "\n\nWhy? [3][4]"]), max_size=6
).map(" ".join)


def test_operations_of_each_kind():
    assert operations(
        f"{ANSWER} It is old.", f"It is old. {FERRY} She carries ten cars.\n\nA lunch is served. Rain."
    ) == (
        Operation(kind="move", before="It is old.", after="It is old."),
        Operation(kind="replace", before=TWO, after="She carries ten cars."),
        Operation(kind="rewrite", before=THREE, after="A lunch is served."),
        Operation(kind="insert", before="", after="Rain."),
    )
    assert operations(ANSWER, " ".join(ANSWER.split())) == ()


def said(text):
    return [" ".join(piece.text.split()) for piece in spaced_sentences(text)]


@given(st.one_of(TEXTS, st.text(max_size=80)), st.one_of(TEXTS, st.text(max_size=80)))
@settings(max_examples=150)
def test_operations_account_for_every_changed_sentence(before, after):
    changes = operations(before, after)
    gone = Counter(op.before for op in changes if op.kind in ("remove", "replace", "rewrite"))
    come = Counter(op.after for op in changes if op.kind in ("insert", "replace", "rewrite"))
    moved = Counter(op.before for op in changes if op.kind == "move")
    old, new = Counter(said(before)), Counter(said(after))
    assert gone <= old
    assert moved <= old & new
    assert old - gone + come == new
    # What is in no operation stands in both texts, in one order.
    assert len(said(before)) - gone.total() - moved.total() == len(said(after)) - come.total() - moved.total()
    assert (not changes) == (said(before) == said(after))
