"""The parts of an index beside its passages, and the models that make what they hold.

Which parts there are says the manifest. A part is a folder of its name in the generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from corpora.errors import TurnmarkError
from corpora.progress import Progress
from corpora.types import Passage
from retrieval.bm25 import build_bm25
from retrieval.elastic_store import ElasticPart
from retrieval.embed import Embedder
from retrieval.exact import write_vectors
from retrieval.kept import Kept, unpacked
from retrieval.served import Served, assign
from retrieval.sparse import SpladeEncoder, pack, unpack, write_sparse
from retrieval.store import WHERE_KEYS, PassageStore
from retrieval.tokens import packed_texts, token_embedder, write_tokens
from retrieval.tokens import unpack as signs_of
from retrieval.vectors import VectorStore

if TYPE_CHECKING:
    from retrieval.index import Index, Manifest

# A share of signs that differ: backends that round differently flip a few, another text or model every second one.
ANOTHER = 0.15
# Cosine of a vector with its text's new one: 8-bit integers keep .99 of what PyTorch gives, and one may verify what the
# other built. Damage is found by checksums, another text lies far below.
SAME_VECTOR = 0.98

Page = Sequence[tuple[int, str, Passage]]
"""(row, content hash, passage), as `PassageStore.pages` gives them."""


@dataclass(frozen=True)
class Material:
    """What a part is written from."""

    folder: Path
    manifest: Manifest
    store: PassageStore
    kept: Kept
    progress: Progress


class Part(Protocol):
    """One part: `name` is that of its folder, and what `Kept` keeps its contents under."""

    name: str

    def made_by(self, manifest: Manifest) -> str | None:
        """Fingerprint of the model that made it, empty where none did; None: an index of that manifest lacks it."""
        ...

    def write(self, material: Material) -> None:
        """Write its folder, which is not there, from what was kept."""
        ...

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:
        """Content hash -> what `Kept` would hold of it, from a finished index, for the passages that have it."""
        ...

    def verify(self, index: Index, sample: int) -> Iterator[str]:
        """What is wrong with it. `sample` passages are given to its model again."""
        ...


@dataclass(frozen=True)
class Coder:
    """A model's one pass over the contents: what it makes of each text, for one or more parts."""

    parts: tuple[str, ...]
    encode: Callable[[Sequence[str]], Mapping[str, Sequence[bytes]]]


def dense_coder(embedder: Embedder, tokens: bool = False) -> Coder:
    """Vectors for Chroma, and from the same pass, where they are wanted, those of the tokens.

    Raises:
        RequestError: the embedder gives no token vectors.
    """
    if not tokens:
        return Coder(
            ("chroma",), lambda texts: {"chroma": [vector.tobytes() for vector in embedder.encode(texts, "passage")]}
        )
    both = token_embedder(embedder)

    def encode(texts: Sequence[str]) -> Mapping[str, Sequence[bytes]]:
        vectors, own = packed_texts(both, texts)
        return {"chroma": [vector.tobytes() for vector in vectors], "tokens": list(own)}

    return Coder(("chroma", "tokens"), encode)


def splade_coder(encoder: SpladeEncoder) -> Coder:
    """Weighed terms for the sparse index."""
    return Coder(("splade",), lambda texts: {"splade": [pack(vector) for vector in encoder.encode(texts, "passage")]})


class BM25Part:
    """Every index has it: it is cheap, and needs no model."""

    name = "bm25"

    def made_by(self, manifest: Manifest) -> str | None:  # noqa: ARG002
        """See `Part.made_by`."""
        return ""

    def write(self, material: Material) -> None:
        """See `Part.write`."""
        material.progress.start("bm25", None)
        texts = (passage.indexed_text for page in material.store.pages() for _, _, passage in page)
        build_bm25(texts, material.folder / self.name, material.manifest.bm25)

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:  # noqa: ARG002
        """See `Part.stored`."""
        return {}

    def verify(self, index: Index, sample: int) -> Iterator[str]:  # noqa: ARG002
        """See `Part.verify`."""
        if index.bm25.rows != index.manifest.passages:
            yield f"bm25 has {index.bm25.rows} rows, the manifest says {index.manifest.passages} passages"


class ChromaPart:
    """The embedder's vectors."""

    name = "chroma"

    def made_by(self, manifest: Manifest) -> str | None:
        """See `Part.made_by`."""
        return manifest.embedder.fingerprint if manifest.embedder else None

    def write(self, material: Material) -> None:
        """See `Part.write`."""
        material.progress.start("chroma", material.manifest.passages)
        folder, wanted = material.folder / self.name, material.manifest.server
        place = assign(folder, wanted, material.manifest.name) if wanted and wanted.kind == "chroma" else None
        chroma, stored = VectorStore(folder, create=True, server=place), 0
        for page in material.store.pages():
            vectors = material.kept.get(self.name, [content for _, content, _ in page])
            with _stored_told(place, stored, material.manifest.passages):
                chroma.add(
                    [passage.id for _, _, passage in page],
                    unpacked(vectors),
                    [_metadata(content, passage) for _, content, passage in page],
                )
            stored += len(page)
            material.progress.advance(len(page))
        chroma.close()

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:
        """See `Part.stored`."""
        contents = {passage.id: content for _, content, passage in page}
        return {contents[i]: vector.tobytes() for i, vector in index.vectors.get(list(contents)).items()}

    def verify(self, index: Index, sample: int) -> Iterator[str]:
        """See `Part.verify`: the ids and content hashes of all, and some vectors."""
        wanted = {p.id: content for page in index.store.pages() for _, content, p in page}
        stored = dict(index.vectors.rows())
        if lacking := wanted.keys() - stored.keys():
            yield f"chroma lacks {len(lacking)} of {len(wanted)} passages, such as {min(lacking)!r}"
        if strange := stored.keys() - wanted.keys():
            yield f"chroma has {len(strange)} vectors of no passage, such as {min(strange)!r}"
        if stale := [i for i in wanted.keys() & stored.keys() if wanted[i] != stored[i]]:
            yield f"chroma has {len(stale)} vectors of an older content, such as {min(stale)!r}"
        passages = sampled(index, sample)
        again = index.embedder.encode([p.indexed_text for p in passages], "passage")
        kept = index.vectors.get([p.id for p in passages])
        for passage, vector in zip(passages, again, strict=True):
            if passage.id in kept and float(vector @ kept[passage.id]) < SAME_VECTOR:
                yield f"the vector of {passage.id!r} is not what {index.embedder.name} gives for its text"


class ExactPart:
    """The same vectors in one file, where they are few."""

    name = "exact"

    def made_by(self, manifest: Manifest) -> str | None:
        """See `Part.made_by`."""
        return manifest.embedder.fingerprint if manifest.embedder and manifest.exact else None

    def write(self, material: Material) -> None:
        """See `Part.write`."""
        assert material.manifest.embedder is not None, "written where the manifest promises it"
        shape = material.manifest.passages, material.manifest.embedder.dimension
        write_vectors(material.folder / self.name, _kept_pages(ChromaPart.name, material), *shape)

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:  # noqa: ARG002
        """See `Part.stored`: Chroma has them."""
        return {}

    def verify(self, index: Index, sample: int) -> Iterator[str]:
        """See `Part.verify`: the shape; and that some vectors are those that Chroma has."""
        info, rows = index.manifest.embedder, sampled_rows(index, sample)
        if info is None or index.exact.shape != (index.manifest.passages, info.dimension):
            yield f"exact has vectors of shape {index.exact.shape}, not those of {index.manifest.passages} passages"
            return
        passages = index.store.by_rows(rows)
        kept = index.vectors.get([passage.id for passage in passages])
        for passage, vector in zip(passages, index.exact.of(rows), strict=True):
            if passage.id in kept and float(vector @ kept[passage.id]) < SAME_VECTOR:
                yield f"exact has another vector of {passage.id!r} than chroma"


class SpladePart:
    """The terms that a sparse encoder weighs."""

    name = "splade"

    def made_by(self, manifest: Manifest) -> str | None:
        """See `Part.made_by`."""
        return manifest.splade.fingerprint if manifest.splade else None

    def write(self, material: Material) -> None:
        """See `Part.write`."""
        assert material.manifest.splade is not None, "written where the manifest promises it"
        material.progress.start(self.name, None)

        write_sparse(
            material.folder / self.name, lambda: _kept_pages(self.name, material), material.manifest.splade.dimension
        )

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:
        """See `Part.stored`."""
        vectors = index.splade.vectors([row for row, _, _ in page])
        return {content: pack(vector) for (_, content, _), vector in zip(page, vectors, strict=True)}

    def verify(self, index: Index, sample: int) -> Iterator[str]:
        """See `Part.verify`."""
        import numpy as np

        if index.splade.rows != index.manifest.passages:
            yield f"splade has {index.splade.rows} rows, the manifest says {index.manifest.passages} passages"
            return
        if damage := index.splade.damage():
            yield f"splade is damaged: {damage}"
            return
        encoder, rows = index.splade_encoder, sampled_rows(index, sample)
        passages = index.store.by_rows(rows)
        again = encoder.encode([passage.indexed_text for passage in passages], "passage")
        for passage, kept, made in zip(passages, index.splade.vectors(rows), again, strict=True):
            difference = np.zeros(index.splade.dimension, dtype=np.float32)
            terms, weights = unpack(pack(made))
            difference[kept[0]] += kept[1]
            difference[terms] -= weights
            length = float(np.linalg.norm(made[1])) or 1.0
            if float(np.linalg.norm(difference)) > 0.05 * length:
                yield f"the terms of {passage.id!r} are not what {encoder.name} gives for its text"


class TokensPart:
    """The embedder's token vectors."""

    name = "tokens"

    def made_by(self, manifest: Manifest) -> str | None:
        """See `Part.made_by`."""
        return manifest.embedder.fingerprint if manifest.embedder and manifest.tokens else None

    def write(self, material: Material) -> None:
        """See `Part.write`."""
        material.progress.start(self.name, None)
        write_tokens(material.folder / self.name, lambda: _kept_pages(self.name, material))

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:
        """See `Part.stored`."""
        return {content: index.tokens.packed(row) for row, content, _ in page}

    def verify(self, index: Index, sample: int) -> Iterator[str]:
        """See `Part.verify`: the number of rows, and the signs of some passages' tokens."""
        import numpy as np

        if index.tokens.rows != index.manifest.passages:
            yield f"tokens has {index.tokens.rows} rows, the manifest says {index.manifest.passages} passages"
            return
        rows = sampled_rows(index, sample)
        passages = index.store.by_rows(rows)
        _, again = packed_texts(token_embedder(index.embedder), [passage.indexed_text for passage in passages])
        for passage, row, made in zip(passages, rows, again, strict=True):
            signs, kept = signs_of(made)[0], index.tokens.signs(row)
            if signs.shape != kept.shape or np.unpackbits(np.bitwise_xor(signs, kept)).mean() > ANOTHER:
                yield f"the token vectors of {passage.id!r} are not what {index.embedder.name} gives for its text"


PARTS: tuple[Part, ...] = (BM25Part(), ChromaPart(), ExactPart(), SpladePart(), TokensPart(), ElasticPart())


def promised(manifest: Manifest) -> list[Part]:
    """The parts that an index of that manifest has."""
    return [part for part in PARTS if part.made_by(manifest) is not None]


@contextmanager
def _stored_told(place: Served | None, stored: int, total: int) -> Iterator[None]:
    """What a build that a server ends says beside the failure: how far it came, and what the same command will do.

    Raises:
        TurnmarkError: the failure, in other words where it is a server's.
    """
    try:
        yield
    except TurnmarkError as error:
        if place is None:
            raise
        raise TurnmarkError(
            f"{error}. {stored:,} of {total:,} vectors had been stored as {place}; all are kept here, so the same "
            "command goes on without the model"
        ) from error


def _kept_pages(part: str, material: Material) -> Iterator[list[bytes]]:
    """What was kept for a part, in row order, a page at a time."""
    for page in material.store.pages():
        yield material.kept.get(part, [content for _, content, _ in page])


def sampled_rows(index: Index, sample: int) -> Sequence[int]:
    """`sample` rows, evenly over the index."""
    step = max(1, index.manifest.passages // sample)
    return range(0, index.manifest.passages, step)[:sample]


def sampled(index: Index, sample: int) -> list[Passage]:
    """The passages of `sampled_rows`."""
    return index.store.by_rows(sampled_rows(index, sample))


def _metadata(content: str, passage: Passage) -> dict[str, Any]:
    """What Chroma keeps with a vector: the content hash, and the keys that `--where` can ask for."""
    values = {key: getattr(passage, key) for key in WHERE_KEYS}
    return {"hash": content, **{key: value for key, value in values.items() if value is not None}}
