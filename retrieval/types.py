"""What a retriever is asked, what it answers, and the protocol between the two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Literal, Protocol, runtime_checkable

from pydantic import Field, model_validator

from turnmark.corpora.types import Message, Passage, Record


class Query(Record):
    """One thing to search for.

    `text` is the raw message and is always searched. `variants` (rewrites of it) are searched beside it and the lists
    fused: `flat`, all lists of all texts at once, as the retriever weighs them; or `nested`, the lists of each text
    first, as the retriever would for that text alone, and what comes of each text then by weighted RRF. Retrievers that
    know conversations use `history`.
    """

    text: str
    history: tuple[Message, ...] = ()
    standalone: bool = Field(
        default=False,
        description="the text can be understood alone: history and variants count only if it finds little by itself",
    )
    variants: tuple[str, ...] = ()
    fusion: Literal["flat", "nested"] = "flat"
    variant_weights: tuple[float, ...] = Field(
        default=(), description="nested: of the text, above 0, then of each variant, 0 or more; empty: 1 each"
    )
    where: Mapping[str, str] = Field(default_factory=dict, description="metadata key -> glob the value must match")

    @model_validator(mode="after")
    def _a_weight_for_each_text(self) -> Query:
        weights = self.variant_weights
        if not weights:
            return self
        if self.fusion != "nested" or len(weights) != 1 + len(self.variants):
            raise ValueError("variant_weights: nested fusion takes one for the text and one for each variant")
        if not all(isfinite(weight) and weight >= 0 for weight in weights) or not weights[0]:
            raise ValueError("variant_weights: finite numbers from 0 were expected, and for the text one above 0")
        return self

    def texts(self) -> dict[str, float]:
        """What is searched, each text once: the message first, then its variants; and what each counts when nested.

        A text that is there twice counts with the sum of its weights; a variant of weight 0 is not searched.
        """
        weights = self.variant_weights or (1.0,) * (1 + len(self.variants))
        weight_by_text: dict[str, float] = {}
        for text, weight in zip((self.text, *self.variants), weights, strict=True):
            if weight:
                weight_by_text[text] = weight_by_text.get(text, 0.0) + weight
        return weight_by_text


class Found(Record):
    """Where one list had a passage: 1-based rank, and the list's own score."""

    rank: int
    score: float


class Hit(Record):
    """A passage that was found, best first in its list."""

    passage: Passage
    score: float = Field(description="the order is by this; comparable within one list only")
    found: Mapping[str, Found] = Field(default_factory=dict, description="list name -> rank and score in that list")

    @property
    def similarity(self) -> float | None:
        """Cosine between query and passage where a dense list found it, in -1..1; None otherwise."""
        cosines = [place.score for name, place in self.found.items() if name.startswith("dense")]
        return max(cosines) if cosines else None


class Retriever(Protocol):
    """Finds passages. Always a batch: one list of hits a query, in the order of the queries."""

    name: str

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """The `k` best hits of each query, best first; fewer, or none, where there are no more."""
        ...


@runtime_checkable
class ListeningRetriever(Protocol):
    """A retriever that prepares for the next question when it hears of an answer."""

    def heard(self, answer: str) -> None:
        """An answer was given."""
        ...


@runtime_checkable
class NeighbourRetriever(Protocol):
    """A retriever that knows what stands around a passage."""

    def neighbours(self, passage: Passage) -> list[Passage]:
        """All passages of the same document."""
        ...


def hear(retriever: Retriever, answer: str) -> None:
    """Tell a retriever of an answer that was given, where it listens."""
    if isinstance(retriever, ListeningRetriever):
        retriever.heard(answer)


def neighbours_of(retriever: Retriever, passage: Passage) -> list[Passage]:
    """All passages of the same document, where the retriever knows them."""
    return retriever.neighbours(passage) if isinstance(retriever, NeighbourRetriever) else []
