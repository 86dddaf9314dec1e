"""Unknown and clarify: by hand, against scikit-learn, and by their properties."""

from __future__ import annotations

import math
from statistics import fmean
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support, roc_auc_score

from turnmark.assistant.types import Decision
from turnmark.corpora.mtrag import Answerability
from turnmark.evaluation.metrics.decisions import (
    always_positive,
    auroc,
    clarify_label,
    detection,
    idk_rate,
    said_unknown,
    sample_values,
    unknown_auroc,
    unknown_label,
)

PAIRS = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30)
# Eighths: many ties, and exact.
SCORED = st.lists(st.tuples(st.booleans(), st.integers(-8, 8).map(lambda n: n / 8), st.integers(0, 3)), max_size=30)


def both(truth: list[bool]) -> bool:
    return any(truth) and not all(truth)


def test_who_counts() -> None:
    labels = get_args(Answerability)
    assert {label: unknown_label(label) for label in labels} == {
        "ANSWERABLE": False, "PARTIAL": False, "UNANSWERABLE": True, "UNDERSPECIFIED": None, "CONVERSATIONAL": None,
    }  # fmt: skip
    assert {label: clarify_label(label) for label in labels} == {
        "ANSWERABLE": False, "PARTIAL": False, "UNANSWERABLE": False, "UNDERSPECIFIED": True, "CONVERSATIONAL": None,
    }  # fmt: skip
    assert unknown_label(None) is None
    assert clarify_label(None) is None


def test_a_recorded_decision_goes_before_a_detector() -> None:
    assert [decision for decision in get_args(Decision) if said_unknown(decision, True)] == ["unknown"]
    assert said_unknown("unknown", False) is True
    assert said_unknown(None, True) is True
    assert said_unknown(None, False) is False
    assert said_unknown(None) is None


def test_idk_rate() -> None:
    assert idk_rate([True, False, None, False, False]) == pytest.approx(1 / 4)
    assert idk_rate([None]) is None
    assert idk_rate([]) is None


def test_detection_by_hand() -> None:
    """Two of three unknowns found, one false alarm among four others: P = 2/3, R = 2/3; F1 of 2/3 and 2/3."""
    found = detection([True, True, True, False, False, False, False], [True, True, False, True, False, False, False])
    counts = found.true_positives, found.false_positives, found.false_negatives, found.true_negatives
    assert counts == (2, 1, 1, 3)
    assert (found.n, found.positives, found.predicted) == (7, 3, 3)
    assert found.precision == found.recall == pytest.approx(2 / 3)
    assert found.f1 == pytest.approx(2 / 3)


def test_what_is_empty() -> None:
    nothing = detection([], [])
    assert (nothing.n, nothing.precision, nothing.recall, nothing.f1) == (0, None, None, None)
    silent = detection([True, False], [False, False])
    assert (silent.precision, silent.recall, silent.f1) == (None, 0, 0)
    false_alarm = detection([False, False], [True, False])
    assert (false_alarm.precision, false_alarm.recall, false_alarm.f1) == (0, None, 0)
    with pytest.raises(ValueError):
        detection([True], [])


@given(st.lists(st.booleans(), min_size=1))
def test_the_baseline_is_the_share_of_positives(truth: list[bool]) -> None:
    share, baseline = fmean(truth), always_positive(truth)
    assert baseline.precision == pytest.approx(share)
    assert baseline.recall == (1 if any(truth) else None)
    assert baseline.f1 == pytest.approx(2 * share / (1 + share))


@settings(deadline=None)
@given(PAIRS)
def test_parity_with_scikit_learn(pairs: list[tuple[bool, bool]]) -> None:
    truth, said = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    found = detection(truth, said)
    assert found.n == len(pairs)
    if pairs:
        theirs = precision_recall_fscore_support(truth, said, average="binary", pos_label=True, zero_division=0)
        ours = [value or 0 for value in (found.precision, found.recall, found.f1)]
        assert ours == pytest.approx(list(theirs[:3]), abs=1e-12)


@given(PAIRS)
def test_precision_and_recall_mirror_each_other(pairs: list[tuple[bool, bool]]) -> None:
    truth, said = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    one, two = detection(truth, said), detection(said, truth)
    assert (one.precision, one.recall, one.f1) == (two.recall, two.precision, two.f1)
    assert all(value is None or 0 <= value <= 1 for value in (one.precision, one.recall, one.f1))


@given(PAIRS)
def test_the_mean_of_what_samples_add_is_the_figure(pairs: list[tuple[bool, bool]]) -> None:
    found = detection([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    for name, figure in (("precision", found.precision), ("recall", found.recall), ("f1", found.f1)):
        added = [value for pair in pairs for value in sample_values(*pair)[name]]
        assert figure == (pytest.approx(fmean(added)) if added else None)


def test_auroc_by_hand() -> None:
    """Positives .9, .5, negatives .5, .1: of four pairs three are in order and one ties."""
    assert auroc([True, True, False, False], [0.9, 0.5, 0.5, 0.1]) == pytest.approx(3.5 / 4)
    assert auroc([True, False], [0.5, 0.5]) == 0.5
    assert auroc([True, False], [-math.inf, math.inf]) == 0


def test_low_confidence_speaks_for_unknown() -> None:
    assert unknown_auroc([True, False, False], [0.1, 0.3, 0.9]) == 1
    assert unknown_auroc([True, False, False], [0.3, 0.1, 0.9]) == 0.5


def test_auroc_needs_both_classes_and_numbers() -> None:
    assert auroc([], []) is None
    assert auroc([True, True], [0.1, 0.2]) is None
    assert auroc([False], [0.1]) is None
    assert auroc([True, False], [0.1, 0.2], [0, 1]) is None
    for wrong in (([True], [], None), ([True, False], [0.1, math.nan], None), ([True, False], [0, 1], [1, -1])):
        with pytest.raises(ValueError):
            auroc(*wrong)


@settings(deadline=None)
@given(SCORED)
def test_auroc_is_that_of_scikit_learn(rows: list[tuple[bool, float, int]]) -> None:
    truth, scores, weights = ([row[i] for row in rows] for i in range(3))
    plain, weighted = auroc(truth, scores), auroc(truth, scores, weights)
    assert plain == (pytest.approx(roc_auc_score(truth, scores), abs=1e-12) if both(truth) else None)
    if both([label for label, weight in zip(truth, weights, strict=True) if weight]):
        assert weighted == pytest.approx(roc_auc_score(truth, scores, sample_weight=weights), abs=1e-12)
    else:
        assert weighted is None


@settings(deadline=None)
@given(SCORED)
def test_auroc_properties(rows: list[tuple[bool, float, int]]) -> None:
    truth, scores, weights = ([row[i] for row in rows] for i in range(3))
    value = auroc(truth, scores)
    repeated = [row for row in rows for _ in range(row[2])]
    assert auroc(truth, scores, weights) == auroc([row[0] for row in repeated], [row[1] for row in repeated])
    if value is None:
        return
    assert 0 <= value <= 1
    assert auroc(truth, [math.exp(score) for score in scores]) == value
    assert auroc([not label for label in truth], scores) == pytest.approx(1 - value)
    assert unknown_auroc(truth, scores) == pytest.approx(1 - value)
