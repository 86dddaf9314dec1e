"""Builds that take what they can from another index: copies with some passages altered, and builds with other settings.

Only passages that the other index does not have are embedded.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from turnmark.core.console import NoProgress, Progress
from turnmark.corpora.types import Passage
from turnmark.retrieval.index.build import MEASURED_FIELDS, Build, settings_of
from turnmark.retrieval.index.encoders import Models
from turnmark.retrieval.index.generation import Generation
from turnmark.retrieval.index.source_reading import SourceReader
from turnmark.retrieval.index.take_over import take_over
from turnmark.retrieval.search.opened_index import StoredIndex, lock_index
from turnmark.retrieval.storage.passage_writer import ReadFile


def copy_with_passages(
    index: StoredIndex, altered: Mapping[str, Passage], folder: Path, progress: Progress | None = None
) -> StoredIndex:
    """Copy an index into an empty folder, with some of its passages altered.

    The vectors of the copy are always in files, even if those of the index are on a server.

    Args:
        altered: passage id -> the passage in the copy.
    """
    manifest = index.manifest
    settings = settings_of(manifest).model_copy(update={"server": None, "bm25": manifest.bm25})
    copy = _CopyBuild(Path(manifest.source), folder, settings, progress=progress or NoProgress(), internal=True)
    copy.index, copy.altered = index, altered
    copy.run()
    return StoredIndex(folder, copy.published[-1])


def build_otherwise(
    index: StoredIndex,
    folder: Path,
    passage_tokens: int | None,
    embedder: str = "",
    progress: Progress | None = None,
) -> StoredIndex:
    """Build the source of an index into another folder, with other settings. If it is killed, the same call continues.

    Args:
        passage_tokens: maximum tokens of a passage, or None for those of the index.
        embedder: its spec; empty for that of the index.
    """
    manifest = index.manifest
    build = _SeededBuild(
        Path(manifest.source), folder, settings_of(manifest, embedder), include=manifest.include,
        exclude=manifest.exclude, passage_tokens=passage_tokens or manifest.passage_tokens,
        progress=progress or NoProgress(), internal=True,
    )  # fmt: skip
    build.index = index
    folder.mkdir(parents=True, exist_ok=True)
    with lock_index(folder, wait=True):
        build.run()
    built = build.published[-1] if build.published else build.old
    assert built is not None, "a finished build is published, or nothing has changed since the last one"
    return StoredIndex(folder, built)


class _SeededBuild(Build):
    """A build that takes embeddings from an index."""

    index: StoredIndex

    def _open_generation(self, models: Models) -> Generation:
        place = super()._open_generation(models)
        if self.fresh is not None:
            take_over(self.index, place, models.encoders, passages=False)
        return place


class _CopyBuild(_SeededBuild):
    """A build that takes passages and embeddings from an index instead of its source."""

    altered: Mapping[str, Passage]

    def _read(self, reader: SourceReader, place: Generation) -> None:  # noqa: ARG002
        stored = (passage for page in self.index.store.pages() for _, _, passage in page)
        passages = (self.altered.get(passage.id, passage) for passage in stored)
        for document, group in groupby(passages, lambda passage: passage.document):
            place.store.put([ReadFile("", "", "{}", {document: list(group)})])
        self.report.documents, self.report.passages = self.index.manifest.documents, self.index.manifest.passages

    def _measured(self, index: StoredIndex, place: Generation) -> dict[str, Any]:  # noqa: ARG002
        return {name: getattr(self.index.manifest, name) for name in MEASURED_FIELDS}
