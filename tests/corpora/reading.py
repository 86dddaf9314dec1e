"""Helpers for tests of data: write folders and archives, read them, and find the real data."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.conftest import DATA, DEMO
from turnmark.corpora.downloads.data_sets import CATALOG
from turnmark.corpora.readers import read_source
from turnmark.corpora.readers.pdf.document import read
from turnmark.corpora.readers.registry import ProgressCallback, no_progress
from turnmark.corpora.types import Document, Problem

MTRAG = CATALOG["mtrag"]
TASKS = "mtrag-human/generation_tasks/reference.jsonl"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def jsonl(*rows: Any) -> bytes:
    """Encode rows as lines of JSON; bytes are written unchanged."""
    lines = (row if isinstance(row, bytes) else json.dumps(row, ensure_ascii=False).encode() for row in rows)
    return b"\n".join(lines) + b"\n"


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def ids(source: Path, **globs: list[str]) -> list[str]:
    return [item.id for item in read_source(source, **globs) if isinstance(item, Document)]


def problems(source: Path) -> list[str]:
    return [str(item) for item in read_source(source) if isinstance(item, Problem)]


def told(document: Document) -> list[tuple[str, int, int | None, str]]:
    return [(b.kind, b.level, b.number, document.text[b.start : b.end]) for b in document.blocks]


def demo_files(folder: str = MTRAG.folder) -> dict[str, bytes]:
    root = DEMO / folder
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def zipped(path: Path, files: dict[str, bytes], top: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        if top:
            archive.writestr(top, b"")
        for name, content in files.items():
            archive.writestr(top + name, content)
    return path


def real_data(relative: str) -> Path:
    """Return a folder or file of the real data, or skip the test if it is missing."""
    path = DATA / relative
    if not path.exists():
        pytest.skip(f"no {relative} in $TURNMARK_DATA or ../shared/data")
    return path


def beir_corpora() -> list[object]:
    """Return the real BEIR corpora as test parameters, or one that skips if there are none."""
    paths: list[object] = sorted((DATA / "mt-rag-benchmark/corpora/passage_level").glob("*.jsonl"))
    reason = "no mt-rag-benchmark/corpora in $TURNMARK_DATA or ../shared/data"
    return paths or [pytest.param(Path("none.jsonl"), marks=pytest.mark.skip(reason=reason))]


def read_pdf(path: Path, relative: str, progress: ProgressCallback = no_progress) -> Document:
    document = next(read(path, relative, progress))
    assert isinstance(document, Document)
    return document
