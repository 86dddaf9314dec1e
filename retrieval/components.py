"""The components of an index beside its passages: what each is written from, read back as, and checked by.

The manifest says which components there are. A component is a folder of its name in the generation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from turnmark.corpora.console import Progress
from turnmark.corpora.errors import TurnmarkError
from turnmark.corpora.types import Passage
from turnmark.retrieval import elastic_store
from turnmark.retrieval.bm25 import build_bm25
from turnmark.retrieval.chroma import ChromaVectors
from turnmark.retrieval.flat import write_vectors
from turnmark.retrieval.index import Index
from turnmark.retrieval.manifest import Manifest
from turnmark.retrieval.servers import Served, assign, read_note
from turnmark.retrieval.sparse import pack, write_sparse
from turnmark.retrieval.store import WHERE_KEYS, Checkpoint, PassageStore, unpacked
from turnmark.retrieval.tokens import packed_texts, token_embedder, write_tokens
from turnmark.retrieval.tokens import unpack as signs_of

VECTORS = "vectors"
"""Key of the passages' vectors in a checkpoint, whichever component they end in."""

# A share of signs that differ: backends that round differently flip a few, another text or model every second one.
OTHER_SIGNS = 0.15
# Cosine of a stored vector with its text's new one: 8-bit integers keep .99 of what PyTorch gives, and one may verify
# what the other built. Checksums find damage; another text lies far below.
SAME_VECTOR = 0.98
# Length of the difference between a passage's stored terms and its new ones, as a share of the new ones' length.
OTHER_TERMS = 0.05

Page = Sequence[tuple[int, str, Passage]]
"""(row, content hash, passage), as `PassageStore.pages` gives them."""


@dataclass(frozen=True)
class Material:
    """What a component is written from."""

    folder: Path
    manifest: Manifest
    store: PassageStore
    checkpoint: Checkpoint
    progress: Progress

    def values(self, key: str) -> Iterator[list[bytes]]:
        """The checkpoint's values of a key, in row order, a page at a time."""
        for page in self.store.pages():
            yield self.checkpoint.get(key, [content for _, content, _ in page])


class Component:
    """One component: `name` is that of its folder, and `key` that of its contents in a checkpoint."""

    name: ClassVar[str]
    key: ClassVar[str]

    def made_by(self, manifest: Manifest) -> str | None:
        """Fingerprint of the model that made it, empty if none did; None: an index of that manifest lacks it."""
        raise NotImplementedError

    def write(self, material: Material) -> None:
        """Write its folder, which does not exist yet, from the checkpoint."""
        raise NotImplementedError

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:  # noqa: ARG002
        """Content hash -> its value in a checkpoint, from a finished index, for the passages that have it."""
        return {}

    def verify(self, index: Index, sample: int) -> Iterator[str]:  # noqa: ARG002
        """What is wrong with it that checksums do not tell. `sample` passages are given to its model again."""
        return iter(())


class BM25Component(Component):
    """Every index has it: it is cheap, and needs no model."""

    name = key = "bm25"

    def made_by(self, manifest: Manifest) -> str | None:  # noqa: ARG002
        return ""

    def write(self, material: Material) -> None:
        material.progress.start("bm25", None)
        texts = (passage.indexed_text for page in material.store.pages() for _, _, passage in page)
        build_bm25(texts, material.folder / self.name, material.manifest.bm25)


class ChromaComponent(Component):
    """The embedder's vectors in Chroma: on a server, or in files where they are too many to be all compared."""

    name, key = "chroma", VECTORS

    def made_by(self, manifest: Manifest) -> str | None:
        return manifest.embedder.fingerprint if manifest.embedder and not manifest.exact else None

    def write(self, material: Material) -> None:
        material.progress.start(self.name, material.manifest.passages)
        folder, server = material.folder / self.name, material.manifest.server
        place = assign(folder, server, material.manifest.name) if server and server.kind == "chroma" else None
        chroma, count = ChromaVectors(folder, create=True, server=place), 0
        for page, vectors in zip(material.store.pages(), material.values(self.key), strict=True):
            with _with_count(place, count, material.manifest.passages):
                chroma.add(
                    [passage.id for _, _, passage in page],
                    unpacked(vectors),
                    [{"hash": content, **where_values(passage)} for _, content, passage in page],
                )
            count += len(page)
            material.progress.advance(len(page))
        chroma.close()

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:
        contents = {passage.id: content for _, content, passage in page}
        return {contents[i]: vector.tobytes() for i, vector in index.chroma.get(list(contents)).items()}

    def verify(self, index: Index, sample: int) -> Iterator[str]:
        """See `Component.verify`: the ids and content hashes of all, since Chroma's files change, and some vectors."""
        expected = {p.id: content for page in index.store.pages() for _, content, p in page}
        stored = dict(index.chroma.rows())
        if differing := [i for i in expected.keys() | stored.keys() if expected.get(i) != stored.get(i)]:
            yield f"chroma has other contents than the {len(expected)} passages: {len(differing)} differ, such as " + (
                repr(min(differing))
            )
        yield from _changed_vectors(index, sample)


class FlatComponent(Component):
    """The embedder's vectors in one file, where they are few."""

    name, key = "exact", VECTORS

    def made_by(self, manifest: Manifest) -> str | None:
        return manifest.embedder.fingerprint if manifest.embedder and manifest.exact else None

    def write(self, material: Material) -> None:
        assert material.manifest.embedder is not None, "written where the manifest names it"
        shape = material.manifest.passages, material.manifest.embedder.dimension
        write_vectors(material.folder / self.name, material.values(self.key), *shape)

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:
        vectors = index.flat.of([row for row, _, _ in page])
        return {content: vector.tobytes() for (_, content, _), vector in zip(page, vectors, strict=True)}

    def verify(self, index: Index, sample: int) -> Iterator[str]:
        return _changed_vectors(index, sample)


class SpladeComponent(Component):
    """The terms that a sparse encoder weighs."""

    name = key = "splade"

    def made_by(self, manifest: Manifest) -> str | None:
        return manifest.splade.fingerprint if manifest.splade else None

    def write(self, material: Material) -> None:
        assert material.manifest.splade is not None, "written where the manifest names it"
        material.progress.start(self.name, None)
        dimension = material.manifest.splade.dimension
        write_sparse(material.folder / self.name, lambda: material.values(self.key), dimension)

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:
        vectors = index.splade.vectors([row for row, _, _ in page])
        return {content: pack(vector) for (_, content, _), vector in zip(page, vectors, strict=True)}

    def verify(self, index: Index, sample: int) -> Iterator[str]:
        rows, passages = _sampled(index, sample)
        vectors = index.splade_encoder.encode([passage.indexed_text for passage in passages], "passage")
        for passage, stored, vector in zip(passages, index.splade.vectors(rows), vectors, strict=True):
            difference = np.zeros(index.splade.dimension, dtype=np.float32)
            difference[stored[0]] += stored[1]
            difference[vector[0]] -= vector[1]
            if np.linalg.norm(difference) > OTHER_TERMS * (np.linalg.norm(vector[1]) or 1.0):
                yield f"the terms of {passage.id!r} are not what {index.splade_encoder.name} gives for its text"


class TokensComponent(Component):
    """The embedder's token vectors."""

    name = key = "tokens"

    def made_by(self, manifest: Manifest) -> str | None:
        return manifest.embedder.fingerprint if manifest.embedder and manifest.tokens else None

    def write(self, material: Material) -> None:
        material.progress.start(self.name, None)
        write_tokens(material.folder / self.name, lambda: material.values(self.key))

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:
        return {content: index.tokens.packed(row) for row, content, _ in page}

    def verify(self, index: Index, sample: int) -> Iterator[str]:
        rows, passages = _sampled(index, sample)
        _, packed = packed_texts(token_embedder(index.embedder), [passage.indexed_text for passage in passages])
        for passage, row, vectors in zip(passages, rows, packed, strict=True):
            signs, stored = signs_of(vectors)[0], index.tokens.signs(row)
            if signs.shape != stored.shape or np.unpackbits(np.bitwise_xor(signs, stored)).mean() > OTHER_SIGNS:
                yield f"the token vectors of {passage.id!r} are not what {index.embedder.name} gives for its text"


class ElasticComponent(Component):
    """The passages as documents of an Elasticsearch index; vectors are in a file of ours, too."""

    name = key = "elasticsearch"

    def made_by(self, manifest: Manifest) -> str | None:
        return "" if manifest.server and manifest.server.kind == "elasticsearch" else None

    def write(self, material: Material) -> None:
        manifest = material.manifest
        assert manifest.server is not None, "written where the manifest names it"
        place = assign(material.folder / self.name, manifest.server, manifest.name)
        material.progress.start(self.name, manifest.passages)
        for _ in elastic_store.written(place, manifest, self._documents(material)):
            material.progress.advance(1)

    def _documents(self, material: Material) -> Iterator[tuple[str, dict[str, Any]]]:
        """(id, fields) of each passage."""
        for page in material.store.pages():
            vectors: list[bytes] = []
            if material.manifest.embedder:
                vectors = material.checkpoint.get(VECTORS, [content for _, content, _ in page])
            for number, (_, content, passage) in enumerate(page):
                fields = {"text": passage.indexed_text, "hash": content, **where_values(passage)}
                if vectors:
                    fields["vector"] = np.frombuffer(vectors[number], dtype=np.float32).tolist()
                yield passage.id, fields

    def verify(self, index: Index, sample: int) -> Iterator[str]:  # noqa: ARG002
        """See `Component.verify`: how many documents the server has."""
        place = read_note(index.files / self.name)
        assert place is not None, "the note has a checksum"
        count = elastic_store.count(place)
        if count != index.manifest.passages:
            yield f"{self.name} has {count} documents, the manifest says {index.manifest.passages} passages"


COMPONENTS: tuple[Component, ...] = (
    BM25Component(),
    ChromaComponent(),
    FlatComponent(),
    SpladeComponent(),
    TokensComponent(),
    ElasticComponent(),
)


def components_of(manifest: Manifest) -> list[Component]:
    """The components that an index of that manifest has."""
    return [component for component in COMPONENTS if component.made_by(manifest) is not None]


def is_whole(index: Index) -> bool:
    """Whether all components that the manifest names exist (not whether they are undamaged)."""
    names = ["passages.db", *(component.name for component in components_of(index.manifest))]
    return all((index.files / name).exists() for name in names)


def _changed_vectors(index: Index, sample: int) -> Iterator[str]:
    """Of `sample` passages those whose stored vector is not the embedder's."""
    _, passages = _sampled(index, sample)
    stored = index.vectors_of([passage.id for passage in passages])
    vectors = index.embedder.encode([passage.indexed_text for passage in passages], "passage")
    for passage, vector in zip(passages, vectors, strict=True):
        if passage.id in stored and float(vector @ stored[passage.id]) < SAME_VECTOR:
            yield f"the vector of {passage.id!r} is not what {index.embedder.name} gives for its text"


@contextmanager
def _with_count(place: Served | None, count: int, total: int) -> Iterator[None]:
    """Add to a server's failure how many vectors it has, and that the same command continues."""
    try:
        yield
    except TurnmarkError as error:
        if place is None:
            raise
        raise TurnmarkError(
            f"{error}. {count:,} of {total:,} vectors had been stored as {place}; all are kept here, so the same "
            "command goes on without the model"
        ) from error


def _sampled(index: Index, sample: int) -> tuple[Sequence[int], list[Passage]]:
    """`sample` rows, evenly over the index, and their passages."""
    rows = range(0, index.manifest.passages, max(1, index.manifest.passages // sample))[:sample]
    return rows, index.store.by_rows(rows)


def where_values(passage: Passage) -> dict[str, Any]:
    """What `--where` looks at, as a server keeps it beside the passage."""
    values = {key: getattr(passage, key) for key in WHERE_KEYS}
    return {key: value for key, value in values.items() if value is not None}
