"""Answer messages about the collection or the program, without a model and without a quotation.

The documents are counted and listed, as are those that mention something, and a summary is said to take a model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

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
from turnmark.assistant.wording.phrases import possible_phrases
from turnmark.assistant.wording.reply_texts import COUNTED_TEXT, MORE_TEXT, in_language
from turnmark.core.untrusted import ellipsize, escape_marks, one_line
from turnmark.corpora.text.function_words import content_words, function_words_of
from turnmark.corpora.text.languages import ENGLISH, UNSPACED_LANGUAGES, without_elision
from turnmark.corpora.text.segmentation import words_with_spans
from turnmark.corpora.types import Passage
from turnmark.retrieval.collection import MAX_PATTERN_CHARACTERS
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
        return counted(turn, assessment, *_outline(retriever, named, question))
    return counted(turn, assessment, *_listed_documents(retriever, collection.documents(), question))


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


MAX_LISTED_DOCUMENTS = 30
"""Maximum documents that the answer lists."""
MAX_MENTIONED_WORDS = 5
"""Maximum words that a question may ask for without quotation marks around them."""
COUNTED_JUDGMENT = Judgment(decision="answer", confidence=1.0, reason="counted in all documents")
_QUOTED_WORDS = re.compile(r"""["“”„'‘’`«「『]\s*(?P<words>[^"“”„`«»「」『』]+?)\s*["“”'’`»」』]""")
_SEPARATOR = re.compile(r"[,;\"“”]|\b(?:and|or|but|not|nor|without)\b", re.IGNORECASE)


def mentioned_words(message: str) -> str:
    """Return the words that a message asks to be located; an empty text if it asks something else."""
    message = message.strip().lstrip("¿ ")
    for phrases in possible_phrases(message):
        if asks := phrases.mentions.fullmatch(message):
            what = next(text for name, text in asks.groupdict().items() if name.startswith("what") and text)
            return _plain_words(what.strip(), phrases.language)
    return ""


def _plain_words(what: str, language: str) -> str:
    """Return the words to count without quotation marks or an article around them, or "" if it is not clear which."""
    if quoted := _QUOTED_WORDS.fullmatch(what):
        words, is_clear = quoted["words"].strip(), True
    else:
        words = _without_article(what, language)
        is_clear = bool(content_words(words, language)) and len(words.split()) <= MAX_MENTIONED_WORDS
        is_clear = is_clear and not _SEPARATOR.search(words)
    is_expression = words.startswith("/") and words.endswith("/")  # to `Collection.grep`
    return words if is_clear and not is_expression and len(words) <= MAX_PATTERN_CHARACTERS else ""


def _without_article(what: str, language: str) -> str:
    """Return a phrase without the function word, or the elided word, at its beginning."""
    for word, _, end in islice(words_with_spans(what), 1):
        term = without_elision(word, language)
        if term in function_words_of(language):
            return what[end:].lstrip()
        return what if term == word else what[end - len(term) :]
    return what


def count_mentions(turn: Turn, assessment: Assessment) -> Draft | None:
    """Return an answer that lists the documents with the words that a message asks for, or None for other messages.

    It is also None if no document has the words. The decision becomes `answer`.
    """
    words, language = mentioned_words(turn.message), turn.language
    collection = turn.retriever.collection() if turn.retriever and words else None
    occurrences = collection.grep(words) if collection else None
    if turn.retriever is None or occurrences is None or not occurrences.times:
        return None
    cited = {line.document: line for line in reversed(occurrences.lines)}
    labels, sources = [], SourceList(Evidence(()))
    for document in list(occurrences.times)[:MAX_LISTED_DOCUMENTS]:
        line = cited[document]
        place = Passage(id="", document=document, title="", text="", start=line.start, end=line.start)
        passage = next(each for each in turn.retriever.neighbors(place) if each.id == line.passage)
        (number,) = sources.number([Hit(passage=passage, score=0.0)])
        labels.append(f"{escape_marks(one_line(passage.title or document))} [{number}]")
    found = len(occurrences.times)
    heading = mention_heading(words, sum(occurrences.times.values()), found, occurrences.documents, language)
    text = "\n".join([escape_marks(one_line(heading)), "", *list_rows(labels, language, found)])
    return counted(turn, assessment, text, sources)


def counted(turn: Turn, assessment: Assessment, text: str, sources: SourceList) -> Draft:
    """Return an answer that was counted or listed, and report the decision."""
    assessment = replace(assessment, judgment=COUNTED_JUDGMENT)
    assessment.report(turn)
    return Draft(text, assessment, answers=(text,), claims="").with_sources(sources)


def list_rows(labels: Sequence[str], language: str, count: int = 0, limit: int = MAX_LISTED_DOCUMENTS) -> list[str]:
    """Return the items of a list up to a limit; the last one says how many of `count`, or of all, follow."""
    rows = [f"- {label}" for label in labels[:limit]]
    rest = (count or len(labels)) - len(rows)
    if rest:
        rows.append(f"- … {in_language(MORE_TEXT, language).replace('{number}', group_digits(rest, language))}")
    return rows


def mention_heading(words: str, times: int, found: int, documents: int, language: str) -> str:
    """Return the line above a list of documents that mention some words, in a language."""
    text = in_language(COUNTED_TEXT, language)
    if times == 1 and text == COUNTED_TEXT:
        text = text.replace("times in", "time in")
    counts = {"{times}": times, "{found}": found, "{documents}": documents}
    for slot, count in counts.items():
        text = text.replace(slot, group_digits(count, language))
    return text.replace("{words}", words)


def group_digits(count: int, language: str) -> str:
    """Return a number, with commas between its thousands in English."""
    return f"{count:,}" if language == ENGLISH else str(count)
