"""The models that a build needs, and how documents are cut for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from turnmark.corpora.chunking import Tokenizer, chunk, regex_tokens
from turnmark.corpora.types import Document, Passage
from turnmark.retrieval.component import Encoder
from turnmark.retrieval.components import dense_encoder, splade_passage_encoder
from turnmark.retrieval.embed import Embedder, open_embedder
from turnmark.retrieval.manifest import ModelInfo
from turnmark.retrieval.settings import BuildSettings
from turnmark.retrieval.sparse import SpladeEncoder, open_encoder

CHUNK_SIZE, CHUNK_OVERLAP = 512, 100
SPECIAL_TOKENS = 2

Model = Embedder | SpladeEncoder


@dataclass(frozen=True)
class Window:
    """How documents are cut: MTRAG's 512 tokens overlapping by 100, scaled down to a model's own limit."""

    size: int
    overlap: int
    room: int  # for text: `size` less the model's special tokens
    tokenize: Tokenizer

    @classmethod
    def of(cls, models: Sequence[Model]) -> Window:
        """The window for some models: that of the one with the lowest limit; without any, in words."""
        if not models:
            return cls(CHUNK_SIZE, CHUNK_OVERLAP, CHUNK_SIZE, regex_tokens)
        narrowest = min(models, key=lambda model: model.max_tokens)
        size = min(CHUNK_SIZE, narrowest.max_tokens)
        return cls(size, round(CHUNK_OVERLAP * size / CHUNK_SIZE), size - SPECIAL_TOKENS, narrowest.tokenizer())

    def cut(self, document: Document) -> list[Passage]:
        """The passages of a document."""
        return chunk(document, self.tokenize, self.room, self.overlap)


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
        return [*dense, splade_passage_encoder(self.splade)] if self.splade else dense


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
