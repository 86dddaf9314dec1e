"""Answer messages about the collection, the program or the conversation, without a model and without a quotation.

The documents are counted and listed, the earlier questions are repeated, and a summary is said to take a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turnmark.assistant.config import MAX_HISTORY_MESSAGES
from turnmark.assistant.steps.answer.answer_counts import (
    COUNTED_JUDGMENT,
    MAX_LISTED_DOCUMENTS,
    count_words,
    group_digits,
)
from turnmark.assistant.steps.step_results import Assessment, Draft, Evidence, SourceList, UnderstoodMessage
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.steps.understand.collection_questions import CollectionQuestion, collection_question
from turnmark.assistant.steps.understand.courtesy import is_conversational
from turnmark.assistant.types import Judgment
from turnmark.assistant.wording.reply_texts import MORE_TEXT, in_language
from turnmark.core.untrusted import ellipsize, escape_marks, one_line
from turnmark.corpora.types import Passage
from turnmark.retrieval.collection import Collection
from turnmark.retrieval.storage.passage_store import DocumentEntry
from turnmark.retrieval.types import Hit, Retriever

MAX_DATED_DOCUMENTS = 5
"""Maximum documents that are named as the newest or oldest."""
MAX_REPEATED_CHARACTERS = 300
"""Length to which an earlier question is cut."""


def answer_about_collection(
    turn: Turn, understood: UnderstoodMessage, evidence: Evidence, assessment: Assessment
) -> Draft | None:
    """Return the answer to a message about the collection, the program or the conversation; None for any other.

    A summary is left to a model if there is one.
    """
    question = collection_question(understood.asked, turn.history)
    if question is None or turn.evidence is not None or turn.retriever is None:
        return None
    if question.topic == "summarize" and turn.generator is not None:
        return None
    if question.words:
        return count_words(turn, evidence, assessment, question.words, question.language)
    if question.topic == "help":
        return _converse(turn, assessment, question.text("help"))
    if question.topic in ("first", "last", "asked"):
        return _converse(turn, assessment, _earlier_questions(turn, question))
    collection = turn.retriever.collection()
    if collection is None:
        return None
    if question.topic == "summarize":
        return _converse(turn, assessment, _overview(collection, question))
    text, sources = _listed_documents(turn.retriever, collection, question)
    assessment = replace(assessment, judgment=COUNTED_JUDGMENT)
    assessment.report(turn)
    return Draft(text, assessment, answers=(text,), claims="").with_sources(sources)


def _overview(collection: Collection, question: CollectionQuestion) -> str:
    """Return the text that says that a summary takes a model, and lists the documents."""
    entries = collection.documents()
    rows = _rows([_title(entry) for entry in entries], question.language)
    heading = question.text("documents").replace("{number}", group_digits(len(entries), question.language))
    return "\n\n".join((question.text("summary"), "\n".join([heading, "", *rows])))


def _listed_documents(
    retriever: Retriever, collection: Collection, question: CollectionQuestion
) -> tuple[str, SourceList]:
    """Return a list of all documents, or of the newest or oldest, and its sources: the beginning of each document."""
    entries = collection.documents()
    number = group_digits(len(entries), question.language)
    text = question.text("documents")
    labels = {entry.document: _title(entry) for entry in entries}
    if question.topic in ("newest", "oldest"):
        dated = sorted((entry for entry in entries if entry.date), key=lambda entry: entry.date)
        if question.topic == "newest":
            dated.reverse()
        entries = dated[:MAX_DATED_DOCUMENTS]
        labels = {entry.document: f"{_title(entry)} ({one_line(entry.date)})" for entry in entries}
        text = question.text(question.topic if entries else "dateless")
    sources = SourceList(Evidence(()))
    rows = [f"{labels[entry.document]}{_cite(sources, retriever, entry)}" for entry in entries[:MAX_LISTED_DOCUMENTS]]
    rows += [labels[entry.document] for entry in entries[MAX_LISTED_DOCUMENTS:]]
    return "\n".join([text.replace("{number}", number), "", *_rows(rows, question.language)]).rstrip(), sources


def _cite(sources: SourceList, retriever: Retriever, entry: DocumentEntry) -> str:
    """Return the citation mark of the first passage of a document."""
    passages = retriever.neighbors(Passage(id="", document=entry.document, title="", text="", start=0, end=0))
    if not passages:
        return ""
    first = min(passages, key=lambda passage: passage.start)
    (number,) = sources.number([Hit(passage=first, score=0.0)])
    return f" [{number}]"


def _title(entry: DocumentEntry) -> str:
    return escape_marks(one_line(entry.title or entry.path or entry.document))


def _rows(labels: Sequence[str], language: str) -> list[str]:
    """Return a list of labels, cut to the maximum."""
    rows = [f"- {label}" for label in labels[:MAX_LISTED_DOCUMENTS]]
    rest = len(labels) - len(rows)
    if rest:
        rows.append(f"- … {in_language(MORE_TEXT, language).replace('{number}', group_digits(rest, language))}")
    return rows


def _earlier_questions(turn: Turn, question: CollectionQuestion) -> str:
    """Return the questions before this message: all of them, the first, or the last.

    Of a conversation that is longer than a turn looks back, the first question is not known.
    """
    asked = [
        escape_marks(ellipsize(one_line(message.content), MAX_REPEATED_CHARACTERS))
        for message in turn.history
        if message.role == "user" and not is_conversational(message.content)
    ]
    if not asked:
        return question.text("none")
    topic = question.topic
    if topic == "first" and len(turn.history) >= MAX_HISTORY_MESSAGES:
        topic = "asked"
    chosen = {"first": asked[:1], "last": asked[-1:]}.get(topic, asked)
    return "\n".join([question.text(topic), "", *(f"- {text}" for text in chosen)])


def _converse(turn: Turn, assessment: Assessment, text: str) -> Draft:
    judgment = Judgment(decision="converse", confidence=1.0, reason="not a question to the documents")
    assessment = replace(assessment, judgment=judgment)
    assessment.report(turn)
    return Draft(text, assessment)
