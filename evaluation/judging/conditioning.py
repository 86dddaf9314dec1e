"""MTRAG section 6.3.3: a metric is worth nothing, or all, where a reply says "I don't know" or should have said it.

                                the reply says: no, partial     yes
ANSWERABLE, PARTIAL                   the metric                 0
UNANSWERABLE                             0                       1
"""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.metrics.decisions import unknown_label
from evaluation.records import Score

CONDITIONED = ("rb_alg", "rb_llm", "rl_f")
"""The metrics that the paper conditions, each in whatever variant (`rb_alg[…]`)."""
MARK = ".idk"
ACCURACY = "answerability_accuracy"


def answered_right(answerability: str | None, idk: str) -> bool | None:
    """Whether a reply says "I don't know" where it should and only there; None for tasks of which that is not asked.

    Args:
        idk: `yes`, `partial` or `no`.
    """
    unknown = unknown_label(answerability)
    return None if unknown is None else (idk == "yes") == unknown


def conditioned(score: Score, answerability: str | None, idk: str, by: str) -> Score:
    """A score after conditioning, under the metric's name with `.idk`.

    Where the label and the verdict alone decide, the metric itself need not have been scored.

    Args:
        idk: `yes`, `partial` or `no`.
        by: whose verdict it is.
    """
    about = {"id": score.id, "repeat": score.repeat, "metric": score.metric + MARK, "by": f"{score.by}; {by}"}
    unknown = unknown_label(answerability)
    if unknown is None:
        return Score(
            status="not_applicable", reason="the task has no label that says whether it can be answered", **about
        )
    if unknown or idk == "yes":
        value = float(unknown and idk == "yes")
        said = "says that it does not know" if idk == "yes" else "does not say that it does not know"
        return Score(status="scored", value=value, reason=f"{answerability}, and the reply {said}", **about)
    return score.model_copy(update=about)


def with_conditioned(
    scores: Sequence[Score], answerability: str | None, idk: str | None, by: str, why: str = ""
) -> list[Score]:
    """The conditioned scores of one sample, for those of its metrics that are conditioned.

    Args:
        idk: None: there is no verdict, and so the conditioned scores have failed.
        why: there is no verdict.
    """
    made = []
    for score in scores:
        if score.metric.partition("[")[0] not in CONDITIONED or score.metric.endswith(MARK):
            continue
        if idk is not None:
            made.append(conditioned(score, answerability, idk, by))
        else:
            about = {"id": score.id, "repeat": score.repeat, "metric": score.metric + MARK, "by": f"{score.by}; {by}"}
            status = "failed" if unknown_label(answerability) is not None else "not_applicable"
            made.append(Score(status=status, reason=f"no IDK verdict: {why or 'the judge gave none'}", **about))
    return made
