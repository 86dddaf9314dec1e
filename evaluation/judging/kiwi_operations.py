"""What a revision did: the sentences in which two answers differ (KIWI, table 6 and the labels of section 4)."""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from typing import Literal

from turnmark.assistant.steps.marks import ITEM, pieces_of
from turnmark.corpora.text import strip_citations, words
from turnmark.corpora.types import Record

_SAME_SENTENCE = 0.5
"""The share of words in common from which one of two sentences is the other with words changed."""


def squeezed(text: str) -> str:
    """A text for comparing: without citation marks and list marks, lower case, one space between words."""
    return " ".join(ITEM.sub("", strip_citations(text).lstrip(), count=1).lower().split())


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
