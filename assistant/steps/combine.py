"""A model's answer beside the sentences of the documents: what of these is worth a place, and which of the two stands.

Either form alone is right less often than one or the other is. So a reply gives the model's short answer, and after it
the sentence of the documents that says more; the reader can check one by the other.
"""

from __future__ import annotations

import re

from turnmark.assistant.steps.answer_type import answer_type, holds
from turnmark.assistant.steps.claims import Sources, claims_of
from turnmark.assistant.steps.figures import missing_numbers
from turnmark.assistant.steps.parts import fits
from turnmark.assistant.steps.select import Embed
from turnmark.assistant.steps.support import coverage
from turnmark.assistant.types import Draft
from turnmark.corpora.text import strip_citations, words

_AFTER_MARK = re.compile(r"(?<=\])\s+(?!\[)")
SAID = 0.7
"""A sentence of which so many content words stand in the model's answer says nothing new."""
LEAST_FIT, TYPE_WEIGHT = 0.2, 0.2
"""The cosine with the question from which a sentence is added, and what holding the kind of answer counts beside it."""
LENGTH, SENTENCES = 60, 2
"""Words and sentences that are added at most; the first sentence may be longer."""


def supported(draft: Draft, sources: Sources) -> bool:
    """Whether any claim of a model's draft is supported by the passages it cites, or by any where it cites none."""
    every = list(range(1, len(sources.texts) + 1))
    return any(
        sources.support(claim.text, claim.numbers) or any(sources.support(claim.text, [n]) for n in every)
        for claim in claims_of(draft)
    )


def beside(question: str, answer: str, extract: str, embed: Embed | None) -> str:
    """The sentences of an extract, marks included, that tell a reader more than a model's answer; "" where none does.

    They are about the question, the nearest first in the choice; one that holds the kind of answer that is asked for (a
    number, a person) comes before one that does not.
    """
    pieces = [(piece, strip_citations(piece)) for piece in _AFTER_MARK.split(extract)]
    new = [(piece, bare) for piece, bare in pieces if words(bare) and not says(answer, bare)]
    if not new:
        return ""
    [row] = fits([question], [bare for _, bare in new], embed)
    expected = answer_type(question)
    scores = [fit + TYPE_WEIGHT * holds(expected, bare) for fit, (_, bare) in zip(row, new, strict=True)]
    chosen: list[int] = []
    length = 0
    for at in sorted(range(len(new)), key=lambda at: -scores[at]):
        size = len(words(new[at][1]))
        if scores[at] < LEAST_FIT or len(chosen) >= SENTENCES:
            break
        if not chosen or length + size <= LENGTH:
            chosen.append(at)
            length += size
    return " ".join(new[at][0] for at in sorted(chosen))


def contradicted(question: str, answer: str, extract: str, embed: Embed | None) -> bool:
    """Whether an answer says yes where the sentence of an extract that is nearest to the question says no.

    Small models say yes to nearly everything.
    """
    bare = [strip_citations(piece) for piece in _AFTER_MARK.split(extract)]
    if not _YES.match(answer) or _NOT.search(answer) or not bare:
        return False
    [row] = fits([question], bare, embed)
    return bool(_NOT.search(bare[row.index(max(row))]))


def says(answer: str, sentence: str) -> bool:
    """Whether an answer says what a sentence does: its words and all its numbers."""
    return coverage(sentence, [answer]) >= SAID and not missing_numbers(sentence, [answer])


_YES = re.compile(r"\W*yes\b", re.IGNORECASE)
_NOT = re.compile(r"\b(?:no|not|never|cannot|without|nor|neither)\b|n['’]t\b", re.IGNORECASE)


def same(first: str, second: str) -> bool:
    """Whether two replies are the same but for marks and layout."""
    return words(strip_citations(first)) == words(strip_citations(second))


def begins_with(text: str, opening: str) -> bool:
    """Whether a text opens with the words of another, marks aside."""
    first = words(strip_citations(opening))
    return bool(first) and words(strip_citations(text))[: len(first)] == first
