"""People's ratings: the reader of InspectorRAGet's format, rank correlation, shared ratings and labels."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata
from sklearn.metrics import accuracy_score, cohen_kappa_score, recall_score

from tests.evaluation.rated import evaluation, write_evaluation
from turnmark.core.errors import RequestError
from turnmark.corpora.benchmarks.inspector_raget import read_evaluation
from turnmark.evaluation.agreement.measurement import annotators_agree
from turnmark.evaluation.agreement.verdict_agreement import confusion_tables, label_rates, statistics_of_tables
from turnmark.evaluation.scores.cluster_statistics import (
    MIN_CLUSTERS,
    alpha_statistic,
    correlation_statistic,
    intervals,
    table_statistic,
)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda c: c["evaluations"].__setitem__(2, "x"), "evaluations[2]: is not an object"),
        (lambda c: c["evaluations"][2].update(model_id="who"), "evaluations[2].model_id: no model 'who' in the file"),
        (lambda c: c["evaluations"][2].update(model_response=7), "evaluations[2]: 'model_response' is int, not text"),
        (lambda c: c["evaluations"].append(c["evaluations"][2]), "evaluations[36]: 'llama-3.1-405b"),
        (lambda c: c["evaluations"][4]["annotations"]["rl_f"]["composite"].update(value="NaN"),
         "evaluations[4].annotations.rl_f.composite: 'NaN' is not a finite number"),
    ],
)  # fmt: skip
def test_reports_a_malformed_row_and_reads_the_others(tmp_path, change, place):
    content = evaluation()
    change(content)
    result = read_evaluation(write_evaluation(tmp_path / "h.json", content))
    assert any(problem.what.startswith(place) for problem in result.problems), result.problems
    assert all(problem.file == "h.json" for problem in result.problems)
    assert len(result.answers) >= 24


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not JSON"), ("[1]", "is not a JSON object"),
        ("{}", "no list under models, metrics, tasks, evaluations"),
        ('{"models": [], "metrics": [], "tasks": []}', "no list under evaluations"), ("[" * 100_000, "is not JSON"),
    ],
)  # fmt: skip
def test_refuses_a_file_of_another_kind(tmp_path, text, problem):
    path = tmp_path / "h.json"
    path.write_text(text)
    with pytest.raises(RequestError, match=problem):
        read_evaluation(path)
    with pytest.raises(RequestError, match="cannot be read"):
        read_evaluation(tmp_path / "nowhere.json")


def in_plain_words(metric, human, balanced):
    """Pearson's correlation of scipy's ranks; balanced, a row weighs one over how often its rounded score occurs."""
    if len(set(metric)) < 2 or len(set(human)) < 2:
        return None
    often = Counter(map(math.ceil, human))
    weights = [1 / often[math.ceil(score)] if balanced else 1.0 for score in human]
    covariance = np.cov(rankdata(metric), rankdata(human), aweights=weights, ddof=0)
    return covariance[0, 1] / math.sqrt(covariance[0, 0] * covariance[1, 1])


def rows_of(draws, number):
    """The rows of each draw of clusters, written out."""
    order = list(dict.fromkeys(number.tolist()))
    return [[r for r, cluster in enumerate(number) for _ in range(int(draw[order.index(cluster)]))] for draw in draws]


def draw(generator, clusters):
    return generator.multinomial(clusters, np.full(clusters, 1 / clusters), size=6).astype(float)


@given(st.integers(0, 2**32), st.integers(2, 12), st.booleans())
@settings(max_examples=25, deadline=None)
def test_correlation_interval_equals_that_of_resampled_rows(seed, clusters, balanced):
    generator = np.random.default_rng(seed)
    metric, human = generator.integers(0, 9, 24).astype(float), generator.integers(2, 9, 24) / 2
    number = np.arange(24) % clusters
    correlation = correlation_statistic(metric, human, number, balanced)
    assert correlation.value == pytest.approx(in_plain_words(metric, human, balanced))
    draws = draw(generator, clusters)
    plain = [in_plain_words(metric[rows].tolist(), human[rows].tolist(), balanced) for rows in rows_of(draws, number)]
    assert correlation.over(draws) == pytest.approx([value for value in plain if value is not None], abs=1e-9)
    (interval,) = intervals([correlation], 0, 50)
    assert (interval is None) == (clusters < MIN_CLUSTERS)
    assert interval is None or -1 <= interval[0] <= interval[1] <= 1


@pytest.mark.parametrize(
    ("ratings", "agree"),
    [
        ((4, 4, 4), True), ((4, 4, 3), True), ((3, 4, 4), True), ((4, 3, 3), True), ((4, 4, 2), False),
        ((2, 3, 4), False), ((4, 3, 4), True), ((1, 1, 3), False),
    ],
)  # fmt: skip
def test_three_raters_agree_as_defined_in_appendix_e(ratings, agree):
    assert annotators_agree(ratings) is agree
    assert annotators_agree([50 * rating for rating in ratings], 50) is agree


def figure_of(truth, judged, read):
    figure = table_statistic(
        confusion_tables(truth, judged, np.arange(len(truth)))[1], partial(statistics_of_tables, name=read)
    )
    return figure.value if figure else None


def test_label_figures_match_hand_computed_values():
    # 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: the usual example of Cohen's kappa, .4.
    truth = ["yes"] * 25 + ["no"] * 25
    judged = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    expected = (("accuracy", 0.7), ("kappa", 0.4), ("mean_tpr", 0.7), ("mean_fpr", 0.3))
    for read, value in expected:
        assert figure_of(truth, judged, read) == pytest.approx(value)
    names, tables = confusion_tables(truth, judged, np.zeros(50, dtype=int))
    assert names == ["no", "yes"]
    assert label_rates(tables)["precision"].tolist() == [[0.75, pytest.approx(20 / 30)]]
    alike = ["a", "a"]
    assert [figure_of(alike, alike, read) for read in ("kappa", "accuracy", "mean_fpr")] == [None, 1, None]
    assert np.isnan(label_rates(confusion_tables(alike, ["b", "a"], np.zeros(2))[1])["recall"][0, 1])


@given(st.integers(0, 2**32), st.integers(2, 6))
@settings(max_examples=20, deadline=None)
def test_table_figures_equal_those_of_resampled_rows(seed, clusters):
    """Accuracy, kappa, mean TPR and alpha over draws of conversations: scikit-learn's over the rows written out."""
    generator = np.random.default_rng(seed)
    truth, judged = (generator.choice(list("abc"), 20) for _ in range(2))
    number = np.arange(20) % clusters
    draws = draw(generator, clusters)
    rows_of_draws = rows_of(draws, number)
    _, tables = confusion_tables(truth, judged, number)
    for read, theirs in (("accuracy", accuracy_score), ("kappa", cohen_kappa_score)):
        expected = [theirs(truth[rows], judged[rows]) for rows in rows_of_draws]
        assert table_statistic(tables, partial(statistics_of_tables, name=read)).over(draws) == pytest.approx(
            [v for v in expected if np.isfinite(v)]
        )
    expected = [recall_score(truth[rows], judged[rows], average="macro", labels=sorted(set(truth[rows])),
                             zero_division=0) for rows in rows_of_draws]  # fmt: skip
    assert table_statistic(tables, partial(statistics_of_tables, name="mean_tpr")).over(draws) == pytest.approx(
        expected
    )
    units = [list(unit) for unit in generator.integers(1, 5, (20, 3)).astype(float)]
    expected = [alpha_statistic([units[r] for r in rows], "interval").value for rows in rows_of_draws]
    assert alpha_statistic(units, "interval", number).over(draws) == pytest.approx(expected)
