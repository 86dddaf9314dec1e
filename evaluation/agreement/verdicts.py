"""Judges' verdicts against known labels: does a reply say that it does not know, and should it; which of two is better.

The latter after Compound-QA (section 5): three people say of an answer and the reference which is better, or that
neither is; the label that two of them give is the judge's truth, as for a classifier of three classes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pydantic import Field

from turnmark.core.record import Record
from turnmark.evaluation.agreement.rows import Answer, Rows
from turnmark.evaluation.metrics.idk import unknown_label
from turnmark.evaluation.scores.stats import intervals, number_clusters, table_figure

if TYPE_CHECKING:
    from turnmark.evaluation.scores.stats import Floats, Ints

_IDK = {0.0: "no", 0.5: "partial", 1.0: "yes"}
PREFERENCE = "preference"
"""The property that people rate, and the metric that a judge gives: the answer is better 1, equal .5, worse 0."""
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
        default_factory=dict, description="each of these five -> bootstrap over conversations; none of one conversation"
    )
    labels: dict[str, OneLabel]


SEED, RESAMPLES = 0, 1000
_MEANS = {"mean_tpr": "recall", "mean_fpr": "fpr", "macro_f1": "f1"}
"""Figures that are means over the labels that have the rate. Source of mean TPR and FPR: Compound-QA, section 5."""
_FIGURES = ("accuracy", "kappa", *_MEANS)
_Pair = tuple[str, str, Answer]
"""The true label, the judge's, and of which answer."""


def number_conversations(answers: Sequence[Answer]) -> Ints:
    """A number for the conversation of each answer, by its name."""
    import numpy as np

    return np.unique([answer.conversation for answer in answers], return_inverse=True)[1]


def judge_verdicts(rows: Rows) -> Iterator[Verdicts]:
    """Every IDK judge against answerability, and against the IDK verdicts of the file; judges of pairs against people.

    Over all systems and each.
    """
    systems = list(dict.fromkeys(answer.system for answer in rows.answers))
    groups = {
        system: [answer for answer in rows.answers if system in ("all", answer.system)]
        for system in (("all", *systems) if len(systems) > 1 else systems)
    }
    for judge in (name for name in rows.metrics if _base(name) == PREFERENCE):
        for system, mine in groups.items():
            yield from _counted(_preferences(mine, judge), judge, f"{PREFERENCE} (two of three people)", system)
    for judge in _idk_judges(rows):
        for system, mine in groups.items():
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


def _label(answer: Answer, judge: str) -> str | None:
    """What a judge says of an answer: yes, partial or no, it does not know; None if it says nothing."""
    value = answer.scores.get(judge, answer.reference.get(judge))
    if value is None:
        return None
    if _base(judge) == "conditional_idk":
        # 1 if the reply does what the task calls for, whichever that is.
        unknown = unknown_label(answer.answerability)
        return None if unknown is None else "yes" if (value == 1) == unknown else "no"
    return _IDK.get(value)


def _against_answerability(answers: Sequence[Answer], judge: str, system: str) -> Iterator[Verdicts]:
    """Does a reply say that it does not know if the task is UNANSWERABLE, and only then?"""
    pairs = [
        (unknown, label == "yes", answer)
        for answer in answers
        if (unknown := unknown_label(answer.answerability)) is not None and (label := _label(answer, judge)) is not None
    ]
    names = {True: "unknown", False: "answer"}
    if any(unknown for unknown, *_ in pairs):
        yield from _counted([(names[a], names[b], answer) for a, b, answer in pairs], judge, "answerability", system)


def _against_another(answers: Sequence[Answer], judge: str, system: str) -> Iterator[Verdicts]:
    """A judge against the IDK verdicts of the file; in two labels if it knows no `partial`."""
    if judge == "idk_eval":
        return
    pairs = [
        (truth, label, answer)
        for answer in answers
        if "idk_eval" in answer.reference
        and (truth := _label(answer, "idk_eval")) is not None
        and (label := _label(answer, judge)) is not None
    ]
    two = [
        ("yes" if truth == "yes" else "not yes", "yes" if label == "yes" else "not yes", answer)
        for truth, label, answer in pairs
    ]
    yield from _counted(two, judge, "idk_eval (yes or not)", system)
    if _base(judge) == "idk":
        yield from _counted(pairs, judge, "idk_eval", system)


def _counted(pairs: Sequence[_Pair], judge: str, against: str, system: str) -> Iterator[Verdicts]:
    if not pairs:
        return
    truth, judged, answers = zip(*pairs, strict=True)
    names, tables = confusion_tables(truth, judged, number_conversations(answers))
    known = {name: table_figure(tables, partial(table_figures, name=name)) for name in _FIGURES}
    figures = {name: figure for name, figure in known.items() if figure is not None}
    bounds = dict(zip(figures, intervals(list(figures.values()), SEED, RESAMPLES), strict=True))
    total = tables.sum(axis=0, keepdims=True)
    rates = {
        rate: [float(value) if math.isfinite(value) else None for value in values[0]]
        for rate, values in label_rates(total).items()
    }
    yield Verdicts(
        judge=judge,
        against=against,
        system=system,
        n=len(pairs),
        ci95={name: interval for name, interval in bounds.items() if interval is not None},
        labels={
            name: OneLabel(
                support=int(total[0, index].sum()), **{rate: values[index] for rate, values in rates.items()}
            )
            for index, name in enumerate(names)
        },
        **{name: figures[name].value if name in figures else None for name in _FIGURES},
    )


# --- tables of labels, one for each draw of conversations -------------------------------------------------------------


def confusion_tables(truth: Sequence[str], judged: Sequence[str], clusters: Ints) -> tuple[list[str], Floats]:
    """The labels, and how often each true one has each judged one, in each cluster: (clusters, true, judged)."""
    import numpy as np

    names = sorted({*truth, *judged})
    number, count = number_clusters(clusters)
    tables = np.zeros((count, len(names), len(names)))
    np.add.at(tables, (number, np.array([*map(names.index, truth)]), np.array([*map(names.index, judged)])), 1)
    return names, tables


def label_rates(tables: Floats) -> dict[str, Floats]:
    """Precision, recall (TPR), FPR and F1 of each label in each table, NaN without a denominator: (tables, labels)."""
    import numpy as np

    hits = np.diagonal(tables, axis1=1, axis2=2)
    true, judged, total = tables.sum(axis=2), tables.sum(axis=1), tables.sum(axis=(1, 2))[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "precision": hits / judged,
            "recall": hits / true,
            "fpr": (judged - hits) / (total - true),
            "f1": 2 * hits / (true + judged),
        }


def table_figures(tables: Floats, name: str) -> Floats:
    """One of `_FIGURES` of each table; NaN: it has none, as kappa where both sides use one label throughout."""
    import numpy as np

    if name in _MEANS:
        rates = label_rates(tables)[_MEANS[name]]
        means: Floats = np.nansum(rates, axis=1) / np.isfinite(rates).sum(axis=1)
        return means
    accuracy: Floats = tables.trace(axis1=1, axis2=2) / tables.sum(axis=(1, 2))
    chance = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1) / tables.sum(axis=(1, 2)) ** 2
    return accuracy if name == "accuracy" else (accuracy - chance) / (1 - chance)
