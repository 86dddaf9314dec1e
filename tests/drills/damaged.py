"""Damaged files of every type, each next to a good one. Each is read or refused with a message."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.corpora.damaged import damaged, seeds
from tests.drills.tally import Effort, Tally
from turnmark.corpora.readers import read_file, source_items
from turnmark.corpora.readers.folder import SourceFile
from turnmark.corpora.types import Document, Problem


def drills(effort: Effort) -> Iterator[Tally]:
    """Try as many variants of each type as there are kills."""
    folder = effort.folder("damaged")
    for suffix, content in seeds(folder).items():
        tally = Tally(f"damaged {suffix}")
        for number in range(effort.kills):
            with tally.attempt(f"variant {effort.seed + number}"), tempfile.TemporaryDirectory() as place:
                survives(Path(place), suffix, damaged(content, effort.seed + number))
        yield tally


def survives(folder: Path, suffix: str, content: bytes) -> None:
    """Assert that a damaged file gives documents or a message, and that the good file next to it is read.

    Its pictures are decoded. A picture may also be left out without a message, if it is now too small.
    """
    (folder / f"a{suffix}").write_bytes(content)
    (folder / "z.md").write_text("The gates are shut.", encoding="utf-8")
    items: list[Document | Problem] = []
    with tempfile.TemporaryDirectory() as pictures:
        for file in source_items(folder):
            assert isinstance(file, SourceFile)
            items += read_file(file.path, file.relative, pictures=Path(pictures))
    last = items.pop()
    assert isinstance(last, Document)
    assert last.id == "z.md"
    for item in items:
        if isinstance(item, Problem):
            assert item.what
            assert "\n" not in item.what
            assert "its reader failed" not in item.what, item.what
        else:
            assert item.text.strip() or item.pictures
            item.text.encode("utf-8")
