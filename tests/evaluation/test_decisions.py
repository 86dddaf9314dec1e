"""Unknown and clarify: by hand, against scikit-learn, and by their properties."""

from __future__ import annotations

import math
from statistics import fmean
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support, roc_auc_score

from turnmark.corpora.mtrag import Answerability
from turnmark.evaluation.metrics.decisions import auroc, clarify_label, sample_values, unknown_label

# Eighths: many ties, and exact.
SCORED = st.lists(st.tuples(st.booleans(), st.integers(-8, 8).map(lambda n: n / 8), st.integers(0, 3)), max_size=30)


def has_both(truth: list[bool]) -> bool:
    return any(truth) and not all(truth)


def test_who_counts() -> None:
    labels = get_args(Answerability)
    assert {label: unknown_label(label) for label in labels} == {
        "ANSWERABLE": False, "PARTIAL": False, "UNANSWERABLE": True, "UNDERSPECIFIED": None, "CONVERSATIONAL": None,
    }  # fmt: skip
    assert {label: clarify_label(label) for label in labels} == {
        "ANSWERABLE": False, "PARTIAL": False, "UNANSWERABLE": False, "UNDERSPECIFIED": True, "CONVERSATIONAL": None,
    }  # fmt: skip
    assert unknown_label(None) is clarify_label(None) is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_the_means_of_what_samples_add_are_scikit_learns_figures(pairs: list[tuple[bool, bool]]) -> None:
    truth, predicted = ([pair[side] for pair in pairs] for side in (0, 1))
    theirs = precision_recall_fscore_support(truth, predicted, average="binary", pos_label=True, zero_division=0)
    for name, figure in zip(("precision", "recall", "f1"), theirs[:3], strict=True):
        values = [value for pair in pairs for value in sample_values(*pair)[name]]
        assert figure == (pytest.approx(fmean(values), abs=1e-12) if values else 0)


def test_auroc_by_hand() -> None:
    """Positives .9, .5, negatives .5, .1: of four pairs three are in order and one ties."""
    assert auroc([True, True, False, False], [0.9, 0.5, 0.5, 0.1]) == pytest.approx(3.5 / 4)
    assert auroc([True, False], [-math.inf, math.inf]) == 0
    for truth, scores in (([], []), ([True, True], [0.1, 0.2]), ([False], [0.1])):
        assert auroc(truth, scores) is None
    assert auroc([True, False], [0.1, 0.2], [0, 1]) is None
    for wrong in (([True], [], None), ([True, False], [0.1, math.nan], None), ([True, False], [0, 1], [1, -1])):
        with pytest.raises(ValueError):
            auroc(*wrong)


@settings(deadline=None)
@given(SCORED)
def test_auroc_is_that_of_scikit_learn(rows: list[tuple[bool, float, int]]) -> None:
    truth, scores, weights = ([row[i] for row in rows] for i in range(3))
    plain, weighted = auroc(truth, scores), auroc(truth, scores, weights)
    assert plain == (pytest.approx(roc_auc_score(truth, scores), abs=1e-12) if has_both(truth) else None)
    if has_both([label for label, weight in zip(truth, weights, strict=True) if weight]):
        assert weighted == pytest.approx(roc_auc_score(truth, scores, sample_weight=weights), abs=1e-12)
    else:
        assert weighted is None
