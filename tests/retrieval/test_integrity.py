"""Checksums of an index: damage is found and reported with a command that repairs it."""

from __future__ import annotations

import json
import shlex
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import Turnmark
from tests.retrieval.conftest import write
from turnmark.core.home import home
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.components import verify_index
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.storage.passage_store import rows_file


@pytest.fixture
def source(tmp_path: Path) -> Path:
    texts = {f"n{n}": f"# Kettle {n}\n\nThe kettle number {n} is red.\n" for n in range(6)}
    build_index(write(tmp_path / "notes", **texts), "k", retriever="bm25?k1=1.2")
    return tmp_path / "notes"


def files() -> Path:
    return open_index("k").files


def flip(path: Path, position: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_index_can_be_moved(source: Path, turnmark: Turnmark) -> None:
    assert turnmark("search", "kettle", "--index", "k").code == 0
    moved = source.rename(source.with_name("elsewhere"))
    assert build_index(moved, "k", retriever="bm25?k1=1.2").unchanged
    assert open_index("k").manifest.source == str(moved)
    assert verify_index(open_index("k")) == []


def alter(statement: str) -> Callable[[Path], object]:
    """Return a function that changes the database behind the back of the index."""

    def harm(path: Path) -> None:
        with closing(sqlite3.connect(path)) as db, db:
            assert db.execute(statement).rowcount

    return harm


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("passages.db", alter("UPDATE passages SET text = 'another text' WHERE key = 2")),
        ("passages.db", alter("UPDATE passages SET path = 'another.md' WHERE key = 2")),
        ("passages.db", alter("UPDATE postings SET packed = x'0101090000' WHERE term = 'red'")),
        (rows_file(1), flip),
        (rows_file(1), Path.unlink),
    ],
)
@pytest.mark.usefixtures("source")
def test_finds_damage_and_advised_command_rebuilds(
    turnmark: Turnmark, name: str, harm: Callable[[Path], object]
) -> None:
    harm(files() / name)
    damaged = turnmark("index", "verify", "k")
    assert damaged.code == 1
    assert f"k: {name} " in damaged.err
    commands = damaged.err.partition("rebuild it with: ")[2].strip().split(", then ")
    assert [turnmark(*shlex.split(command)[1:]).code for command in commands] == [0, 0]
    assert "k: 6 passages, everything is intact" in turnmark("index", "verify", "k").out
    assert open_index("k").manifest.bm25.k1 == 1.2


@pytest.mark.usefixtures("source")
def test_finds_changed_manifest() -> None:
    path = home() / "indexes" / "k" / "manifest.json"
    whole = json.loads(path.read_text())
    path.write_text(json.dumps(whole | {"bm25": whole["bm25"] | {"k1": 0.1}}))
    assert verify_index(open_index("k")) == [
        "manifest.json is damaged: its SHA-256 differs from the one in passages.db"
    ]
