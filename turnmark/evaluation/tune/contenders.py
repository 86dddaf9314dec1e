"""Other ways to search the same documents: sizes of passages, embedders and rerankers that are on this machine.

Another size or embedder needs another build of the index. It is made from the source into the folder of the tuning, so
that the index stays as it is until its owner rebuilds it.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from pydantic import Field

from turnmark.core.console import Progress
from turnmark.core.record import Record
from turnmark.core.specs import parse_spec
from turnmark.corpora.downloads.small_models import MODELS, is_complete
from turnmark.corpora.readers import ReadingReport
from turnmark.evaluation.tune.rankings import reranker_of
from turnmark.retrieval.embedding.choose_embedder import foreign_languages
from turnmark.retrieval.embedding.embedders import DEFAULT_EMBEDDER, EMBEDDERS, open_embedder
from turnmark.retrieval.index.build import settings_of
from turnmark.retrieval.index.changed_copy import build_otherwise
from turnmark.retrieval.index.encoders import Models
from turnmark.retrieval.index.source_reading import SourceReader
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.search.rebuild_commands import build_command
from turnmark.retrieval.search.rerankers import present_cross_encoders
from turnmark.retrieval.storage.manifest import ModelInfo

PASSAGE_SIZES = (96, 128, 192, 256, 384, 512)
"""Sizes of passages in tokens that are tried, as far as the embedder reads them."""
MAX_BUILT_PASSAGES = 20_000
"""Number of passages above which other builds are made only if they fit into a time limit."""
SAMPLE_PASSAGES = 16
"""Number of passages that are embedded for a forecast."""
SAMPLE_DOCUMENTS, SAMPLE_CHARACTERS = 20, 100_000
"""How much of the source is read for a forecast."""


class Contender(Record):
    """A way to search the documents: what differs from the index and its retriever; otherwise empty."""

    passage_tokens: int | None = Field(default=None, description="maximum tokens of a passage")
    embedder: str = ""
    reranker: str = ""

    @property
    def needs_build(self) -> bool:
        """Whether the index must be built again for it."""
        return bool(self.passage_tokens or self.embedder)

    def __str__(self) -> str:
        size = f"passages of {self.passage_tokens} tokens" if self.passage_tokens else ""
        return " and ".join(filter(None, (size, self.embedder, self.reranker)))

    def retriever(self, base: str) -> str:
        """Return the spec of a default retriever with the reranker of the contender."""
        spec = parse_spec(base)
        return str(replace(spec, options={**spec.options, "rerank": self.reranker})) if self.reranker else base


PRESENT = Contender()
"""The index and its retriever."""


def find_contenders(index: StoredIndex, retriever: str) -> tuple[list[Contender], str]:
    """Return what can be compared with an index and its retriever, and a sentence if other builds cannot."""
    rerankers = [Contender(reranker=each) for each in present_cross_encoders() if each != reranker_of(retriever)]
    manifest = index.manifest
    without = "so other sizes of passages and embedders were not compared"
    if not Path(manifest.source).exists():
        return rerankers, f"{manifest.source} does not exist any more, {without}."
    if manifest.described is not None:
        return rerankers, f"A model described the pictures of {index.name}, {without}."
    return [*_sizes(index), *_embedders(index), *rerankers], ""


def _sizes(index: StoredIndex) -> list[Contender]:
    """Return the other sizes of passages that all models of an index read; none if its documents are passages."""
    first = next(iter(index.store.pages()))
    if all(passage.id == passage.document for _, _, passage in first):
        return []
    limit = min(model.max_tokens for model in Models(settings_of(index.manifest)).of.values())
    sizes = sorted({*(size for size in PASSAGE_SIZES if size < limit), min(limit, PASSAGE_SIZES[-1])})
    return [Contender(passage_tokens=size) for size in sizes if size != index.manifest.chunk_size]


def _embedders(index: StoredIndex) -> list[Contender]:
    """Return the other embedders on this machine that know the languages of an index."""
    manifest = index.manifest
    named = [name for name in EMBEDDERS.entries() if name == DEFAULT_EMBEDDER or _is_fetched(name)]
    used = manifest.embedder.spec if manifest.embedder else ""
    contenders = []
    for name in named:
        if name != used and not foreign_languages(name, manifest.languages):
            limit = open_embedder(name).max_tokens
            size = limit if manifest.passage_tokens and manifest.passage_tokens > limit else None
            contenders.append(Contender(passage_tokens=size, embedder=name))
    return contenders


def _is_fetched(name: str) -> bool:
    return name in MODELS and is_complete(MODELS[name])


def open_contender(index: StoredIndex, contender: Contender, folder: Path, progress: Progress) -> StoredIndex:
    """Return the index that a contender searches, built into a folder of its own in `folder` if it needs a build."""
    if not contender.needs_build:
        return index
    words = (str(contender.passage_tokens or index.manifest.chunk_size), parse_spec(contender.embedder or "same").name)
    return build_otherwise(index, folder / "-".join(words), contender.passage_tokens, contender.embedder, progress)


def has_same_documents(index: StoredIndex, built: StoredIndex) -> bool:
    """Return whether two indexes have passages of the same documents with the same text, however it is cut."""
    return _texts(index) == _texts(built)


def _texts(index: StoredIndex) -> dict[str, int]:
    """Return document -> a hash of its text without white space."""
    texts: dict[str, list[str]] = {}
    for page in index.store.pages():
        for _, _, passage in page:
            texts.setdefault(passage.document, []).append("".join(passage.text.split()))
    return {document: hash("".join(parts)) for document, parts in texts.items()}


def rebuild_command(index: StoredIndex, contender: Contender, retriever: str) -> str:
    """Return the command that builds an index again as a contender, to be searched with a retriever."""
    changed: dict[str, object] = {}
    if contender.passage_tokens:
        changed["passage_tokens"] = contender.passage_tokens
    if contender.embedder:
        changed["embedder"] = ModelInfo(spec=contender.embedder, fingerprint="", dimension=0)
    command = build_command(index.manifest.model_copy(update=changed), retriever)
    named = f"--embedder {shlex.quote(contender.embedder)}"
    return command if not contender.embedder or named in command else f"{command} {named}"


# --- forecasts -------------------------------------------------------------------------------------------------------


def forecast_builds(index: StoredIndex, contenders: Sequence[Contender]) -> list[float]:
    """Return the seconds that the build of each contender takes, as measured on samples of the source; else 0."""
    if not any(contender.needs_build for contender in contenders):
        return [0.0] * len(contenders)
    count = index.manifest.passages
    rows = np.linspace(0, count - 1, min(count, SAMPLE_PASSAGES)).astype(int).tolist()
    texts = [passage.indexed_text for passage in index.store.by_rows(rows)]
    reading = _seconds_to_read(index)
    by_embedder: dict[str, float] = {}
    for contender in contenders:
        if contender.needs_build and contender.embedder not in by_embedder:
            embedding = _seconds_to_embed(index, contender.embedder, texts)
            by_embedder[contender.embedder] = reading + embedding / len(texts) * count
    return [by_embedder[each.embedder] if each.needs_build else 0.0 for each in contenders]


def _seconds_to_embed(index: StoredIndex, embedder: str, texts: Sequence[str]) -> float:
    models = Models(settings_of(index.manifest, embedder))
    for encoder in models.encoders:
        encoder.encode(texts[:1])  # loads the model
    began = time.perf_counter()
    for encoder in models.encoders:
        encoder.encode(texts)
    return time.perf_counter() - began


def _seconds_to_read(index: StoredIndex) -> float:
    """Return the time that reading the source takes, as its first documents do."""
    manifest = index.manifest
    reader = SourceReader(Path(manifest.source), manifest.include, manifest.exclude, {}, ReadingReport())
    began = time.perf_counter()
    try:
        read = sum(len(document.text) for document in reader.read_ahead(SAMPLE_DOCUMENTS, SAMPLE_CHARACTERS))
    finally:
        reader.close()
    seconds = time.perf_counter() - began
    total = sum(len(passage.text) for page in index.store.pages() for _, _, passage in page)
    return seconds * max(1.0, total / max(1, read))
