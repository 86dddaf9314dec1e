"""A large folder can be asked by words before its passages have vectors."""

from __future__ import annotations

import json

import pytest

from tests.retrieval.conftest import write
from turnmark.core.home import home
from turnmark.retrieval.index import build
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.components import verify_index
from turnmark.retrieval.search.opened_index import lock_index, open_index
from turnmark.retrieval.search.retriever_factory import default_retriever
from turnmark.retrieval.storage.passage_writer import PassageWriter


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "MAX_UNPUBLISHED_CONTENTS", 3)
    return write(tmp_path / "notes", **{f"n{n:03}": f"# Kettle {n}\n\nThe kettle {n} is red.\n" for n in range(80)})


def test_words_can_be_asked_while_vectors_are_made(folder, turnmark, monkeypatch, caplog):
    seen = []
    real = PassageWriter.add_contents

    def asking(*arguments):
        index = open_index("n")
        seen.append((default_retriever(index), index.manifest.pending, verify_index(index)))
        with caplog.at_level("WARNING", "turnmark"):
            seen.append(json.loads(turnmark("search", "kettle 33", "--index", "n", "--json").out))
        real(*arguments)

    monkeypatch.setattr(PassageWriter, "add_contents", asking)
    build_index(folder, "n")
    assert seen[0] == ("bm25", 80, [])
    assert seen[1]["hits"][0]["passage"]["document"] == "n033.md"
    assert "0% of its passages have vectors; it is searched by words until then; it is being built" in caplog.text
    assert open_index("n").manifest.pending == 0
    assert default_retriever(open_index("n")).startswith("conversational")


def test_embedding_ends_in_time_and_the_next_build_goes_on(folder):
    report = build_index(folder, "n", embedding_seconds=0)
    index = open_index("n")
    assert (report.pending, index.manifest.pending) == (48, 48), "the first step has 32 texts"
    assert default_retriever(index) == "bm25"
    assert verify_index(index) == []
    report = build_index(folder, "n", embedding_seconds=0)
    assert report.embedded == 48
    assert 0 < open_index("n").manifest.pending < 48
    assert default_retriever(open_index("n")).startswith("conversational")
    assert build_index(folder, "n").pending == 0
    assert build_index(folder, "n").unchanged
    assert verify_index(open_index("n")) == []


def test_index_that_is_being_built_is_not_called_interrupted(turnmark):
    place = home() / "indexes" / "n"
    place.mkdir(parents=True)
    with lock_index(place):
        assert "it is being built" in turnmark("ask", "kettle?", "--index", "n").err
    assert "was interrupted" in turnmark("ask", "kettle?", "--index", "n").err
