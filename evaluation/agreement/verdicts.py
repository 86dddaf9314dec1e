"""Judges' verdicts against known labels: does a reply say that it does not know, and should it; which of two is better.

The latter after Compound-QA (section 5): three people say of an answer and the reference which is better, or that none
is; the label that two of them give is what the judge is held against, as a classifier of three classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from turnmark.corpora.types import Record
from turnmark.evaluation.agreement.rows import Answer, Rows
from turnmark.evaluation.metrics.agreement import classified
from turnmark.evaluation.metrics.counted import Tabled, accuracies, confusion_tables, kappas, mean_fprs, mean_tprs
from turnmark.evaluation.metrics.decisions import unknown_label

if TYPE_CHECKING:
    from turnmark.evaluation.stats import Figure, Ints

_IDK = {0.0: "no", 0.5: "partial", 1.0: "yes"}
PREFERENCE = "preference"
"""The property that people rate, and the metric that a judge gives: the answer is better 1, none is .5, worse 0."""
_BETTER = {1.0: "A > B", 0.5: "A = B", 0.0: "B > A"}


class OneLabel(Record):
    """A judge on one label."""

    support: int
    precision: float | None
    recall: float | None
    f1: float | None
    fpr: float | None


class Verdicts(Record):
    """A judge's labels against known ones."""

    judge: str
    against: str
    system: str = Field(description="`all`, or one")
    n: int
    accuracy: float
    kappa: float | None
    macro_f1: float | None
    mean_tpr: float | None
    mean_fpr: float | None
    ci95: dict[str, tuple[float, float]] = Field(
        default_factory=dict, description="accuracy, kappa, mean_tpr, mean_fpr -> bootstrap over conversations"
    )
    labels: dict[str, OneLabel]


SEED, RESAMPLES = 0, 1000
_FIGURES = {"accuracy": accuracies, "kappa": kappas, "mean_tpr": mean_tprs, "mean_fpr": mean_fprs}
_Pair = tuple[str, str, Answer]
"""The true label, the judge's, and of which answer."""


def clusters_of(answers: Sequence[Answer]) -> Ints:
    """A number for the conversation of each answer, by its name."""
    import numpy as np

    return np.unique([answer.conversation for answer in answers], return_inverse=True)[1]


def bounds_of(figure: Figure | None) -> tuple[float, float] | None:
    """The 95% interval of a figure; None where there is none, or one conversation."""
    from turnmark.evaluation.stats import intervals

    return None if figure is None or figure.clusters == 1 else intervals([figure], SEED, RESAMPLES)[0]


def verdicts(rows: Rows) -> Iterator[Verdicts]:
    """Every IDK judge against answerability, and against the IDK verdicts of the file; judges of pairs against people.

    Over all systems and each.
    """
    systems = list(dict.fromkeys(answer.system for answer in rows.answers))
    for judge in (name for name in rows.metrics if _base(name) == PREFERENCE):
        for system in ("all", *systems) if len(systems) > 1 else systems:
            mine = [answer for answer in rows.answers if system in ("all", answer.system)]
            yield from _counted(_preferences(mine, judge), judge, f"{PREFERENCE} (two of three people)", system)
    for judge in _idk_judges(rows):
        for system in ("all", *systems) if len(systems) > 1 else systems:
            mine = [answer for answer in rows.answers if system in ("all", answer.system)]
            yield from _against_answerability(mine, judge, system)
            yield from _against_another(mine, judge, system)


def _idk_judges(rows: Rows) -> list[str]:
    names = [name for name in rows.metrics if _base(name) in ("idk", "idk_rate", "conditional_idk")]
    return [*names, *(name for name in rows.properties if name == "idk_eval")]


def _preferences(answers: Sequence[Answer], judge: str) -> list[_Pair]:
    """The label that most people and at least two give, and the judge's; without one, an answer counts nowhere."""
    pairs = []
    for answer in answers:
        counts = Counter(answer.ratings.get(PREFERENCE, ())).most_common(2)
        label = _BETTER.get(answer.scores.get(judge, -1.0))
        if not counts or label is None or counts[0][1] < 2 or (len(counts) > 1 and counts[0][1] == counts[1][1]):
            continue
        if (truth := _BETTER.get(counts[0][0])) is not None:
            pairs.append((truth, label, answer))
    return pairs


def _base(metric: str) -> str:
    return metric.partition("[")[0].partition(" (")[0]


def _said(answer: Answer, judge: str) -> str | None:
    """What a judge says of an answer: yes, partial or no, it does not know; None where it says nothing."""
    value = answer.scores.get(judge, answer.reference.get(judge))
    if value is None:
        return None
    if _base(judge) == "conditional_idk":
        # 1 where the reply does what the task calls for, whichever that is.
        unknown = unknown_label(answer.answerability)
        return None if unknown is None else "yes" if (value == 1) == unknown else "no"
    return _IDK.get(value)


def _against_answerability(answers: Sequence[Answer], judge: str, system: str) -> Iterator[Verdicts]:
    """Does a reply say that it does not know where the task is UNANSWERABLE, and only there?"""
    pairs = [
        (unknown, label == "yes", answer)
        for answer in answers
        if (unknown := unknown_label(answer.answerability)) is not None and (label := _said(answer, judge)) is not None
    ]
    names = {True: "unknown", False: "answer"}
    if any(unknown for unknown, *_ in pairs):
        yield from _counted([(names[a], names[b], answer) for a, b, answer in pairs], judge, "answerability", system)


def _against_another(answers: Sequence[Answer], judge: str, system: str) -> Iterator[Verdicts]:
    """A judge against the IDK verdicts of the file; in two labels where it knows no `partial`."""
    if judge == "idk_eval":
        return
    pairs = [
        (truth, label, answer)
        for answer in answers
        if "idk_eval" in answer.reference
        and (truth := _said(answer, "idk_eval")) is not None
        and (label := _said(answer, judge)) is not None
    ]
    two = [
        ("yes" if truth == "yes" else "not yes", "yes" if label == "yes" else "not yes", answer)
        for truth, label, answer in pairs
    ]
    yield from _counted(two, judge, "idk_eval (yes or not)", system)
    if _base(judge) == "idk":
        yield from _counted(pairs, judge, "idk_eval", system)


def _counted(pairs: Sequence[_Pair], judge: str, against: str, system: str) -> Iterator[Verdicts]:
    truth, judged = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    result = classified(truth, judged)
    if result is None:
        return
    tables = confusion_tables(truth, judged, clusters_of([pair[2] for pair in pairs]))
    bounds = {name: bounds_of(Tabled.of(tables, read)) for name, read in _FIGURES.items()}
    yield Verdicts(
        judge=judge,
        against=against,
        system=system,
        n=result.n,
        accuracy=result.accuracy,
        kappa=result.kappa,
        macro_f1=result.macro_f1,
        mean_tpr=result.mean_tpr,
        mean_fpr=result.mean_fpr,
        ci95={name: interval for name, interval in bounds.items() if interval is not None},
        labels={
            name: OneLabel(support=figures.positives, precision=figures.precision, recall=figures.recall, f1=figures.f1,
                           fpr=figures.false_positive_rate)
            for name, figures in result.labels.items()
        },
    )  # fmt: skip
