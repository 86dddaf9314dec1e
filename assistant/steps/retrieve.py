"""Finding evidence for a turn: the raw message and its rewrite searched as one batch."""

from __future__ import annotations

from collections.abc import Sequence

from assistant.steps.understand import understand
from assistant.types import Understanding
from corpora.types import Message
from retrieval.types import Hit, Query, Retriever

# A procedure may run over several passages of its document: how many of them join the evidence.
MAX_NEIGHBOURS = 6


def query_of(understanding: Understanding, history: Sequence[Message], message: str) -> Query:
    """What the turn searches for: the raw message always, its rewrite beside it when it has one."""
    variants = () if understanding.rewrite == message else (understanding.rewrite,)
    return Query(text=message, history=tuple(history), variants=variants)


def conversation_query(history: Sequence[Message], message: str) -> Query:
    """The query of the embedded turn for a message: what `--query assistant` measures."""
    return query_of(understand(history, message), history, message)


def retrieve(
    retriever: Retriever, understanding: Understanding, history: Sequence[Message], message: str, k: int
) -> list[Hit]:
    """The `k` best passages for the turn; for a procedure also the rest of the best one's document, in reading order.

    Neighbours follow the hits, with score 0 and no list that found them.
    """
    hits = retriever.search([query_of(understanding, history, message)], k)[0]
    neighbours = getattr(retriever, "neighbours", None)
    if not (understanding.wants_procedure and hits and neighbours):
        return hits
    known = {hit.passage.id for hit in hits}
    rest = [passage for passage in neighbours(hits[0].passage) if passage.id not in known]
    return hits + [Hit(passage=passage, score=0.0) for passage in rest[:MAX_NEIGHBOURS]]
