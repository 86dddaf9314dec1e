"""What a revision did, sentence by sentence, and edits by number: they touch what they name and nothing else."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from turnmark.assistant.steps.operations import (
    Edit,
    Operation,
    applied,
    joined,
    operations,
    pieces_of,
    problems,
    shown,
)

from tests.assistant.notes import ANSWER, FIRST, FOURTH, SECOND, THIRD


def edited(*edits: Edit, answer: str = ANSWER) -> str:
    pieces = pieces_of(answer)
    wrong, good = problems(edits, len(pieces))
    assert wrong == []
    return joined(applied(pieces, good))


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        ([Edit(op="delete", sentence=2)], f"{FIRST}\n\n{THIRD} {FOURTH}"),
        ([Edit(op="replace", sentence=4, text="No otters.")], f"{FIRST} {SECOND}\n\n{THIRD} No otters."),
        ([Edit(op="insert", after=0, text="It is old.")], f"It is old. {ANSWER}"),
        ([Edit(op="insert", after=2, text="It is old.")], f"{FIRST} {SECOND} It is old.\n\n{THIRD} {FOURTH}"),
        ([Edit(op="insert", after=4, text="\n\nIt is old.")], f"{ANSWER}\n\nIt is old."),
        ([Edit(op="move", sentence=4, after=0)], f"{FOURTH} {FIRST} {SECOND}\n\n{THIRD}"),
        ([Edit(op="move", sentence=1, after=4)], f"{SECOND}\n\n{THIRD} {FOURTH} {FIRST}"),
        ([Edit(op="move", sentence=1, after=2), Edit(op="replace", sentence=1, text="Small.")],
         f"{SECOND} Small.\n\n{THIRD} {FOURTH}"),
        ([Edit(op="insert", after=1, text="One."), Edit(op="insert", after=1, text="Two.")],
         f"{FIRST} One. Two. {SECOND}\n\n{THIRD} {FOURTH}"),
        ([Edit(op="delete", sentence=2), Edit(op="insert", after=2, text="New.")], f"{FIRST} New.\n\n{THIRD} {FOURTH}"),
        ([], ANSWER),
    ],
)  # fmt: skip
def test_an_edit_touches_what_it_names(edits, text):
    assert edited(*edits) == text


LIST = "There are three:\n1. Bread.\n2. Cake. It is sweet.\n3. Pie."


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (Edit(op="delete", sentence=2), "There are three:\n1. Cake. It is sweet.\n2. Pie."),
        (Edit(op="insert", after=3, text="It is soft."), LIST.replace("It is sweet", "It is soft. It is sweet")),
        (Edit(op="replace", sentence=5, text="Tart."), LIST.replace("Pie", "Tart")),
        (Edit(op="move", sentence=5, after=1), "There are three:\n1. Pie.\n2. Bread.\n3. Cake. It is sweet."),
    ],
)
def test_a_list_stays_a_list(edit, text):
    assert [piece.text for piece in pieces_of(LIST)][1:4] == ["1. Bread.", "2. Cake.", "It is sweet."]
    assert edited(edit, answer=LIST) == text


@pytest.mark.parametrize(
    ("edits", "fault", "valid_count"),
    [
        ([Edit(op="delete", sentence=5)], "no sentence 5; they go from 1 to 4", 0),
        ([Edit(op="insert", after=-1, text="x")], "no sentence -1", 0),
        ([Edit(op="insert", after=1, text=" \n")], "no text", 0),
        ([Edit(op="move", sentence=2, after=2)], "after itself", 0),
        ([Edit(op="move", sentence=2, after=3), Edit(op="move", sentence=3, after=1)], "moved itself", 1),
        ([Edit(op="delete", sentence=2), Edit(op="replace", sentence=2, text="x")], "contradicts", 1),
        ([Edit(op="move", sentence=2, after=4), Edit(op="delete", sentence=2)], "contradicts", 1),
    ],
)
def test_what_cannot_be_done_is_told_and_the_rest_is_left(edits, fault, valid_count):
    wrong, good = problems(edits, 4)
    assert len(wrong) == len(edits) - valid_count == 1 or len(wrong) == 1
    assert fault in wrong[0]
    assert len(good) == valid_count


def test_the_answer_as_a_prompt_shows_it():
    assert shown(pieces_of(ANSWER)) == f"S1| {FIRST}\nS2| {SECOND}\n\nS3| {THIRD}\nS4| {FOURTH}"


EDITS = st.lists(
    st.builds(
        Edit,
        op=st.sampled_from(["insert", "replace", "delete", "move"]),
        sentence=st.integers(-1, 6),
        after=st.integers(-1, 6),
        text=st.sampled_from(["New one.", "\n\nAnother.", "- An item", "", "新。"]),
    ),
    max_size=6,
)
TEXTS = st.lists(
    st.sampled_from([FIRST, SECOND, THIRD, FOURTH, "It rained.", "Snow. [2]", "\n- An item here", "\n\nWhy? [3][4]"]),
    max_size=6,
    unique=True,
).map(" ".join)


@given(TEXTS, EDITS)
@settings(max_examples=150, deadline=None)
def test_a_sentence_that_no_edit_names_stays_as_it_is(text, edits):
    pieces = pieces_of(text)
    wrong, good = problems(edits, len(pieces))
    assert len(wrong) + len(good) == len(edits)
    texts = [piece.text for piece in applied(pieces, good)]
    named = {edit.sentence - 1 for edit in good if edit.op != "insert"}
    untouched = [piece.text for i, piece in enumerate(pieces) if i not in named]
    assert [text for text in texts if text in untouched] == untouched  # verbatim, and in their order
    moved = sum(edit.op == "move" for edit in good)
    assert len(texts) == len(untouched) + sum(edit.op in ("insert", "replace", "move") for edit in good) - sum(
        edit.op == "replace" and any(move.op == "move" and move.sentence == edit.sentence for move in good)
        for edit in good
    )
    assert moved <= len(texts)


def test_operations_of_each_kind():
    after = f"{FOURTH} {FIRST} She crosses in 45 minutes at eleven knots [1].\n\nA lunch is served. It rained."
    assert operations(ANSWER, after) == (
        Operation(kind="move", before=FOURTH, after=FOURTH),
        Operation(kind="replace", before=SECOND, after=SECOND.replace("50", "45")),
        Operation(kind="rewrite", before=THIRD, after="A lunch is served."),
        Operation(kind="insert", before="", after="It rained."),
    )
    assert operations(ANSWER, " ".join(ANSWER.split())) == ()


def said(text):
    return [" ".join(piece.text.split()) for piece in pieces_of(text)]


@given(st.one_of(TEXTS, st.text(max_size=80)), st.one_of(TEXTS, st.text(max_size=80)))
@settings(max_examples=300, deadline=None)
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


@given(st.text(max_size=200))
def test_pieces_put_together_are_the_text(text):
    pieces = pieces_of(text)
    assert "".join(piece.gap + piece.text for piece in pieces).strip() == text.strip()
