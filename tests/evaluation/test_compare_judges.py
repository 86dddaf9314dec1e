"""Judges beside each other in `turnmark compare`: InsCoQA's Table 4 for runs of one's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conftest import Turnmark
from tests.evaluation.compared import IDS, shifted, write_run
from tests.evaluation.reported import golden
from turnmark.evaluation.comparison.compare import compare
from turnmark.evaluation.comparison.judges import Judges, judge_tables
from turnmark.evaluation.comparison.writing import markdown, page
from turnmark.evaluation.journal import json_line
from turnmark.evaluation.judging.judgements import Judgement
from turnmark.evaluation.published import facts

FEW = IDS[:4]


def judged(
    run: Path, judge: str, values: Mapping[str, float | None], measure: str = "judge_score", prompts: str = "",
    **also: float | None,
) -> Path:  # fmt: skip
    """Add what a judge said of some samples of a run; None: it failed."""
    with open(run / "judgements.jsonl", "a", encoding="utf-8") as file:
        for name, value in values.items():
            text = Judgement(
                key=f"{judge} {name} {measure}", id=name, measure=measure, judge=judge, value=value, prompts=prompts,
                status="failed" if value is None else "scored", reason="it broke", also={} if value is None else also,
            )  # fmt: skip
            file.write(json_line(text))
    return run


def system(path: Path, answer: str) -> Path:
    return write_run(path, shifted(0, ids=FEW), answers=dict.fromkeys(FEW, answer))


def of(*runs: Path) -> Judges:
    return compare(runs).judges


def constant(value: float) -> dict[str, float | None]:
    return dict.fromkeys(FEW, value)


@pytest.fixture
def table_4(tmp_path: Path) -> list[Path]:
    """The paper's Table 4 as four runs, each judged by both judges."""
    rows = [fact for fact in facts() if fact.benchmark == "inscoqa" and fact.part == {"split": "validation"}]
    runs: dict[str, Path] = {}
    for fact in rows:
        run = runs.get(fact.system) or system(tmp_path / fact.system.split()[0], fact.system)
        runs[fact.system] = run
        (judge,) = fact.instruments["judge_score"].judges
        judged(run, judge, constant(fact.metrics["judge_score"]), task_completion=fact.metrics["task_completion"])
    return list(runs.values())


def test_the_papers_judges_rank_its_systems_alike(table_4: list[Path]) -> None:
    correlated = of(*table_4)
    assert correlated.systems == ("A", "B", "C", "D")
    assert [(pair.metric, pair.judges, pair.systems) for pair in correlated.pairs] == [
        (metric, ("GPT-4", "Qwen2-7B-Instruct"), 4) for metric in ("judge_score", "task_completion")
    ]
    assert [pair.rank_systems for pair in correlated.pairs] == pytest.approx([1.0, 1.0])
    means = {(row.metric, row.judge): list(row.means.values()) for row in correlated.means}
    assert means["judge_score", "Qwen2-7B-Instruct"] == pytest.approx([7.45, 7.89, 7.66, 8.45])
    assert means["judge_score", "GPT-4"] == pytest.approx([6.24, 6.72, 6.43, 7.12])
    assert means["task_completion", "GPT-4"] == pytest.approx([0.6883, 0.7238, 0.6992, 0.7964])


def test_how_it_is_shown(table_4: list[Path], turnmark: Turnmark) -> None:
    ran = turnmark.ok("compare", *table_4)
    golden("compare_judges.txt", ran.out[ran.out.index("The systems, by judge") :])
    content = turnmark.json("compare", *table_4)["judges"]
    assert content["pairs"][0]["rank_systems"] == pytest.approx(1.0)
    for text in (markdown(compare(table_4)), page(compare(table_4))):
        assert "How alike two judges rank them" in text


def test_ranks_by_hand(tmp_path: Path) -> None:
    """Replies 1 2 3 4 by one judge, 2 1 3 4 by the other: 1 - 6 * 2 / (4 * 15)."""
    first = judged(judged(system(tmp_path / "a", "a"), "x", dict(zip(FEW, [1, 2, 3, 4], strict=True))), "y",
                   dict(zip(FEW, [2, 1, 3, 4], strict=True)))  # fmt: skip
    second = judged(judged(system(tmp_path / "b", "b"), "x", constant(9)), "y", {})
    (pair,) = of(first, second).pairs
    assert pair.replies == 4
    assert pair.rank_replies == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert (pair.systems, pair.rank_systems) == (1, None), "both judged but one system"


def test_the_last_word_of_a_judge_holds(tmp_path: Path) -> None:
    run, second = (system(tmp_path / name, name) for name in "ab")
    for value in (1.0, 7.0):
        judged(run, "x", constant(value))
    judged(judged(run, "y", constant(5)), "y", {"nobody": 3.0})
    with open(run / "judgements.jsonl", "a") as file:
        file.write("{torn")
    correlated = of(run, second)
    assert [(row.judge, row.means) for row in correlated.means] == [("x", {"A": 7.0}), ("y", {"A": 5.0})]


def test_one_model_with_other_prompts_is_another_judge(tmp_path: Path) -> None:
    run, second = (system(tmp_path / name, name) for name in "ab")
    for prompts, value in (("a" * 16, 3.0), ("b" * 16, 7.0), ("a" * 16, 4.0)):
        judged(run, "x", constant(value), prompts=prompts)
        judged(second, "x", constant(value + 1), prompts=prompts)
    correlated = of(run, second)
    assert [(row.judge, row.means) for row in correlated.means] == [
        ("x (prompts aaaaaaaa)", {"A": 4.0, "B": 5.0}),
        ("x (prompts bbbbbbbb)", {"A": 7.0, "B": 8.0}),
    ]
    (pair,) = correlated.pairs
    assert (pair.replies, pair.rank_systems) == (8, pytest.approx(1.0))


def test_the_same_replies_judged_apart_are_one_system(tmp_path: Path) -> None:
    runs = [system(tmp_path / name, text) for name, text in (("a", "same"), ("b", "same"), ("c", "other"))]
    for run, judge in zip(runs, "xyx", strict=True):
        judged(run, judge, dict(zip(FEW, [1, 2, 3, 4], strict=True)))
    correlated = of(*runs)
    assert correlated.systems == ("A=B", "C")
    (pair,) = correlated.pairs
    assert (pair.systems, pair.replies) == (1, 4)
    assert pair.rank_replies == pytest.approx(1.0)


def test_one_judgement_of_a_reply_that_is_repeated_counts_for_each(tmp_path: Path) -> None:
    """Judges are asked once about replies that are the same; means are over the samples all the same."""
    values = shifted(0, ids=FEW)
    run = write_run(tmp_path / "a", values, repeats=(values,), answers=dict.fromkeys(FEW, "the same"))
    runs = write_run(tmp_path / "b", values, repeats=(values,), answers=dict.fromkeys(FEW, "another"))
    for judge in "xy":
        judged(run, judge, dict(zip(FEW, [1, 2, 3, 4], strict=True)))
    (pair,) = of(run, runs).pairs
    assert pair.replies == 8
    lines = (run / "predictions.jsonl").read_text().splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), "prediction": "something else"})
    (run / "predictions.jsonl").write_text("\n".join(lines) + "\n")
    (pair,) = of(run, runs).pairs
    assert pair.replies == 7, "of the second repeat of the first task nobody said anything"


def test_the_embedded_judge_stands_under_the_metric_whose_name_it_has(tmp_path: Path) -> None:
    run, second = (system(tmp_path / name, name) for name in "ab")
    judged(judged(run, "x", constant(3)), "embedded", constant(5), "judge_score[embedded]")
    correlated = of(run, second)
    assert [(pair.metric, pair.judges, pair.rank_replies) for pair in correlated.pairs] == [
        ("judge_score", ("embedded", "x"), None)
    ]
    legend = next(iter(judge_tables(correlated))).lines
    assert any("ends in [embedded], which is another one" in line for line in legend)


def test_one_judge_alone_has_nothing_beside_it(tmp_path: Path) -> None:
    run, second = (system(tmp_path / name, name) for name in "ab")
    judged(judged(run, "x", constant(3)), "y", constant(0.5), "task_completion[steps]")
    comparison = compare([run, second])
    assert comparison.judges is None
    assert list(judge_tables(comparison.judges)) == []
