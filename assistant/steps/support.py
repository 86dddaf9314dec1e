"""How far one text is covered by others, in stemmed content words; which sentences are about which part.

A sentence fits a part by the cosine of their embeddings plus `WORDS_WEIGHT` times the share of the part's content words
(stemmed) that it has; without an embedder by that share alone. The values are those that
`turnmark.evaluation.metrics.matching` found for the same question on Compound-QA; docs/verifying.md has what they tell
apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from turnmark.corpora.text import content_words, plain, words
from turnmark.retrieval.bm25 import Analyser, analyser
from turnmark.retrieval.given import Embed


@lru_cache(maxsize=1)
def _stems() -> Analyser:
    return analyser("english")


@lru_cache(maxsize=2048)
def stems(text: str) -> frozenset[str]:
    """The stemmed words of a text, stop words left out. Kept, since a turn asks for those of a passage many times."""
    return frozenset(_stems()(text))


def coverage(text: str, sources: Iterable[str]) -> float:
    """Share of the content words of `text` that occur in the sources, 0..1; 1 for a text without content words."""
    needed = stems(" ".join(content_words(text)))
    if not needed:
        return 1.0
    present: set[str] = set()
    for source in sources:
        present |= stems(source)
    return len(needed & present) / len(needed)


def supported(sentence: str, sources: Sequence[str], threshold: float) -> bool:
    """Whether at least `threshold` of a sentence's content words occur in what it cites."""
    return bool(words(sentence)) and coverage(sentence, sources) >= threshold


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
    questions: list[str] = []
    for part in parts:
        questions.append(part if content_words(part) or not questions else f"{questions[-1]} {part}")
    return questions


def fits(parts: Sequence[str], lines: Sequence[str], embed: Embed | None) -> list[list[float]]:
    """For each part how well each sentence fits it; a part without a topic is read as `leaning` has it."""
    questions = leaning(parts)
    bare = [plain(line) for line in lines]
    shares = [[coverage(part, [line]) if content_words(part) else 0.0 for line in bare] for part in questions]
    if embed is None or not bare:
        return shares
    vectors = embed([*questions, *bare])
    cosines = vectors[: len(questions)] @ vectors[len(questions) :].T
    return [
        [float(cosine) + WORDS_WEIGHT * share for cosine, share in zip(row, share_row, strict=True)]
        for row, share_row in zip(cosines, shares, strict=True)
    ]


def about(
    parts: Sequence[str], lines: Sequence[str], embed: Embed | None, titles: Sequence[str] = ()
) -> list[list[int]]:
    """For each part the sentences (by place) that are about it; a sentence may be about several.

    Args:
        titles: see `about_one`; of several parts, which share their topic as a rule, they could not tell.
    """
    if len(parts) == 1:
        return [about_one(parts[0], lines, embed, titles)]
    table = fits(parts, lines, embed)
    threshold = LEAST_WORDS if embed is None else LEAST_FIT
    places_by_part: list[list[int]] = [[] for _ in parts]
    for at in range(len(lines)):
        best = max(row[at] for row in table)
        for row, places in zip(table, places_by_part, strict=True):
            if row[at] >= max(threshold, best - NEARLY):
                places.append(at)
    return places_by_part


def about_one(part: str, lines: Sequence[str], embed: Embed | None, titles: Sequence[str] = ()) -> list[int]:
    """The sentences (by place), of those that are known to be for one part, that are about it.

    Args:
        titles: for each sentence the title of what it cites, with which it is read, too: "At 240 °C." says what is
            baked where it comes from "How to bake bread". Empty: none is known.
    """
    if embed is None and len(content_words(part)) < 2:
        return list(range(len(lines)))  # "How hot?" shares no word with its answer
    threshold = LEAST_WORDS_APART if embed is None else LEAST_APART
    titled = [
        f"{title}: {line}" if title else line for line, title in zip(lines, titles or [""] * len(lines), strict=True)
    ]
    [row] = fits([part], [*lines, *titled], embed)
    return [at for at in range(len(lines)) if max(row[at], row[at + len(lines)]) >= threshold]
