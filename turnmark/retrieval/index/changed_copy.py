"""Copies of an index in which some passages have another text. Only these passages are embedded again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from turnmark.core.console import NoProgress, Progress
from turnmark.corpora.types import Passage
from turnmark.retrieval.index.build import CALIBRATED_FIELDS, Build, copy_embeddings
from turnmark.retrieval.index.components import Encoder
from turnmark.retrieval.index.source_reading import KnownFile, SourceReader
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.search.rebuild_commands import spec_of_components
from turnmark.retrieval.search.retriever_factory import build_settings
from turnmark.retrieval.storage.manifest import Manifest
from turnmark.retrieval.storage.passage_store import Checkpoint, PassageStore


def copy_with_texts(
    index: StoredIndex, texts: Mapping[str, str], folder: Path, progress: Progress | None = None
) -> StoredIndex:
    """Copy an index into an empty folder, with other texts for some of its passages.

    The vectors of the copy are always in files, even if those of the index are on a server.

    Args:
        texts: passage id -> text of the passage in the copy.
    """
    manifest = index.manifest
    embedder = manifest.embedder.spec if manifest.embedder else "minilm"
    settings = build_settings(spec_of_components(manifest), embedder)
    settings = settings.model_copy(update={"server": None, "bm25": manifest.bm25})
    copy = _CopyBuild(Path(manifest.source), folder, settings, progress=progress or NoProgress(), internal=True)
    copy.index, copy.texts = index, texts
    copy.run()
    assert copy.made is not None, "a build that ends has a manifest"
    return StoredIndex(folder, copy.made)


class _CopyBuild(Build):
    """A build that takes passages and embeddings from an index instead of its source."""

    index: StoredIndex
    texts: Mapping[str, str]
    made: Manifest | None = None

    def _read(self, store: PassageStore, reader: SourceReader) -> dict[str, KnownFile]:  # noqa: ARG002
        store.clear_passages()
        for page in self.index.store.pages():
            store.add_passages(self._altered(passage) for _, _, passage in page)
        self.report.documents = self.index.manifest.documents
        self.report.passages = store.count()
        store.renumber()
        return {}

    def _altered(self, passage: Passage) -> Passage:
        text = self.texts.get(passage.id)
        return passage if text is None else passage.model_copy(update={"text": text})

    def _calibrated(self, index: StoredIndex) -> dict[str, Any]:  # noqa: ARG002
        return {name: getattr(self.index.manifest, name) for name in CALIBRATED_FIELDS}

    def _reuse(
        self, store: PassageStore, checkpoint: Checkpoint, planned: Manifest, encoders: Sequence[Encoder]
    ) -> None:
        self.made = planned
        for encoder in encoders:
            copy_embeddings(store, checkpoint, self.index, planned, encoder)
