"""Questions whose answers have a place in the documents, made from the documents without a model.

Left-out sentences predict which configuration answers people's questions earliest. Headings, definitions and cells of
tables do not, so they are not asked: docs/measured.md has the figures.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from pydantic import Field

from turnmark.core.record import Record
from turnmark.corpora.text.function_words import content_words
from turnmark.corpora.text.segmentation import sentences
from turnmark.corpora.types import Message, Passage, without_continued
from turnmark.evaluation.check.sentence_sampling import RemovedSentence, draw_sentences
from turnmark.evaluation.check.simulation.conversation import phrases_in
from turnmark.evaluation.storage.corpus_passages import Span
from turnmark.retrieval.search.opened_index import StoredIndex

FOLLOW_UP_SHARE = 0.3
"""Share of the questions that follow up on an earlier message."""
MIN_FOLLOW_UP_WORDS, MAX_FOLLOW_UP_WORDS = 3, 8
"""Minimum and maximum content words of a follow-up."""


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
    """Draw up to n questions, at most one per passage, taking the documents in turn."""
    chance = random.Random(seed)
    return [_question(removed, chance) for removed in draw_sentences(index, n, seed)]


def _question(removed: RemovedSentence, chance: random.Random) -> TuneQuestion:
    """Ask a left-out sentence, or some of its words after a question about its section."""
    question = TuneQuestion(
        id=removed.passage.id, kind="sentence", message=removed.sentence, gold=(removed.place,), hides=True
    )
    heading = without_continued(removed.rest.heading).split(" › ")[-1]
    reply = next(_sentences_of(removed.rest), "")
    known = content_words(f"{heading} {reply}")
    asked = [word for word in content_words(removed.sentence) if word not in known][:MAX_FOLLOW_UP_WORDS]
    if chance.random() > FOLLOW_UP_SHARE or not (heading and reply) or len(asked) < MIN_FOLLOW_UP_WORDS:
        return question
    words = chance.choice(phrases_in(removed.sentence)["follow_up"]).format(words=" ".join(asked), title="")
    history = Message(role="user", content=heading), Message(role="assistant", content=reply)
    return question.model_copy(update={"kind": "follow-up", "message": words, "history": history})


def _sentences_of(passage: Passage) -> Iterator[str]:
    for start, end in sentences(passage.text):
        if not passage.text[start:end].startswith("#"):
            yield " ".join(passage.text[start:end].split())


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
