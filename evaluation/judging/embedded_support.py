"""What the embedded judges measure of a reply: words and meaning shared with passages, question and reference.

Every measure is 0..1 and is told in one line (`MEASURES`). A text is embedded sentence by sentence, once for all of
them, and always by itself, so that no value depends on what else is judged.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnmark.assistant.steps.support import stems
from turnmark.corpora.text import content_words, plain, sentences, strip_citations, words
from turnmark.evaluation.judging.records import Case

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

Embed = Callable[[Sequence[str]], "NDArray[np.float32]"]
"""Texts -> unit vectors, in their order; from any thread."""

MEASURES: Mapping[str, str] = {
    "strange": "share of the reply's content words that neither a passage nor the question has",
    "meant": "how near its sentences come in meaning to one of the passages', weighted by their words",
    "evidence": "how near the passages come to the question: where nothing is about it, nothing can be drawn on",
    "covered": "how near the reply comes to each sentence of the reference, weighted by their words",
    "on_topic": "how near the reply's sentences come to one of the reference's",
}
_KEPT = 512


def parts_of(text: str) -> list[str]:
    """The sentences of a text that have words, as plain text without citation marks."""
    bare = strip_citations(text)
    return [part for start, end in sentences(bare) if words(part := plain(bare[start:end]))]


class Embedded:
    """Sentence vectors of texts, the latest ones kept: a reply is looked at by several measures, passages by many.

    Safe to call from many threads.
    """

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, ...], Vectors] = OrderedDict()

    def __call__(self, parts: Sequence[str]) -> Vectors:
        """Unit vectors of the shape (parts, dimension)."""
        key = tuple(parts)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = self._embed(parts)
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return made

    def nearest(self, parts: Sequence[str], texts: Sequence[str]) -> list[float]:
        """For each part the best cosine with a sentence of one of the texts, 0..1; 0 where they have none."""
        found = [0.0] * len(parts)
        if not parts:
            return found
        own = self(parts)
        for text in texts:
            others = parts_of(text)
            if others:
                best = (own @ self(others).T).max(axis=1)
                found = [min(1.0, max(one, float(other))) for one, other in zip(found, best, strict=True)]
        return found


@dataclass(frozen=True)
class Looked:
    """A case, and how its parts are embedded."""

    case: Case
    embedded: Embedded

    def measures(self, names: Sequence[str]) -> dict[str, float]:
        """Those of `MEASURES` that are named."""
        return {name: _HOW[name](self) for name in names}

    @property
    def passages(self) -> Sequence[str]:
        """The texts of the passages."""
        return self.case.passages or ()


def _strange(looked: Looked) -> float:
    said = stems(" ".join(content_words(strip_citations(looked.case.answer))))
    if not said:
        return 0.0
    known = stems(" ".join(content_words(looked.case.question)))
    for text in looked.passages:
        known |= stems(text)
    return len(said - known) / len(said)


def _meant(looked: Looked) -> float:
    parts = parts_of(looked.case.answer)
    return _weighted(parts, looked.embedded.nearest(parts, looked.passages))


def _evidence(looked: Looked) -> float:
    question = plain(looked.case.question)
    return looked.embedded.nearest([question], looked.passages)[0] if words(question) else 0.0


def _covered(looked: Looked) -> float:
    parts = parts_of(looked.case.reference)
    return _weighted(parts, looked.embedded.nearest(parts, [looked.case.answer]))


def _on_topic(looked: Looked) -> float:
    parts = parts_of(looked.case.answer)
    near = looked.embedded.nearest(parts, [looked.case.reference])
    return sum(near) / len(near) if near else 0.0


_HOW: Mapping[str, Callable[[Looked], float]] = {
    "strange": _strange,
    "meant": _meant,
    "evidence": _evidence,
    "covered": _covered,
    "on_topic": _on_topic,
}


def _weighted(parts: Sequence[str], values: Sequence[float]) -> float:
    """The mean of the parts' values, each weighing as many as it has words; 0 where there are none."""
    sizes = [len(words(part)) for part in parts]
    total = sum(sizes)
    return sum(size * value for size, value in zip(sizes, values, strict=True)) / total if total else 0.0
