"""What the tests of readers share: a folder written from a table, and what is read of it."""

from __future__ import annotations

from pathlib import Path

from turnmark.corpora.readers import read_source
from turnmark.corpora.types import Document, Problem


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
