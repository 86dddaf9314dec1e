"""Answer messages about the collection, the program or the conversation, without a model and without a quotation.

The documents are counted and listed, the earlier questions are repeated, and a summary is said to take a model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from turnmark.assistant.config import MAX_HISTORY_MESSAGES
from turnmark.assistant.steps.answer.answer_counts import (
    COUNTED_JUDGMENT,
    MAX_LISTED_DOCUMENTS,
    count_mentions,
    group_digits,
    list_rows,
)
from turnmark.assistant.steps.step_results import (
    Assessment,
    Draft,
    Evidence,
    NamedDocument,
    SourceList,
    UnderstoodMessage,
)
from turnmark.assistant.steps.turn_state import MIN_KNOWN_SHARE, Turn
from turnmark.assistant.steps.understand.collection_questions import CollectionQuestion, collection_question
from turnmark.assistant.steps.understand.courtesy import is_conversational
from turnmark.assistant.types import Judgment
from turnmark.core.untrusted import ellipsize, escape_marks, one_line
from turnmark.corpora.types import Passage
from turnmark.retrieval.collection import Collection
from turnmark.retrieval.storage.passage_store import DocumentEntry
from turnmark.retrieval.types import Hit, Query, Retriever

MAX_DATED_DOCUMENTS = 5
"""Maximum documents that are named as the newest, the oldest, or about something."""
NEAREST_PASSAGES = 30
"""Number of passages whose documents are about something."""
MAX_OUTLINE_LINES, MAX_BEGINNING_LINES, MAX_BEGINNING_CHARACTERS = 10, 6, 500
"""Maximum headings of a document that are listed, and lines and length to which its beginning is cut."""
MAX_REPEATED_CHARACTERS = 300
"""Length to which an earlier question is cut."""


def answer_about_collection(turn: Turn, understood: UnderstoodMessage, assessment: Assessment) -> Draft | None:
    """Return the answer to a message about the collection, the program or the conversation; None for any other.

    Documents that mention some words are counted. A summary is left to a model if there is one.
    """
    question = collection_question(understood.asked, turn.history)
    named = understood.named
    if named and named.language and question is None:
        question = CollectionQuestion("summarize", named.language)
    if turn.evidence is not None or turn.retriever is None:
        return None
    if question is None:
        return count_mentions(turn, assessment)
    if question.topic == "summarize" and turn.generator is not None:
        return None
    if question.topic == "help":
        return _converse(turn, assessment, question.text("help"))
    if question.topic in ("first", "last", "asked"):
        return _converse(turn, assessment, _earlier_questions(turn, question))
    collection = turn.retriever.collection()
    if collection is None:
        return None
    if question.topic == "summarize" and not named:
        return _converse(turn, assessment, _overview(collection, question))
    if question.topic == "about" and min(turn.word_shares([question.words]), default=1.0) < MIN_KNOWN_SHARE:
        return None
    if named and question.topic == "summarize":
        text, sources = _outline(turn.retriever, named, question)
    else:
        text, sources = _listed_documents(turn.retriever, collection, question)
    assessment = replace(assessment, judgment=COUNTED_JUDGMENT)
    assessment.report(turn)
    return Draft(text, assessment, answers=(text,), claims="").with_sources(sources)


def _overview(collection: Collection, question: CollectionQuestion) -> str:
    """Return the text that says that a summary takes a model, and lists the documents."""
    entries = collection.documents()
    rows = list_rows([_title(entry) for entry in entries], question.language)
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
    if question.topic == "about":
        entries, text = _nearest_documents(retriever, entries, question.words), question.text("about")
    sources = SourceList(Evidence(()))
    rows = [f"{labels[entry.document]}{_cite(sources, retriever, entry)}" for entry in entries[:MAX_LISTED_DOCUMENTS]]
    rows += [labels[entry.document] for entry in entries[MAX_LISTED_DOCUMENTS:]]
    text = text.replace("{number}", number).replace("{words}", question.words)
    return "\n".join([text, "", *list_rows(rows, question.language)]).rstrip(), sources


def _nearest_documents(retriever: Retriever, entries: Sequence[DocumentEntry], words: str) -> list[DocumentEntry]:
    """Return the documents whose passages a search for some words finds first."""
    (hits,) = retriever.search([Query(text=words)], NEAREST_PASSAGES)
    by_id = {entry.document: entry for entry in entries}
    found = dict.fromkeys(hit.passage.document for hit in hits)
    return [by_id[document] for document in found if document in by_id][:MAX_DATED_DOCUMENTS]


def _outline(retriever: Retriever, named: NamedDocument, question: CollectionQuestion) -> tuple[str, SourceList]:
    """Return the beginning of a document, or of the part under a heading, with the headings in it, and its source."""
    passages = retriever.neighbors(Passage(id="", document=named.document, title="", text="", start=0, end=0))
    rows = [(passage, line.rstrip()) for passage in passages for line in passage.text.splitlines() if line.strip()]
    levels = [len(heading[0]) - 1 if (heading := _HEADING.match(line)) else 0 for _, line in rows]
    texts = [line[level:].strip() for (_, line), level in zip(rows, levels, strict=True)]
    first = texts.index(named.heading) if named.heading in texts else 0
    upper = range(1, levels[first] + 1)
    end = next((at for at in range(first + 1, len(rows)) if levels[at] in upper), len(rows))
    lower = sorted({level for level in levels[first + 1 : end] if level})
    headings = [texts[at] for at in range(first + 1, end) if levels[at] in lower[:1]]
    begin = next((at for at in range(first, end) if not levels[at]), end)
    lines = texts[begin : next((at for at in range(begin, end) if levels[at]), end)]
    sources = SourceList(Evidence(()))
    (number,) = sources.number([Hit(passage=rows[first][0], score=0.0)])
    title = " › ".join(dict.fromkeys(filter(None, (passages[0].title, named.heading))))
    parts = (
        f"{escape_marks(one_line(title))} [{number}]",
        ellipsize(escape_marks("\n".join(lines[:MAX_BEGINNING_LINES])), MAX_BEGINNING_CHARACTERS),
        "\n".join(list_rows(list(map(escape_marks, headings)), question.language, limit=MAX_OUTLINE_LINES)),
        question.text("summary"),
    )
    return "\n\n".join(filter(None, parts)), sources


_HEADING = re.compile(r"#+ ")


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
