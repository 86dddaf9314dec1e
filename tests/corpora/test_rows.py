"""Shared by the loaders of all benchmarks: lines that are not rows, arbitrary bytes, streaming."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import DEMO
from tests.corpora.reading import JSON, jsonl, write
from turnmark.corpora import jsonl_rows
from turnmark.corpora.benchmarks import compound_qa, inscoqa, kiwi, mtrag
from turnmark.corpora.jsonl_rows import RecordedQuery, read_recorded
from turnmark.corpora.types import Problem


class Loader(NamedTuple):
    file: str
    load: Callable[[Path], jsonl_rows.LoadedRows[Any]]
    demo: str

    def row(self) -> bytes:
        """Return a valid row with its line end."""
        return (DEMO / self.demo / self.file).read_bytes().partition(b"\n")[0] + b"\n"

    def read(self, root: Path, content: bytes) -> jsonl_rows.LoadedRows[Any]:
        path = root / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return self.load(root)


LOADERS = {
    "mtrag": Loader(
        "mtrag-human/generation_tasks/reference.jsonl", lambda root: mtrag.load_tasks(root, "mtrag"), "mt-rag-benchmark"
    ),
    "inscoqa": Loader("test.jsonl", inscoqa.load_tasks, "inscoqa"),
    "compound-qa": Loader(
        "data/Understanding/Understanding_Factual_Statement.jsonl", compound_qa.load_tasks, "compound-qa"
    ),
    "kiwi": Loader("interaction_data_new.jsonl", kiwi.load_sessions, "kiwi"),
}
every_loader = pytest.mark.parametrize("loader", LOADERS.values(), ids=list(LOADERS))


@every_loader
def test_reports_lines_that_are_not_rows(tmp_path: Path, loader: Loader) -> None:
    good = loader.row()
    giant = b'{"id": "' + b"x" * (17 * 1024 * 1024) + b'"}'
    latin, surrogate = '{"id": "ü"}'.encode("latin-1"), b'{"id": "\\ud800"}'
    lines = [b"{", b"", b"[1]", b"null", latin, surrogate, b"[" * 100_000, good.decode().encode("utf-16"), giant, good]
    loaded = loader.read(tmp_path, b"\xef\xbb\xbf" + good + b"\n".join(lines))
    problems = {problem.line: problem.what for problem in loaded.problems}
    assert len(loaded.data) == 1
    assert {2, 4, 5, 6, 7, 8, 9} <= set(problems)
    assert "not JSON" in problems[2]
    assert "not a JSON object" in problems[4]
    assert "not valid UTF-8" in problems[6]
    assert sum("at most 16,777,216 are read" in message for message in problems.values()) == 1
    assert sum("is already in line 1; the first is kept" in message for message in problems.values()) == 1


@every_loader
@given(lines=st.lists(st.binary(max_size=60), max_size=8))
def test_any_bytes_give_rows_or_problems(tmp_path_factory: Any, loader: Loader, lines: list[bytes]) -> None:
    loaded = loader.read(tmp_path_factory.mktemp("any"), b"\n".join(lines))
    content = b"\n".join(lines).removeprefix(b"\xef\xbb\xbf")
    assert len(loaded.data) + len(loaded.problems) == sum(bool(line.strip()) for line in content.split(b"\n"))


@pytest.mark.parametrize("loader", [LOADERS["inscoqa"], LOADERS["compound-qa"]], ids=["inscoqa", "compound-qa"])
@given(data=st.data())
def test_any_field_value_gives_a_row_or_a_problem(tmp_path_factory: Any, loader: Loader, data: st.DataObject) -> None:
    row = json.loads(loader.row())
    changes = data.draw(st.dictionaries(st.sampled_from(sorted(row)), JSON))
    loaded = loader.read(tmp_path_factory.mktemp("any"), json.dumps(row | changes).encode())
    assert len(loaded.data) + len(loaded.problems) == 1


def test_reports_huge_line_without_loading_it(tmp_path: Path) -> None:
    row = LOADERS["inscoqa"].row()
    with open(tmp_path / "test.jsonl", "wb") as file:
        file.write(row + b'{"id": "')
        for _ in range(50):
            file.write(b"x" * 1_000_000)
        file.write(b'"}\n' + json.dumps({**json.loads(row), "id": "last"}).encode())
    tracemalloc.start()
    try:
        items = list(inscoqa.stream_tasks(tmp_path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [isinstance(item, Problem) for item in items] == [False, True, False]
    assert "the line is 50,000,011 bytes long; at most 16,777,216 are read" in str(items[1])
    assert peak < 3 * jsonl_rows.MAX_LINE_BYTES


# --- files of recorded queries ---------------------------------------------------------------------------------------


def read(tmp_path: Path, *rows: Any) -> tuple[dict[str, RecordedQuery], list[str]]:
    path = write(tmp_path, {"queries.jsonl": jsonl(*rows)}) / "queries.jsonl"
    loaded = read_recorded(path, path.name)
    return loaded.data, [str(problem) for problem in loaded.problems]


def test_reads_queries_with_and_without_variants(tmp_path: Path) -> None:
    rows: dict[str, tuple[dict[str, Any], RecordedQuery]] = {
        "a": ({"text": "|user|: one", "title": "what BEIR has besides"}, RecordedQuery(text="one")),
        "b": ({"text": "|user|: one\n|user|: two", "variants": None}, RecordedQuery(text="one\ntwo")),
        "c": ({"text": "raw", "variants": {}}, RecordedQuery(text="raw", variants={})),
        "d": ({"text": "r", "variants": ["|user|: x", "y"]}, RecordedQuery(text="r", variants={"1": "x", "2": "y"})),
        "e": ({"text": "r", "variants": {"minimal": " x "}}, RecordedQuery(text="r", variants={"minimal": "x"})),
    }
    queries, problems = read(tmp_path, *({"_id": key, **row} for key, (row, _) in rows.items()))
    assert problems == []
    assert queries == {key: expected for key, (_, expected) in rows.items()}


@pytest.mark.parametrize(("row", "message"), [
    ({"text": " "}, "'text' is empty"),
    ({"text": "t", "variants": "x"}, "'variants' is neither a list of texts nor an object"),
    ({"text": "t", "variants": ["x", " "]}, "'2' is empty"),
    ({"text": "t", "variants": {"raw": "x"}}, "'variants': 'raw' is the name of the row's text"),
])  # fmt: skip
def test_reports_bad_query_row_and_continues(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    queries, [problem] = read(tmp_path, {"_id": "wrong", **row}, {"_id": "good", "text": "t"})
    assert list(queries) == ["good"]
    assert problem.startswith("queries.jsonl:1: ")
    assert message in problem


@given(JSON)
def test_any_query_row_is_read_or_reported(tmp_path_factory: pytest.TempPathFactory, variants: Any) -> None:
    row = {"_id": "a", "text": "t", "variants": variants}
    queries, problems = read(tmp_path_factory.mktemp("q"), row)
    assert len(queries) + len(problems) == 1
