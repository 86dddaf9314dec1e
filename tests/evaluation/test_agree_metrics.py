"""People's ratings: the reader of InspectorRAGet's format, rank correlation, shared ratings and labels."""

from __future__ import annotations

import math
import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from tests.evaluation.rated import MODELS, PROPERTIES, evaluation, write_evaluation
from turnmark.corpora.errors import RequestError
from turnmark.corpora.inspector import read_evaluation
from turnmark.evaluation.metrics.agreement import (
    Correlation,
    annotators_agree,
    classified,
    krippendorff_alpha,
    spearman,
)
from turnmark.evaluation.metrics.counted import (
    Tabled,
    accuracies,
    alpha_figure,
    confusion_tables,
    kappas,
    mean_fprs,
    mean_tprs,
)
from turnmark.evaluation.stats import intervals


def test_a_file_as_it_stands(tmp_path):
    content = read_evaluation(write_evaluation(tmp_path / "h.json"))
    assert content.name == "a small one"
    assert tuple(content.models) == MODELS
    assert content.people == (*PROPERTIES, "win-rate")
    assert content.metrics == ("rl_f", "rb_llm", "conditional_idk")
    assert content.points == dict.fromkeys(PROPERTIES, 1.0)
    assert (len(content.tasks), len(content.answers), content.problems) == (12, 36, ())
    task = content.tasks["c0<::>2"]
    assert (task.question, task.answerability) == ("question 1?", "ANSWERABLE")
    first = content.answers[0]
    assert content.answers[3].ratings["win-rate"] == {"r0": 50.0, "r1": 100.0, "r2": 0.0}
    assert first.scores["conditional_idk"] == 1


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda c: c["evaluations"].__setitem__(2, "x"), "evaluations[2]: is no object"),
        (lambda c: c["evaluations"][2].pop("task_id"), "evaluations[2]: 'task_id' is missing"),
        (lambda c: c["evaluations"][2].update(model_id="who"), "evaluations[2].model_id: no model 'who' in the file"),
        (lambda c: c["evaluations"][2].update(task_id="z"), "evaluations[2].task_id: no task 'z' in the file"),
        (lambda c: c["evaluations"][2].update(annotations=[]), "evaluations[2].annotations: is missing, or no object"),
        (lambda c: c["evaluations"][2].update(model_response=7), "evaluations[2]: 'model_response' is int, not text"),
        (lambda c: c["evaluations"].append(c["evaluations"][2]), "evaluations[36]: 'llama-3.1-405b"),
        (lambda c: c["tasks"].append(c["tasks"][0]), "tasks[12]: the task 'c0<::>1' stood there already"),
        (lambda c: c["tasks"][3].pop("task_id"), "tasks[3]: 'task_id' is missing"),
        (lambda c: c["models"][1].pop("model_id"), "models[1]: 'model_id' is missing"),
        (lambda c: c["metrics"][1].update(values=[{"value": "x"}]), "metrics[1]: 'x' is no finite number"),
        (lambda c: c["evaluations"][4]["annotations"]["rl_f"]["composite"].update(value="NaN"),
         "evaluations[4].annotations.rl_f.composite: 'NaN' is no finite number"),
        (lambda c: c["evaluations"][4]["annotations"]["faithfulness"]["r1"].update(value=None),
         "evaluations[4].annotations.faithfulness.r1: 'None' is no finite number"),
        (lambda c: c["evaluations"][4]["annotations"].update(faithfulness=3),
         "evaluations[4].annotations.faithfulness: is no object"),
    ],
)  # fmt: skip
def test_a_malformed_row_is_named_by_its_place_and_costs_no_other(tmp_path, change, place):
    content = evaluation()
    change(content)
    result = read_evaluation(write_evaluation(tmp_path / "h.json", content))
    assert any(problem.what.startswith(place) for problem in result.problems), result.problems
    assert all(problem.file == "h.json" for problem in result.problems)
    assert len(result.answers) >= 24


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not JSON"), ("[1]", "is no JSON object"), ("{}", "no list under models, metrics, tasks, evaluations"),
        ('{"models": [], "metrics": [], "tasks": []}', "no list under evaluations"), ("[" * 100_000, "is not JSON"),
    ],
)  # fmt: skip
def test_a_file_of_another_kind_is_refused(tmp_path, text, problem):
    path = tmp_path / "h.json"
    path.write_text(text)
    with pytest.raises(RequestError, match=problem):
        read_evaluation(path)
    with pytest.raises(RequestError, match="cannot be read"):
        read_evaluation(tmp_path / "nowhere.json")


def scipys(first, second):
    from scipy.stats import spearmanr

    if len(first) < 2:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        correlation = float(spearmanr(first, second)[0])
    return None if np.isnan(correlation) else correlation


def close(first, second):
    return first == second or (first is not None and second is not None and abs(first - second) < 1e-9)


def test_a_rank_correlation_needs_variation():
    assert spearman([1, 2, 2], [3, 4, 4]) == pytest.approx(1)
    assert spearman([1, 1], [3, 4]) is None


def in_plain_words(metric, human, balanced):
    """Pearson's correlation of scipy's ranks; balanced, a row weighs one over how often its rounded score occurs."""
    if len(set(metric)) < 2 or len(set(human)) < 2:
        return None
    often = Counter(map(math.ceil, human))
    weights = [1 / often[math.ceil(score)] if balanced else 1.0 for score in human]
    covariance = np.cov(rankdata(metric), rankdata(human), aweights=weights, ddof=0)
    return covariance[0, 1] / math.sqrt(covariance[0, 0] * covariance[1, 1])


@given(st.integers(0, 2**32), st.integers(1, 12), st.booleans())
@settings(max_examples=25, deadline=None)
def test_an_interval_of_a_correlation_is_that_of_resampled_rows(seed, clusters, balanced):
    generator = np.random.default_rng(seed)
    n = 24
    metric, human = generator.integers(0, 9, n).astype(float), generator.integers(2, 9, n) / 2
    number = generator.integers(0, clusters, n)

    def plainly(rows):
        rows = list(rows)
        return in_plain_words(metric[rows].tolist(), human[rows].tolist(), balanced)

    correlation = Correlation.of(metric, human, number, balanced)
    assert close(correlation.value, plainly(range(n)))
    count = correlation.clusters
    draws = generator.multinomial(count, np.full(count, 1 / count), size=7).astype(float)
    order = list(dict.fromkeys(number.tolist()))
    rows_of_draws = [
        [
            row
            for place, times in enumerate(draw)
            for row in np.flatnonzero(number == order[place])
            for _ in range(int(times))
        ]
        for draw in draws
    ]
    expected = [value for rows in rows_of_draws if (value := plainly(rows)) is not None]
    assert correlation.over(draws) == pytest.approx(expected, abs=1e-9)
    ((low, high),) = intervals([correlation], 0, 50)
    assert -1 <= low <= high <= 1


def test_a_correlation_with_what_does_not_vary_is_none():
    ones = np.ones(4)
    assert Correlation.of(ones, np.arange(4.0), np.arange(4), False) is None
    assert Correlation.of(np.arange(4.0), ones, np.arange(4), True) is None


@pytest.mark.parametrize(
    ("ratings", "agree"),
    [
        ((4, 4, 4), True), ((4, 4, 3), True), ((3, 4, 4), True), ((4, 3, 3), True), ((4, 4, 2), False),
        ((2, 3, 4), False), ((4, 3, 4), True), ((1, 1, 3), False), ((4, 4), None), ((4, 4, 4, 4), None), ((), None),
    ],
)  # fmt: skip
def test_three_raters_agree_as_appendix_e_says(ratings, agree):
    assert annotators_agree(ratings) is agree
    assert annotators_agree([50 * rating for rating in ratings], 50) is agree


def test_labels_by_hand():
    # 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: the usual example of Cohen's kappa, .4.
    truth = ["yes"] * 25 + ["no"] * 25
    judged = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    counts = classified(truth, judged)
    assert (counts.n, counts.accuracy, counts.kappa) == (50, 0.7, pytest.approx(0.4))
    yes, no = counts.labels["yes"], counts.labels["no"]
    assert (yes.precision, yes.recall, yes.false_positive_rate, yes.positives) == (20 / 30, 0.8, 0.4, 25)
    assert (no.precision, no.recall, no.false_positive_rate) == (0.75, 0.6, 0.2)
    assert (counts.mean_tpr, counts.mean_fpr) == (pytest.approx(0.7), pytest.approx(0.3))


def test_labels_without_anything_to_divide_by():
    assert classified([], []) is None
    alike = classified(["a", "a"], ["a", "a"])
    assert (alike.kappa, alike.accuracy, alike.mean_fpr) == (None, 1, None)
    never = classified(["a", "a"], ["b", "a"])
    assert (never.labels["b"].recall, never.labels["b"].precision, never.labels["b"].f1) == (None, 0, 0)


@given(st.integers(0, 2**32), st.integers(2, 6))
@settings(max_examples=20, deadline=None)
def test_figures_of_tables_are_those_of_resampled_rows(seed, clusters):
    """Accuracy, kappa, mean TPR and FPR, and alpha, over draws of conversations: as over the rows written out."""
    generator = np.random.default_rng(seed)
    truth, judged = (generator.choice(list("abc"), 20).tolist() for _ in range(2))
    number = np.arange(20) % clusters
    units = [list(pair) for pair in generator.integers(1, 5, (20, 3)).astype(float)]
    draws = generator.multinomial(clusters, np.full(clusters, 1 / clusters), size=5).astype(float)
    rows_of_draws = [[r for r in range(20) for _ in range(int(draw[number[r]]))] for draw in draws]
    tables = confusion_tables(truth, judged, number)
    for read, name in ((accuracies, "accuracy"), (kappas, "kappa"), (mean_tprs, "mean_tpr")):
        figure = Tabled.of(tables, read)
        drawn = [classified([truth[r] for r in rows], [judged[r] for r in rows]) for rows in rows_of_draws]
        expected = [value for one in drawn if one and (value := getattr(one, name)) is not None]
        assert figure
        assert figure.over(draws) == pytest.approx(expected)
    fpr = Tabled.of(tables, mean_fprs)
    assert fpr
    assert fpr.value == pytest.approx(classified(truth, judged).mean_fpr)
    figure = alpha_figure(units, "interval", number)
    assert figure
    assert figure.value == pytest.approx(krippendorff_alpha(units, "interval"))
    expected = [krippendorff_alpha([units[r] for r in rows], "interval") for rows in rows_of_draws]
    assert figure.over(draws) == pytest.approx(expected)
    low, high = intervals([figure], 0, 100)[0]
    assert low <= high
