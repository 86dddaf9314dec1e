"""MTRAG section 6.3.3: a metric is worth nothing, or all, where a reply says "I don't know" or should have said it.

                                the reply says: no, partial     yes
ANSWERABLE, PARTIAL                   the metric                 0
UNANSWERABLE                             0                       1

MTRAG-UN adds a row (section 3.1 of its paper, and the official script): an UNDERSPECIFIED task is 1 where the reply
asks back and 0 elsewhere. With it a metric ends in `.idk_underspecified`; without it such a task does not count.
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
    """Whether a reply says "I don't know" where it should and only there; None for tasks of which that is not asked.

    Args:
        idk: `yes`, `partial` or `no`.
    """
    unknown = unknown_label(answerability)
    return None if unknown is None else (idk == "yes") == unknown


def conditioned(score: Score, answerability: str | None, idk: str, by: str, verdict: str = IDK) -> Score:
    """A score after conditioning, under the metric's name with `.idk` or `.idk[embedded]`.

    Where the label and the verdict alone decide, the metric itself need not have been scored.

    Args:
        idk: `yes`, `partial` or `no`.
        by: whose verdict it is.
        verdict: which of `VERDICTS` it is.
    """
    about = _about(score, by, verdict)
    unknown = unknown_label(answerability)
    if unknown is None:
        return Score(
            status="not_applicable", reason="the task has no label that says whether it can be answered", **about
        )
    if unknown or idk == "yes":
        value = float(unknown and idk == "yes")
        claim = "says that it does not know" if idk == "yes" else "does not say that it does not know"
        return Score(status="scored", value=value, reason=f"{answerability}, and the reply {claim}", **about)
    return score.model_copy(update=about)


def with_conditioned(
    scores: Sequence[Score],
    answerability: str | None,
    idk: str | None,
    by: str,
    no_verdict: str = "",
    verdict: str = IDK,
) -> list[Score]:
    """The conditioned scores of one sample, for those of its metrics that are conditioned.

    Args:
        idk: None: there is no verdict, and so the conditioned scores have failed.
        no_verdict: there is no verdict.
        verdict: which of `VERDICTS` it is.
    """
    scores_conditioned = []
    for score in scores:
        if not is_conditioned(score.metric):
            continue
        if idk is not None:
            scores_conditioned.append(conditioned(score, answerability, idk, by, verdict))
        else:
            status = "failed" if unknown_label(answerability) is not None else "not_applicable"
            reason = f"no IDK verdict: {no_verdict or 'the judge gave none'}"
            scores_conditioned.append(Score(status=status, reason=reason, **_about(score, by, verdict)))
    return scores_conditioned


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


def unjudged(scores: Sequence[Score], by: str, verdict: str, about: dict[str, Any]) -> list[Score]:
    """The lines that a verdict would have own_rubrics, for a sample that nobody could judge.

    Args:
        about: id, repeat, status and reason of the sample's other lines.
    """
    marked = [{"metric": score.metric + mark_of(verdict), "by": f"{score.by}; {by}"} for score in scores
              if is_conditioned(score.metric)]  # fmt: skip
    return [Score(**about, **fields) for fields in [{"metric": accuracy_of(verdict), "by": by}, *marked]]


def accuracy(
    answerability: str | None, idk: str | None, failed: str, by: str, verdict: str, about: dict[str, Any]
) -> Score:
    """Whether a verdict is what the task calls for.

    Args:
        idk: `yes`, `partial` or `no`; None: there is no verdict.
        failed: why there is none; empty where it does not apply.
        about: id and repeat of the sample.
    """
    about = about | {"metric": accuracy_of(verdict), "by": by}
    correct = answered_right(answerability, idk) if idk else None
    if correct is not None:
        return Score(status="scored", value=float(correct), reason=f"{answerability}, IDK {idk}", **about)
    if failed:
        return Score(status="failed", reason=f"no IDK verdict: {failed}", **about)
    return Score(status="not_applicable", reason="no label says whether the task can be answered", **about)


def _about(score: Score, by: str, verdict: str) -> dict[str, Any]:
    name = score.metric + mark_of(verdict)
    return {"id": score.id, "repeat": score.repeat, "metric": name, "by": f"{score.by}; {by}"}
