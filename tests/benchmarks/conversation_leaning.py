"""Whether a message leans on the turns before it, as a logistic regression judges by four features.

It is fitted on the turns that are labelled in other domains, never on the domain that it is used in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics.decisions import auroc
from tests.benchmarks.conversation_sets import Floats, Turns

LEAST = 5
"""Labels of each kind, without which nothing is fitted."""
_PENALTY, _STEPS = 2.0, 30
_PRONOUN = re.compile(
    r"\b(it|its|they|them|their|theirs|he|him|his|she|her|hers|former|latter)\b",
    re.IGNORECASE,
)
Values = NDArray[np.float64]


def features(turns: Turns) -> Values:
    """Of each query: log of BM25's best score, best cosine, a pronoun, the cosine of message and last answer."""
    message = turns.vectors["message"]
    columns = [
        np.log(np.maximum(turns.bm25["message"].max(axis=1), 1)),
        (message @ turns.pool.vectors.T).max(axis=1),
        [bool(_PRONOUN.search(query.text)) for query in turns.queries],
        (message * turns.vectors["last answer"]).sum(axis=1),
    ]
    return np.stack([np.asarray(column, dtype=float) for column in columns], axis=1)


class Judge:
    """The regression, fitted by Newton's method with a ridge on all but the constant; features are standardised."""

    def __init__(self, rows: Values, leans: NDArray[np.bool_]) -> None:
        self._mean, self._spread = rows.mean(axis=0), rows.std(axis=0) + 1e-9
        inputs, self._weights = self._inputs(rows), np.zeros(rows.shape[1] + 1)
        ridge = 2 * _PENALTY * np.diag([*np.ones(rows.shape[1]), 0.0])
        for _ in range(_STEPS):
            held = self._sigmoid(inputs)
            slope = inputs.T @ (held - leans) + ridge @ self._weights
            curve = (inputs * (held * (1 - held))[:, None]).T @ inputs + ridge + 1e-9 * np.eye(len(ridge))
            self._weights -= np.linalg.solve(curve, slope)

    def _inputs(self, rows: Values) -> Values:
        return np.column_stack([(rows - self._mean) / self._spread, np.ones(len(rows))])

    def _sigmoid(self, inputs: Values) -> Values:
        made: Values = 1 / (1 + np.exp(-inputs @ self._weights))
        return made

    def __call__(self, rows: Values) -> Values:
        """How likely each message leans, 0..1."""
        return self._sigmoid(self._inputs(rows))


def leaning(turns: Turns, others: Sequence[Turns]) -> Floats | None:
    """How likely each query's message leans, 0 where no answer came before; None where `others` have too few labels."""
    rows, labels = [], []
    for other in others:
        known = other.groups["standalone"] | other.groups["non-standalone"]
        rows.append(features(other)[known])
        labels.append(other.groups["non-standalone"][known])
    leans = np.concatenate(labels) if labels else np.zeros(0, dtype=bool)
    if min(leans.sum(), (~leans).sum()) < LEAST:
        return None
    found = Judge(np.concatenate(rows), leans)(features(turns))
    return np.where(turns.vectors["last answer"].any(axis=1), found, 0).astype(np.float32)


def judged(turns: Turns, found: Floats) -> tuple[float, float] | None:
    """Accuracy and area under the ROC curve over the labelled turns; None with too few labels of a kind."""
    known = turns.groups["standalone"] | turns.groups["non-standalone"]
    leans = turns.groups["non-standalone"][known]
    area = auroc(leans.tolist(), found[known].tolist())
    if area is None or min(leans.sum(), (~leans).sum()) < LEAST:
        return None
    return float(((found[known] > 0.5) == leans).mean()), area
