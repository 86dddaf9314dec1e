"""`turnmark index build --passage-tokens`: the size of passages, which an index keeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.retrieval.conftest import write
from turnmark.core.errors import RequestError
from turnmark.retrieval.index.build import build_again, build_index
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.search.rebuild_commands import rebuild_command

SENTENCES = " ".join(f"On day {day} the harbour master drains the fuel tank of boat {day}." for day in range(40))


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Return a folder with one long section."""
    folder = tmp_path / "notes"
    write(folder, harbour=f"# Harbour\n\n{SENTENCES}\n")
    return folder


def sizes(name: str) -> list[int]:
    """Return the number of tokens of each passage of an index."""
    index = open_index(name)
    tokenize = index.embedder.tokenizer()
    return [len(tokenize(passage.indexed_text)) + 2 for page in index.store.pages() for _, _, passage in page]


def test_passages_have_the_given_size_until_another_one_is_given(notes, turnmark):
    turnmark("index", "build", str(notes), "--name", "notes")
    default = sizes("notes")
    turnmark("index", "build", str(notes), "--name", "notes", "--passage-tokens", "64")
    small = sizes("notes")
    assert 32 < max(small) <= 64 < max(default) <= 256
    assert json.loads(turnmark("index", "info", "notes", "--json").out)["passage_tokens"] == 64
    text = "".join(passage.text for page in open_index("notes").store.pages() for _, _, passage in page)
    assert "".join(text.split()) == "".join(f"# Harbour {SENTENCES}".split())

    write(notes, quay=f"# Quay\n\n{SENTENCES}\n")
    turnmark("index", "build", str(notes), "--name", "notes")
    assert max(sizes("notes")) <= 64
    write(notes, pier=f"# Pier\n\n{SENTENCES}\n")
    build_again(open_index("notes").manifest)
    assert max(sizes("notes")) <= 64
    assert len(sizes("notes")) == 3 * len(small)
    assert rebuild_command(open_index("notes").manifest).endswith("--passage-tokens 64")

    turnmark("index", "build", str(notes), "--name", "notes", "--passage-tokens", "256")
    assert sizes("notes") == 3 * default


def test_a_size_that_the_embedder_does_not_read_names_its_limit(notes, turnmark):
    ran = turnmark("index", "build", str(notes), "--name", "notes", "--passage-tokens", "300")
    assert ran.code != 0
    assert "minilm reads 256; give --passage-tokens 256 or less" in ran.err
    assert "32" in turnmark("index", "build", str(notes), "--name", "notes", "--passage-tokens", "8").err
    with pytest.raises(RequestError, match="notes"):
        open_index("notes")


def test_without_a_model_words_are_counted(notes):
    build_index(notes, "words", retriever="bm25", passage_tokens=600)
    assert len(Index.open("words")) == 1
    assert len(Index.build(notes, "words", retriever="bm25", passage_tokens=100)) > 4
