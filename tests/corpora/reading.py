"""What the tests of readers share: a folder written from a table, and what is read of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from turnmark.corpora.readers import read_source
from turnmark.corpora.types import Document, Problem


def jsonl(*rows: Any) -> bytes:
    """Rows as lines of JSON; bytes are a line as they stand."""
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
