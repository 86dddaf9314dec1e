"""Which sentences answer a question: two linear scores of the same measures, and how many sentences to take.

`Rated.direct` says which sentence answers what is asked (a number where a number is asked for); it leads the answer.
`Rated.scores` says which sentences a long answer is made of: its weights are learned on MTRAG's reference answers by
`python -m tests.benchmarks.answer train`. Every measure but two is a z-score over the sentences at hand, so that
neither the embedder's scale nor the subject matters. docs/measured.md has what each brings.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from turnmark.assistant.steps.answer_type import AnswerType, answer_type, holds
from turnmark.assistant.steps.support import stems
from turnmark.assistant.steps.units import Unit
from turnmark.corpora.text import content_words, words
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Hit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


FEATURES = ("message", "terms", "echo", "window", "place", "question")
"""The measures, in the order of the weights; see `rated`."""
WEIGHTS = Path(__file__).with_name("select_weights.json")
NEIGHBOUR = 0.7
"""What the sentences beside one count in its window."""
MOST_UNITS = 96
"""Sentences that are looked at; of more, those with most of the question's words."""
LEAST, LEAST_TYPED = 0.5, 0.3
"""A sentence joins an answer if it is this near to the question, as a share of the nearest one; the second where no
nearer one holds the kind of answer that is asked for."""
REPEATED = 0.9
"""Cosine from which two sentences say the same."""


DIRECT: Mapping[str, float] = {
    "message": 1.1,
    "terms": 1.0,
    "window": 0.2,
    "question": -10.0,
    "heading": 0.3,
    "type": 2.2,
}
"""Weights of the direct answer; a question is none. Chosen on the tuning half of tests/conversations: without `type` 22
of 51 answers hold their key facts in two sentences, with it 35; the learned weights give 21."""


TRUST = 0.5
"""What a standard deviation of a passage's score in the search counts for its sentences. Over MTRAG's found passages
0, .25, .5, .75, 1 and 2.5 give ROUGE-L .216, .222, .225, .224, .224 and .221, on both domains alike."""


@dataclass(frozen=True)
class Rated:
    """Units and how well each answers.

    Attributes:
        features: of shape (units, measures).
        near: mean cosine with what is asked, the share of its words added; what `LEAST` looks at.
        similarities: cosines between units, of shape (units, units).
        headings: z-scores of the cosine of what is asked with each unit's title and heading.
        holds: how well each unit holds an answer of the type that is asked for, 0..1
            (`turnmark.assistant.steps.answer_type`).
    """

    units: Sequence[Unit]
    features: Floats
    near: Floats
    similarities: Floats
    headings: Floats
    holds: Floats

    def direct(self) -> Floats:
        """For each unit how directly it answers; comparable among these only."""
        columns = {name: self.features[:, at] for at, name in enumerate(FEATURES)}
        columns |= {"heading": self.headings, "type": self.holds}
        scores: Floats = sum((weight * columns[name] for name, weight in DIRECT.items()), 0 * self.headings)
        return scores

    def scores(self, weights: Sequence[float] | None = None) -> Floats:
        """One score a unit; comparable among these only.

        Args:
            weights: of the measures; None: the product's.
        """
        import numpy as np

        scores: Floats = self.features @ np.asarray(learned() if weights is None else weights)
        return scores


@lru_cache(maxsize=1)
def learned() -> tuple[float, ...]:
    """The product's weights."""
    stored = json.loads(WEIGHTS.read_text(encoding="utf-8"))["weights"]
    return tuple(float(stored[name]) for name in FEATURES)


def trust(hits: Sequence[Hit]) -> list[float]:
    """What each passage's place in a search adds to the score of its sentences, 0 where nothing was searched.

    A cosine alone ("dense") says no more than those of the sentences do, and passages that came with the question are
    as good as each other. What no list found (neighbours of a procedure) stands with the last that one did.
    """
    import numpy as np

    searched = [hit.score for hit in hits if set(hit.found) - {"dense"}]
    if len(searched) < 2:
        return [0.0] * len(hits)
    middle, spread, lowest = float(np.mean(searched)), float(np.std(searched)), min(searched)
    if spread < 1e-9:
        return [0.0] * len(hits)
    return [TRUST * ((hit.score if hit.found else lowest) - middle) / spread for hit in hits]


def rated(questions: Sequence[str], pool: Sequence[Unit], embed: Embed | None, titles: Sequence[str] = ()) -> Rated:
    """Measure units for a question, put in one way or several, the message first and its rewrite last.

    The measures: cosine with the message; how much of the words of message and rewrite, rare ones counting more, it
    has; its best cosine with a unit of another passage (what two passages say matters); the cosine of it and its
    neighbours with message and rewrite; its place in its passage, -1 to 1; whether it is a question itself.

    Args:
        embed: asked once for everything (unit vectors); None: vectors of shared words stand in.
        titles: of the passages; the first is that of citation 1. Empty: none is known.
    """
    import numpy as np

    units = _capped(questions, pool)
    above = [f"{titles[unit.citation - 1] if titles else ''} {unit.heading}".strip() for unit in units]
    names = {name: at for at, name in enumerate(dict.fromkeys(above))}
    texts = [f"{unit.heading}: {unit.text}" if unit.heading and unit.item else unit.text for unit in units]
    bags = [stems(text) for text in texts]
    rarity = _rarity(bags)
    question_texts = [questions[0], questions[-1]]
    vectors = (
        np.asarray(embed([*question_texts, *texts, *names]), dtype=np.float64)
        if embed
        else _word_vectors([*(stems(text) for text in question_texts), *bags, *map(stems, names)], rarity)
    )
    unit_vectors, (message, rewrite) = vectors[2 : 2 + len(units)], vectors[:2]
    heading = (vectors[2 + len(units) :] @ (message + rewrite))[[names[name] for name in above]]
    similarities = unit_vectors @ unit_vectors.T
    shares = np.mean([_shares(text, bags, rarity) for text in question_texts], axis=0)
    passages = np.array([unit.citation for unit in units])
    cross_similarities = np.where(passages[:, None] != passages[None, :], similarities, 0.0)
    near = (unit_vectors @ message + unit_vectors @ rewrite) / 2
    columns = (
        _z(unit_vectors @ message),
        _z(shares),
        _z(cross_similarities.max(axis=1)),
        _z(_windows(unit_vectors, passages) @ (message + rewrite)),
        2 * _places(passages) - 1,
        np.array([unit.text.rstrip("\"'”’)*_ ")[-1:] in tuple("?？؟") for unit in units], dtype=np.float64),
    )
    expected = asked_type(questions)
    fits = np.array([holds(expected, unit.text) for unit in units], dtype=np.float64)
    return Rated(units, np.stack(columns, axis=1), near if embed else near + shares, similarities, _z(heading), fits)


def asked_type(questions: Sequence[str]) -> AnswerType:
    """The type of answer that is asked for: the message's, or its rewrite's where the message has none."""
    first = answer_type(questions[0])
    return first if first.kind != "other" else answer_type(questions[-1])


def picked(
    measured: Rated,
    scores: Floats,
    length: int,
    unit_limit: int,
    leans: Callable[[str], bool] = lambda _: False,
    first: Sequence[int] = (),
) -> list[int]:
    """Places of the units to take, in the order of the passages: the best ones, together about `length` words long.

    A unit that would overshoot by more than is missing without it is left out, and so is one that says what a chosen
    one says, or is far from the question beside the nearest.

    Args:
        unit_limit: how many units.
        leans: whether a text needs the one before it, which then comes with it, or neither does.
        first: places that are taken before any other.
    """
    import numpy as np

    sizes = [len(words(unit.text)) for unit in measured.units]
    bound = LEAST * max(float(measured.near.max()), 0.0)
    selected: list[int] = list(first)
    filled = sum(sizes[place] for place in selected)
    for place in np.argsort(-scores, kind="stable").tolist():
        if place in selected or measured.near[place] < bound or (measured.near[place] <= 0 and selected):
            continue
        if any(measured.similarities[place, earlier] > REPEATED for earlier in selected):
            continue
        additions = [place]
        if place - 1 not in selected and _follows(measured.units, place) and leans(measured.units[place].text):
            additions.append(place - 1)
        size = sum(sizes[position] for position in additions)
        if selected and (filled + size - length > length - filled or len(selected) + len(additions) > unit_limit):
            continue
        selected += additions
        filled += size
        if filled >= length or len(selected) >= unit_limit:
            break
    return sorted(selected)


def typed(measured: Rated) -> list[int]:
    """Places of the units that hold the type of answer that is asked for and may be what is meant."""
    bound = LEAST_TYPED * max(float(measured.near.max()), 0.0)
    return [at for at, value in enumerate(measured.holds) if value >= 1 and measured.near[at] >= bound]


def _follows(units: Sequence[Unit], place: int) -> bool:
    """Whether a unit comes right after another of its passage."""
    return place > 0 and units[place - 1].citation == units[place].citation


def _capped(questions: Sequence[str], pool: Sequence[Unit]) -> Sequence[Unit]:
    if len(pool) <= MOST_UNITS:
        return pool
    bags = [stems(unit.text) for unit in pool]
    rarity = _rarity(bags)
    shares = [max(pair) for pair in zip(*(_shares(text, bags, rarity) for text in questions), strict=True)]
    best = sorted(range(len(pool)), key=lambda place: (-shares[place], place))[:MOST_UNITS]
    return [pool[place] for place in sorted(best)]


def _rarity(bags: Sequence[frozenset[str]]) -> dict[str, float]:
    """A weight for each word of the units, the larger the fewer have it."""
    counts = Counter(stem for bag in bags for stem in bag)
    return {stem: math.log(1 + len(bags) / count) for stem, count in counts.items()}


def _shares(text: str, bags: Sequence[frozenset[str]], rarity: dict[str, float]) -> list[float]:
    """How much of a text's words that occur at all each unit has, 0..1."""
    terms = sorted(stems(" ".join(content_words(text))) & rarity.keys())
    total = sum(rarity[stem] for stem in terms) or 1.0
    return [sum(rarity[stem] for stem in terms if stem in bag) / total for bag in bags]


def _word_vectors(bags: Sequence[frozenset[str]], rarity: dict[str, float]) -> Floats:
    """Unit vectors over the words of the units."""
    import numpy as np

    columns = {stem: place for place, stem in enumerate(rarity)}
    vectors = np.zeros((len(bags), max(1, len(columns))))
    for row, bag in enumerate(bags):
        for stem in bag & columns.keys():
            vectors[row, columns[stem]] = rarity[stem]
    return _normal(vectors)


def _windows(vectors: Floats, passages: NDArray[np.int64]) -> Floats:
    """Each unit's vector with those of its neighbours in its passage."""
    windows = vectors.copy()
    weights = (passages[1:] == passages[:-1])[:, None] * NEIGHBOUR
    windows[1:] += weights * vectors[:-1]
    windows[:-1] += weights * vectors[1:]
    return _normal(windows)


def _places(passages: NDArray[np.int64]) -> Floats:
    """Where in its passage each unit stands: 0 is its beginning; the last of n units is at (n - 1) / n."""
    import numpy as np

    positions = np.zeros(len(passages))
    for passage in np.unique(passages):
        rows = np.flatnonzero(passages == passage)
        positions[rows] = np.arange(len(rows)) / len(rows)
    return positions


def _z(values: Sequence[float] | Floats) -> Floats:
    """Z-scores; zeros where all values are (nearly) the same."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    spread = float(array.std())
    return (array - array.mean()) / spread if spread > 1e-9 else np.zeros_like(array)


def _normal(vectors: Floats) -> Floats:
    import numpy as np

    normalised: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return normalised
