"""A revision: what it starts from, and what it did, sentence by sentence, the two texts aligned."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from turnmark.assistant.steps.marks import MARK
from turnmark.assistant.types import Usage
from turnmark.corpora.kiwi import Coarse
from turnmark.corpora.text import sentences, words
from turnmark.corpora.types import Record
from turnmark.retrieval.task_passages import Embed
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


if TYPE_CHECKING:
    from turnmark.assistant.steps.instructions import InstructionType

PASSAGES = 5
"""Passages that an instruction is followed from (KIWI, section 2.2)."""

Search = Callable[[str], Sequence[Hit]]


@dataclass(frozen=True)
class Found:
    """Passages for an instruction; `numbers`: they are cited by these; `all`: what the marks of the revision count."""

    hits: tuple[Hit, ...] = ()
    numbers: tuple[int, ...] = ()
    all: tuple[Hit, ...] = ()


@dataclass(frozen=True)
class Material:
    """One revision to make. The fields are the arguments of `turnmark.assistant.steps.revise.revised`."""

    question: str
    previous: str
    instruction: str
    search: Search
    known_hits: tuple[Hit, ...] = ()
    embed: Embed | None = None
    prompts: Path | None = None
    sort: InstructionType | None = None
    removed: tuple[str, ...] = ()

    def found(self, query: str) -> Found:
        """The first five passages for a query, numbered behind those known; one of these keeps its number."""
        hits = tuple(self.search(query))[:PASSAGES]
        numbered = list(self.known_hits)
        places = {hit.passage.id: n for n, hit in enumerate(numbered, 1)}
        numbers: list[int] = []
        for hit in hits:
            if hit.passage.id not in places:
                numbered.append(hit)
                places[hit.passage.id] = len(numbered)
            numbers.append(places[hit.passage.id])
        return Found(hits, tuple(numbers), tuple(numbered))
