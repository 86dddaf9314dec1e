"""Answer messages about the collection or the program, without a model and without a quotation.

The documents are counted and listed, and a summary is said to take a model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from turnmark.assistant.steps.answer.answer_counts import (
    MAX_LISTED_DOCUMENTS,
    count_mentions,
    counted,
    group_digits,
    list_rows,
    mention_heading,
    mentioned_words,
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
from turnmark.assistant.steps.understand.collection_questions import CollectionQuestion, collection_question, rows
from turnmark.assistant.types import Judgment
from turnmark.core.untrusted import ellipsize, escape_marks, one_line
from turnmark.corpora.text.languages import ENGLISH, UNSPACED_LANGUAGES
from turnmark.corpora.types import Passage
from turnmark.retrieval.storage.passage_store import DocumentEntry
from turnmark.retrieval.types import Hit, Query, Retriever

MAX_NEAREST_DOCUMENTS = 5
"""Maximum documents that are named as those about something."""
NEAREST_PASSAGES = 30
"""Number of passages whose documents are about something."""
MAX_OUTLINE_LINES, MAX_BEGINNING_LINES, MAX_BEGINNING_CHARACTERS = 10, 6, 500
"""Maximum headings of a document that are listed, and lines and length to which its beginning is cut."""


def answer_about_collection(turn: Turn, understood: UnderstoodMessage, assessment: Assessment) -> Draft | None:
    """Return the answer to a message about the collection or the program; None for any other.

    Documents that mention some words are counted. A summary is left to a model if there is one.
    """
    retriever, named = turn.retriever, understood.named
    question = collection_question(understood.asked)
    if question is None and named and named.language:
        question = CollectionQuestion("summarize", named.language)
    if retriever is None or turn.evidence is not None:
        return None
    if question is None:
        return count_mentions(turn, assessment) or _nearest_to_mention(turn, retriever, assessment)
    if question.topic == "help":
        judgment = Judgment(decision="converse", confidence=1.0, reason="not a question to the documents")
        assessment = replace(assessment, judgment=judgment)
        assessment.report(turn)
        return Draft(question.text("help"), assessment)
    collection = retriever.collection()
    left_to_model = question.topic == "summarize" and turn.generator is not None
    is_unknown = question.topic == "about" and min(turn.word_shares([question.words]), default=1.0) < MIN_KNOWN_SHARE
    if collection is None or left_to_model or is_unknown:
        return None
    if question.topic == "summarize" and named:
        text, sources = _outline(retriever, named, question)
    else:
        text, sources = _listed_documents(retriever, collection.documents(), question)
    return counted(turn, assessment, text, sources)


def _nearest_to_mention(turn: Turn, retriever: Retriever, assessment: Assessment) -> Draft | None:
    """Return the documents nearest to words that a message asks to be located and that no document has, or None."""
    words, collection = mentioned_words(turn.message), retriever.collection()
    question = CollectionQuestion("about", turn.language if turn.language in rows() else ENGLISH, words)
    if not words or collection is None or min(turn.word_shares([words]), default=1.0) < MIN_KNOWN_SHARE:
        return None
    entries = collection.documents()
    nearest, sources = _listed_documents(retriever, entries, question)
    none = mention_heading(words, 0, 0, len(entries), turn.language).rstrip(" :：")
    stop = "。" if turn.language in UNSPACED_LANGUAGES else "."
    return counted(turn, assessment, f"{none}{stop}\n\n{nearest}", sources)


def _listed_documents(
    retriever: Retriever, entries: Sequence[DocumentEntry], question: CollectionQuestion
) -> tuple[str, SourceList]:
    """Return the list of documents that a question asks for, and its sources: the beginning of each document."""
    number = group_digits(len(entries), question.language)
    text = question.text("documents")
    if question.topic == "about":
        (hits,) = retriever.search([Query(text=question.words)], NEAREST_PASSAGES)
        by_id = {entry.document: entry for entry in entries}
        nearest = dict.fromkeys(hit.passage.document for hit in hits if hit.passage.document in by_id)
        entries = [by_id[document] for document in nearest][:MAX_NEAREST_DOCUMENTS]
        text = question.text("about").replace("{words}", question.words)
    sources = SourceList(Evidence(()))
    rows = []
    for entry in entries[:MAX_LISTED_DOCUMENTS]:
        first = min(_passages(retriever, entry.document), key=lambda passage: passage.start, default=None)
        mark = f" [{sources.number([Hit(passage=first, score=0.0)])[0]}]" if first else ""
        rows.append(f"{escape_marks(one_line(entry.title or entry.path or entry.document))}{mark}")
    listed = "\n".join(
        [text.replace("{number}", number), "", *list_rows(rows, question.language, len(entries))]
    ).rstrip()
    return (f"{question.text('summary')}\n\n{listed}" if question.topic == "summarize" else listed), sources


def _passages(retriever: Retriever, document: str) -> list[Passage]:
    return retriever.neighbors(Passage(id="", document=document, title="", text="", start=0, end=0))


_HEADING = re.compile(r"(#+) +(.*)")


def _outline(retriever: Retriever, named: NamedDocument, question: CollectionQuestion) -> tuple[str, SourceList]:
    """Return the beginning of a document, or of the part under a heading, with the headings in it, and its source."""
    sources, title, depth = SourceList(Evidence(())), "", 0
    lines: list[str] = []
    headings: dict[int, list[str]] = {}  # by their levels
    passages = _passages(retriever, named.document)
    for passage, line in ((each, line) for each in passages for line in each.text.splitlines() if line.strip()):
        level, text = (len(found[1]), found[2]) if (found := _HEADING.match(line)) else (0, line.rstrip())
        if not title and named.heading in ("", text, passage.title):
            depth = level if named.heading == text else 0
            title = " › ".join(dict.fromkeys(filter(None, (passage.title, named.heading))))
            sources.number([Hit(passage=passage, score=0.0)])
        elif title and 0 < level <= depth:
            break
        elif title and level:
            headings.setdefault(level, []).append(escape_marks(text))
        if title and not level and len(lines) < MAX_BEGINNING_LINES and (not lines or not headings):
            lines.append(text)
    parts = (
        f"{escape_marks(one_line(title))} [1]",
        ellipsize(escape_marks("\n".join(lines)), MAX_BEGINNING_CHARACTERS),
        "\n".join(list_rows(headings[min(headings)], question.language, limit=MAX_OUTLINE_LINES)) if headings else "",
        question.text("summary"),
    )
    return "\n\n".join(filter(None, parts)), sources
