"""Answer questions about which documents mention some words, by a count over all documents and without a model.

Only plain forms such as "which pages mention conda?" are recognized: the field `mentions` of `phrases.toml`. If no
document has these words, the answer step quotes documents as usual.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from turnmark.assistant.steps.step_results import Assessment, Draft, Evidence, SourceList
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.types import Judgment
from turnmark.assistant.wording.phrases import possible_phrases
from turnmark.assistant.wording.reply_texts import COUNTED_TEXT, MORE_TEXT, in_language
from turnmark.core.untrusted import escape_marks, one_line
from turnmark.corpora.text.function_words import content_words, function_words_of
from turnmark.corpora.text.languages import ENGLISH, without_elision
from turnmark.corpora.text.segmentation import words_with_spans
from turnmark.corpora.types import Passage
from turnmark.retrieval.collection import MAX_PATTERN_CHARACTERS
from turnmark.retrieval.types import Hit

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
