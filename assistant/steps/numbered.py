"""Edits that name the sentences of an answer by number, and what they make of it.

A sentence that no edit names stays as it stands, with the white space before it: what was not asked to change cannot
change. Models asked for a whole new text get this wrong most often (KIWI, table 4).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from turnmark.assistant.steps.operations import Piece

Op = Literal["insert", "replace", "delete", "move"]

ITEM = re.compile(r"[-*•][ \t]+|\d{1,3}[.)][ \t]+")
"""The mark with which a list item begins."""
_NUMBER = re.compile(r"(\d{1,3})[.)][ \t]")


class Edit(BaseModel):
    """One edit of numbered sentences, as a model is asked for it."""

    op: Op
    sentence: int = Field(default=0, description="replace, delete, move: the sentence. insert: 0")
    after: int = Field(
        default=0, description="insert, move: the sentence after which it shall stand, 0 for the beginning"
    )
    text: str = Field(default="", description="insert, replace: the new text. delete, move: empty")


class EditsReply(BaseModel):
    """What a model is asked for: edits or, where every sentence is touched, the whole text."""

    operations: list[Edit]
    whole: str = Field(default="", description="the whole new text, where edits do not do; else empty")


def shown(pieces: Sequence[Piece]) -> str:
    """The answer as a prompt shows it: a sentence a line behind `S1|`, paragraphs a blank line apart."""
    lines = []
    for n, piece in enumerate(pieces, 1):
        gap = "\n" if n > 1 and piece.gap.count("\n") > 1 else ""
        lines.append(f"{gap}S{n}| {' '.join(piece.text.split())}")
    return "\n".join(lines)


def problems(edits: Sequence[Edit], count: int) -> tuple[list[str], list[Edit]]:
    """What is wrong with edits of an answer of `count` sentences, in words; and the edits that can be made.

    Of two edits that contradict each other the first can be made: a sentence is replaced, deleted or moved once, except
    that one may be moved and replaced. A move goes behind a sentence that stays where it is.
    """
    faults: list[str] = []
    valid: list[Edit] = []
    moved = {edit.sentence for edit in edits if edit.op == "move"}
    for at, edit in enumerate(edits, 1):
        fault = _wrong(edit, count, moved) or _contradiction(edit, valid)
        if fault:
            faults.append(f"operation {at} ({edit.op}): {fault}")
        else:
            valid.append(edit)
    return faults, valid


def _wrong(edit: Edit, count: int, moved: set[int]) -> str:
    if edit.op != "insert" and not 1 <= edit.sentence <= count:
        return f"there is no sentence {edit.sentence}; they go from 1 to {count}"
    if edit.op in ("insert", "move") and not 0 <= edit.after <= count:
        return f"there is no sentence {edit.after} to stand after; they go from 1 to {count}, and 0 is the beginning"
    if edit.op in ("insert", "replace") and not any(map(str.isalnum, edit.text)):
        return "it has no text"
    if edit.op == "move" and edit.after == edit.sentence:
        return "a sentence cannot stand after itself"
    if edit.op == "move" and edit.after in moved:
        return f"sentence {edit.after} is moved itself; name one that stays"
    return ""


def _contradiction(edit: Edit, earlier: Sequence[Edit]) -> str:
    if edit.op == "insert":
        return ""
    operations = {
        edit.op,
        *(
            previous_edit.op
            for previous_edit in earlier
            if previous_edit.op != "insert" and previous_edit.sentence == edit.sentence
        ),
    }
    twice = any(previous_edit.op == edit.op and previous_edit.sentence == edit.sentence for previous_edit in earlier)
    if twice or (len(operations) > 1 and "delete" in operations):
        return f"sentence {edit.sentence} has another operation already that this one contradicts"
    return ""


def applied(pieces: Sequence[Piece], edits: Sequence[Edit]) -> list[Piece]:
    """The sentences after edits that `problems` lets pass. Numbers are those before any edit.

    What is inserted after a sentence stands where that sentence stood, whatever became of it.
    """
    replaced = {edit.sentence - 1: edit.text for edit in edits if edit.op == "replace"}
    edited = [
        Piece(piece.gap, _fitted(replaced[i], piece)) if i in replaced else piece for i, piece in enumerate(pieces)
    ]
    removed = {edit.sentence - 1 for edit in edits if edit.op in ("delete", "move")}
    slots: list[list[Piece]] = [[] for _ in range(len(pieces) + 1)]
    for edit in edits:
        if edit.op == "move":
            slots[edit.after].append(Piece(" ", edited[edit.sentence - 1].text))
        elif edit.op == "insert":
            body = edit.text.strip()
            breaks = edit.text[: len(edit.text) - len(edit.text.lstrip())].count("\n")
            slots[edit.after].append(Piece("\n\n" if breaks > 1 else "\n" if breaks else " ", body))
    result: list[Piece] = []
    owed = ""
    for i in range(len(pieces) + 1):
        result += [_beside(piece, i, pieces) for piece in slots[i]]
        if i in removed:
            owed = wider(pieces[i].gap, owed)
        elif i < len(pieces):
            gap = wider(edited[i].gap, owed)
            if slots[i] and not gap:
                gap = "\n" if ITEM.match(edited[i].text) else " "
            result.append(Piece(gap, edited[i].text))
            owed = ""
    return renumbered(result, pieces)


def without(pieces: Sequence[Piece], places: Sequence[int]) -> list[Piece]:
    """The sentences but these (0-based). The break before a paragraph stays when its first sentence goes."""
    return applied(pieces, [Edit(op="delete", sentence=i + 1) for i in sorted(set(places))])


def put(pieces: Sequence[Piece], insertions: Sequence[Piece], at: int) -> list[Piece]:
    """The sentences with new ones before the one at `at` (0-based) or behind the last; list items beside list items."""
    return applied(
        pieces, [Edit(op="insert", after=at, text=piece.gap.lstrip(" ") + piece.text) for piece in insertions]
    )


def _beside(piece: Piece, at: int, pieces: Sequence[Piece]) -> Piece:
    """A new sentence before the one at `at`; an item of its own where its neighbour is one, and is at its end."""
    neighbour = pieces[max(at - 1, 0)].text if pieces else ""
    if ITEM.match(piece.text):
        return Piece(wider(piece.gap, "\n"), piece.text)
    mark = ITEM.match(neighbour)
    inside = 0 < at < len(pieces) and "\n" not in pieces[at].gap
    return piece if mark is None or inside else Piece("\n", mark.group() + piece.text)


def wider(gap: str, second: str) -> str:
    """The one of two gaps that breaks more lines; the first where both break as many."""
    return second if second.count("\n") > gap.count("\n") else gap


def _fitted(text: str, original: Piece) -> str:
    """A replacement for a list item is one too."""
    body = text.strip()
    mark = ITEM.match(original.text)
    return body if mark is None or ITEM.match(body) else mark.group() + body


def renumbered(pieces: Sequence[Piece], earlier: Sequence[Piece]) -> list[Piece]:
    """The sentences with the items of a numbered list counted anew, where they were counted 1, 2, 3 … before."""
    numbers = [int(mark[1]) for piece in earlier if (mark := _NUMBER.match(piece.text))]
    if numbers != list(range(1, len(numbers) + 1)):
        return list(pieces)
    result: list[Piece] = []
    n = 0
    for piece in pieces:
        mark = _NUMBER.match(piece.text)
        n += mark is not None
        result.append(Piece(piece.gap, f"{n}{piece.text[mark.end(1) :]}") if mark and numbers else piece)
    return result
