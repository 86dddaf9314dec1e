"""Tells whether files must be read again because the code that reads them has changed."""

from __future__ import annotations

import hashlib
import importlib.metadata
from functools import cache
from pathlib import Path

from turnmark.core.extras import is_installed
from turnmark.corpora.readers.registry import GROUP

_LIBRARIES = (
    "beautifulsoup4", "chardet", "lxml", "markdown-it-py", "openpyxl", "pypandoc_binary", "pypdfium2",
    "python-calamine",
)  # fmt: skip


@cache
def readers_mark() -> str:
    """Return a fingerprint of the code that reads files and cuts passages, and of its libraries."""
    digest = hashlib.sha256()
    folder = Path(__file__).parents[1]
    for path in sorted(path for kind in ("py", "lua", "toml", "json") for path in folder.rglob(f"*.{kind}")):
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    versions = [f"{name} {_version(name)}" for name in _LIBRARIES]
    entries = sorted(importlib.metadata.entry_points(group=GROUP))
    versions += [f"{entry.name} {entry.value} {entry.dist.version if entry.dist else ''}" for entry in entries]
    versions.append(f"rapidocr {is_installed('ocr')}")  # RapidOCR reads scans
    digest.update("\n".join(versions).encode())
    return digest.hexdigest()


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:  # the pandoc package does not exist for every platform
        return ""
