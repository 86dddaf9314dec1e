"""Whether the right turns were answered with "I don't know" or a question back: `idk_rate`, `unknown.*`, `clarify.*`.

A figure whose denominator is 0 is None (not applicable), never 0 and never NaN: precision where nothing was predicted,
recall where nothing is positive, F1 where neither, AUROC where one of the two classes is missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_UNKNOWN_LABELS = {"ANSWERABLE": False, "PARTIAL": False, "UNANSWERABLE": True}
_CLARIFY_LABELS = {**dict.fromkeys(_UNKNOWN_LABELS, False), "UNDERSPECIFIED": True}


def unknown_label(answerability: str | None) -> bool | None:
    """Whether a task calls for "I don't know": True for UNANSWERABLE, False for ANSWERABLE and PARTIAL.

    None where the task stays out of `unknown.*`: UNDERSPECIFIED, CONVERSATIONAL, no label. Source: MTRAG section 3.1
    for the labels; who counts is the contract's.
    """
    return _UNKNOWN_LABELS.get(answerability or "")


def clarify_label(answerability: str | None) -> bool | None:
    """Whether a task calls for a question back: True for UNDERSPECIFIED, False for the others.

    None where the task stays out of `clarify.*`: CONVERSATIONAL, no label.
    """
    return _CLARIFY_LABELS.get(answerability or "")


def _share(part: int, total: int) -> float | None:
    return part / total if total else None


@dataclass(frozen=True, slots=True)
class Detection:
    """A yes-or-no prediction against the truth, counted. Figures are 0..1, or None where their denominator is 0."""

    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int

    @property
    def positives(self) -> int:
        """Samples that are positive."""
        return self.true_positives + self.false_negatives

    @property
    def predicted(self) -> int:
        """Samples that were called positive."""
        return self.true_positives + self.false_positives

    @property
    def precision(self) -> float | None:
        """TP / (TP + FP)."""
        return _share(self.true_positives, self.predicted)

    @property
    def recall(self) -> float | None:
        """TP / (TP + FN), the true positive rate."""
        return _share(self.true_positives, self.positives)

    @property
    def false_positive_rate(self) -> float | None:
        """FP / (FP + TN)."""
        return _share(self.false_positives, self.false_positives + self.true_negatives)

    @property
    def f1(self) -> float | None:
        """2 TP / (2 TP + FP + FN), the harmonic mean of precision and recall; 0 where only one of the two is None."""
        return _share(2 * self.true_positives, self.positives + self.predicted)


def sample_values(positive: bool, predicted: bool) -> dict[str, tuple[float, ...]]:
    """What one sample adds to "precision", "recall" and "f1": values whose mean over all samples is that figure.

    Precision is a mean over what was predicted, recall over what is positive, and F1 over both of these lists (a true
    positive is in both, and counts twice). A sample that adds nothing is not applicable to that figure. So all three
    have intervals by the same bootstrap of clusters as any other mean.
    """
    hit = float(positive and predicted)
    precision, recall = (hit,) * predicted, (hit,) * positive
    return {"precision": precision, "recall": recall, "f1": precision + recall}


def auroc(positive: Sequence[bool], scores: Sequence[float], weights: Sequence[int] | None = None) -> float | None:
    """P(a positive scores above a negative) + P(they tie) / 2: the area under the ROC curve, 0..1; .5 is chance.

    None where there is no positive or no negative. Equal to scikit-learn's `roc_auc_score`, ties and weights included.
    `unknown.auroc` and `hidden.auroc` are of a decision's confidence, low confidence speaking for "unknown"; the latter
    takes both halves of each pair, positive where the relevant passage was taken away.

    Args:
        scores: higher means more likely positive.
        weights: how often each sample counts, for a bootstrap that draws samples several times or never; once if None.

    Raises:
        ValueError: lengths that differ, a score that is NaN, a negative weight.
    """
    import numpy as np

    weights = [1] * len(scores) if weights is None else weights
    if not len(positive) == len(scores) == len(weights):
        raise ValueError(f"{len(positive)} labels, {len(scores)} scores, {len(weights)} weights")
    if any(map(math.isnan, scores)) or any(weight < 0 for weight in weights):
        raise ValueError("a score is NaN, or a weight is negative")
    truth, weight = np.asarray(positive, dtype=bool), np.asarray(weights, dtype=float)
    _, level = np.unique(np.asarray(scores, dtype=float), return_inverse=True)
    above = np.bincount(level, weights=weight * truth)
    below = np.bincount(level, weights=weight * ~truth)
    total = float(above.sum() * below.sum())
    if total == 0:
        return None
    return float(above @ (np.cumsum(below) - below / 2)) / total
