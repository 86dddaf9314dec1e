"""Condition other metrics on the verdict of whether a reply says "I don't know".

The verdict without a judge is `turnmark.assistant.wording.refusals.refusal_extent`.

MTRAG section 6.3.3: the verdict sets a metric to 0 or 1 if a reply says "I don't know" or should have said it.

                                the reply says: no, partial     yes
    ANSWERABLE, PARTIAL                   the metric                 0
    UNANSWERABLE                             0                       1

MTRAG-UN adds a row (section 3.1 of its paper, and the official script): an UNDERSPECIFIED task is 1 if the reply asks
back and 0 if not. Metrics with this row end in `.idk_underspecified`; without it, such a task does not count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from turnmark.evaluation.records import Score

IDK_VALUES: Mapping[str, float] = {"yes": 1.0, "partial": 0.5, "no": 0.0}

# --- conditioning of other metrics on the verdict ---------------------------------------------------------------------

CONDITIONED_METRICS = ("rb_alg", "rb_llm", "rl_f")
"""The metrics that the paper conditions, in all variants (`rb_alg[…]`)."""
IDK, IDK_SUFFIX, ACCURACY = "idk", ".idk", "answerability_accuracy"
ASKS_BACK, UNDERSPECIFIED_SUFFIX = "clarification", f"{IDK_SUFFIX}_underspecified"
"""The metric whose verdict decides underspecified tasks, and the suffix of scores that include these tasks."""
VERDICTS = (IDK, f"{IDK}[embedded]")
"""Metrics whose verdict conditions other metrics. Scores conditioned on the second one also end in `[embedded]`."""


def mark_of(verdict: str) -> str:
    """Return the suffix of scores conditioned on one of `VERDICTS`."""
    return IDK_SUFFIX + verdict.removeprefix(IDK)


def accuracy_of(verdict: str) -> str:
    """Return the metric that measures how often one of `VERDICTS` agrees with the task's answerability."""
    return ACCURACY + verdict.removeprefix(IDK)


def is_conditioned(metric: str) -> bool:
    """Return whether a metric, in any variant, has a conditioned value; a conditioned metric itself has none."""
    return metric.partition("[")[0] in CONDITIONED_METRICS and not metric.endswith(
        (*map(mark_of, VERDICTS), UNDERSPECIFIED_SUFFIX)
    )


def condition_score(
    score: Score,
    answerability: str | None,
    idk: str | None,
    judge: str,
    verdict: str = IDK,
    no_verdict: str = "",
    silent: bool = False,
) -> Score:
    """Condition a score on the verdict, under the metric's name with `.idk` or `.idk[embedded]`.

    The conditioned score fails if the verdict or the metric failed. If label and verdict alone decide the value, the
    metric may be not applicable (no claims, no passages), unless its judge gave no value in the whole run. In that
    case, the mean would measure only the verdict, under the metric's name.

    Args:
        idk: `yes`, `partial` or `no`, or None if there is no verdict.
        judge: name of the judge that gave the verdict.
        verdict: one of `VERDICTS`.
        no_verdict: why the verdict is missing.
        silent: the metric's judge failed and gave no value to any reply of the run.
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
    if score.status == "failed":
        return score.model_copy(update=about)
    if silent:
        return Score(status="failed", reason=reason_of_silence(score.metric), **about)
    if unknown or idk == "yes":
        value = float(unknown and idk == "yes")
        claim = "says that it does not know" if idk == "yes" else "does not say that it does not know"
        return Score(status="scored", value=value, reason=f"{answerability}, and the reply {claim}", **about)
    return score.model_copy(update=about)


def reason_of_silence(metric: str) -> str:
    """Return the reason of a conditioned score that failed though label and verdict decide it."""
    return f"{metric} failed on every reply of the run that has it"


def with_underspecified(
    scores: Sequence[Score], answerability: str | None, verdict: Score, silent: Collection[str] = ()
) -> list[Score]:
    """Return, for each score of a sample conditioned on `idk`, a score that also counts underspecified tasks.

    Args:
        verdict: the sample's score of `ASKS_BACK`, which decides an underspecified task.
        silent: metrics whose judge failed and gave no value to any reply of the run.
    """
    scores_underspecified = []
    for score in scores:
        if not score.metric.endswith(IDK_SUFFIX):
            continue
        metric = score.metric.removesuffix(IDK_SUFFIX)
        changed: dict[str, Any] = {"metric": metric + UNDERSPECIFIED_SUFFIX, "by": f"{score.by}; {verdict.by}"}
        decided = verdict if answerability == "UNDERSPECIFIED" else score
        if decided is verdict and metric in silent:
            changed |= {"status": "failed", "value": None, "reason": reason_of_silence(metric)}
        scores_underspecified.append(decided.model_copy(update=changed))
    return scores_underspecified


def make_unjudged_scores(scores: Sequence[Score], judge: str, verdict: str, about: dict[str, Any]) -> Iterator[Score]:
    """Yield the accuracy and conditioned scores of a sample without a verdict.

    Args:
        about: id, repeat, status and reason of these scores.
    """
    yield Score(**about, metric=accuracy_of(verdict), by=judge)
    for score in scores:
        if is_conditioned(score.metric):
            yield Score(**about, metric=score.metric + mark_of(verdict), by=f"{score.by}; {judge}")


def accuracy(
    answerability: str | None, idk: str | None, failed: str, judge: str, verdict: str, about: dict[str, Any]
) -> Score:
    """Score by a verdict whether a reply says "I don't know" if and only if it should.

    Args:
        idk: `yes`, `partial` or `no`, or None if there is no verdict.
        failed: why the verdict is missing; empty if it is not applicable.
        about: id and repeat of the sample.
    """
    about = about | {"metric": accuracy_of(verdict), "by": judge}
    unknown = unknown_label(answerability)
    if idk and unknown is not None:
        value = float((idk == "yes") == unknown)
        return Score(status="scored", value=value, reason=f"{answerability}, IDK {idk}", **about)
    if failed:
        return Score(status="failed", reason=f"no IDK verdict: {failed}", **about)
    return Score(status="not_applicable", reason="no label says whether the task can be answered", **about)


# --- tasks that call for "I don't know", or for a question back: `unknown.*`, `clarify.*` -------------------------

_UNKNOWN_LABELS = {"ANSWERABLE": False, "PARTIAL": False, "UNANSWERABLE": True}
_CLARIFY_LABELS = {**dict.fromkeys(_UNKNOWN_LABELS, False), "UNDERSPECIFIED": True}


def unknown_label(answerability: str | None) -> bool | None:
    """Return whether a task calls for "I don't know": True for UNANSWERABLE, False for ANSWERABLE and PARTIAL.

    None if the task does not count in `unknown.*`: UNDERSPECIFIED, CONVERSATIONAL, no label. The labels are from MTRAG
    section 3.1; which of them count is our choice.
    """
    return _UNKNOWN_LABELS.get(answerability or "")


def clarify_label(answerability: str | None) -> bool | None:
    """Return whether the right reply to a task is to ask back: True for UNDERSPECIFIED, False for the others.

    None if the task does not count in `clarify.*`: CONVERSATIONAL, no label.
    """
    return _CLARIFY_LABELS.get(answerability or "")


def sample_values(positive: bool, predicted: bool) -> dict[str, tuple[float, float]]:
    """Return a sample's values and weights of "precision", "recall" and "f1"; the weighted mean is the statistic.

    Precision is a mean over predicted samples, recall over positive ones, and F1 over both lists (a true positive is in
    both and counts twice). What is not applicable to the sample is left out. So all three get intervals from the same
    bootstrap of clusters as any other mean.
    """
    weights = {"precision": float(predicted), "recall": float(positive), "f1": float(predicted) + positive}
    return {name: (float(positive and predicted), weight) for name, weight in weights.items() if weight}
