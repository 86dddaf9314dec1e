"""The models that a build needs, and how documents are cut for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turnmark.corpora.chunking import Tokenizer, chunk, regex_tokens
from turnmark.corpora.types import Document, Passage
from turnmark.retrieval.components import VECTORS, SpladeComponent, TokensComponent
from turnmark.retrieval.embed import Embedder, open_embedder
from turnmark.retrieval.manifest import BuildSettings, ModelInfo
from turnmark.retrieval.sparse import SpladeEncoder, open_encoder, pack
from turnmark.retrieval.tokens import packed_texts, token_embedder

CHUNK_SIZE = 256  # tokens; docs/measured.md has what smaller ones bring
SPECIAL_TOKENS = 2

Model = Embedder | SpladeEncoder


@dataclass(frozen=True)
class Encoder:
    """A model's one pass over the contents: the values it gives for each text, by key in a checkpoint."""

    keys: tuple[str, ...]
    encode: Callable[[Sequence[str]], Mapping[str, Sequence[bytes]]]


def dense_encoder(embedder: Embedder, tokens: bool = False) -> Encoder:
    """Vectors and, with `tokens`, the token vectors of the same pass.

    Raises:
        RequestError: the embedder gives no token vectors.
    """
    if not tokens:
        return Encoder((VECTORS,), lambda texts: {VECTORS: _unit_bytes(embedder.encode(texts, "passage"))})
    token_model = token_embedder(embedder)

    def encode(texts: Sequence[str]) -> Mapping[str, Sequence[bytes]]:
        vectors, token_vectors = packed_texts(token_model, texts)
        return {VECTORS: _unit_bytes(vectors), TokensComponent.key: list(token_vectors)}

    return Encoder((VECTORS, TokensComponent.key), encode)


def _unit_bytes(vectors: NDArray[np.float32]) -> list[bytes]:
    """Each vector brought to length 1 in float32: the flat index compares by dot products."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return [vector.tobytes() for vector in vectors / np.where(lengths > 0, lengths, 1)]


def sparse_encoder(encoder: SpladeEncoder) -> Encoder:
    """Weighted terms for the sparse index."""
    key = SpladeComponent.key
    return Encoder((key,), lambda texts: {key: [pack(vector) for vector in encoder.encode(texts, "passage")]})


@dataclass(frozen=True)
class Window:
    """How long passages may be: no longer than the model with the lowest limit reads."""

    size: int
    room: int  # for text: `size` less the model's special tokens
    tokenize: Tokenizer

    @classmethod
    def of(cls, models: Sequence[Model]) -> Window:
        """The window for some models: that of the one with the lowest limit; without any, in words."""
        if not models:
            return cls(CHUNK_SIZE, CHUNK_SIZE, regex_tokens)
        narrowest = min(models, key=lambda model: model.max_tokens)
        size = min(CHUNK_SIZE, narrowest.max_tokens)
        return cls(size, size - SPECIAL_TOKENS, narrowest.tokenizer())

    def cut(self, document: Document) -> list[Passage]:
        """The passages of a document."""
        return chunk(document, self.tokenize, self.room)


@dataclass(frozen=True)
class Models:
    """The models that a build needs, loaded."""

    embedder: Embedder | None
    splade: SpladeEncoder | None
    tokens: bool = False

    @classmethod
    def open(cls, settings: BuildSettings) -> Models:
        """Load them.

        Raises:
            RequestError: one cannot be loaded.
        """
        return cls(
            open_embedder(settings.embedder) if settings.embedder else None,
            open_encoder(settings.splade) if settings.splade else None,
            settings.tokens,
        )

    def all(self) -> list[Model]:
        """Those there are."""
        return [model for model in (self.embedder, self.splade) if model is not None]

    def infos(self) -> dict[str, ModelInfo | None]:
        """The manifest's fields."""
        return {"embedder": _info(self.embedder), "splade": _info(self.splade)}

    def mark(self) -> str:
        """A line a model: which it is, to the fingerprint."""
        return "\n".join(f"{key} {info.fingerprint}" for key, info in self.infos().items() if info)

    def encoders(self) -> list[Encoder]:
        """One pass over the contents each."""
        dense = [dense_encoder(self.embedder, self.tokens)] if self.embedder else []
        return [*dense, sparse_encoder(self.splade)] if self.splade else dense


def open_encoders(settings: BuildSettings) -> tuple[Callable[[int, Sequence[str]], Mapping[str, Sequence[bytes]]], str]:
    """The models of a build where they are opened, as `turnmark.retrieval.workers.Workers` asks for it.

    Returns:
        What the encoder of a number makes of texts, and the mark of the models.
    """
    models = Models.open(settings)
    encoders = models.encoders()
    return lambda number, texts: encoders[number].encode(texts), models.mark()


def _info(model: Model | None) -> ModelInfo | None:
    if model is None:
        return None
    return ModelInfo(spec=model.name, fingerprint=model.fingerprint, dimension=model.dimension)
