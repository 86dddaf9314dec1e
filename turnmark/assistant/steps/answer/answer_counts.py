"""Answer questions about which documents mention some words, by a count over all documents and without a model.

Only plain forms such as "which pages mention conda?" are recognized; those of other languages are in the field
`mentions` of `phrases.toml`. If no document has these words, the answer step
quotes documents as usual.
"""

from __future__ import annotations

import re
from dataclasses import replace

from turnmark.assistant.steps.step_results import Assessment, Draft, Evidence, SourceList
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.types import Judgment
from turnmark.assistant.wording.phrases import possible_phrases
from turnmark.assistant.wording.reply_texts import COUNTED_TEXT, MORE_TEXT, in_language
from turnmark.core.untrusted import escape_marks, one_line
from turnmark.corpora.text.function_words import content_words
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
_DOCUMENTS = (
    r"(?:pages?|files?|documents?|docs|chapters?|sections?|notes?|articles?|recipes?|posts?|e?mails?|messages?|letters?"
    r"|reports?|papers?|entr(?:y|ies))"
)
_ASKS = re.compile(
    rf"""(?: (?:which|what|how\s+many)\s+ (?:of\s+(?:the|my|our)\s+)? {_DOCUMENTS}\s+
             (?:mentions?|contains?\s+the\s+(?:word|term|phrase)) \s+ (?P<what>.+?)
           | (?:where|(?:in\s+)?(?:which|what|how\s+many)\s+{_DOCUMENTS}) \s+
             (?:is|are)\s+(?P<where>.+?)\s+mentioned(?:\s+in)?
         ) \s*[?.!]*""",
    re.IGNORECASE | re.VERBOSE,
)
_QUOTED_WORDS = re.compile(r"""["“”„'‘’`«「『]\s*(?P<words>[^"“”„`«»「」『』]+?)\s*["“”'’`»」』]""")
_ARTICLE = re.compile(r"(?:an?|the|any)\s+", re.IGNORECASE)
_SEPARATOR = re.compile(r"[,;\"“”]|\b(?:and|or|but|not|nor|without)\b", re.IGNORECASE)


def mentioned_words(message: str) -> str:
    """Return the words that a message asks to be located; an empty text if it asks something else."""
    message = message.strip().lstrip("¿ ")
    asks = _ASKS.fullmatch(message)
    if asks is not None:
        return _plain_words((asks["what"] or asks["where"]).strip(), ENGLISH)
    for phrases in possible_phrases(message):
        asks = phrases.mentions.fullmatch(message)
        if asks is not None:
            what = next(text for name, text in asks.groupdict().items() if name.startswith("what") and text)
            return _plain_words(what.strip(), phrases.language)
    return ""


def _plain_words(what: str, language: str) -> str:
    """Return the words to count without quotation marks or articles around them, or "" if it is not clear which."""
    if quoted := _QUOTED_WORDS.fullmatch(what):
        words = quoted["words"].strip()
        is_clear = True
    else:
        words = _without_articles(what, language)
        is_clear = (
            bool(content_words(words, language))
            and not _SEPARATOR.search(words)
            and len(words.split()) <= MAX_MENTIONED_WORDS
        )
    is_expression = words.startswith("/") and words.endswith("/")  # to `Collection.grep`
    return words if is_clear and not is_expression and len(words) <= MAX_PATTERN_CHARACTERS else ""


def _without_articles(what: str, language: str) -> str:
    """Return a phrase without the articles, or other function words, before its first content word."""
    if language == ENGLISH:
        article = _ARTICLE.match(what)
        return what[article.end() :] if article else what
    named = set(content_words(what, language))
    for word, start, end in words_with_spans(what):
        term = without_elision(word, language)
        if term in named:
            return what[start if term == word else end - len(term) :]
    return what


def count_mentions(turn: Turn, evidence: Evidence, assessment: Assessment) -> Draft | None:
    """Return an answer that lists the documents with the words that a message asks for, or None for other messages.

    The decision becomes `answer`.
    """
    words = mentioned_words(turn.message)
    if turn.evidence is not None or not words:
        return None
    return count_words(turn, evidence, assessment, words, turn.language)


def count_words(turn: Turn, evidence: Evidence, assessment: Assessment, words: str, language: str) -> Draft | None:
    """Return an answer that lists the documents with some words, or None if no document has them.

    The decision becomes `answer`.
    """
    if turn.retriever is None:
        return None
    collection = turn.retriever.collection()
    occurrences = collection.grep(words) if collection else None
    if occurrences is None or not occurrences.times:
        return None
    cited = {line.document: line for line in reversed(occurrences.lines)}
    listed = list(occurrences.times)[:MAX_LISTED_DOCUMENTS]
    hits = []
    for document in listed:
        line = cited[document]
        place = Passage(id="", document=document, title="", text="", start=line.start, end=line.start)
        passages = turn.retriever.neighbors(place)
        hits += [Hit(passage=passage, score=0.0) for passage in passages if passage.id == line.passage]
    sources = SourceList(evidence)
    times, held = sum(occurrences.times.values()), len(occurrences.times)
    rows = [
        f"- {escape_marks(one_line(hit.passage.title or document))} [{number}]"
        for document, hit, number in zip(listed, hits, sources.number(hits), strict=True)
    ]
    more = in_language(MORE_TEXT, language).replace("{number}", group_digits(held - len(listed), language))
    rows += [f"- … {more}"] if held > len(listed) else []
    assessment = replace(assessment, judgment=COUNTED_JUDGMENT)
    assessment.report(turn)
    heading = _heading(words, times, held, occurrences.documents, language)
    text = "\n".join([escape_marks(one_line(heading)), "", *rows])
    return Draft(text, assessment, answers=(text,), claims="").with_sources(sources)


def _heading(words: str, times: int, found: int, documents: int, language: str) -> str:
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
