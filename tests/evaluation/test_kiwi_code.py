"""KIWI's embedded judge: constraints and unrequested change, by code."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnmark.corpora import kiwi
from turnmark.corpora.types import Problem
from turnmark.evaluation.judging.kiwi import MUCH, TOLERATED, copies, read_revision

FOUR = "The lamp was lit in 1868. It burned rape oil. The horn came later. Both were built by Ellis."
OIL = "Remove the sentence about rape oil."


@pytest.mark.parametrize(("instruction", "revised", "rating", "reason"), [
    # done, and nothing else
    (OIL, "The lamp was lit in 1868. The horn came later. Both were built by Ellis.", "good", "no broken constraint"),
    ("Shorten it to 12 words.", "The lamp was lit in 1868. The horn came later.", "good", "no broken"),
    ('Add "It stands on a rock." at the end.', f"{FOUR} It stands on a rock.", "good", "no broken"),
    ("Turn it into a list.", "- The lamp was lit in 1868.\n- It burned rape oil.\n- The horn came later.\n"
     "- Both were built by Ellis.", "good", "no broken"),
    ("Who paid for it?", f"{FOUR} The crown paid.", "good", "no broken"),
    ("Leave it exactly as it is.", FOUR, "good", "no broken"),
    # ignored
    (OIL, FOUR, "bad", "nothing was done"),
    ("Who paid for it?", FOUR, "bad", "nothing was done"),
    # a broken constraint: length, place, verbatim text, removal, order and layout
    ("Shorten it to 5 words.", "The lamp was lit in 1868.", "neutral", "words: 6"),
    ('Add "It stands on a rock." at the end.', f"It stands on a rock. {FOUR}", "neutral", "it does not say at the end"),
    ('Add "It stands on a rock." at the end.', f"{FOUR} It stands there.", "bad", "word for word"),
    (OIL, f"{FOUR} It also burned rape oil in winter.", "bad", "still speaks of"),
    ("Turn it into a list.", f"In short: {FOUR}", "neutral", "list items: 0"),
    ("Reorganize it, the horn first.", "The horn came later.", "neutral", "is left"),
    ("Make it shorter, without losing any figure.", "It burned rape oil. The horn came later.", "neutral",
     "figures are gone: 1868"),
    # a change that nobody asked for: one sentence of four, beyond a fifth; three of four
    (OIL, "The lamp was lit in 1868. The horn came much later, in fog and snow and rain. Both were built by Ellis.",
     "neutral", "25% of the sentences changed unasked: replace 'The horn came later.'"),
    ("Who paid for it?", "The crown paid for all of the works on this rock.", "bad", "100% of the sentences"),
    ("Leave it exactly as it is.", f"Yes. {FOUR}", "neutral", "insert 'Yes.'"),
])  # fmt: skip
def test_what_code_finds(instruction, revised, rating, reason):
    revision = read_revision(instruction, FOUR, revised)
    assert (revision.rating, reason in revision.reason) == (rating, True), revision


def test_one_sentence_of_many_is_let_pass_unless_the_rest_shall_stay():
    many = " ".join(f"Stone {n} was laid in 18{n}." for n in range(10, 20))
    lax = read_revision("Turn it into short notes.", many, many.replace("laid in 1811", "set in 1811"))
    assert (lax.rating, lax.changes) == ("good", ())
    first = many.replace("Stone 10 was laid in 1810. ", "").replace("laid in 1811", "blessed and painted red in 1811")
    loose = read_revision("Remove the first sentence.", many, first)
    strict = read_revision("Remove the first sentence. Leave the rest exactly as it is.", many, first)
    assert (loose.unrequested, strict.unrequested) == (0.1, 0.1)
    assert 0.1 < TOLERATED < MUCH
    assert (loose.rating, strict.rating) == ("good", "neutral")
    assert (loose.error, strict.error) == ("Others", "Unrequested change")


def test_which_error_it_is():
    assert read_revision(OIL, FOUR, FOUR).error == "Ignored"
    assert read_revision("Shorten it to 5 words.", FOUR, "The lamp was lit in 1868.").error == "Constraint failure"


@pytest.mark.parametrize(("instruction", "copied"), [
    ("Copy the answer as it stands.", True), ("Don't change anything further about this answer.", True),
    ("Keep the answer as it is and put \"A b c.\" at the end.", False), ("Remove the second sentence.", False),
    ("Leave out the otters. Leave the rest as it is.", False),
])  # fmt: skip
def test_what_asks_for_a_copy(instruction, copied):
    assert copies(instruction) == copied


def test_the_demo_split_is_read_as_its_users_did_where_code_can_tell():
    """What it misses there are faults of content: a figure that is wrong, a reason that is beside the point."""
    sessions = [entry for entry in kiwi.stream_sessions(kiwi.DEMO_ROOT) if not isinstance(entry, Problem)]
    wrong = {
        entry.id
        for session in sessions
        for entry in session.turns
        if (read_revision(entry.instruction, entry.previous, entry.answer).rating == "good") != (entry.rating == "good")
    }
    assert wrong == {"3/1", "5/1", "5/2"}


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([OIL, "Who paid?", "Shorten it."]),
    st.lists(st.sampled_from(["A lamp.", "Oil.", "A horn."]), min_size=1),
)
def test_citation_marks_do_not_count(instruction, parts):
    marked = " ".join(f"{part[:-1]} [{n}]." for n, part in enumerate(parts, 1))
    assert read_revision(instruction, FOUR, marked) == read_revision(instruction, FOUR, " ".join(parts))


def test_citation_marks_count_where_the_instruction_is_about_them():
    before = "The lamp was lit in 1868 [1]. It burned rape oil [2]."
    instruction = "Remove all citations from the answer."
    assert read_revision(instruction, before, before).ignored
    assert read_revision(instruction, before, "The lamp was lit in 1868. It burned rape oil.").rating == "good"


def test_a_few_other_words_are_no_shorter_version():
    before = "The lamp was lit in 1868. It burned rape oil. The crown paid for the tower."
    assert read_revision("Shorten it to 5 words at most.", before, "asdf qwer zxcv").rating != "good"
    assert read_revision("Shorten it to 5 words at most.", before, "The lamp burned oil.").rating == "good"


def test_thousands_of_blanks_are_read_at_once():
    """Rules tried each of them as a beginning, which took minutes; found by fuzzing."""
    order = f"Add a sentence{' ' * 100_000}at the end,\n\n but leave the rest."
    assert read_revision(order, f"One.{' ' * 20_000}Two.", "One. Two. Three.").unmet == ()
