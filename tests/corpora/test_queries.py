"""Files of recorded queries: what a row may hold, and what is wrong with one that holds something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.corpora.reading import jsonl, write
from tests.corpora.values import JSON
from turnmark.corpora.rows import RecordedQuery, read_recorded


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
        {"_id": "d", "text": "raw", "variants": ["|user|: x", "y"]},
        {"_id": "e", "text": "raw", "variants": {"minimal": " x "}},
    )
    assert problems == []
    assert queries == {
        "a": RecordedQuery(text="one"),
        "b": RecordedQuery(text="one\ntwo"),
        "c": RecordedQuery(text="raw", variants={}),
        "d": RecordedQuery(text="raw", variants={"1": "x", "2": "y"}),
        "e": RecordedQuery(text="raw", variants={"minimal": "x"}),
    }


@pytest.mark.parametrize(("row", "message"), [
    ({"text": " "}, "'text' is empty"),
    ({"text": "t", "variants": "x"}, "'variants' is neither a list of texts nor an object"),
    ({"text": "t", "variants": [1]}, "'variants' is neither a list of texts nor an object"),
    ({"text": "t", "variants": ["x", " "]}, "'2' is empty"),
    ({"text": "t", "variants": {"raw": "x"}}, "'variants': 'raw' is the row's own text"),
])  # fmt: skip
def test_a_wrong_row_is_a_problem_with_its_line_and_stops_no_other(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    queries, [problem] = read(tmp_path, {"_id": "wrong", **row}, {"_id": "good", "text": "t"})
    assert list(queries) == ["good"]
    assert problem.startswith("queries.jsonl:1: ")
    assert message in problem


@given(JSON)
def test_whatever_a_row_holds_it_is_read_or_a_problem(tmp_path_factory: pytest.TempPathFactory, variants: Any) -> None:
    row = {"_id": "a", "text": "t", "variants": variants}
    queries, problems = read(tmp_path_factory.mktemp("q"), row)
    assert len(queries) + len(problems) == 1
