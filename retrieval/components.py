"""The components of an index beside its passages, and the models that make their contents.

The manifest says which components there are. A component is a folder of its name in the generation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from turnmark.corpora.errors import TurnmarkError
from turnmark.corpora.types import Passage
from turnmark.retrieval.bm25 import build_bm25
from turnmark.retrieval.chroma import ChromaVectors
from turnmark.retrieval.component import VECTORS, Component, Material, Page, checkpoint_pages
from turnmark.retrieval.elastic_store import ElasticComponent
from turnmark.retrieval.flat import write_vectors
from turnmark.retrieval.servers import Served, assign
from turnmark.retrieval.sparse import pack, unpack, write_sparse
from turnmark.retrieval.store import WHERE_KEYS, unpacked
from turnmark.retrieval.tokens import packed_texts, token_embedder, write_tokens
from turnmark.retrieval.tokens import unpack as signs_of

if TYPE_CHECKING:
    from turnmark.retrieval.index import Index
    from turnmark.retrieval.manifest import Manifest

# A share of signs that differ: backends that round differently flip a few, another text or model every second one.
OTHER_SIGNS = 0.15
# Cosine of a stored vector with its text's new one: 8-bit integers keep .99 of what PyTorch gives, and one may verify
# what the other built. Checksums find damage; another text lies far below.
SAME_VECTOR = 0.98


class BM25Component:
    """Every index has it: it is cheap, and needs no model."""

    name = key = "bm25"

    def made_by(self, manifest: Manifest) -> str | None:  # noqa: ARG002
        return ""

    def write(self, material: Material) -> None:
        material.progress.start("bm25", None)
        texts = (passage.indexed_text for page in material.store.pages() for _, _, passage in page)
        build_bm25(texts, material.folder / self.name, material.manifest.bm25)

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:  # noqa: ARG002
        return {}

    def verify(self, index: Index, sample: int) -> Iterator[str]:  # noqa: ARG002
        if index.bm25.rows != index.manifest.passages:
            yield f"bm25 has {index.bm25.rows} rows, the manifest says {index.manifest.passages} passages"


class ChromaComponent:
    """The embedder's vectors in Chroma: on a server, or in files where they are too many to be all compared."""

    name, key = "chroma", VECTORS

    def made_by(self, manifest: Manifest) -> str | None:
        return manifest.embedder.fingerprint if manifest.embedder and not manifest.exact else None

    def write(self, material: Material) -> None:
        material.progress.start(self.name, material.manifest.passages)
        folder, server = material.folder / self.name, material.manifest.server
        place = assign(folder, server, material.manifest.name) if server and server.kind == "chroma" else None
        chroma, count = ChromaVectors(folder, create=True, server=place), 0
        for page in material.store.pages():
            vectors = material.checkpoint.get(self.key, [content for _, content, _ in page])
            with _with_count(place, count, material.manifest.passages):
                chroma.add(
                    [passage.id for _, _, passage in page],
                    unpacked(vectors),
                    [_metadata(content, passage) for _, content, passage in page],
                )
            count += len(page)
            material.progress.advance(len(page))
        chroma.close()

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:
        contents = {passage.id: content for _, content, passage in page}
        return {contents[i]: vector.tobytes() for i, vector in index.chroma.get(list(contents)).items()}

    def verify(self, index: Index, sample: int) -> Iterator[str]:
        """See `Component.verify`: the ids and content hashes of all, and some vectors."""
        expected = {p.id: content for page in index.store.pages() for _, content, p in page}
        stored = dict(index.chroma.rows())
        if missing := expected.keys() - stored.keys():
            yield f"chroma lacks {len(missing)} of {len(expected)} passages, such as {min(missing)!r}"
        if extra := stored.keys() - expected.keys():
            yield f"chroma has {len(extra)} vectors of no passage, such as {min(extra)!r}"
        if stale := [i for i in expected.keys() & stored.keys() if expected[i] != stored[i]]:
            yield f"chroma has {len(stale)} vectors of an older content, such as {min(stale)!r}"
        yield from _changed_vectors(index, sample)


class FlatComponent:
    """The embedder's vectors in one file, where they are few."""

    name, key = "exact", VECTORS

    def made_by(self, manifest: Manifest) -> str | None:
        return manifest.embedder.fingerprint if manifest.embedder and manifest.exact else None

    def write(self, material: Material) -> None:
        assert material.manifest.embedder is not None, "written where the manifest names it"
        shape = material.manifest.passages, material.manifest.embedder.dimension
        write_vectors(material.folder / self.name, checkpoint_pages(self.key, material), *shape)

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:
        vectors = index.flat.of([row for row, _, _ in page])
        return {content: vector.tobytes() for (_, content, _), vector in zip(page, vectors, strict=True)}

    def verify(self, index: Index, sample: int) -> Iterator[str]:
        """See `Component.verify`: the shape, and some vectors."""
        info = index.manifest.embedder
        if info is None or index.flat.shape != (index.manifest.passages, info.dimension):
            yield f"exact has vectors of shape {index.flat.shape}, expected those of {index.manifest.passages} passages"
            return
        yield from _changed_vectors(index, sample)


def _changed_vectors(index: Index, sample: int) -> Iterator[str]:
    """Of `sample` passages those whose stored vector is not the embedder's."""
    passages = sampled(index, sample)
    stored = index.vectors_of([passage.id for passage in passages])
    vectors = index.embedder.encode([passage.indexed_text for passage in passages], "passage")
    for passage, vector in zip(passages, vectors, strict=True):
        if passage.id in stored and float(vector @ stored[passage.id]) < SAME_VECTOR:
            yield f"the vector of {passage.id!r} is not what {index.embedder.name} gives for its text"


class SpladeComponent:
    """The terms that a sparse encoder weighs."""

    name = key = "splade"

    def made_by(self, manifest: Manifest) -> str | None:
        return manifest.splade.fingerprint if manifest.splade else None

    def write(self, material: Material) -> None:
        assert material.manifest.splade is not None, "written where the manifest names it"
        dimension = material.manifest.splade.dimension
        material.progress.start(self.name, None)
        write_sparse(material.folder / self.name, lambda: checkpoint_pages(self.key, material), dimension)

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:
        vectors = index.splade.vectors([row for row, _, _ in page])
        return {content: pack(vector) for (_, content, _), vector in zip(page, vectors, strict=True)}

    def verify(self, index: Index, sample: int) -> Iterator[str]:
        if index.splade.rows != index.manifest.passages:
            yield f"splade has {index.splade.rows} rows, the manifest says {index.manifest.passages} passages"
            return
        if damage := index.splade.damage():
            yield f"splade is damaged: {damage}"
            return
        encoder, rows = index.splade_encoder, sampled_rows(index, sample)
        passages = index.store.by_rows(rows)
        vectors = encoder.encode([passage.indexed_text for passage in passages], "passage")
        for passage, stored, vector in zip(passages, index.splade.vectors(rows), vectors, strict=True):
            difference = np.zeros(index.splade.dimension, dtype=np.float32)
            terms, weights = unpack(pack(vector))
            difference[stored[0]] += stored[1]
            difference[terms] -= weights
            length = float(np.linalg.norm(vector[1])) or 1.0
            if float(np.linalg.norm(difference)) > 0.05 * length:
                yield f"the terms of {passage.id!r} are not what {encoder.name} gives for its text"


class TokensComponent:
    """The embedder's token vectors."""

    name = key = "tokens"

    def made_by(self, manifest: Manifest) -> str | None:
        return manifest.embedder.fingerprint if manifest.embedder and manifest.tokens else None

    def write(self, material: Material) -> None:
        material.progress.start(self.name, None)
        write_tokens(material.folder / self.name, lambda: checkpoint_pages(self.key, material))

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:
        return {content: index.tokens.packed(row) for row, content, _ in page}

    def verify(self, index: Index, sample: int) -> Iterator[str]:
        """See `Component.verify`: the number of rows, and the signs of some passages' tokens."""
        if index.tokens.rows != index.manifest.passages:
            yield f"tokens has {index.tokens.rows} rows, the manifest says {index.manifest.passages} passages"
            return
        rows = sampled_rows(index, sample)
        passages = index.store.by_rows(rows)
        _, packed = packed_texts(token_embedder(index.embedder), [passage.indexed_text for passage in passages])
        for passage, row, vectors in zip(passages, rows, packed, strict=True):
            signs, stored = signs_of(vectors)[0], index.tokens.signs(row)
            if signs.shape != stored.shape or np.unpackbits(np.bitwise_xor(signs, stored)).mean() > OTHER_SIGNS:
                yield f"the token vectors of {passage.id!r} are not what {index.embedder.name} gives for its text"


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


def sampled_rows(index: Index, sample: int) -> Sequence[int]:
    """`sample` rows, evenly over the index."""
    step = max(1, index.manifest.passages // sample)
    return range(0, index.manifest.passages, step)[:sample]


def sampled(index: Index, sample: int) -> list[Passage]:
    """The passages of `sampled_rows`."""
    return index.store.by_rows(sampled_rows(index, sample))


def _metadata(content: str, passage: Passage) -> dict[str, Any]:
    """A vector's metadata in Chroma: the content hash, and the keys of `--where`."""
    values = {key: getattr(passage, key) for key in WHERE_KEYS}
    return {"hash": content, **{key: value for key, value in values.items() if value is not None}}
