"""Benchmarks, settings and flags that fit together."""

from __future__ import annotations

from pathlib import Path

from tests.evaluation.requests import request_of
from turnmark.core.errors import ErrorCollector
from turnmark.evaluation.runs.request_options import fit_request
from turnmark.evaluation.tasks.registry import find_task, setting_of


def prepared(benchmark, setting=None, **fields):
    errors = ErrorCollector()
    task = find_task(benchmark, None)
    setting = setting_of(benchmark, setting, errors)
    request = fit_request(
        request_of(benchmark=benchmark, **fields), "score" if "predictions" in fields else "eval", errors
    )
    return errors.collect(task, request, setting), errors.problems


def test_scoring_needs_no_corpora(benchmark_root):
    (benchmark_root / "corpora/passage_level/fiqa.jsonl").unlink()
    task_data, problems = prepared("mtrag", "rag", data=benchmark_root, predictions=(Path("answers.jsonl"),))
    assert not problems
    assert list(task_data.corpora) == ["clapnq"]
    _, problems = prepared("mtrag", "rag", data=benchmark_root)
    assert any("the passages of fiqa" in problem for problem in problems)
