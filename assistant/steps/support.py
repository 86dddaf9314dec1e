"""How far one text is covered by others, in stemmed content words: used to decide and to verify."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from turnmark.corpora.text import content_words, words
from turnmark.retrieval.bm25 import Analyser, analyser


@lru_cache(maxsize=1)
def _stems() -> Analyser:
    return analyser("english")


@lru_cache(maxsize=2048)
def stems(text: str) -> frozenset[str]:
    """The stemmed words of a text, stop words left out. Kept, since a turn asks for those of a passage many times."""
    return frozenset(_stems()(text))


def coverage(text: str, sources: Iterable[str]) -> float:
    """Share of the content words of `text` that occur in the sources, 0..1; 1 for a text without content words."""
    wanted = stems(" ".join(content_words(text)))
    if not wanted:
        return 1.0
    there: set[str] = set()
    for source in sources:
        there |= stems(source)
    return len(wanted & there) / len(wanted)


def supported(sentence: str, sources: Sequence[str], least: float) -> bool:
    """Whether at least `least` of a sentence's content words occur in what it cites."""
    return bool(words(sentence)) and coverage(sentence, sources) >= least
