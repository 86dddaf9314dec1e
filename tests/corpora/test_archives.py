"""A zipped file of a benchmark: unpacked once, never more than it declares, and damage is a wrong request."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpora.packing import zipped
from turnmark.corpora import home as home_module
from turnmark.corpora.errors import RequestError
from turnmark.corpora.home import home, unzip

ROW = b'{"_id": "a", "title": "", "text": "hello"}\n'


def test_a_file_is_unpacked_once_and_again_if_the_archive_changes(tmp_path):
    archive = zipped(tmp_path / "govt.jsonl.zip", {"x/govt.jsonl": ROW})
    target = unzip(archive, "govt.jsonl")
    assert target.read_bytes() == ROW
    before = target.stat().st_mtime_ns
    assert unzip(archive, "govt.jsonl").stat().st_mtime_ns == before
    zipped(archive, {"govt.jsonl": ROW * 2})
    assert unzip(archive, "govt.jsonl").read_bytes() == ROW * 2


def test_what_cannot_be_unpacked(tmp_path, monkeypatch):
    two = zipped(tmp_path / "two.zip", {"a/govt.jsonl": ROW, "b/govt.jsonl": ROW})
    with pytest.raises(RequestError, match="found 2"):
        unzip(two, "govt.jsonl")
    with pytest.raises(RequestError, match="found 0"):
        unzip(two, "fiqa.jsonl")
    monkeypatch.setattr(home_module, "MAX_UNZIPPED", 10)
    with pytest.raises(RequestError, match="would unpack to 43 bytes; refused"):
        unzip(zipped(tmp_path / "bomb.zip", {"govt.jsonl": ROW}), "govt.jsonl")
    assert not list(home().rglob("*.jsonl"))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_damage_is_more_than_a_request_error(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    archive = zipped(folder / "x.zip", {"govt.jsonl": ROW * 50, "README.md": b"#"}, "top/")
    content = bytearray(archive.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    archive.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    with suppress(RequestError):
        assert unzip(archive, "govt.jsonl").stat().st_size <= 50 * len(ROW)
