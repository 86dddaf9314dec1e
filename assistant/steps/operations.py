"""An answer as sentences with the white space before them: edits of them by number, and what two answers differ in.

A sentence that no edit names stays as it stands, with the white space before it: what was not asked to change cannot
change. Models asked for a whole new text get this wrong most often (KIWI, table 4).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from pydantic import BaseModel, Field

from turnmark.assistant.steps.marks import MARK
from turnmark.corpora.text import sentences, strip_citations, words
from turnmark.corpora.types import Record

_LEADING_MARKS = re.compile(rf"(?:[ \t]*{MARK.pattern})+")
# Of two sentences at the same place: the share of words in common from which one is the other with words changed.
_SAME_SENTENCE = 0.5


@dataclass(frozen=True)
class Piece:
    """A sentence with the white space before it. The pieces of a text, put together, are the text."""

    gap: str
    text: str


def pieces_of(text: str) -> list[Piece]:
    spans = sentences(text)
    pieces: list[Piece] = []
    at = 0
    for n, (start, end) in enumerate(spans):
        start = max(start, at)
        # "It floats. [1] It sinks.": the mark belongs to the sentence before it.
        follower = spans[n + 1] if n + 1 < len(spans) else None
        if follower and "\n" not in text[end : follower[0]] and (marks := _LEADING_MARKS.match(text, end)):
            end = min(marks.end(), follower[1])
        start += len(text[start:end]) - len(text[start:end].lstrip())
        if start < end:
            pieces.append(Piece(text[at:start], text[start:end]))
            at = end
    return pieces


def joined(pieces: Sequence[Piece]) -> str:
    return "".join(piece.gap + piece.text for piece in pieces).strip()


# --- edits by number ---


Op = Literal["insert", "replace", "delete", "move"]

ITEM = re.compile(r"[-*•][ \t]+|\d{1,3}[.)][ \t]+")
"""The mark with which a list item begins."""
_NUMBER = re.compile(r"(\d{1,3})[.)][ \t]")


def squeezed(text: str) -> str:
    """A text for comparing: without citation marks and list marks, lower case, one space between words."""
    return " ".join(ITEM.sub("", strip_citations(text).lstrip(), count=1).lower().split())


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


# --- what a revision did ---


class Operation(Record):
    """What happened to one sentence; `before` is "" for an inserted one, `after` for a removed one.

    `replace`: some of its words were changed. `rewrite`: another stands in its place. `move`: it stands elsewhere.
    """

    kind: Literal["remove", "insert", "replace", "move", "rewrite"]
    before: str
    after: str


def operations(previous: str, revised: str) -> tuple[Operation, ...]:
    """What was done to the sentences of one text to get the other, in the order of the places.

    Every sentence that only one of the texts has is in exactly one operation; a sentence that both have is in none, or
    in a `move`. White space alone is no difference.
    """
    old_sentences = [" ".join(piece.text.split()) for piece in pieces_of(previous)]
    new_sentences = [" ".join(piece.text.split()) for piece in pieces_of(revised)]
    blocks = [
        (old_sentences[a:b], new_sentences[c:d])
        for tag, a, b, c, d in SequenceMatcher(None, old_sentences, new_sentences, autojunk=False).get_opcodes()
        if tag != "equal"
    ]
    removed_counts, inserted_counts = (
        Counter(text for block, _ in blocks for text in block),
        Counter(t for _, block in blocks for t in block),
    )
    moved = removed_counts & inserted_counts
    sources, targets = Counter(moved), Counter(moved)
    changes: list[Operation] = []
    for removed, inserted in blocks:
        moves: list[Operation] = []
        removed_only = [text for text in removed if not _taken(sources, text)]
        inserted_only = []
        for text in inserted:
            if _taken(targets, text):
                moves.append(Operation(kind="move", before=text, after=text))
            else:
                inserted_only.append(text)
        changes += [*_paired(removed_only, inserted_only), *moves]
    return tuple(changes)


def _taken(counts: Counter[str], text: str) -> bool:
    if counts[text] <= 0:
        return False
    counts[text] -= 1
    return True


def _paired(removed: list[str], inserted: list[str]) -> list[Operation]:
    """The sentences of one place, before and after: like ones first, then those left over in their order."""
    from rapidfuzz.distance import Indel

    pairs: dict[int, int] = {}
    start = 0
    for i, text in enumerate(removed):
        likeness = [Indel.normalized_similarity(words(text), words(candidate)) for candidate in inserted[start:]]
        best = max(range(len(likeness)), key=likeness.__getitem__, default=None)
        if best is not None and likeness[best] >= _SAME_SENTENCE:
            pairs[i] = start + best
            start += best + 1
    changes: list[Operation] = [
        Operation(kind="replace", before=removed[i], after=inserted[j]) for i, j in pairs.items()
    ]
    removed_only = [text for i, text in enumerate(removed) if i not in pairs]
    inserted_only = [text for j, text in enumerate(inserted) if j not in pairs.values()]
    pair_count = min(len(removed_only), len(inserted_only))
    changes += [Operation(kind="rewrite", before=a, after=b) for a, b in zip(removed_only, inserted_only, strict=False)]
    changes += [Operation(kind="remove", before=text, after="") for text in removed_only[pair_count:]]
    return changes + [Operation(kind="insert", before="", after=text) for text in inserted_only[pair_count:]]
