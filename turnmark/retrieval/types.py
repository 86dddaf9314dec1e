"""Queries, hits and the base class of retrievers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field

from turnmark.core.errors import RequestError
from turnmark.core.record import Record
from turnmark.corpora.types import CONTINUED_MARK, Message, Passage
from turnmark.retrieval.ranking.fusion import RankAndScore
from turnmark.retrieval.storage.filters import Where, parse_where
from turnmark.retrieval.storage.picture_store import PictureStore

if TYPE_CHECKING:
    from turnmark.retrieval.collection import Collection
    from turnmark.retrieval.tables.table_store import TableStore


DEFAULT_TOP_K, LARGE_MODEL_TOP_K = 6, 10
"""Default number of passages retrieved for a question, and the default for a large model, which reads all of them."""


class Query(Record):
    """A search query.

    `text` is the raw message and is always searched. Its rewrites in `variants` are searched, too, and the retriever
    fuses the rankings of all texts. Conversational retrievers use `history`.
    """

    text: str = Field(description="the message, or a question of its own")
    history: tuple[Message, ...] = Field(default=(), description="the messages before it, oldest first")
    standalone: bool = Field(
        default=False,
        description="True: the text needs no context; history and variants are used only if it finds little by itself",
    )
    variants: tuple[str, ...] = Field(default=(), description="rewrites of the text, which are searched as well")
    in_context: str = Field(
        default="",
        description="a standalone text with the topic of the conversation; a variant if it is nearer to a passage",
    )
    where: Annotated[Where, BeforeValidator(parse_where)] = Field(
        default=(), description="conditions that a passage must meet; also as text, e.g. date>=2025-01"
    )

    def texts(self) -> tuple[str, ...]:
        """Return the texts to search, without duplicates: the message, then its variants."""
        return tuple(dict.fromkeys((self.text, *self.variants)))


class Hit(Record):
    """A retrieved passage."""

    passage: Passage = Field(description="the passage")
    score: float = Field(description="score by which hits are sorted; comparable only within one list of hits")
    found: Mapping[str, RankAndScore] = Field(
        default_factory=dict, description="rank and score in each ranking, by name"
    )

    @property
    def similarity(self) -> float | None:
        """Cosine between query and passage, in -1..1, or None if no dense ranking has the passage."""
        cosines = [found.score for name, found in self.found.items() if name.startswith("dense")]
        return max(cosines) if cosines else None


class Retriever(ABC):
    """A search over passages: the base class of every retriever, including your own.

    A subclass sets `name` and defines `search`. The other methods are optional. Their defaults mean that the retriever
    has no such information.
    """

    name: str
    inner: Retriever | None = None
    """Another retriever, which is asked what this one does not define."""

    @abstractmethod
    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        """Return a list of at most `top_k` hits for each query, best first."""

    def titles(self) -> list[str]:
        """Return the titles of the documents, most informative first. A model that writes search phrases sees them."""
        return self.inner.titles() if self.inner else []

    def neighbors(self, passage: Passage) -> list[Passage]:
        """Return all passages of the passage's document, in reading order. A turn completes long sections with them."""
        return self.inner.neighbors(passage) if self.inner else []

    def collection(self) -> Collection | None:
        """Return all passages, to count and list them, or None if they are not known."""
        return self.inner.collection() if self.inner else None

    def tables(self) -> TableStore | None:
        """Return the stored tables, to find them and compute with SQL, or None if there are none."""
        return self.inner.tables() if self.inner else None

    def pictures(self) -> PictureStore | None:
        """Return the described pictures of the documents, so that citations show them, or None if there are none."""
        return self.inner.pictures() if self.inner else None

    def word_shares(self, texts: Sequence[str]) -> Sequence[float]:
        """Return, for each text, the share of its words that the best passage contains; empty if it is not known."""
        return self.inner.word_shares(texts) if self.inner else ()

    def respell(self, text: str) -> str:
        """Return a text spelled as in the documents: codes, versions, and words that no document has."""
        return self.inner.respell(text) if self.inner else text

    def sure_from(self) -> float | None:
        """Return the confidence from which an answer without a model counts as sure, or None if it is not known."""
        return self.inner.sure_from() if self.inner else None

    def note_answer(self, answer: str) -> None:
        """Prepare for the next question of a conversation, given the answer before it."""
        if self.inner:
            self.inner.note_answer(answer)


def check_retriever(value: object, source: str) -> Retriever:
    """Return an object from third-party code as a retriever.

    Args:
        source: where the object comes from, for the message.

    Raises:
        RequestError: it is not a retriever, or has no name.
    """
    if not isinstance(value, Retriever):
        raise RequestError(
            f"{source} is a {type(value).__name__}, not a retriever; make it a subclass of turnmark.Retriever with "
            "a name and a method search(queries, top_k)"
        )
    if not isinstance(getattr(value, "name", None), str):
        raise RequestError(f"{source} is a {type(value).__name__} without a name; set its attribute name to a string")
    return value


class RetrieverWrapper(Retriever):
    """A retriever that forwards what it does not define itself to another one."""

    inner: Retriever

    def __init__(self, inner: Retriever, name: str = "") -> None:
        self.inner = inner
        self.name = name or inner.name

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        return self.inner.search(queries, top_k)


def section_of(passage: Passage, neighbors: Sequence[Passage]) -> list[Passage]:
    """Return the passages of a passage's section, in reading order; only itself if the section was not cut."""
    ordered = [neighbor for neighbor in neighbors if neighbor.document == passage.document]
    ordered.sort(key=lambda neighbor: neighbor.start)
    ids = [neighbor.id for neighbor in ordered]
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
    """Return whether a passage continues the section of the preceding passage."""
    return passage.section.endswith(CONTINUED_MARK) and passage.heading == before.heading
