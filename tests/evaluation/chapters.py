"""A retriever that finds one passage of a long section, and knows those beside it: `python:…chapters:retriever`."""

from __future__ import annotations

from collections.abc import Sequence

from turnmark.corpora.types import CONTINUED_MARK, Passage
from turnmark.retrieval.types import Hit, Query, Retriever

SPEC = "python:tests.evaluation.chapters:retriever"
TEXTS = ("The bell is old.", "A founder in London made the bell.", "It hangs in the tower.")


def _section() -> list[Passage]:
    passages, start = [], 0
    for n, text in enumerate(TEXTS):
        section = f"Bells {CONTINUED_MARK}" if n else "Bells"
        end = start + len(text)
        name = f"book-{start}-{end}"
        passages.append(
            Passage(id=name, document="book", title="Book", section=section, text=text, start=start, end=end)
        )
        start = end + 2
    return passages


class Chapters(Retriever):
    """Finds the second of three passages for every query."""

    name = SPEC

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        return [[Hit(passage=_section()[1], score=1.0)] for _ in queries]

    def neighbors(self, passage: Passage) -> list[Passage]:
        return [each for each in _section() if each.document == passage.document]


def retriever(index: object) -> Chapters:
    """The factory that `--retriever` names."""
    return Chapters()
