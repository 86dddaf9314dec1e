"""Compare judges' verdicts with known labels: "I don't know" with answerability, preferences with those of people.

Preferences follow Compound-QA (section 5): three people say whether an answer or the reference is better, or neither.
The label that at least two of them give is the true label, as for a classifier of three classes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from pydantic import Field

from turnmark.core.grouping import group_pairs
from turnmark.core.record import Record
from turnmark.evaluation.agreement.compared_answers import ComparedAnswer, Rows
from turnmark.evaluation.metrics.idk_conditioning import unknown_label
from turnmark.evaluation.scores.cluster_statistics import Floats, Ints, intervals, number_clusters, table_statistic

PREFERENCE = "preference"
"""Name of the property that people rate, and of a judge's metric: 1 if the answer is better, .5 if equal, 0 if
worse."""
_BETTER = {1.0: "A > B", 0.5: "A = B", 0.0: "B > A"}


class OneLabel(Record):
    """The rates of a judge on one label."""

    support: int
    precision: float | None
    recall: float | None
    f1: float | None
    fpr: float | None


class Verdicts(Record):
    """Agreement of a judge's labels with the true ones."""

    judge: str
    against: str
    system: str = Field(description="name of a system, or `all`")
    n: int
    accuracy: float
    kappa: float | None
    macro_f1: float | None
    mean_tpr: float | None
    mean_fpr: float | None
    ci95: dict[str, tuple[float, float]] = Field(
        default_factory=dict,
        description="statistic above -> its bootstrap interval over conversations; empty for a single conversation",
    )
    labels: dict[str, OneLabel]


SEED, RESAMPLES = 0, 1000
_MEANS = {"mean_tpr": "recall", "mean_fpr": "fpr", "macro_f1": "f1"}
"""Statistic -> rate that it averages, over the labels that have the rate. Source of mean TPR and FPR: Compound-QA,
section 5."""
_STATISTICS = ("accuracy", "kappa", *_MEANS)
_Pair = tuple[str, str, ComparedAnswer]
"""True label, judge's label and the answer."""


def number_conversations(answers: Sequence[ComparedAnswer]) -> Ints:
    """Return the number of each answer's conversation; conversations are numbered in the order of their names."""
    return np.unique([answer.conversation for answer in answers], return_inverse=True)[1]


def judge_verdicts(rows: Rows) -> Iterator[Verdicts]:
    """Yield the agreement of IDK judges with answerability, and of preferences with those of people.

    The statistics are over all systems together, and over each system.
    """
    groups = group_pairs((answer.system, answer) for answer in rows.answers)
    if len(groups) > 1:
        groups = {"all": rows.answers, **groups}
    for judge in rows.metrics:
        if _base(judge) == PREFERENCE:
            for system, answers in groups.items():
                pairs = _preferences(answers, judge)
                yield from _agreement_of(pairs, judge, f"{PREFERENCE} (two of three people)", system)
    for judge in rows.metrics:
        if _base(judge) in ("idk", "idk_rate", "conditional_idk"):
            for system, answers in groups.items():
                yield from _against_answerability(answers, judge, system)


def _preferences(answers: Sequence[ComparedAnswer], judge: str) -> list[_Pair]:
    """Return the pairs of the answers that have a true label and a label of the judge."""
    labeled = ((_majority_preference(each), _BETTER.get(each.scores.get(judge, -1.0)), each) for each in answers)
    return [(truth, label, answer) for truth, label, answer in labeled if truth is not None and label is not None]


def _majority_preference(answer: ComparedAnswer) -> str | None:
    """Return the label that most people, and at least two, give, or None if there is no such label."""
    counts = Counter(answer.ratings.get(PREFERENCE, ())).most_common(2)
    if not counts:
        return None
    rating, most = counts[0]
    is_tie = len(counts) > 1 and counts[1][1] == most
    return None if most < 2 or is_tie else _BETTER.get(rating)


def _base(metric: str) -> str:
    return metric.partition("[")[0].partition(" (")[0]


def _against_answerability(answers: Sequence[ComparedAnswer], judge: str, system: str) -> Iterator[Verdicts]:
    """Compare a judge with answerability: a reply should say "I don't know" only if the task is UNANSWERABLE."""
    pairs: list[_Pair] = []
    for answer in answers:
        unknown = unknown_label(answer.answerability)
        value = answer.scores.get(judge)
        if unknown is None or value is None:
            continue
        # `conditional_idk` of MTRAG's file is 1 if the reply does what the task calls for.
        says_unknown = (value == 1) == unknown if _base(judge) == "conditional_idk" else value == 1
        pairs.append(("unknown" if unknown else "answer", "unknown" if says_unknown else "answer", answer))
    if any(truth == "unknown" for truth, _, _ in pairs):
        yield from _agreement_of(pairs, judge, "answerability", system)


def _agreement_of(pairs: Sequence[_Pair], judge: str, against: str, system: str) -> Iterator[Verdicts]:
    if not pairs:
        return
    truth, judged, answers = zip(*pairs, strict=True)
    names, tables = confusion_tables(truth, judged, number_conversations(answers))
    defined = {name: table_statistic(tables, partial(statistics_of_tables, name=name)) for name in _STATISTICS}
    computed = {name: statistic for name, statistic in defined.items() if statistic is not None}
    bounds = dict(zip(computed, intervals(list(computed.values()), SEED, RESAMPLES), strict=True))
    total = tables.sum(axis=0, keepdims=True)
    rates = label_rates(total)
    labels: dict[str, OneLabel] = {}
    for index, name in enumerate(names):
        rates_of_label = {rate: _finite(values[0, index]) for rate, values in rates.items()}
        labels[name] = OneLabel(support=int(total[0, index].sum()), **rates_of_label)
    yield Verdicts(
        judge=judge,
        against=against,
        system=system,
        n=len(pairs),
        ci95={name: interval for name, interval in bounds.items() if interval is not None},
        labels=labels,
        **{name: computed[name].value if name in computed else None for name in _STATISTICS},
    )


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


# --- tables of labels, one for each draw of conversations -------------------------------------------------------------


def confusion_tables(truth: Sequence[str], judged: Sequence[str], clusters: Ints) -> tuple[list[str], Floats]:
    """Return the sorted labels and their confusion table in each cluster, (clusters, true labels, judged labels)."""
    names = sorted({*truth, *judged})
    number, count = number_clusters(clusters)
    tables = np.zeros((count, len(names), len(names)))
    true_indices = np.array([names.index(label) for label in truth])
    judged_indices = np.array([names.index(label) for label in judged])
    np.add.at(tables, (number, true_indices, judged_indices), 1)
    return names, tables


def label_rates(tables: Floats) -> dict[str, Floats]:
    """Return precision, recall (TPR), FPR and F1, (tables, labels); NaN without a denominator."""
    hits = np.diagonal(tables, axis1=1, axis2=2)
    true, judged, total = tables.sum(axis=2), tables.sum(axis=1), tables.sum(axis=(1, 2))[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "precision": hits / judged,
            "recall": hits / true,
            "fpr": (judged - hits) / (total - true),
            "f1": 2 * hits / (true + judged),
        }


def statistics_of_tables(tables: Floats, name: str) -> Floats:
    """Return one of `_STATISTICS` for each table; NaN if undefined, as kappa if both sides use only one label."""
    if name in _MEANS:
        rates = label_rates(tables)[_MEANS[name]]
        means: Floats = np.nansum(rates, axis=1) / np.isfinite(rates).sum(axis=1)
        return means
    accuracy: Floats = tables.trace(axis1=1, axis2=2) / tables.sum(axis=(1, 2))
    chance = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1) / tables.sum(axis=(1, 2)) ** 2
    return accuracy if name == "accuracy" else (accuracy - chance) / (1 - chance)
