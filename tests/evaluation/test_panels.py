"""Several judges of one reply, how far they agree, and scores conditioned on an IDK verdict."""

from __future__ import annotations

from typing import Any

import pytest

from tests.evaluation.scripted_judges import FAILED, scored
from turnmark.evaluation.benchmarks.mtrag.rubrics import IDK_JUDGE, RB_LLM, RL_F
from turnmark.evaluation.judging.panel import majority, panel_agreement, panel_outcome
from turnmark.evaluation.metrics.idk_conditioning import accuracy, condition_score, is_conditioned, with_underspecified
from turnmark.evaluation.records import Score
from turnmark.evaluation.scores.cluster_statistics import alpha_statistic
from turnmark.evaluation.tasks.rubric import Outcome

_ = None
# Krippendorff (2011), section C: four observers, twelve units, with what they did not judge.
TABLE_C = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _], [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
    [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _], [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
]  # fmt: skip
# Section A: two observers, binary data, ten units. Section B: two observers, five nominal values, twelve units.
TABLE_A = [[0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]]
TABLE_B = [list("aabbdcccedda"), list("babbbccceddd")]


def units(table):
    return list(zip(*table, strict=True))


@pytest.mark.parametrize(
    ("table", "level", "published"),
    [(TABLE_A, "nominal", 0.095), (TABLE_B, "nominal", 0.692), (TABLE_C, "nominal", 0.743),
     (TABLE_C, "interval", 0.849)],
)  # fmt: skip
def test_alpha_matches_published_examples(table, level, published):
    assert alpha_statistic(units(table), level).value == pytest.approx(published, abs=5e-4)


def test_alpha_is_none_if_undefined_and_1_if_perfect():
    assert alpha_statistic([], "nominal") is None
    assert alpha_statistic([("yes", None), (None, "no")], "nominal") is None, "no unit has two values"
    assert alpha_statistic([(7, 7), (7, 7)], "interval") is None, "nothing varies"
    assert alpha_statistic([(7, 7), (3, 3)], "interval").value == 1.0


def test_numbers_by_the_median_and_labels_by_the_majority():
    four = {"a": scored(0.2), "b": scored(0.8), "c": scored(0.9), "d": scored(0.7)}
    assert panel_outcome(RB_LLM, four).value == 0.75
    three = {"a": scored(0.0, "no"), "b": scored(1.0, "yes"), "c": scored(1.0, "yes")}
    assert (panel_outcome(IDK_JUDGE, three).label, panel_outcome(IDK_JUDGE, three).value) == ("yes", 1.0)
    even = panel_outcome(IDK_JUDGE, {"a": scored(0.5, "partial"), "b": scored(0.0, "no")})
    assert even.label == "partial"
    assert "the judge named first decides" in even.reason
    assert majority(["no", "yes", "yes", "no", "partial"]) == ("no", True)


def test_a_panel_fails_with_any_of_its_judges():
    some = panel_outcome(RB_LLM, {"a": scored(0.4), "b": FAILED})
    assert (some.status, some.value) == ("failed", None), "the median of fewer is another instrument"
    assert some.reason == "1 of 2 judges failed: b: invalid: no verdict, twice; it wrote: Hm."
    alone = panel_outcome(RB_LLM, {"b": FAILED})
    assert (alone.status, alone.value, alone.reason) == ("failed", None, "invalid: no verdict, twice; it wrote: Hm.")
    nothing = Outcome(status="not_applicable", reason="the reply makes no claims")
    assert panel_outcome(RL_F, {"a": nothing, "b": nothing}).status == "not_applicable"
    assert panel_outcome(RL_F, {"a": nothing, "b": FAILED}).status == "failed", "what failed may have found claims"
    assert panel_outcome(RL_F, {"a": nothing, "b": scored(0.5)}).value == 0.5


def test_panel_reports_agreement_and_failures():
    cases = [
        {"a": scored(0.2), "b": scored(0.2)}, {"a": scored(0.8), "b": scored(0.8)}, {"a": FAILED, "b": scored(0.5)},
    ]  # fmt: skip
    measured = panel_agreement(RB_LLM, ["a", "b"], cases)
    assert (measured.alpha, measured.n, measured.rule, measured.level) == (1.0, 2, "median", "interval")
    assert measured.means == {"a": 0.5, "b": 0.5}
    assert measured.failed == {"a": 1, "b": 0}
    assert panel_agreement(RB_LLM, ["a"], [{"a": scored(0.2)}]).rule == "one judge"


def score(value, metric="rl_f"):
    status: Any = "scored" if value is not None else "not_applicable"
    return Score(id="x", metric=metric, status=status, value=value, by="j")


@pytest.mark.parametrize(
    ("answerability", "idk", "value", "accurate"),
    [("ANSWERABLE", "no", 0.7, True), ("ANSWERABLE", "partial", 0.7, True), ("ANSWERABLE", "yes", 0.0, False),
     ("PARTIAL", "no", 0.7, True), ("PARTIAL", "partial", 0.7, True), ("PARTIAL", "yes", 0.0, False),
     ("UNANSWERABLE", "no", 0.0, False), ("UNANSWERABLE", "partial", 0.0, False), ("UNANSWERABLE", "yes", 1.0, True)],
)  # fmt: skip
def test_conditioning_matches_the_table_of_section_6_3_3(answerability, idk, value, accurate):
    line = condition_score(score(0.7), answerability, idk, "IDK by j")
    assert (line.metric, line.status, line.value) == ("rl_f.idk", "scored", value)
    assert accuracy(answerability, idk, "", "j", "idk", {"id": "x"}).value == accurate


def test_only_paper_metrics_are_conditioned():
    scores = [score(0.7, name) for name in ("rb_alg", "rb_alg[MiniLM]", "rb_llm", "rl_f", "rl_r", "rouge_l.word")]
    lines = [condition_score(line, "ANSWERABLE", "no", "IDK by j") for line in scores if is_conditioned(line.metric)]
    clarification = Score(id="a", metric="clarification", status="failed", reason="no verdict", by="k")
    counted = with_underspecified(lines, "ANSWERABLE", clarification)
    assert [(line.metric, line.status) for line in counted][:2] == [
        ("rb_alg.idk_underspecified", lines[0].status),
        ("rb_alg[MiniLM].idk_underspecified", lines[1].status),
    ]
    assert {line.status for line in with_underspecified(lines, "UNDERSPECIFIED", clarification)} == {"failed"}
    assert [line.metric for line in lines] == ["rb_alg.idk", "rb_alg[MiniLM].idk", "rb_llm.idk", "rl_f.idk"]
    for label in ("CONVERSATIONAL", "UNDERSPECIFIED", None):
        assert condition_score(score(0.7), label, "no", "j").status == "not_applicable"
    nothing = condition_score(score(None), "UNANSWERABLE", "yes", "j")
    assert nothing.value == 1.0, "label and verdict decide, whether there were claims or not"
    assert condition_score(score(None), "ANSWERABLE", "no", "j").status == "not_applicable"
    assert condition_score(score(0.7), "ANSWERABLE", None, "j", no_verdict="cut").status == "failed"
