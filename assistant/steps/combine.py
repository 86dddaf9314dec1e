"""A model's answer beside the sentences of the documents: what of these is worth a place, and which of the two stands.

Either form alone is right less often than one or the other is. So a reply gives the model's short answer, and after it the
sentence of the documents that it rests on or that says more; the reader can check one by the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from assistant.steps.claims import Sources, claims_of
from assistant.steps.figures import missing_numbers
from assistant.steps.support import coverage
from assistant.types import Draft
from corpora.text import strip_citations, words

_AFTER_MARK = re.compile(r"(?<=\])\s+(?!\[)")
SAID = 0.7
"""A sentence of which so many content words stand in the model's answer says nothing new."""
LENGTH, SENTENCES = 60, 2
"""Words and sentences that are added at most; the first sentence may be longer."""


def supported(draft: Draft, sources: Sources) -> bool:
    """Whether any claim of a model's draft is supported by the passages it cites, or by any where it cites none."""
    every = list(range(1, len(sources.texts) + 1))
    return any(
        sources.support(claim.text, claim.numbers) or any(sources.support(claim.text, [n]) for n in every)
        for claim in claims_of(draft)
    )


def beside(answer: str, extract: str) -> str:
    """The sentences of an extract that a model's answer lacks, marks included; "" where it says them all."""
    chosen: list[str] = []
    length = 0
    for sentence in _AFTER_MARK.split(extract):
        bare = strip_citations(sentence)
        size = len(words(bare))
        if not size or says(" ".join((answer, *chosen)), bare):
            continue
        if len(chosen) >= SENTENCES or (chosen and length + size > LENGTH):
            break
        chosen.append(sentence)
        length += size
    return " ".join(chosen)


def says(answer: str, sentence: str) -> bool:
    """Whether an answer says what a sentence does: its words and all its numbers."""
    return coverage(sentence, [answer]) >= SAID and not missing_numbers(sentence, [answer])


_LEADING = re.compile(r"^\W*(?:yes|no)\b[\s,.:;–-]*", re.IGNORECASE)


def without_verdict(text: str) -> str:
    """A sentence without a "Yes" or "No" that it opens with."""
    rest = _LEADING.sub("", text)
    return rest[:1].upper() + rest[1:] if rest else text


def same(first: str, second: str) -> bool:
    """Whether two replies are the same but for marks and layout."""
    return words(strip_citations(first)) == words(strip_citations(second))
