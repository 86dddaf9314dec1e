"""Answer questions about which documents mention some words, by a count over all documents and without a model.

Only plain forms such as "which pages mention conda?" are recognized. If no document has these words, the answer step
quotes documents as usual.
"""

from __future__ import annotations

import re

from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Draft, Judgment
from turnmark.core.untrusted import escape_marks, one_line
from turnmark.corpora.function_words import content_words
from turnmark.corpora.types import Passage
from turnmark.retrieval.collection import MAX_PATTERN_CHARACTERS
from turnmark.retrieval.types import Hit

MAX_LISTED_DOCUMENTS = 30
"""Maximum documents that the answer lists."""
MAX_MENTIONED_WORDS = 5
"""Maximum words that a question may ask for without quotation marks around them."""
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
_QUOTED = re.compile(r"""["“”„'‘’`](?P<words>[^"“”„`]+)["“”'’`]""")
_ARTICLE = re.compile(r"(?:an?|the|any)\s+", re.IGNORECASE)
_SEVERAL = re.compile(r"[,;\"“”]|\b(?:and|or|but|not|nor|without)\b", re.IGNORECASE)


def mentioned_words(message: str) -> str:
    """Return the words that a message asks to be located; an empty text if it asks something else."""
    asks = _ASKS.fullmatch(message.strip())
    if asks is None:
        return ""
    what = (asks["what"] or asks["where"]).strip()
    if quoted := _QUOTED.fullmatch(what):
        words = quoted["words"].strip()
        is_clear = True
    else:
        article = _ARTICLE.match(what)
        words = what[article.end() :] if article else what
        is_clear = (
            bool(content_words(words)) and not _SEVERAL.search(words) and len(words.split()) <= MAX_MENTIONED_WORDS
        )
    is_expression = words.startswith("/") and words.endswith("/")  # to `Collection.grep`
    return words if is_clear and not is_expression and len(words) <= MAX_PATTERN_CHARACTERS else ""


def count_mentions(turn: Turn) -> Draft | None:
    """Return an answer that lists the documents with the words that a message asks for; None if it asks something else.

    The turn's decision becomes `answer`.
    """
    words = mentioned_words(turn.message)
    if turn.retriever is None or turn.evidence is not None or not words:
        return None
    collection = turn.retriever.collection()
    occurrences = collection.grep(words) if collection else None
    if occurrences is None or not occurrences.times:
        return None
    cited = {line.document: line.passage for line in reversed(occurrences.lines)}
    listed = list(occurrences.times)[:MAX_LISTED_DOCUMENTS]
    hits = []
    for document in listed:
        passages = turn.retriever.neighbors(Passage(id="", document=document, title="", text="", start=0, end=0))
        hits += [Hit(passage=passage, score=0.0) for passage in passages if passage.id == cited[document]]
    times, held = sum(occurrences.times.values()), len(occurrences.times)
    counted = f"{times:,} {'time' if times == 1 else 'times'} in {held:,} of {occurrences.documents:,} documents"
    rows = [
        f"- {escape_marks(one_line(hit.passage.title or document))} [{number}]"
        for document, hit, number in zip(listed, hits, turn.number(hits), strict=True)
    ]
    rows += [f"- … and {held - len(listed):,} more"] if held > len(listed) else []
    turn.decide(Judgment(decision="answer", confidence=1.0, reason="counted in all documents"))
    text = "\n".join([escape_marks(one_line(f"“{words}” is found {counted}:")), "", *rows])
    return Draft(text=text, answers=(text,), claims="")
