"""Which sentences of a reply are about which part of a question, and so which parts a reply answers.

A sentence fits a part by the cosine of their embeddings plus `WORDS_WEIGHT` times the share of the part's content words
(stemmed) that it has; without an embedder by that share alone. The values are those that
`turnmark.evaluation.metrics.matching` found for the same question on Compound-QA; docs/verifying.md has what they tell
apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnmark.assistant.steps.support import coverage
from turnmark.corpora.text import content_words, plain
from turnmark.retrieval.given import Embed

WORDS_WEIGHT = 0.8
LEAST_FIT = 0.6
"""The least fit of a sentence with a part that it is about, where there are others it could be about."""
NEARLY = 0.1
"""A sentence is about every part that it fits so nearly as well as the one it fits best."""
LEAST_APART = 0.45
"""The least fit where the reply says which part the sentence is for, or there is only one."""
LEAST_WORDS, LEAST_WORDS_APART = 0.5, 0.3
"""The same without an embedder: shares of the part's content words."""


def leaning(parts: Sequence[str]) -> list[str]:
    """The parts, each that has no topic of its own ("And why?") put behind the one it leans on."""
    asked: list[str] = []
    for part in parts:
        asked.append(part if content_words(part) or not asked else f"{asked[-1]} {part}")
    return asked


def fits(parts: Sequence[str], lines: Sequence[str], embed: Embed | None) -> list[list[float]]:
    """For each part how well each sentence fits it; a part without a topic is read as `leaning` has it."""
    asked = leaning(parts)
    bare = [plain(line) for line in lines]
    shares = [[coverage(part, [line]) if content_words(part) else 0.0 for line in bare] for part in asked]
    if embed is None or not bare:
        return shares
    vectors = embed([*asked, *bare])
    cosines = vectors[: len(asked)] @ vectors[len(asked) :].T
    return [
        [float(cosine) + WORDS_WEIGHT * share for cosine, share in zip(row, own, strict=True)]
        for row, own in zip(cosines, shares, strict=True)
    ]


def about(
    parts: Sequence[str], lines: Sequence[str], embed: Embed | None, titles: Sequence[str] = ()
) -> list[list[int]]:
    """For each part the sentences (by place) that are about it; a sentence may be about several.

    Args:
        titles: see `apart`; of several parts, which share their topic as a rule, they could not tell which is meant.
    """
    if len(parts) == 1:
        return [apart(parts[0], lines, embed, titles)]
    table = fits(parts, lines, embed)
    least = LEAST_WORDS if embed is None else LEAST_FIT
    given: list[list[int]] = [[] for _ in parts]
    for at in range(len(lines)):
        best = max(row[at] for row in table)
        for row, places in zip(table, given, strict=True):
            if row[at] >= max(least, best - NEARLY):
                places.append(at)
    return given


def apart(part: str, lines: Sequence[str], embed: Embed | None, titles: Sequence[str] = ()) -> list[int]:
    """The sentences (by place), of those that are known to be for one part, that are about it.

    Args:
        titles: for each sentence the title of what it cites, with which it is read, too: "At 240 °C." says what is
            baked where it comes from "How to bake bread". Empty: none is known.
    """
    if embed is None and len(content_words(part)) < 2:
        return list(range(len(lines)))  # "How hot?" shares no word with its answer
    least = LEAST_WORDS_APART if embed is None else LEAST_APART
    titled = [
        f"{title}: {line}" if title else line for line, title in zip(lines, titles or [""] * len(lines), strict=True)
    ]
    [row] = fits([part], [*lines, *titled], embed)
    return [at for at in range(len(lines)) if max(row[at], row[at + len(lines)]) >= least]
