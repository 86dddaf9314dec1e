"""Copies of an index in which some passages are altered. Only these passages are embedded again."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from turnmark.core.console import NoProgress, Progress
from turnmark.corpora.types import Passage
from turnmark.retrieval.index.build import MEASURED_FIELDS, Build
from turnmark.retrieval.index.encoders import Models
from turnmark.retrieval.index.generation import Generation
from turnmark.retrieval.index.source_reading import SourceReader
from turnmark.retrieval.index.take_over import take_over
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.search.rebuild_commands import spec_of_components
from turnmark.retrieval.search.retriever_factory import build_settings
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
    embedder = manifest.embedder.spec if manifest.embedder else "minilm"
    settings = build_settings(spec_of_components(manifest), embedder)
    settings = settings.model_copy(update={"server": None, "bm25": manifest.bm25})
    copy = _CopyBuild(Path(manifest.source), folder, settings, progress=progress or NoProgress(), internal=True)
    copy.index, copy.altered = index, altered
    copy.run()
    return StoredIndex(folder, copy.published[-1])


class _CopyBuild(Build):
    """A build that takes passages and embeddings from an index instead of its source."""

    index: StoredIndex
    altered: Mapping[str, Passage]

    def _open_generation(self, models: Models) -> Generation:
        place = super()._open_generation(models)
        take_over(self.index, place, models.encoders, passages=False)
        return place

    def _read(self, reader: SourceReader, place: Generation) -> None:  # noqa: ARG002
        stored = (passage for page in self.index.store.pages() for _, _, passage in page)
        passages = (self.altered.get(passage.id, passage) for passage in stored)
        for document, group in groupby(passages, lambda passage: passage.document):
            place.store.put([ReadFile("", "", "{}", {document: list(group)})])
        self.report.documents, self.report.passages = self.index.manifest.documents, self.index.manifest.passages

    def _measured(self, index: StoredIndex, place: Generation) -> dict[str, Any]:  # noqa: ARG002
        return {name: getattr(self.index.manifest, name) for name in MEASURED_FIELDS}
