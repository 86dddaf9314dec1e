"""Zipped corpora: unpacked once, only what was asked for, only into our cache."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from turnmark.corpora import archives, mtrag
from turnmark.corpora.errors import RequestError
from turnmark.corpora.home import home

ROW = '{"_id": "a", "title": "", "text": "hello"}\n'


def zipped(path: Path, **members: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def test_a_zipped_corpus_is_unpacked_once(tmp_path):
    packed = zipped(
        tmp_path / "corpora/passage_level/govt.jsonl.zip", **{"govt.jsonl": ROW, "__MACOSX/._govt.jsonl": "x"}
    )
    path = mtrag.corpus_path(tmp_path, "govt")
    assert path.read_text(encoding="utf-8") == ROW
    assert path.is_relative_to(home())
    path.write_text("kept", encoding="utf-8")
    assert mtrag.corpus_path(tmp_path, "govt") == path
    assert path.read_text(encoding="utf-8") == "kept"
    zipped(packed, **{"govt.jsonl": ROW * 2})
    assert mtrag.corpus_path(tmp_path, "govt").read_text(encoding="utf-8") == ROW * 2


def test_nothing_in_an_archive_names_a_place_to_write_to(tmp_path):
    packed = zipped(tmp_path / "govt.jsonl.zip", **{"../../../outside/govt.jsonl": ROW})
    path = archives.unzipped(packed, "govt.jsonl")
    assert path.is_relative_to(home())
    assert not list(tmp_path.rglob("outside"))


def test_what_cannot_be_used_is_refused_with_its_reason(tmp_path, monkeypatch):
    two = zipped(tmp_path / "two.zip", **{"a/govt.jsonl": ROW, "b/govt.jsonl": ROW})
    with pytest.raises(RequestError, match=r"expected one file 'govt\.jsonl' in it, found 2"):
        archives.unzipped(two, "govt.jsonl")
    broken = tmp_path / "broken.zip"
    broken.write_bytes(two.read_bytes()[:40])
    with pytest.raises(RequestError, match="not a zip archive that can be read"):
        archives.unzipped(broken, "govt.jsonl")
    monkeypatch.setattr(archives, "MAX_BYTES", 10)
    with pytest.raises(RequestError, match="would unpack to"):
        archives.unzipped(zipped(tmp_path / "big.zip", **{"govt.jsonl": ROW}), "govt.jsonl")
    assert not list(home().rglob("*.jsonl"))
