"""What a retriever is asked, what it answers, and the protocol between the two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pydantic import Field

from turnmark.core.record import Record
from turnmark.corpora.types import CONTINUED, Message, Passage


class Query(Record):
    """One thing to search for.

    `text` is the raw message and is always searched. `variants` (rewrites of it) are searched too, and the lists
    of all texts are fused, as the retriever weighs them. Retrievers that know conversations use `history`.
    """

    text: str
    history: tuple[Message, ...] = ()
    standalone: bool = Field(
        default=False,
        description="the text can be understood alone: history and variants count only if it finds little by itself",
    )
    variants: tuple[str, ...] = ()
    where: Mapping[str, str] = Field(default_factory=dict, description="metadata key -> glob the value must match")

    def texts(self) -> tuple[str, ...]:
        """What is searched, each text once: the message first, then its variants."""
        return tuple(dict.fromkeys((self.text, *self.variants)))


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
        cosines = [found.score for name, found in self.found.items() if name.startswith("dense")]
        return max(cosines) if cosines else None


class Retriever(Protocol):
    """Finds passages. Always a batch: one list of hits a query, in the order of the queries."""

    name: str

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """The `k` best hits of each query, best first; fewer if there are no more."""
        ...


# What a retriever may do besides; not all of them can. `RetrieverWrapper` forwards all of it.


def note_answer(retriever: Retriever, answer: str) -> None:
    """Tell a retriever of an answer that was given, if it has `note_answer`: it may prepare for the next question."""
    if (note := getattr(retriever, "note_answer", None)) is not None:
        note(answer)


def nearest_of(retriever: Retriever, texts: Sequence[str]) -> Sequence[float]:
    """The cosine of each text with the passage nearest to it; none if the retriever has no `nearest`, or no vectors."""
    nearest: Callable[[Sequence[str]], Sequence[float]] | None = getattr(retriever, "nearest", None)
    return nearest(texts) if nearest else ()


def titles_of(retriever: Retriever | None) -> list[str]:
    """The titles of the documents that a retriever searches, most telling first; none if it has no `titles`."""
    titles: Callable[[], list[str]] | None = getattr(retriever, "titles", None)
    return titles() if titles else []


def neighbours_of(retriever: Retriever, passage: Passage) -> list[Passage]:
    """All passages of the same document; none if the retriever has no `neighbours`."""
    neighbours: Callable[[Passage], list[Passage]] | None = getattr(retriever, "neighbours", None)
    return neighbours(passage) if neighbours else []


def sure_from(retriever: Retriever | None) -> float | None:
    """The confidence from which an answer without a model is sure; None: the retriever does not say."""
    level: Callable[[], float | None] | None = getattr(retriever, "sure_from", None)
    return level() if level else None


class RetrieverWrapper:
    """A retriever around another one, which can whatever that can; a subclass changes what it is for."""

    def __init__(self, inner: Retriever, name: str = "") -> None:
        self.inner, self.name = inner, name or inner.name

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """See `Retriever.search`."""
        return self.inner.search(queries, k)

    def note_answer(self, answer: str) -> None:
        """See the function `note_answer`."""
        note_answer(self.inner, answer)

    def nearest(self, texts: Sequence[str]) -> Sequence[float]:
        """See `nearest_of`."""
        return nearest_of(self.inner, texts)

    def titles(self) -> list[str]:
        """See `titles_of`."""
        return titles_of(self.inner)

    def neighbours(self, passage: Passage) -> list[Passage]:
        """See `neighbours_of`."""
        return neighbours_of(self.inner, passage)

    def sure_from(self) -> float | None:
        """See the function `sure_from`."""
        return sure_from(self.inner)


def section_of(passage: Passage, neighbours: Sequence[Passage]) -> list[Passage]:
    """The passages that make up the full section of a passage, in reading order: itself, if the section was not cut."""
    ordered = sorted((each for each in neighbours if each.document == passage.document), key=lambda each: each.start)
    position = next((i for i, each in enumerate(ordered) if each.id == passage.id), None)
    if position is None:
        return [passage]
    first, last = position, position + 1
    while first and continues(ordered[first], ordered[first - 1]):
        first -= 1
    while last < len(ordered) and continues(ordered[last], ordered[last - 1]):
        last += 1
    return ordered[first:last]


def continues(passage: Passage, before: Passage) -> bool:
    """Whether a passage goes on with the section of the passage before it."""
    return passage.section.endswith(CONTINUED) and passage.heading == before.heading
