"""A person's own retriever that finds nothing useful: `python:tests.evaluation.poor_retriever:first_passage`."""

from __future__ import annotations

from collections.abc import Sequence

from turnmark.retrieval.search.opened_index import SearchableIndex
from turnmark.retrieval.types import Hit, Query, Retriever

SPEC = "python:tests.evaluation.poor_retriever:first_passage"


class FirstPassage(Retriever):
    """Finds the first passage of the index, whatever is asked."""

    name = SPEC

    def __init__(self, index: SearchableIndex) -> None:
        self._passages = index.store.by_rows([0])

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        return [[Hit(passage=passage, score=1.0) for passage in self._passages] for _ in queries]


def first_passage(index: SearchableIndex) -> FirstPassage:
    return FirstPassage(index)
