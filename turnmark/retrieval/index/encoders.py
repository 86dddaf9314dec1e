"""The models of a build: what they encode, and how long passages may be for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnmark.core.errors import RequestError
from turnmark.corpora.chunking import Tokenizer, chunk, regex_tokens
from turnmark.corpora.types import Document, Passage
from turnmark.retrieval.embedding.array_types import scale_to_unit
from turnmark.retrieval.embedding.embedders import Embedder, open_embedder
from turnmark.retrieval.ranking.vectors import pool_tokens_of
from turnmark.retrieval.search.opened_index import DENSE, SPARSE
from turnmark.retrieval.search.sparse import SpladeEncoder, open_encoder
from turnmark.retrieval.storage.manifest import BuildSettings, ModelInfo

DEFAULT_PASSAGE_TOKENS = 256
"""Size limit of passages if none is given; docs/measured-once.md has figures for others."""
SPECIAL_TOKENS = 2
VECTORS, TOKENS, WEIGHTS = "vectors", "tokens", "weights"
"""The kinds of values: vectors and token vectors of the embedder, weights of terms of the sparse encoder."""

Values = Mapping[str, Sequence[Any]]
"""The values of some texts by kind, in one order for all kinds."""


@dataclass(frozen=True)
class Encoder:
    """One pass of a model over texts.

    Attributes:
        name: `DENSE` or `SPARSE`.
        fingerprint: of its model.
        dimension: of its vectors.
        tokens: whether it also returns token vectors.
        encode: returns the values of texts by kind.
        on_gpu: whether a model on a GPU encodes, which takes many texts at once.
    """

    name: str
    encode: Callable[[Sequence[str]], Values]
    fingerprint: str
    dimension: int
    tokens: bool = False
    on_gpu: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its values."""
        if self.name == SPARSE:
            return (WEIGHTS,)
        return (VECTORS, TOKENS) if self.tokens else (VECTORS,)


def _dense_encoder(embedder: Embedder, tokens: bool) -> Encoder:
    """Return the encoder of vectors and, with `tokens`, of token vectors in the same pass.

    Vectors have length 1, because the flat index compares by dot products.
    """

    def encode(texts: Sequence[str]) -> Values:
        if not tokens:
            return {VECTORS: list(scale_to_unit(embedder.encode(texts, "passage")))}
        vectors, tokens_of_texts = pool_tokens_of(embedder, texts)
        return {VECTORS: list(scale_to_unit(vectors)), TOKENS: tokens_of_texts}

    return Encoder(DENSE, encode, embedder.fingerprint, embedder.dimension, tokens, embedder.is_on_gpu)


def _splade_encoder(encoder: SpladeEncoder) -> Encoder:
    def encode(texts: Sequence[str]) -> Values:
        return {WEIGHTS: encoder.encode(texts, "passage")}

    return Encoder(SPARSE, encode, encoder.fingerprint, encoder.dimension)


class Models:
    """The loaded models of a build; `of` maps fields of the manifest to models."""

    def __init__(self, settings: BuildSettings) -> None:
        self.of: dict[str, Embedder | SpladeEncoder] = {}
        self.encoders: list[Encoder] = []
        if settings.embedder:
            self.of["embedder"] = embedder = open_embedder(settings.embedder)
            self.encoders.append(_dense_encoder(embedder, settings.tokens))
        if settings.splade:
            self.of["splade"] = encoder = open_encoder(settings.splade)
            self.encoders.append(_splade_encoder(encoder))

    def infos(self) -> dict[str, ModelInfo | None]:
        """Return the models' fields of the manifest."""
        infos = {
            name: ModelInfo(spec=model.name, fingerprint=model.fingerprint, dimension=model.dimension)
            for name, model in self.of.items()
        }
        return {"embedder": None, **infos}

    def mark(self) -> str:
        """Return a line with the fingerprint of each model."""
        return "\n".join(f"{name} {model.fingerprint}" for name, model in self.of.items())

    def window(self, passage_tokens: int | None) -> Window:
        """Return the size limit of passages, in tokens of the model that reads the fewest; in words without a model.

        Args:
            passage_tokens: the limit, or None for the default.

        Raises:
            RequestError: a model does not read passages of this size.
        """
        size = passage_tokens or DEFAULT_PASSAGE_TOKENS
        if not self.of:
            return Window(size, size, regex_tokens)
        narrowest = min(self.of.values(), key=lambda model: model.max_tokens)
        limit = narrowest.max_tokens
        if passage_tokens is not None and passage_tokens > limit:
            raise RequestError(
                f"passages of {passage_tokens} tokens: {narrowest.name} reads {limit}; give --passage-tokens {limit} "
                "or less"
            )
        size = min(size, limit)
        return Window(size, size - SPECIAL_TOKENS, narrowest.tokenizer())


@dataclass(frozen=True)
class Window:
    """The size limit of passages, which is the lowest limit of the models."""

    size: int
    room: int  # `size` minus the model's special tokens
    tokenize: Tokenizer

    def cut(self, document: Document) -> list[Passage]:
        """Cut a document into passages."""
        return chunk(document, self.tokenize, self.room)


def open_encoders(settings: BuildSettings) -> tuple[Callable[[int, Sequence[str]], Values], str]:
    """Return what `Workers` need: a function that encodes texts with the encoder of a number, and the models' mark."""
    models = Models(settings)
    return lambda number, texts: models.encoders[number].encode(texts), models.mark()
