"""A message that names a file is answered from that file."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnmark.assistant.steps.retrieve.file_names import search_named_files
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.search.retriever_factory import open_retriever
from turnmark.retrieval.types import Query, Retriever


@pytest.fixture
def retriever(tmp_path: Path) -> Retriever:
    """BM25 over ten files that say the same of ten cities."""
    for city in ("Oslo", "Bergen", "Turku", "Vaasa", "Malmo", "Lund", "Aarhus", "Odense", "Narva", "Tartu"):
        folder = tmp_path / ("north" if city < "N" else "south")
        folder.mkdir(exist_ok=True)
        text = f"# Office\n\nThe office rent office rent: {len(city)} in {city}."
        (folder / f"{city.lower()}.report.md").write_text(text, encoding="utf-8")
    for folder in ("north", "south"):
        (tmp_path / folder / "notes.md").write_text("# Notes\n\nThe office rent.", encoding="utf-8")
    build_index(tmp_path, "offices", retriever="bm25")
    return open_retriever("bm25", Index.open("offices"))


def first_paths(retriever: Retriever, message: str) -> list[str]:
    """The paths of four hits, with the files that the message names."""
    query = Query(text=message)
    return [hit.passage.path for hit in search_named_files(retriever, query, retriever.search([query], 4)[0], 4)]


@pytest.mark.parametrize(
    "message",
    [
        "In the file tartu.report.md: what is the office rent?",
        "what is the office rent in south/tartu.report.md?",
        "“tartu.report.md”、office rent",
        "Office rent (tartu.report.md)",
    ],
)
def test_a_named_file_comes_first(retriever: Retriever, message: str) -> None:
    paths = first_paths(retriever, message)
    assert paths[0] == "south/tartu.report.md"
    assert len(paths) == len(set(paths)) == 4


def test_several_named_files_come_first(retriever: Retriever) -> None:
    paths = first_paths(retriever, "Compare the office rent in tartu.report.md and lund.report.md.")
    assert set(paths[:2]) == {"south/tartu.report.md", "north/lund.report.md"}


@pytest.mark.parametrize(
    "message",
    [
        "What is the office rent in notes.md?",  # two files have this name
        "What is the office rent, e.g. in report.md or on www.example.com?",
        "What is the office rent in artu.report.md?",
        "What is the office rent? It is 3.5 or so.",
    ],
)
def test_other_words_with_a_point_change_nothing(retriever: Retriever, message: str) -> None:
    query = Query(text=message)
    hits = retriever.search([query], 4)[0]
    assert search_named_files(retriever, query, hits, 4) == hits
