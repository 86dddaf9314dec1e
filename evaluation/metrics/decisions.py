"""Whether the right turns were answered with "I don't know" or a question back: `unknown.*`, `clarify.*`."""

from __future__ import annotations

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


def sample_values(positive: bool, predicted: bool) -> dict[str, tuple[float, ...]]:
    """What one sample adds to "precision", "recall" and "f1": values whose mean over all samples is that figure.

    Precision is a mean over what was predicted, recall over what is positive, and F1 over both of these lists (a true
    positive is in both, and counts twice). A sample that adds nothing is not applicable to that figure. So all three
    have intervals by the same bootstrap of clusters as any other mean.
    """
    hit = float(positive and predicted)
    precision, recall = (hit,) * predicted, (hit,) * positive
    return {"precision": precision, "recall": recall, "f1": precision + recall}
