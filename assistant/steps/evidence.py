"""How well evidence covers a question, without a language model: a few signals, and one calibrated confidence.

The signals count the same: weights fitted to so few unanswerable questions do no better on others, however data are
held out. docs/measured.md has what each signal brings, and which were tried and left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import combinations
from math import exp, sqrt
from statistics import fmean

from pydantic import Field

from turnmark.assistant.steps.support import coverage, stems
from turnmark.assistant.steps.units import Unit, units_of
from turnmark.corpora.types import Record
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Hit

LOOKED_AT = 3
"""Hits that are looked at: what a turn of a chat shows. Five tell no more."""
BEST_SENTENCES = 3
MOST = 1.0
"""Deviations above the mean beyond which a signal counts no more: the passages of a small index are all alike."""
AHEAD = 2.0
"""Deviations that a signal may be ahead of the principal one: where hits are about something else, it says nothing that
they agree."""

COSINE, SENTENCES, AGREEMENT, WORDS = "cosine", "sentences", "agreement", "words"
PRINCIPAL = (COSINE, WORDS)
"""The signals of which a form has one, and that say alone what evidence is about."""


class Scale(Record):
    """A signal on questions that the documents answer or nearly answer."""

    mean: float
    deviation: float = Field(gt=0)


class Form(Record):
    """How the signals that can be had become a confidence: 1 / (1 + exp(-(intercept + slope * mean of their z)))."""

    scales: Mapping[str, Scale]
    slope: float
    intercept: float = Field(description="at the prior")
    least: float = Field(description="the confidence from which a question is answered")


class Calibration(Record):
    """What `tests/benchmarks/decide.py --write` found."""

    prior: float = Field(description="the share of unanswerable questions at which a confidence is a probability")
    forms: tuple[Form, ...]

    def form(self, signals: Mapping[str, float]) -> Form:
        """The form with the most signals of those there are; the first where none has any."""
        fitting = [form for form in self.forms if form.scales.keys() <= signals.keys()]
        partly = [form for form in self.forms if form.scales.keys() & signals.keys() & set(PRINCIPAL)]
        return max(fitting or partly or self.forms, key=lambda form: len(form.scales.keys() & signals.keys()))


@lru_cache(maxsize=1)
def calibration() -> Calibration:
    """The calibration that ships with Turnmark."""
    raw = files("turnmark.assistant.steps").joinpath("decide.json").read_bytes()
    return Calibration.model_validate_json(raw)


def signals_of(questions: Sequence[str], hits: Sequence[Hit], embed: Embed | None) -> dict[str, float]:
    """What the first hits say of a question; a signal that cannot be had is left out. None grows with the index.

    - `cosine`: of the first hit, with the message or its rewrite, whichever is nearer.
    - `sentences`: the mean of the three best cosines of a sentence of the hits with the message or its rewrite.
    - `agreement`: how many stemmed words two hits share, divided by the geometric mean of how many each has; the mean
      over pairs. Where nothing fits, the hits are about many things.
    - `words`: only where there are no cosines: the best share of the message's content words in one hit.

    Args:
        questions: the message, and its rewrite where that is another text.
        hits: best first.
        embed: unit vectors of texts; sentences are embedded as `turnmark.assistant.steps.answer` does, so that a memory
            helps.
    """
    looked = hits[:LOOKED_AT]
    signals: dict[str, float] = {}
    cosines = [hit.similarity for hit in looked if hit.similarity is not None]
    if cosines:
        signals[COSINE] = cosines[0]
        if embed and (units := list(dict.fromkeys(unit_text(unit) for unit in units_of(looked)))):
            vectors = embed([*questions, *units])
            best = (vectors[len(questions) :] @ vectors[: len(questions)].T).max(axis=1)
            signals[SENTENCES] = fmean(sorted(map(float, best))[-BEST_SENTENCES:])
    elif looked:
        signals[WORDS] = max(coverage(questions[0], [hit.passage.indexed_text]) for hit in looked)
    if len(looked) > 1:
        words = [stems(hit.passage.indexed_text) for hit in looked]
        signals[AGREEMENT] = fmean(
            len(first & second) / sqrt(max(1, len(first) * len(second))) for first, second in combinations(words, 2)
        )
    return signals


def unit_text(unit: Unit) -> str:
    """What is embedded of a sentence or list item, here and where an answer is chosen, so that it is embedded once."""
    return f"{unit.heading}: {unit.text}" if unit.heading and unit.item else unit.text


def mean_z(form: Form, signals: Mapping[str, float]) -> float:
    """The mean over the signals of a form of how many deviations each lies above its mean, where a missing one lies.

    None counts more than `MOST`, nor much more than the principal signal (`AHEAD`).
    """
    values = {
        name: (signals.get(name, scale.mean) - scale.mean) / scale.deviation for name, scale in form.scales.items()
    }
    ceiling = min([MOST, *(values[name] + AHEAD for name in PRINCIPAL if name in values)])
    return fmean(min(ceiling, value) for value in values.values())


def confidence_of(form: Form, signals: Mapping[str, float]) -> float:
    """How likely the documents answer the question, 0..1, were `Calibration.prior` of such questions unanswerable."""
    level = form.intercept + form.slope * mean_z(form, signals)
    return 1 / (1 + exp(-max(-30.0, min(30.0, level))))
