"""What the verdict on "I don't know" does to other metrics.

MTRAG section 6.3.3: a metric is worth nothing, or all, if a reply says "I don't know" or should have said it.

                                the reply says: no, partial     yes
    ANSWERABLE, PARTIAL                   the metric                 0
    UNANSWERABLE                             0                       1

MTRAG-UN adds a row (section 3.1 of its paper, and the official script): an UNDERSPECIFIED task is 1 if the reply asks
back and 0 if not. With it a metric ends in `.idk_underspecified`; without it such a task does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnmark.evaluation.metrics.decisions import unknown_label
from turnmark.evaluation.records import Score

CONDITIONED = ("rb_alg", "rb_llm", "rl_f")
"""The metrics that the paper conditions, each in whatever variant (`rb_alg[…]`)."""
IDK, MARK, ACCURACY = "idk", ".idk", "answerability_accuracy"
ASKS_BACK, UNDERSPECIFIED = "clarification", f"{MARK}_underspecified"
"""The metric whose verdict decides underspecified tasks, and what ends the names of scores with these tasks."""
VERDICTS = (IDK, f"{IDK}[embedded]")
"""Metrics whose verdict others are conditioned on. What comes of the second one ends in `[embedded]` too."""


def mark_of(verdict: str) -> str:
    """What ends the names of scores conditioned on one of `VERDICTS`."""
    return MARK + verdict.removeprefix(IDK)


def accuracy_of(verdict: str) -> str:
    """The metric that says how often one of `VERDICTS` is what the task calls for."""
    return ACCURACY + verdict.removeprefix(IDK)


def is_conditioned(metric: str) -> bool:
    """Whether a metric has a conditioned figure, in whatever variant it is; one that is conditioned has none."""
    return metric.partition("[")[0] in CONDITIONED and not metric.endswith((*map(mark_of, VERDICTS), UNDERSPECIFIED))


def answered_right(answerability: str | None, idk: str) -> bool | None:
    """Whether a reply says "I don't know" if and only if it should; None for tasks of which that is not asked.

    Args:
        idk: `yes`, `partial` or `no`.
    """
    unknown = unknown_label(answerability)
    return None if unknown is None else (idk == "yes") == unknown


def conditioned(
    score: Score, answerability: str | None, idk: str | None, judge: str, verdict: str = IDK, no_verdict: str = ""
) -> Score:
    """A score after conditioning, under the metric's name with `.idk` or `.idk[embedded]`.

    If the label and the verdict alone decide, the metric itself need not have been scored.

    Args:
        idk: `yes`, `partial` or `no`; None: there is no verdict, and so the conditioned score has failed.
        judge: whose verdict it is.
        verdict: which of `VERDICTS` it is.
        no_verdict: why it is missing.
    """
    name = score.metric + mark_of(verdict)
    about: dict[str, Any] = {"id": score.id, "repeat": score.repeat, "metric": name, "by": f"{score.by}; {judge}"}
    unknown = unknown_label(answerability)
    if idk is None:
        status = "failed" if unknown is not None else "not_applicable"
        return Score(status=status, reason=f"no IDK verdict: {no_verdict or 'the judge gave none'}", **about)
    if unknown is None:
        return Score(
            status="not_applicable", reason="the task has no label that says whether it can be answered", **about
        )
    if unknown or idk == "yes":
        value = float(unknown and idk == "yes")
        claim = "says that it does not know" if idk == "yes" else "does not say that it does not know"
        return Score(status="scored", value=value, reason=f"{answerability}, and the reply {claim}", **about)
    return score.model_copy(update=about)


def with_underspecified(scores: Sequence[Score], answerability: str | None, verdict: Score) -> list[Score]:
    """The scores of one sample that count underspecified tasks too, for those conditioned on `idk`.

    Args:
        verdict: the sample's score of `ASKS_BACK`, which decides an underspecified task.
    """
    scores_underspecified = []
    for score in scores:
        if not score.metric.endswith(MARK):
            continue
        name = {"metric": score.metric.removesuffix(MARK) + UNDERSPECIFIED, "by": f"{score.by}; {verdict.by}"}
        decided = verdict if answerability == "UNDERSPECIFIED" else score
        scores_underspecified.append(decided.model_copy(update=name))
    return scores_underspecified


def unjudged(scores: Sequence[Score], judge: str, verdict: str, about: dict[str, Any]) -> list[Score]:
    """The lines that a verdict would bring, for a sample that nobody could judge.

    Args:
        about: id, repeat, status and reason of the sample's other lines.
    """
    marked = [{"metric": score.metric + mark_of(verdict), "by": f"{score.by}; {judge}"} for score in scores
              if is_conditioned(score.metric)]  # fmt: skip
    return [Score(**about, **fields) for fields in [{"metric": accuracy_of(verdict), "by": judge}, *marked]]


def accuracy(
    answerability: str | None, idk: str | None, failed: str, judge: str, verdict: str, about: dict[str, Any]
) -> Score:
    """Whether a verdict is what the task calls for.

    Args:
        idk: `yes`, `partial` or `no`; None: there is no verdict.
        failed: why it is missing; empty if it does not apply.
        about: id and repeat of the sample.
    """
    about = about | {"metric": accuracy_of(verdict), "by": judge}
    correct = answered_right(answerability, idk) if idk else None
    if correct is not None:
        return Score(status="scored", value=float(correct), reason=f"{answerability}, IDK {idk}", **about)
    if failed:
        return Score(status="failed", reason=f"no IDK verdict: {failed}", **about)
    return Score(status="not_applicable", reason="no label says whether the task can be answered", **about)
