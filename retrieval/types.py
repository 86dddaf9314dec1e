"""Queries, hits and the protocol of retrievers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from pydantic import Field

from turnmark.core.record import Record
from turnmark.corpora.types import CONTINUED, Message, Passage

if TYPE_CHECKING:
    from turnmark.retrieval.collection import Collection


class Query(Record):
    """A search query.

    `text` is the raw message and is always searched. Its rewrites in `variants` are searched, too, and the retriever
    fuses the rankings of all texts. Conversational retrievers use `history`.
    """

    text: str
    history: tuple[Message, ...] = ()
    standalone: bool = Field(
        default=False,
        description="True: the text needs no context; history and variants are used only if it finds little by itself",
    )
    variants: tuple[str, ...] = ()
    where: Mapping[str, str] = Field(default_factory=dict, description="metadata key -> glob the value must match")

    def texts(self) -> tuple[str, ...]:
        """Return the texts to search, without duplicates: the message, then its variants."""
        return tuple(dict.fromkeys((self.text, *self.variants)))


class Found(Record):
    """Rank (1-based) and score of a passage in one ranking."""

    rank: int
    score: float


class Hit(Record):
    """A retrieved passage."""

    passage: Passage
    score: float = Field(description="score by which hits are sorted; comparable only within one list of hits")
    found: Mapping[str, Found] = Field(default_factory=dict, description="name of a ranking -> rank and score in it")

    @property
    def similarity(self) -> float | None:
        """Cosine between query and passage, in -1..1; None if no dense ranking has the passage."""
        cosines = [found.score for name, found in self.found.items() if name.startswith("dense")]
        return max(cosines) if cosines else None


class Retriever(Protocol):
    """Searches passages for a batch of queries."""

    name: str

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """Return for each query a list of at most `k` hits, best first."""
        ...


# Optional methods of a retriever, called through these functions. `RetrieverWrapper` forwards all of them.


def note_answer(retriever: Retriever, answer: str) -> None:
    """Pass an answer to the retriever's `note_answer`, if it has one, so that it can prepare for the next question."""
    note = getattr(retriever, "note_answer", None)
    if note is not None:
        note(answer)


def nearest_of(retriever: Retriever, texts: Sequence[str]) -> Sequence[float]:
    """Return the cosine of each text with its nearest passage; empty without `nearest` or without vectors."""
    nearest: Callable[[Sequence[str]], Sequence[float]] | None = getattr(retriever, "nearest", None)
    return nearest(texts) if nearest else ()


def titles_of(retriever: Retriever | None) -> list[str]:
    """Return the titles of the documents, most informative first; empty if the retriever has no `titles`."""
    titles: Callable[[], list[str]] | None = getattr(retriever, "titles", None)
    return titles() if titles else []


def neighbours_of(retriever: Retriever, passage: Passage) -> list[Passage]:
    """Return all passages of the same document; empty if the retriever has no `neighbours`."""
    neighbours: Callable[[Passage], list[Passage]] | None = getattr(retriever, "neighbours", None)
    return neighbours(passage) if neighbours else []


def collection_of(retriever: Retriever | None) -> Collection | None:
    """Return all passages that a retriever searches, to count and list them; None if it has no `collection`."""
    collection: Callable[[], Collection | None] | None = getattr(retriever, "collection", None)
    return collection() if collection else None


def sure_from(retriever: Retriever | None) -> float | None:
    """Return the minimum confidence of a sure answer without a model; None if the retriever has no `sure_from`."""
    level: Callable[[], float | None] | None = getattr(retriever, "sure_from", None)
    return level() if level else None


class RetrieverWrapper:
    """A retriever that forwards all methods to another one; subclasses override some of them."""

    def __init__(self, inner: Retriever, name: str = "") -> None:
        self.inner = inner
        self.name = name or inner.name

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

    def collection(self) -> Collection | None:
        """See `collection_of`."""
        return collection_of(self.inner)

    def sure_from(self) -> float | None:
        """See the function `sure_from`."""
        return sure_from(self.inner)


def section_of(passage: Passage, neighbours: Sequence[Passage]) -> list[Passage]:
    """Return the passages of a passage's section, in reading order; only itself if the section was not cut."""
    ordered = [neighbour for neighbour in neighbours if neighbour.document == passage.document]
    ordered.sort(key=lambda neighbour: neighbour.start)
    ids = [neighbour.id for neighbour in ordered]
    if passage.id not in ids:
        return [passage]
    first = ids.index(passage.id)
    end = first + 1
    while first and continues(ordered[first], ordered[first - 1]):
        first -= 1
    while end < len(ordered) and continues(ordered[end], ordered[end - 1]):
        end += 1
    return ordered[first:end]


def continues(passage: Passage, before: Passage) -> bool:
    """Whether a passage continues the section of the passage before it."""
    return passage.section.endswith(CONTINUED) and passage.heading == before.heading
