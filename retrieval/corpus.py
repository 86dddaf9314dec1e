"""The index over a benchmark's passage file: built once, kept, and used by every retriever that it serves."""

from __future__ import annotations

import hashlib
from pathlib import Path

from turnmark.corpora.console import shown_progress
from turnmark.corpora.home import file_sha256
from turnmark.retrieval.build import build_index
from turnmark.retrieval.index import Index, list_indexes, open_index
from turnmark.retrieval.manifest import FORMAT, BuildSettings, Manifest
from turnmark.retrieval.registry import build_settings


def corpus_index(corpus: Path, retriever: str, embedder: str = "minilm") -> Index:
    """The index over a benchmark's passage file, kept under the fingerprint of its content.

    One that holds more than the retriever needs serves it too. Of several, the oldest, so that a run that goes on
    finds the index that it began with.
    """
    settings = build_settings(retriever, embedder)
    content = file_sha256(corpus)
    for manifest in cached_indexes(content, settings):
        return open_index(manifest.name)
    for manifest in _without_terms(content, settings):
        return _built(corpus, manifest.name, retriever, embedder)
    suffix = hashlib.sha256(f"{FORMAT}{settings.model_dump_json()}".encode()).hexdigest()[:8]
    return _built(corpus, f"corpus-{content[:16]}-{suffix}", retriever, embedder)


def cached_indexes(corpus: str, settings: BuildSettings) -> list[Manifest]:
    """The kept indexes over a passage file that hold all that is wanted, the oldest first.

    Args:
        corpus: SHA-256 of the passage file.
    """
    candidates = [
        manifest for manifest in list_indexes(internal=True) if manifest.name.startswith(f"corpus-{corpus[:16]}-")
    ]
    return sorted(
        (manifest for manifest in candidates if manifest.internal and _serves(manifest, settings)),
        key=lambda manifest: manifest.created,
    )


def _without_terms(corpus: str, settings: BuildSettings) -> list[Manifest]:
    """The kept indexes that lack a sparse encoder's terms and nothing else; a build that adds them embeds nothing."""
    if not (settings.splade and settings.embedder):
        return []
    serving = cached_indexes(corpus, settings.model_copy(update={"splade": ""}))
    return [manifest for manifest in serving if manifest.splade is None and manifest.tokens == settings.tokens]


def _serves(manifest: Manifest, settings: BuildSettings) -> bool:
    """Whether an index holds all that is wanted, made in the same way."""
    return (
        manifest.format == FORMAT
        and manifest.bm25 == settings.bm25
        and manifest.server == settings.server
        and settings.embedder in ("", manifest.embedder.spec if manifest.embedder else "")
        and settings.splade in ("", manifest.splade.spec if manifest.splade else "")
        and manifest.tokens >= settings.tokens
    )


def _built(corpus: Path, name: str, retriever: str, embedder: str) -> Index:
    with shown_progress() as progress:
        build_index(corpus, name, retriever=retriever, embedder=embedder, progress=progress, internal=True)
    return open_index(name)
