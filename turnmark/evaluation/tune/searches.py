"""The queries that the assistant searches for when it is asked a question."""

from __future__ import annotations

from collections.abc import Sequence

from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.turn.assistant import Assistant
from turnmark.evaluation.tune.questions import TuneQuestion
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.search.retriever_factory import open_retriever
from turnmark.retrieval.types import Hit, Query, RetrieverWrapper


class _CapturingRetriever(RetrieverWrapper):
    """A retriever that keeps the queries of its first search, and finds nothing."""

    captured: Sequence[Query] = ()

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:  # noqa: ARG002
        self.captured = self.captured or queries
        return [[] for _ in queries]


def queries_of(index: StoredIndex, retriever: str, questions: Sequence[TuneQuestion]) -> list[Query]:
    """Return the query for each question as the assistant without a model understands it, after earlier messages."""
    capturing = _CapturingRetriever(open_retriever(retriever, index))
    assistant = Assistant.from_config(AssistantConfig(index=index.name), index=Index([index]), retriever=capturing)
    queries = []
    for question in questions:
        capturing.captured = ()
        assistant.find(question.history, question.message)
        fallback = Query(text=question.message, history=question.history)
        queries.append(capturing.captured[-1] if capturing.captured else fallback)
    return queries
