"""Questions whose answers have a place in the documents, made from the documents without a model.

Left-out sentences predict which configuration answers people's questions earliest. Headings, definitions, cells of
tables and follow-ups made by rules do not, so they are not asked: docs/measured.md has the figures.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from turnmark.core.errors import TurnmarkError
from turnmark.core.record import Record
from turnmark.corpora.types import Message, Passage
from turnmark.evaluation.check.sentence_sampling import draw_sentences
from turnmark.evaluation.storage.corpus_passages import Span
from turnmark.retrieval.search.opened_index import StoredIndex


class TuneQuestion(Record):
    """A question, and the places of its answer."""

    id: str
    kind: str
    message: str
    history: tuple[Message, ...] = ()
    gold: tuple[Span, ...] = Field(description="places in documents; a passage with most of one of them answers it")
    hides: bool = Field(default=False, description="whether the text at its first place is hidden when it is asked")

    @property
    def document(self) -> str:
        """The document of the answer."""
        return self.gold[0].document


def draw_questions(index: StoredIndex, n: int, seed: int) -> list[TuneQuestion]:
    """Draw up to n questions, at most one per passage, taking the documents in turn.

    Raises:
        TurnmarkError: no question could be made.
    """
    questions = [
        TuneQuestion(id=left.passage.id, kind="sentence", message=left.sentence, gold=(left.place,), hides=True)
        for left in draw_sentences(index, n, seed)
    ]
    if not questions:
        raise TurnmarkError("no passage has a sentence that can be removed to search for; give questions: --questions")
    return questions


def hide_answers(index: StoredIndex, questions: Sequence[TuneQuestion]) -> dict[str, Passage]:
    """Return id -> passage without the text that questions hide, for each passage with some of it."""
    altered: dict[str, Passage] = {}
    for question in questions:
        _, start, end = question.gold[0]
        for stored in index.store.of_document(question.document) if question.hides else ():
            if stored.start < end and start < stored.end:
                passage = altered.get(stored.id, stored)
                hidden = stored.text[max(0, start - stored.start) : end - stored.start]
                altered[stored.id] = passage.model_copy(update={"text": passage.text.replace(hidden, " ", 1)})
    return altered
