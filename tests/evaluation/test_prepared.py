"""Benchmarks, settings and flags that fit together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from turnmark.corpora.errors import ErrorCollector
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.benchmarks.registry import BENCHMARKS, find_task, setting_of, task_of
from turnmark.evaluation.benchmarks.task import Prepared
from turnmark.evaluation.benchmarks.turns import Parts
from turnmark.evaluation.request import EvalRequest


def prepared(benchmark: str, setting: str | None = None, **fields: Any) -> tuple[Prepared | None, list[str]]:
    errors = ErrorCollector()
    task = find_task(benchmark, None)
    assert task is not None
    setting = setting_of(benchmark, setting, errors)
    return task.prepare(EvalRequest(benchmark=benchmark, **fields), setting, errors), errors.problems


def test_the_default_of_a_setting_is_its_first() -> None:
    errors = ErrorCollector()
    assert {name: setting_of(name, None, errors) for name in BENCHMARKS} == {
        "mtrag": "reference", "mtrag-un": "reference", "mtrag-s": "reference", "inscoqa": "documents",
        "compound-qa": None, "kiwi": None,
    }  # fmt: skip
    assert not errors.problems
    for name in ("mtrag", "kiwi"):
        assert setting_of(name, "odd", errors) is None
    assert errors.problems == [
        "--setting: mtrag has no setting 'odd'; it has: reference, reference+rag, rag",
        "--setting: kiwi has no setting 'odd'; it has no settings; leave it out",
    ]


def test_the_first_task_is_the_default() -> None:
    assert {name: task_of(name, None) for name in BENCHMARKS} == {
        **dict.fromkeys(BENCHMARKS, "generation"), "kiwi": "revise",
    }  # fmt: skip


@pytest.mark.parametrize("benchmark", list(BENCHMARKS))
def test_demo_data_stand_in_where_none_are_named(benchmark: str) -> None:
    task_data, problems = prepared(benchmark)
    assert not problems
    assert task_data is not None
    assert task_data.data.demo
    built = task_data.build(Parts(), {})
    items = [item for item in built.items() if isinstance(item, Item)]
    assert len(items) >= 9
    assert len(items) == len(list(built.items())), "every row of it can be read"
    assert {item.domain for item in items} - {None} <= set(task_data.domains)
    assert not task_data.searched
    assert task_data.corpora == {}


@pytest.mark.parametrize("benchmark", ["inscoqa", "compound-qa", "kiwi"])
def test_flags_of_the_mtrag_family_are_refused_elsewhere(benchmark: str) -> None:
    flags: dict[str, Any] = {"queries": Path("q"), "passages": Path("p"), "counterfactual": True}
    _, problems = prepared(benchmark, **flags)
    assert [problem.split(":")[0] for problem in problems] == [f"--{name}" for name in flags]
    _, problems = prepared(benchmark, domains=("nowhere",))
    assert len(problems) == 1
    assert problems[0].startswith("--domains: ")


def test_a_setting_that_searches_has_corpora(benchmark_root: Path) -> None:
    task_data, problems = prepared("mtrag", "rag", data=benchmark_root)
    assert not problems
    assert task_data is not None
    assert (task_data.searched, task_data.query, sorted(task_data.corpora)) == (True, "assistant", ["clapnq", "fiqa"])
    assert task_data.corpora_used["clapnq"].passages == 6
    scoring, _ = prepared("mtrag", "rag", data=benchmark_root, predictions=(Path("answers.jsonl"),))
    assert scoring is not None
    assert (scoring.searched, scoring.query, sorted(scoring.corpora)) == (False, None, ["clapnq", "fiqa"])


def test_scoring_does_without_corpora_and_says_so(benchmark_root: Path) -> None:
    (benchmark_root / "corpora/passage_level/fiqa.jsonl").unlink()
    task_data, problems = prepared("mtrag", "rag", data=benchmark_root, predictions=(Path("answers.jsonl"),))
    assert not problems
    assert task_data is not None
    assert task_data.notes[0].startswith("fiqa: no corpus in the data;")
    _, problems = prepared("mtrag", "rag", data=benchmark_root)
    assert any("the passages of fiqa" in problem for problem in problems)


def test_where_there_is_no_data_the_flags_are_checked_all_the_same(tmp_path: Path) -> None:
    task_data, problems = prepared("mtrag", "rag", data=tmp_path / "none", query="odd", passages=tmp_path / "no")
    assert task_data is None
    messages = "\n".join(problems)
    for words in ("is no folder", "no mode is called 'odd'", "no such run folder", "answers from a recorded retrieval"):
        assert words in messages
