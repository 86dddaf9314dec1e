"""`turnmark agreement`: people, metrics and labels, from files and runs, and the statistics by themselves."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata
from sklearn.metrics import accuracy_score, cohen_kappa_score, recall_score

from tests.evaluation.compared import IDS, shifted, write_run
from tests.evaluation.rated import MODELS, PROPERTIES, evaluation, write_evaluation
from tests.evaluation.reported import golden
from turnmark.core.errors import RequestError
from turnmark.corpora.benchmarks.inspector_raget import read_evaluation
from turnmark.evaluation.agreement.agreement_tables import read_printed_statistics
from turnmark.evaluation.agreement.compared_answers import gather
from turnmark.evaluation.agreement.measurement import Agreement, annotators_agree
from turnmark.evaluation.agreement.measurement import measure_agreement as agreement
from turnmark.evaluation.agreement.verdict_agreement import confusion_tables, label_rates, statistics_of_tables
from turnmark.evaluation.scores.cluster_statistics import (
    MIN_CLUSTERS,
    alpha_statistic,
    correlation_statistic,
    intervals,
    table_statistic,
)

HUMAN = "mt-rag-benchmark/mtrag-human/evaluations/reference_subset_with_human_evaluations.json"


@pytest.fixture
def human(tmp_path):
    return write_evaluation(tmp_path / "human.json")


def of(measured, metric, against, subset="all", systems=None):
    (row,) = [
        row for row in measured.correlations
        if (row.metric, row.against, row.subset) == (metric, against, subset) and systems in (None, row.systems)
    ]  # fmt: skip
    return row


def test_means_use_the_medians_of_the_raters(human):
    measured = agreement([human])
    assert (measured.n, measured.conversations) == (36, 4)
    assert measured.properties == (
        "win-rate", "faithfulness", "appropriateness", "naturalness", "completeness", "FANC",
    )  # fmt: skip
    counts = {(means.subset, means.system): means.n for means in measured.means}
    assert {key: n for key, n in counts.items() if key[1] == "gpt-4o"} == {
        ("all", "gpt-4o"): 12, ("answerable and partial", "gpt-4o"): 10, ("answerable", "gpt-4o"): 8,
    }  # fmt: skip
    rows = [row for row in evaluation()["evaluations"] if row["model_id"] == "gpt-4o"]
    medians = {
        name: [statistics.median(float(r["value"]) for r in row["annotations"][name].values()) for row in rows]
        for name in PROPERTIES
    }
    means = next(means for means in measured.means if (means.subset, means.system) == ("all", "gpt-4o"))
    for name in PROPERTIES:
        assert means.people[name].value == pytest.approx(statistics.mean(medians[name]))
    harmonic = [statistics.harmonic_mean([medians[name][index] for name in PROPERTIES]) for index in range(12)]
    assert means.people["FANC"].value == pytest.approx(statistics.mean(harmonic))
    assert means.people["FANC"].ci95 is None
    assert measured.notes[0] == "4 conversations: no interval, which takes at least 6"


def test_answers_without_three_ratings_are_counted_and_left_out(tmp_path):
    content = evaluation()
    annotations = content["evaluations"][0]["annotations"]
    del annotations["faithfulness"]["r0"]
    annotations["completeness"] = {f"r{index}": {"value": "2" if index else "4"} for index in range(3)}
    annotators = agreement([write_evaluation(tmp_path / "h.json", content)]).annotators
    assert (annotators["faithfulness"].n, annotators["faithfulness"].fewer) == (35, 1)
    assert annotators["completeness"].agreeing == pytest.approx(35 / 36)
    assert annotators["completeness"].absolute < annotators["completeness"].agreeing
    assert (annotators["completeness"].two_equal, annotators["win-rate"].two_equal) == (1.0, 12 / 36)
    assert annotators["win-rate"].point == 50
    assert (annotators["win-rate"].absolute, annotators["win-rate"].agreeing) == (12 / 36, 12 / 36)


def test_prints_the_complete_agreement_report(human, turnmark):
    golden("agreement.txt", turnmark.ok("agreement", human).out)
    assert Agreement.model_validate(turnmark.json("agreement", human)) == agreement([human])


def scored(path, model="gpt-4o", metric="k_precision"):
    """A run that scored the answers of a model in the file."""
    rows = [row for row in evaluation()["evaluations"] if row["model_id"] == model]
    values = {metric: {row["task_id"]: index / 12 for index, row in enumerate(rows)},
              "idk_rate": {row["task_id"]: float(index % 6 == 5) for index, row in enumerate(rows)}}  # fmt: skip
    return write_run(path, values, answers={row["task_id"]: f" {row['model_response']}  [1]" for row in rows})


def test_run_scores_are_added_to_the_rated_answers(human, tmp_path):
    run = scored(tmp_path / "ours")
    measured = agreement([run, human])
    correlated = of(measured, "k_precision", "faithfulness")
    assert (correlated.n, correlated.systems) == (12, "without the reference")
    assert of(measured, "rl_f", "faithfulness").n == 24
    assert "ours: its answers match those of gpt-4o on 12 of 12 shared tasks" in measured.notes
    (verdict,) = [
        correlated for correlated in measured.verdicts if correlated.judge == "idk_rate" and correlated.system == "all"
    ]
    assert (verdict.n, verdict.accuracy, verdict.kappa) == (12, 1, 1)
    assert verdict.labels["unknown"].support == 2
    # A metric that is there already has the name of its run; others are one column over both runs.
    runs = [scored(tmp_path / name, model, "rl_f") for name, model in (("a", "gpt-4o"), ("b", MODELS[2]))]
    measured = agreement([human, *runs])
    assert [name for name in measured.metrics if name.startswith("rl_f")] == ["rl_f", "rl_f (a)", "rl_f (b)"]
    verdicts = {verdict.system: verdict.n for verdict in measured.verdicts if verdict.judge == "idk_rate"}
    assert verdicts == {"all": 24, "gpt-4o": 12, MODELS[2]: 12}


def test_refuses_a_run_of_other_answers(human, tmp_path):
    run = write_run(tmp_path / "other", {"k_precision": {"c0<::>1": 0.5, "c1<::>2": 0.5}})
    with pytest.raises(RequestError, match=r"the file rates none of its answers \(2 shared tasks\)"):
        agreement([human, run])


def test_refuses_answers_rated_in_two_files(human, tmp_path):
    again = write_evaluation(tmp_path / "again.json", evaluation() | {"name": "another"})
    with pytest.raises(RequestError, match="36 answers are in several files"):
        agreement([human, again])
    copied = write_evaluation(tmp_path / "copied.json")
    with pytest.raises(RequestError, match=r"human\.json and copied\.json are the same file; name one of them"):
        agreement([human, copied])


def test_runs_with_the_same_name_are_separate_systems(tmp_path):
    """Two runs of one name were one system."""
    idk = {"idk[embedded]": {name: float(index % 2) for index, name in enumerate(IDS)}}
    runs = [write_run(tmp_path / parent / "run", idk) for parent in ("a", "b")]
    assert {answer.system for answer in gather(runs).answers} == {"a/run", "b/run"}


def test_refuses_a_request_with_nothing_to_compare(tmp_path, turnmark):
    run = write_run(tmp_path / "alone", shifted(0))
    message = turnmark.refused("agreement", run)
    assert "name a file with ratings of people" in message
    (tmp_path / "bad.json").write_text("{")
    message = turnmark.refused("agreement", tmp_path / "nowhere", tmp_path / "bad.json", tmp_path)
    for words in ("nowhere' does not exist", "bad.json' is not JSON", "is not a run"):
        assert words in message


@pytest.mark.data
def test_reproduces_the_published_human_evaluation(real_data, turnmark):
    """BERT K-precision .56 and the conditioned judge .74 over 158 rows, .53 and .70 over 150: docs/measured.md."""
    measured = Agreement.model_validate(turnmark.json("agreement", real_data / HUMAN))
    rows = [of(measured, metric, "faithfulness", subset) for subset in ("all", "answerable and partial")
            for metric in ("Bert-KPrec", "rl_f")]  # fmt: skip
    assert [(row.n, round(row.plain.value, 2)) for row in rows if row.plain] == [
        (158, 0.56), (158, 0.74), (150, 0.53), (150, 0.70),
    ]  # fmt: skip
    (reference,) = [row for row in measured.means if (row.system, row.subset) == ("reference", "answerable")]
    assert (reference.n, round(reference.people["faithfulness"].value, 2)) == (64, 3.67)
    assert round(measured.annotators["naturalness"].agreeing, 3) == 0.922
    # Figure 4, on the half of its tasks that is here; ranks of a weighted population are off by .105.
    weighted = {(row.against, row.metric): row.weighted for row in measured.correlations
                if row.subset == "answerable and partial" and row.systems == "without the reference"}  # fmt: skip
    errors = [
        abs(estimate.value - printed)
        for name, figures in read_printed_statistics()["correlations"].items() if name != "win-rate"
        for metric, printed in figures.items()
        if (estimate := weighted[name, metric]) is not None
    ]  # fmt: skip
    assert (len(errors), round(statistics.mean(errors), 3)) == (30, 0.067)


NUMBERS = {"A > B": 1.0, "A = B": 0.5, "B > A": 0.0}
A, TIE, B = NUMBERS
# What three people say, and the judge: two of three count, one who differs does not, three who differ are left out.
PAIRS = [
    ((A, A, A), A), ((A, TIE, A), A), ((B, A, A), A), ((A, A, TIE), TIE), ((TIE, TIE, TIE), TIE),
    ((TIE, A, TIE), TIE), ((TIE, TIE, B), B), ((B, B, B), B), ((B, TIE, B), B), ((A, B, B), B), ((A, TIE, B), A),
]  # fmt: skip
COMPOUND_IDS = [f"Understanding/Factual-Statement/x_{n}" for n in range(len(PAIRS))]


@pytest.fixture
def sources(tmp_path):
    """Ratings in the format of InspectorRAGet, A being the model's answer and B the reference; and a judged run."""
    values = [{"value": label, "numeric_value": number} for label, number in NUMBERS.items()]
    content = {
        "name": "pairs", "models": [{"model_id": "tiny", "name": "Tiny"}],
        "metrics": [{"name": "preference", "author": "human", "type": "categorical", "values": values}],
        "tasks": [{"task_id": name, "input": [{"text": "q"}], "targets": [{"text": "r"}]} for name in COMPOUND_IDS],
        "evaluations": [
            {"task_id": name, "model_id": "tiny", "model_response": f"answer of {name}",
             "annotations": {"preference": {f"p{n}": {"value": label} for n, label in enumerate(people)}}}
            for name, (people, _) in zip(COMPOUND_IDS, PAIRS, strict=True)
        ],
    }  # fmt: skip
    file = tmp_path / "people.json"
    file.write_text(json.dumps(content))
    judgments = {name: NUMBERS[judge] for name, (_, judge) in zip(COMPOUND_IDS, PAIRS, strict=True)}
    return file, write_run(tmp_path / "run", {"preference": judgments}, benchmark="compound-qa", setting=None)


def test_judge_of_pairs_is_measured_as_a_classifier_of_three_labels(sources, turnmark):
    (measured,) = agreement(list(sources)).verdicts
    assert (measured.judge, measured.against) == ("preference", "preference (two of three people)")
    assert measured.n == 10, "where all three differ there is no label"
    assert measured.accuracy == 8 / 10
    assert {name: (label.support, label.recall, label.fpr) for name, label in measured.labels.items()} == {
        A: (4, 3 / 4, 0.0), TIE: (3, 2 / 3, 1 / 7), B: (3, 1.0, 1 / 7),
    }  # fmt: skip
    assert measured.mean_tpr == pytest.approx((3 / 4 + 2 / 3 + 1) / 3)
    assert measured.mean_fpr == pytest.approx(2 / 21)
    printed = " ".join(turnmark.ok("agreement", *sources).out.split())
    assert "0.806" in printed  # the mean of the TPR
    assert "accuracy .81, mean TPR .8844 and mean FPR .1047" in printed


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


def test_label_values_match_hand_computed_values():
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
def test_table_values_equal_those_of_resampled_rows(seed, clusters):
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
