"""Checksums of an index: damage is found and reported with a command that repairs it."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Turnmark
from tests.retrieval.conftest import write
from turnmark.core.home import home
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.components import verify_index
from turnmark.retrieval.search.opened_index import open_index


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


def test_every_file_has_a_checksum_and_index_can_be_moved(source: Path, turnmark: Turnmark) -> None:
    listed = json.loads((files() / "seal.json").read_text())["files"]
    files_there = {path.relative_to(files()).as_posix() for path in files().rglob("*") if path.is_file()}
    assert files_there - set(listed) == {"seal.json", "models"}
    assert turnmark("search", "kettle", "--index", "k").code == 0
    moved = source.rename(source.with_name("elsewhere"))
    assert build_index(moved, "k", retriever="bm25?k1=1.2").unchanged
    assert open_index("k").manifest.source == str(moved)
    assert verify_index(open_index("k")) == []


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("bm25/vocab.index.json", flip),
        ("passages.db", flip),
        ("bm25/data.csc.index.npy", lambda path: os.truncate(path, 99)),
        ("bm25/vocab.index.json", Path.unlink),
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
def test_finds_changed_manifest_and_damaged_checksums() -> None:
    path, seal = home() / "indexes" / "k" / "manifest.json", files() / "seal.json"
    whole = json.loads(path.read_text())
    path.write_text(json.dumps(whole | {"bm25": whole["bm25"] | {"k1": 0.1}}))
    assert verify_index(open_index("k")) == ["manifest.json is damaged: its SHA-256 differs from the one in seal.json"]
    for damaged in ("[]", "{"):
        seal.write_text(damaged)
        assert verify_index(open_index("k")) == [
            "seal.json is missing or damaged; the checksums of the files cannot be read"
        ]
