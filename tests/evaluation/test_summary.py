"""Summaries of a run: one sample after the other, against a plain reference."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from tests.intervals import mean_interval
from turnmark.evaluation.records import Metrics, MetricSummary, Score
from turnmark.evaluation.scores.score_tally import Facts, ScoreTally


def scored(metric, value, weight=1.0, identifier="s"):
    return Score(id=identifier, metric=metric, status="scored", value=value, weight=weight, by="x")


def unscored(metric, status):
    return Score.model_validate({"id": "s", "metric": metric, "status": status, "reason": "none", "by": "x"})


def tally(entries, seed=0):
    result = ScoreTally(seed)
    for scores, facts, rankings in entries:
        result.add(scores, facts, rankings)
    return result


def plain(entries, seed):
    """The same by lists of records."""
    result: Metrics = {}
    lines = [(score, facts.cluster) for scores, facts, _ in entries for score in scores]
    for name in dict.fromkeys(score.metric for score, _ in lines):
        mine = [(score, cluster) for score, cluster in lines if score.metric == name]
        good = [(score.value, score.weight, cluster) for score, cluster in mine if score.value is not None]
        mean, low, high = (
            mean_interval(*zip(*((v, c) for v, _, c in good), strict=True), seed, 2000, [w for _, w, _ in good])
            if good
            else (None,) * 3
        )
        result[name] = MetricSummary(
            mean=mean, ci95=None if low is None or high is None else (low, high), n=len(good),
            failed=sum(score.status == "failed" for score, _ in mine),
            not_applicable=sum(score.status == "not_applicable" for score, _ in mine),
            clusters=len({cluster for *_, cluster in good}) or None,
        )  # fmt: skip
    return result


LINE = st.one_of(
    st.builds(scored, st.sampled_from("mno"), st.floats(0, 1), st.sampled_from([1.0, 1.0, 2.0, 0.1])),
    st.builds(unscored, st.sampled_from("mno"), st.sampled_from(["failed", "not_applicable"])),
)
FACTS_FILE = st.builds(
    Facts,
    cluster=st.sampled_from("abcd"),
    labels=st.fixed_dictionaries(
        {"kind": st.lists(st.sampled_from("qp"), unique=True).map(tuple)}, optional={"turn": st.just(("first",))}
    ),
    headline=st.sampled_from([True, True, False]),
)
RANKINGS = st.fixed_dictionaries({}, optional={"m.auroc": st.tuples(st.booleans(), st.integers(0, 3).map(float))})


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.lists(LINE, max_size=5), FACTS_FILE, RANKINGS), max_size=12), st.integers(0, 2))
def test_tally_matches_a_plain_implementation(entries, seed):
    totals = tally(entries, seed)
    parts = {
        dimension: {
            value: [
                entry for entry in entries if value in entry[1].labels.get(dimension, ()) and (entry[0] or entry[2])
            ]
            for value in sorted({v for s, f, r in entries if s or r for v in f.labels.get(dimension, ())})
        }
        for dimension in dict.fromkeys(d for s, f, r in entries if s or r for d, values in f.labels.items() if values)
    }
    breakdowns = totals.breakdowns()
    assert [(d, list(values)) for d, values in breakdowns.items()] == [(d, list(values)) for d, values in parts.items()]
    # Whoever is ranked is in the headline's area, whatever is said of the means.
    cases = [(totals.metrics(), [entry for entry in entries if entry[1].headline], entries)]
    # Of a value that samples of the headline have, the others are left out.
    parts = {
        d: {value: [e for e in part if e[1].headline] or part for value, part in values.items()}
        for d, values in parts.items()
    }
    cases += [(breakdowns[d][value], part, part) for d, values in parts.items() for value, part in values.items()]
    for metrics, part, those_ranked in cases:
        assert list(metrics) == [*plain(part, seed), *["m.auroc"] * any(ranks for *_, ranks in those_ranked)]
        area = metrics.pop("m.auroc", None)
        assert metrics == plain(part, seed)  # to the last bit
        if area:
            ranked = [ranks["m.auroc"] for *_, ranks in those_ranked if ranks]
            both = len({positive for positive, _ in ranked}) == 2
            assert area.mean == (pytest.approx(roc_auc_score(*zip(*ranked, strict=True))) if both else None)
            assert (area.n, area.not_applicable) == ((0, len(ranked)) if area.mean is None else (len(ranked), 0))
        for entry in (*metrics.values(), *([area] if area else [])):
            assert (entry.mean is None) == (entry.ci95 is None) == (entry.n == 0)
            assert entry.ci95 is None or entry.ci95[0] <= entry.ci95[1]
            assert "NaN" not in json.dumps(entry.model_dump())


def test_sample_outside_the_headline_counts_in_ranked_metrics():
    hidden = Facts(cluster="a", labels={"kind": ("hidden",)}, headline=False)
    result = ScoreTally(0)
    result.add([scored("words", 10)], Facts(cluster="a", labels={}))
    result.add([scored("words", 30)], hidden, {"auc": [(False, 0.1), (True, 0.4)]})
    result.add([scored("words", 30)], hidden, {"auc": [(False, 0.3), (True, 0.2)]})
    headline = result.metrics()
    assert headline["words"].mean == 10
    assert (headline["auc"].mean, headline["auc"].n) == (0.75, 4)
    assert result.breakdowns()["kind"]["hidden"]["auc"] == headline["auc"]
