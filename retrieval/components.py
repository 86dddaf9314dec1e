"""The components of an index next to its passages: what each is written from, read back as, and checked by.

The manifest says which components an index has. A component is a folder of its name in the generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from turnmark.corpora.chunking import Tokenizer, chunk, regex_tokens
from turnmark.corpora.console import Progress
from turnmark.corpora.errors import TurnmarkError
from turnmark.corpora.types import Document, Passage
from turnmark.retrieval.bm25 import build_bm25
from turnmark.retrieval.chroma import ChromaVectors
from turnmark.retrieval.embed import Embedder, open_embedder
from turnmark.retrieval.flat import write_vectors
from turnmark.retrieval.index import Index
from turnmark.retrieval.manifest import BuildSettings, Manifest, ModelInfo
from turnmark.retrieval.servers import Served, assign_name
from turnmark.retrieval.store import WHERE_KEYS, Checkpoint, PassageStore, stack_vectors
from turnmark.retrieval.table import RETRIEVERS
from turnmark.retrieval.tokens import pack_tokens_of, token_embedder, write_tokens

VECTORS = "vectors"
"""Key of the passages' vectors in a checkpoint, whichever component they end in."""
CHUNK_SIZE = 256  # tokens; docs/measured.md has what smaller ones bring
SPECIAL_TOKENS = 2

Page = Sequence[tuple[int, str, Passage]]
"""(row, content hash, passage), as `PassageStore.pages` gives them."""


@dataclass(frozen=True)
class BuildFiles:
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


class PassageModel(Protocol):
    """A model that makes what a component keeps of each passage."""

    name: str
    fingerprint: str
    dimension: int
    max_tokens: int

    def pack_texts(self, texts: Sequence[str]) -> list[bytes]:
        """The value of each text in a checkpoint."""
        ...

    def tokenizer(self) -> Tokenizer:
        """The model's own token offsets, special tokens excluded."""
        ...


class Component:
    """One component: `name` is that of its folder, and `key` that of its contents in a checkpoint.

    One whose passages go through its own model is also named so in the manifest, and is the `component` of the
    retriever of that name; see `turnmark.retrieval.search.Kind`.
    """

    name: ClassVar[str]
    key: ClassVar[str]

    def made_by(self, manifest: Manifest) -> str | None:
        """Fingerprint of the model that made it, empty if none did; None: an index of that manifest lacks it."""
        info = manifest.model(self.name)
        return info.fingerprint if info else None

    def open_model(self, spec: str) -> PassageModel:
        """Its own model."""
        raise NotImplementedError

    def write(self, files: BuildFiles) -> None:
        """Write its folder, which does not exist yet, from the checkpoint."""
        raise NotImplementedError

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:  # noqa: ARG002
        """Content hash -> its value in a checkpoint, from a finished index, for the passages that have it."""
        return {}

    def verify(self, index: Index) -> Iterator[str]:  # noqa: ARG002
        """What is wrong with it that checksums do not show."""
        return iter(())


class BM25Component(Component):
    """Every index has it: it is cheap, and needs no model."""

    name = key = "bm25"

    def made_by(self, manifest: Manifest) -> str | None:  # noqa: ARG002
        return ""

    def write(self, files: BuildFiles) -> None:
        files.progress.start("bm25", None)
        texts = (passage.indexed_text for page in files.store.pages() for _, _, passage in page)
        build_bm25(texts, files.folder / self.name, files.manifest.bm25)


class ChromaComponent(Component):
    """The embedder's vectors in Chroma: on a server, or in files where they are too many to be all compared."""

    name, key = "chroma", VECTORS

    def made_by(self, manifest: Manifest) -> str | None:
        return manifest.embedder.fingerprint if manifest.embedder and not manifest.exact else None

    def write(self, files: BuildFiles) -> None:
        files.progress.start(self.name, files.manifest.passages)
        folder, server = files.folder / self.name, files.manifest.server
        served = assign_name(folder, server, files.manifest.name) if server else None
        chroma, count = ChromaVectors(folder, create=True, server=served), 0
        for page, vectors in zip(files.store.pages(), files.values(self.key), strict=True):
            with _with_count(served, count, files.manifest.passages):
                chroma.add(
                    [passage.id for _, _, passage in page],
                    stack_vectors(vectors),
                    [{"hash": content, **where_values(passage)} for _, content, passage in page],
                )
            count += len(page)
            files.progress.advance(len(page))
        chroma.close()

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:
        contents = {passage.id: content for _, content, passage in page}
        return {contents[i]: vector.tobytes() for i, vector in index.chroma.get(list(contents)).items()}

    def verify(self, index: Index) -> Iterator[str]:
        """See `Component.verify`: the ids and content hashes of all, since Chroma's files change."""
        expected = {p.id: content for page in index.store.pages() for _, content, p in page}
        stored = dict(index.chroma.rows())
        if differing := [i for i in expected.keys() | stored.keys() if expected.get(i) != stored.get(i)]:
            yield f"chroma has other contents than the {len(expected)} passages: {len(differing)} differ, such as " + (
                repr(min(differing))
            )


class FlatComponent(Component):
    """The embedder's vectors in one file, where they are few."""

    name, key = "exact", VECTORS

    def made_by(self, manifest: Manifest) -> str | None:
        return manifest.embedder.fingerprint if manifest.embedder and manifest.exact else None

    def write(self, files: BuildFiles) -> None:
        assert files.manifest.embedder is not None, "`made_by` says so"
        shape = files.manifest.passages, files.manifest.embedder.dimension
        write_vectors(files.folder / self.name, files.values(self.key), *shape)

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:
        vectors = index.flat.of([row for row, _, _ in page])
        return {content: vector.tobytes() for (_, content, _), vector in zip(page, vectors, strict=True)}


class TokensComponent(Component):
    """The embedder's token vectors."""

    name = key = "tokens"

    def made_by(self, manifest: Manifest) -> str | None:
        return manifest.embedder.fingerprint if manifest.embedder and manifest.tokens else None

    def write(self, files: BuildFiles) -> None:
        files.progress.start(self.name, None)
        write_tokens(files.folder / self.name, lambda: files.values(self.key))

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:
        return {content: index.tokens.packed(row) for row, content, _ in page}


BUILT_IN: tuple[Component, ...] = (BM25Component(), ChromaComponent(), FlatComponent(), TokensComponent())
"""The components of the default retriever and of those that do with less; others come with their retriever."""


def component_of(retriever: str) -> Component | None:
    """The component that the retriever of a name brings along."""
    kind: Any = RETRIEVERS.factory(RETRIEVERS.check(retriever))
    component: Component | None = kind.component
    return component


def components_of(manifest: Manifest) -> list[Component]:
    """The components that an index of that manifest has."""
    others = [component_of(name) for name in manifest.models() if name != "embedder"]
    return [part for part in (*BUILT_IN, *others) if part is not None and part.made_by(manifest) is not None]


def has_all_components(index: Index) -> bool:
    """Whether all components that the manifest names exist (not whether they are undamaged)."""
    names = ["passages.db", *(component.name for component in components_of(index.manifest))]
    return all((index.files / name).exists() for name in names)


@contextmanager
def _with_count(served: Served | None, count: int, total: int) -> Iterator[None]:
    """Add to a server's failure how many vectors it has, and that the same command continues."""
    try:
        yield
    except TurnmarkError as error:
        if served is None:
            raise
        raise TurnmarkError(
            f"{error}. {count:,} of {total:,} vectors had been stored as {served}; all are kept here, so the same "
            "command goes on without the model"
        ) from error


def where_values(passage: Passage) -> dict[str, Any]:
    """What `--where` looks at, as a server keeps it with the passage."""
    values = {key: getattr(passage, key) for key in WHERE_KEYS}
    return {key: value for key, value in values.items() if value is not None}


# --- the models of a build -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Encoder:
    """A model's one pass over the contents: the values it gives for each text, by key in a checkpoint."""

    keys: tuple[str, ...]
    encode: Callable[[Sequence[str]], Mapping[str, Sequence[bytes]]]


def _dense_encoder(embedder: Embedder, tokens: bool) -> Encoder:
    """Vectors and, with `tokens`, the token vectors of the same pass."""
    if not tokens:
        return Encoder((VECTORS,), lambda texts: {VECTORS: _unit_bytes(embedder.encode(texts, "passage"))})
    token_model = token_embedder(embedder)

    def encode(texts: Sequence[str]) -> Mapping[str, Sequence[bytes]]:
        vectors, token_vectors = pack_tokens_of(token_model, texts)
        return {VECTORS: _unit_bytes(vectors), TokensComponent.key: list(token_vectors)}

    return Encoder((VECTORS, TokensComponent.key), encode)


def _unit_bytes(vectors: NDArray[np.float32]) -> list[bytes]:
    """Each vector brought to length 1 in float32: the flat index compares by dot products."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return [vector.tobytes() for vector in vectors / np.where(lengths > 0, lengths, 1)]


def _encoder_of(component: Component, model: PassageModel) -> Encoder:
    return Encoder((component.key,), lambda texts: {component.key: model.pack_texts(texts)})


class Models:
    """The models that a build needs, loaded; `of` has them by name, as the manifest does."""

    def __init__(self, settings: BuildSettings) -> None:
        self.embedder = open_embedder(settings.embedder) if settings.embedder else None
        self.of: dict[str, Embedder | PassageModel] = {"embedder": self.embedder} if self.embedder else {}
        self.encoders = [_dense_encoder(self.embedder, settings.tokens)] if self.embedder else []
        for name, spec in settings.component_models().items():
            component = component_of(name)
            assert component is not None, "a retriever whose index needs a model names its component"
            model = component.open_model(spec)
            self.of[name] = model
            self.encoders.append(_encoder_of(component, model))

    def infos(self) -> dict[str, ModelInfo | None]:
        """The manifest's fields."""
        infos = {
            name: ModelInfo(spec=model.name, fingerprint=model.fingerprint, dimension=model.dimension)
            for name, model in self.of.items()
        }
        return {"embedder": None, **infos}

    def mark(self) -> str:
        """A line a model: which it is, to the fingerprint."""
        return "\n".join(f"{name} {model.fingerprint}" for name, model in self.of.items())

    def window(self) -> Window:
        """How long passages may be for them; in words if there is no model."""
        if not self.of:
            return Window(CHUNK_SIZE, CHUNK_SIZE, regex_tokens)
        narrowest = min(self.of.values(), key=lambda model: model.max_tokens)
        size = min(CHUNK_SIZE, narrowest.max_tokens)
        return Window(size, size - SPECIAL_TOKENS, narrowest.tokenizer())


@dataclass(frozen=True)
class Window:
    """How long passages may be: no longer than the model with the lowest limit reads."""

    size: int
    room: int  # for text: `size` less the model's special tokens
    tokenize: Tokenizer

    def cut(self, document: Document) -> list[Passage]:
        """The passages of a document."""
        return chunk(document, self.tokenize, self.room)


def open_encoders(settings: BuildSettings) -> tuple[Callable[[int, Sequence[str]], Mapping[str, Sequence[bytes]]], str]:
    """The models of a build where they are opened, as `turnmark.retrieval.workers.Workers` asks for it.

    Returns:
        What the encoder of a number makes of texts, and the mark of the models.
    """
    models = Models(settings)
    return lambda number, texts: models.encoders[number].encode(texts), models.mark()
