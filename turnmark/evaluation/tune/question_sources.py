"""Questions for tuning from a person's file, or written by a model, with the places of their answers.

A place is as short as what answers: the sentences that state the facts. A whole passage would be answered by any part
of it, so that small passages would seem to be better.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from turnmark.core.errors import ErrorCollector
from turnmark.corpora.text.function_words import content_words
from turnmark.corpora.text.segmentation import sentences
from turnmark.corpora.types import Message, Passage
from turnmark.evaluation.benchmarks import index_questions
from turnmark.evaluation.check.own_questions.facts import find_facts
from turnmark.evaluation.check.own_questions.question_file import OwnQuestion, is_document
from turnmark.evaluation.storage.corpus_passages import Span, span_of
from turnmark.evaluation.synth.request import SynthRequest
from turnmark.evaluation.synth.synthesis_run import plan_synthesis, synthesize
from turnmark.evaluation.tune.questions import TuneQuestion
from turnmark.evaluation.tune.request import TuneRequest
from turnmark.retrieval.search.opened_index import StoredIndex

READ_PASSAGES = 200
"""Number of passages, found by the words of a question and its facts, that are searched for the facts."""
MAX_PLACES = 20
"""Maximum number of places of a question whose file names no document; facts in more places do not answer it."""


def locate_questions(index: StoredIndex, own: Sequence[OwnQuestion]) -> Iterator[TuneQuestion]:
    """Yield each question of a file whose answer has a place: where its facts stand, or else the named document.

    Earlier questions of its conversation come before it, with their reference answers.
    """
    histories: dict[str, list[Message]] = {}
    documents = [entry.document for entry in index.store.documents()]
    for one in own:
        history = histories.setdefault(one.conversation, []) if one.conversation else []
        named = [document for document in documents if one.document and is_document(document, one.document)]
        gold = () if one.unanswerable else tuple(_places(index, one, named))
        if gold:
            yield TuneQuestion(id=one.id, kind="own", message=one.question, history=tuple(history), gold=gold)
        history += (
            Message(role="user", content=one.question),
            Message(role="assistant", content=one.answer or "; ".join(one.facts)),
        )


def _places(index: StoredIndex, one: OwnQuestion, named: Sequence[str]) -> list[Span]:
    if named:
        passages = [passage for document in named for passage in index.store.of_document(document)]
    else:
        words = re.sub(r"[/|;]", " ", " ".join([one.question, one.answer, *one.facts]))
        passages = index.store.by_rows(index.bm25.top(words, READ_PASSAGES, None).rows.tolist())
    stating = [passage for passage in passages if one.facts and all(find_facts(one.facts, passage.shown_text))]
    if not named and len(stating) > MAX_PLACES:
        return []
    return [_place_of(one.facts, passage) for passage in stating or (passages if named else [])]


def _place_of(facts: Sequence[str], passage: Passage) -> Span:
    """Return the place in a passage from the first to the last sentence or row that is the first to state a fact.

    If none does, return the place of the passage.
    """
    pieces = sentences(passage.text)
    found = [find_facts(facts, passage.text[start:end]) for start, end in pieces]
    firsts = [column.index(True) for column in zip(*found, strict=True) if any(column)]
    if not firsts:
        return Span(passage.document, passage.start, passage.end)
    first, last = pieces[min(firsts)], pieces[max(firsts)]
    return Span(passage.document, passage.start + first[0], passage.start + last[1])


def _place_of_answer(index: StoredIndex, written_from: Span, answer: str) -> Span:
    """Return the place of the sentence that shares the most words with an answer, in the section that it is from."""
    wanted = frozenset(content_words(answer))
    shared, place = 0, written_from
    for passage in index.store.of_document(written_from.document):
        for start, end in sentences(passage.text):
            sentence = Span(passage.document, passage.start + start, passage.start + end)
            count = len(wanted.intersection(content_words(passage.text[start:end])))
            if count > shared and written_from.contains(sentence):
                shared, place = count, sentence
    return place


def write_questions(request: TuneRequest, index: StoredIndex, folder: Path) -> list[TuneQuestion]:
    """Let a model write questions from sections; those whose answers do not follow from the section are dropped."""
    synth = SynthRequest(
        index=request.index, n=request.n, generator=request.generator, seed=request.seed, budget=request.budget,
        out=folder,
    )  # fmt: skip
    synthesize(plan_synthesis(synth, index_questions.QuestionSynthesis(), ErrorCollector()))
    tasks = index_questions.read_questions(folder) if index_questions.has_questions(folder) else []
    questions = []
    for task in tasks:
        spans = (span_of(context.document_id) for context in task.contexts)
        gold = tuple(_place_of_answer(index, span, task.reference) for span in spans if span is not None)
        if gold:
            questions.append(TuneQuestion(id=task.id, kind="model", message=task.question, gold=gold))
    return questions
