"""What a revision did, sentence by sentence: the two texts aligned."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from pydantic import Field

from turnmark.assistant.steps.marks import MARK
from turnmark.assistant.types import Usage
from turnmark.corpora.kiwi import Coarse
from turnmark.corpora.text import sentences, words
from turnmark.corpora.types import Record
from turnmark.retrieval.types import Hit


class Operation(Record):
    """What happened to one sentence; `before` is "" for an inserted one, `after` for a removed one.

    `replace`: some of its words were changed. `rewrite`: another stands in its place. `move`: it stands elsewhere.
    """

    kind: Literal["remove", "insert", "replace", "move", "rewrite"]
    before: str
    after: str


class Revision(Record):
    """A revised answer and what was done to get it."""

    text: str
    operations: tuple[Operation, ...]
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()
    kind: str = Field(default="Others", description="one of KIWI's fine types, `turnmark.corpora.kiwi.FINE_TYPES`")
    coarse: Coarse = "stylistic"
    unmet: tuple[str, ...] = Field(default=(), description="demands that code can check and that are not met, in words")
    fallback: str = Field(default="", description="why rules revised in a model's place; empty: they did not")
    hits: tuple[Hit, ...] = Field(default=(), description="the passages that the marks `[n]` of `text` count, from 1")


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


def operations(before: str, after: str) -> tuple[Operation, ...]:
    """What was done to the sentences of one text to get the other, in the order of the places.

    Every sentence that only one of the texts has is in exactly one operation; a sentence that both have is in none, or
    in a `move`. White space alone is no difference.
    """
    old = [" ".join(piece.text.split()) for piece in pieces_of(before)]
    new = [" ".join(piece.text.split()) for piece in pieces_of(after)]
    blocks = [
        (old[a:b], new[c:d])
        for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if tag != "equal"
    ]
    gone, come = (
        Counter(text for block, _ in blocks for text in block),
        Counter(t for _, block in blocks for t in block),
    )
    moved = gone & come
    here, there = Counter(moved), Counter(moved)
    found: list[Operation] = []
    for removed, inserted in blocks:
        moves: list[Operation] = []
        left = [text for text in removed if not _taken(here, text)]
        right = []
        for text in inserted:
            if _taken(there, text):
                moves.append(Operation(kind="move", before=text, after=text))
            else:
                right.append(text)
        found += [*_paired(left, right), *moves]
    return tuple(found)


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
        likeness = [Indel.normalized_similarity(words(text), words(other)) for other in inserted[start:]]
        best = max(range(len(likeness)), key=likeness.__getitem__, default=None)
        if best is not None and likeness[best] >= _SAME_SENTENCE:
            pairs[i] = start + best
            start += best + 1
    found: list[Operation] = [Operation(kind="replace", before=removed[i], after=inserted[j]) for i, j in pairs.items()]
    left = [text for i, text in enumerate(removed) if i not in pairs]
    right = [text for j, text in enumerate(inserted) if j not in pairs.values()]
    both = min(len(left), len(right))
    found += [Operation(kind="rewrite", before=a, after=b) for a, b in zip(left, right, strict=False)]
    found += [Operation(kind="remove", before=text, after="") for text in left[both:]]
    return found + [Operation(kind="insert", before="", after=text) for text in right[both:]]
