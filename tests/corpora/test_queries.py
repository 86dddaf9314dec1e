"""Files of recorded queries: what a row may hold, and what is wrong with one that holds something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.corpora.reading import jsonl, write
from tests.corpora.values import JSON
from turnmark.corpora.rows import RAW, RecordedQuery, read_recorded


def read(tmp_path: Path, *rows: Any) -> tuple[dict[str, RecordedQuery], list[str]]:
    path = write(tmp_path, {"queries.jsonl": jsonl(*rows)}) / "queries.jsonl"
    loaded = read_recorded(path, path.name)
    return loaded.data, [str(problem) for problem in loaded.problems]


def test_a_row_with_a_text_alone_and_rows_with_variants(tmp_path: Path) -> None:
    queries, problems = read(
        tmp_path,
        {"_id": "a", "text": "|user|: one", "title": "what BEIR has besides"},
        {"_id": "b", "text": "|user|: one\n|user|: two", "variants": None},
        {"_id": "c", "text": "raw", "variants": {}},
        {"_id": "d", "text": "raw", "variants": ["|user|: x", "y"], "weights": {"2": 0, "raw": 2}},
        {"_id": "e", "text": "raw", "variants": {"minimal": " x "}, "weights": {}},
    )
    assert problems == []
    assert queries == {
        "a": RecordedQuery(text="one"),
        "b": RecordedQuery(text="one\ntwo"),
        "c": RecordedQuery(text="raw", variants={}),
        "d": RecordedQuery(text="raw", variants={"1": "x", "2": "y"}, weights={"2": 0.0, "raw": 2.0}),
        "e": RecordedQuery(text="raw", variants={"minimal": "x"}),
    }


@pytest.mark.parametrize(("row", "message"), [
    ({"text": " "}, "'text' is empty"),
    ({"text": "t", "variants": "x"}, "'variants' is neither a list of texts nor an object"),
    ({"text": "t", "variants": [1]}, "'variants' is neither a list of texts nor an object"),
    ({"text": "t", "variants": ["x", " "]}, "'2' is empty"),
    ({"text": "t", "variants": {"raw": "x"}}, "'variants': 'raw' is the row's own text"),
    ({"text": "t", "weights": {"raw": 1}}, "'weights' without 'variants'"),
    ({"text": "t", "variants": ["x"], "weights": [1, 2]}, "'weights' is not an object"),
    ({"text": "t", "variants": ["x"], "weights": {"3": 1}}, "'weights': no variant is called '3'; there are: raw, 1"),
    ({"text": "t", "variants": ["x"], "weights": {"1": -1}}, "1 is -1; a number from 0"),
    ({"text": "t", "variants": ["x"], "weights": {"1": True}}, "1 is True; a number from 0"),
    ({"text": "t", "variants": ["x"], "weights": {"1": float("nan")}}, "1 is nan; a number from 0"),
    ({"text": "t", "variants": ["x"], "weights": {"1": 10**400}}, "a number from 0 to 1e+06"),
    ({"text": "t", "variants": ["x"], "weights": {"raw": 0}}, "raw is 0; a number above 0"),
])  # fmt: skip
def test_a_wrong_row_is_a_problem_with_its_line_and_stops_no_other(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    queries, [problem] = read(tmp_path, {"_id": "wrong", **row}, {"_id": "good", "text": "t"})
    assert list(queries) == ["good"]
    assert problem.startswith("queries.jsonl:1: ")
    assert message in problem


@given(JSON, JSON)
def test_whatever_a_row_holds_it_is_read_or_a_problem(
    tmp_path_factory: pytest.TempPathFactory, variants: Any, weights: Any
) -> None:
    row = {"_id": "a", "text": "t", "variants": variants, "weights": weights}
    queries, problems = read(tmp_path_factory.mktemp("q"), row)
    assert len(queries) + len(problems) == 1
    for query in queries.values():
        assert set(query.weights) <= {RAW, *(query.variants or ())}
        assert all(0 <= weight <= 1e6 for weight in query.weights.values())
