"""Metrics of MTRAG's file worked out again from what the file holds: is it what it says, do we compute the same?"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from turnmark.corpora.types import Record
from turnmark.evaluation.agreeing.rows import Answer
from turnmark.evaluation.metrics.agreement import harmonic_mean
from turnmark.evaluation.metrics.overlap import rouge_l_word


class Recomputed(Record):
    """A metric of the file beside the same worked out again."""

    n: int
    largest_difference: float


def rb_agg(
    answerability: str | None, idk: float, bert_recall: float, rouge_l: float, bert_k_precision: float
) -> float | None:
    """`rb_agg`, the conditioned RB_alg of MTRAG (section 6.3): the harmonic mean of the three, BERTScores to 0..1.

    For an answerable or partial task 0 where `idk` is 0; for any other one `idk` itself. None where a figure is too low
    to be what it is called.

    Args:
        idk: `conditional_idk`: 1 where the reply says or does not say that it does not know as the task calls for.
        bert_recall: -1..1; as `bert_k_precision`.
        rouge_l: 0..1.
    """
    if answerability not in ("ANSWERABLE", "PARTIAL"):
        return idk
    if idk == 0:
        return 0.0
    parts = ((bert_recall + 1) / 2, rouge_l, (bert_k_precision + 1) / 2)
    return None if min(parts) < 0 else harmonic_mean(parts)


def _rouge(answer: Answer) -> float | None:
    return rouge_l_word(answer.text, answer.target) if answer.target else None


def _rb_agg(answer: Answer) -> float | None:
    parts = [answer.scores.get(name) for name in ("conditional_idk", "Bert-Rec", "RougeL", "Bert-KPrec")]
    known = [part for part in parts if part is not None]
    return rb_agg(answer.answerability, *known) if len(known) == len(parts) else None


_AGAIN: dict[str, Callable[[Answer], float | None]] = {"RougeL": _rouge, "rb_agg": _rb_agg}


def recomputed(answers: Iterable[Answer]) -> dict[str, Recomputed]:
    """Metric -> how far the file and we are apart, over the answers for which there is all that it takes."""
    found: dict[str, list[float]] = {}
    for answer in answers:
        for name, again in _AGAIN.items():
            if name in answer.scores and (ours := again(answer)) is not None:
                found.setdefault(name, []).append(abs(ours - answer.scores[name]))
    return {name: Recomputed(n=len(apart), largest_difference=max(apart)) for name, apart in found.items()}
