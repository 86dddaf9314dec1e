"""What a retriever is asked, what it answers, and the protocol between the two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pydantic import Field

from corpora.types import Message, Passage, Record


class Query(Record):
    """One thing to search for.

    `text` is the raw message and is always searched. `variants` (rewrites of it) are searched beside it and the lists
    fused. Retrievers that know conversations use `history`; lexical ones use `term_weights` (term -> weight).
    """

    text: str
    history: tuple[Message, ...] = ()
    variants: tuple[str, ...] = ()
    term_weights: Mapping[str, float] = Field(default_factory=dict)
    where: Mapping[str, str] = Field(default_factory=dict, description="metadata key -> glob the value must match")


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
