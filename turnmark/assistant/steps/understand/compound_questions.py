"""Split a compound question into sub-questions, by rules and without a model.

A new part begins after a question mark, at an item of a list inside the text ("1) … 2) …"), and inside a sentence at
", and" or "and" before a clause that is a question by itself ("…, and what does it cost?").

On 280 labeled questions of Compound-QA the rules find the right number of parts in at least .95 of each set
(tests/assistant/test_split.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from turnmark.assistant.wording.phrases import Phrases, fold, phrases_for
from turnmark.corpora.text.function_words import language_of
from turnmark.corpora.text.segmentation import QUESTION_MARKS, ends_with_question_mark, sentences

_AUX = (
    r"(?:is|are|was|were|do|does|did|can|could|should|would|will|shall|has|have|had|might|may|must|isn't|aren't|wasn't|"
    r"weren't|don't|doesn't|didn't|can't|couldn't|shouldn't|wouldn't|won't|hasn't|haven't)"
)
_PREPOSITION = r"(?:about|after|at|before|by|for|from|in|into|of|on|over|since|through|to|under|until|with|within)"
_SUBJECT = r"(?:i|you|he|she|it|we|they|there|this|that|these|those|one)"
_DETERMINER = r"(?:the|a|an|its|his|her|their|your|my|our|any|all|some|both|each|every|either|such|people)"
# Begins a noun phrase after a question word: "which other boat sails"; not a subject or determiner.
_THING = rf"(?!{_SUBJECT}\b|{_DETERMINER}\b)"
_QUESTION = (
    rf"(?:(?:{_PREPOSITION}\s+)?(?:"
    rf"(?:how|why|when|where|whom)\s+(?:\w+ly\s+)?{_AUX}\b|how\s+\w{{2,15}}\s+{_AUX}\b"
    r"|how\s+(?:much|many|long|often|far|old|big|large|high|deep|fast|soon|well|likely|effective\w*|important|reliable"
    rf"|significant\w*|successful\w*|accurate\w*|efficient\w*|to)\b(?!\s+(?:{_SUBJECT}|{_DETERMINER})\s)"
    rf"|(?:what|which|who|whose)\s+(?:\w+ly\s+)?{_THING}[\w\"'“‘$(]"
    rf"|(?:what|how)\s+about\b|what(?:'|’)?s\b|who(?:'|’)s\b|how(?:'|’)s\b|why\s+not\b"
    r"))"
)
_AUX_QUESTION = rf"(?:{_AUX}\s+(?:{_SUBJECT}|{_DETERMINER})\b(?!\s+same\b))"
_AUX_NAME = rf"(?:{_AUX}\s+(?-i:[A-Z])\w+\s+\w)"
_AUX_PRONOUN = rf"(?:{_AUX}\s+{_SUBJECT}\b)"
# A single question word that continues the clause before it: "…, and why?", "…, and by whom?".
_BARE_QUESTION = (
    rf"(?:(?:{_PREPOSITION}\s+)?(?:why|how|when|where|who|whom|what|which)(?:\s+(?:not|so|exactly|else))?\s*"
    r"(?=[?？.!]|$))"
)
_INTRO = (
    r"(?:(?:if|assuming|suppose|supposing|in case|should|given|based on|compared (?:to|with)|in contrast to|in terms"
    r" of)\b[^,?]{0,150},\s+|(?:in that case|then|also|conversely|alternatively|finally|otherwise|if so|if not),?\s+)"
)
_AND = r"(?:and|but|as well as|plus)"

# Joints before a further question: a comma with "and", or "and" before a clause that is surely a question.
_JOINT = re.compile(
    rf"[,;:–—]\s+{_AND}\s+(?:also\s+|then\s+)?(?P<both>{_INTRO}?(?:{_QUESTION}|{_AUX_QUESTION}|{_AUX_NAME}|{_BARE_QUESTION}))"
    rf"|\s{_AND}\s+(?:also\s+|then\s+)?(?P<word>{_INTRO}?(?:{_QUESTION}|{_AUX_PRONOUN}|{_BARE_QUESTION}))",
    re.IGNORECASE,
)
_FIRST = re.compile(
    rf"(?:^|[,;:–—][\"'”’)]?\s+|\b{_AND}\s+|\bthen\s+)(?:{_QUESTION}|{_AUX_QUESTION}|{_AUX}\s+[A-Z“\"])", re.I
)
_WH = re.compile(r"\b(?:what|which|who|whose|whom|how|why|when|where)\b", re.IGNORECASE)
MAX_COMPARED_CHARACTERS = 600
"""Maximum characters before and after a joint that are compared, so that the time grows only with the text's length."""

_FRAME = re.compile(
    r"(?:please\s+|(?:can|could|would|will) you (?:please )?|i(?:'d| would)? (?:like|want) (?:to know|you to)\s*)*"
    r"(?:explain|describe|discuss|tell me|show me|know|do you know|outline|summari[sz]e|clarify)?\s+"
    r"(?=(?:what|which|who|whose|how|why|when|where)\b)",
    re.IGNORECASE,
)
_FRAMED_JOINT = re.compile(r",?\s+and\s+(?=(?:what|which|who|whose|how|why|when|where)\s+\w)", re.IGNORECASE)

_MARK = re.compile(r"[?？]+[\"'”’)\]*_]*(?:\s+|(?<=[^\W\d_]\?)(?=[A-Z][a-z]+ )|$)")
_ASKS = re.compile(
    r"(?:please\s+|also,?\s+|then,?\s+|and\s+)*(?:explain|describe|discuss|compare|list|name|outline|summari[sz]e|suggest"
    r"|recommend|propose|reflect on|identify|evaluate|assess|analy[sz]e|define|tell me"
    r"|i(?:'d| would) like to know|i want to know)\s+"
    r"(?!(?:it|them|this|that|these|those|your|in|with|step|clearly|briefly|why)\b[^,]{0,25}$)\w",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"(?:please\s+|can you\s+|could you\s+)*(?:answer|tell me|help me with|explain|i have|here are|my|these are)?\b"
    r"[^.?!]{0,40}\b(?:questions?|following|things|points)\b[^.?!]{0,30}[:：.]?\s*",
    re.IGNORECASE,
)
_OPENING_WORDS = re.compile(r"(?:(?:and|also|plus|as well as)\b,?\s+(?:also\s+|then\s+)?)?", re.IGNORECASE)
_INLINE_ITEM = re.compile(r"(?:(?<=\s)|^)\(?(?P<n>\d{1,2}|[a-h])[).]\s+(?=\S)")


def split_questions(text: str, likely: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the sub-questions of a compound question in their order; the unchanged text if it is a single question.

    Each part gets a capital letter and a question mark, and loses the "and" before it. Background
    sentences stay with the question after them; those at the end stay with the last question. "What is the difference
    between A and B" and "How do X and Y compare" are one question.

    Never raises. There is always at least one part, and no part is empty unless the text is.

    Args:
        likely: languages of the conversation and of the documents.
    """
    phrases = phrases_for(text, likely)
    questions: list[str] = []
    for item in _items(text):
        for part in _parts_of(item, phrases):
            question = _complete_question(part)
            if question:
                questions.append(question)
    return tuple(questions) if len(questions) > 1 else (text,)


def is_question(sentence: str, likely: tuple[str, ...] = ()) -> bool:
    """Return whether a sentence is a question or request.

    Args:
        likely: languages of the conversation and of the documents.
    """
    phrases = phrases_for(sentence, likely)
    return _asks(sentence) if phrases is None else _asks_in(phrases, sentence)


def _asks_in(phrases: Phrases, sentence: str) -> bool:
    """Return whether a sentence is a question: by its mark, or by the word that it begins with.

    In a script without spaces a question word may stand anywhere.
    """
    folded = fold(sentence)
    asks = phrases.begins("questions").match(folded) if phrases.spaced else phrases.find("questions").search(folded)
    return bool(asks) or ends_with_question_mark(sentence.rstrip("\"'”’)]*_ 」』"))


def _items(text: str) -> list[str]:
    """Return the items of a list of questions and the text before it; the complete text if there is no such list."""
    listed = _inline_list_of(text)
    if listed is None:
        return [text]
    lead, items = listed
    introduces = _LEAD.fullmatch(lead.strip()) is not None
    has_question_mark = "?" in lead or any("?" in item for item in items)
    if not has_question_mark and not introduces and not all(map(_asks, items)):
        return [text]
    # Each item is a question, whether or not it looks like one.
    questions: list[str] = []
    for item in items:
        has_end = item.rstrip().endswith((*QUESTION_MARKS, ".", "!", "。"))
        questions.append(item if has_end else item.rstrip(" ,;") + "?")
    if introduces or not lead.strip():
        return questions
    if ends_with_question_mark(lead):
        return [lead, *questions]
    return [f"{lead.strip()} {questions[0]}", *questions[1:]]


def _inline_list_of(text: str) -> tuple[str, list[str]] | None:
    """Return the text before a list within a text, and its items: "1) … 2) …" or "a) … b) …"; else None."""
    marks = list(_INLINE_ITEM.finditer(text))
    labels = [mark["n"] for mark in marks]
    count = len(labels)
    if count < 2 or labels not in (list("123456789")[:count], list("abcdefgh")[:count]):
        return None
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    items = [text[mark.end() : end].strip(" ,;\n") for mark, end in zip(marks, ends, strict=True)]
    return text[: marks[0].start()], items


def _parts_of(text: str, phrases: Phrases | None) -> list[str]:
    """Return the parts of a text without a list: its questions, with compound English sentences split.

    Args:
        phrases: the phrases of the text's language, or None for English.
    """
    questions: list[str] = []
    background = ""
    for sentence in _sentences(text):
        if not (_asks(sentence) if phrases is None else _asks_in(phrases, sentence)):
            background = f"{background} {sentence}".strip()
            continue
        first, *others = _clauses(sentence) if phrases is None else [sentence]
        if phrases is None:
            first = _complete_question(first)
        elif questions:
            first = phrases.conjunction_at_start.sub("", first)
        questions += [f"{background} {first}".strip(), *others]
        background = ""
    if background and questions:
        questions[-1] = f"{questions[-1]} {background}"
    return questions or [background]


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences, cut at every question mark."""
    ends = {end for _, end in sentences(text)} | {mark.end() for mark in _MARK.finditer(text)} | {len(text)}
    for begin, end in pairwise(sorted({0, *ends})):
        if sentence := text[begin:end].strip():
            yield sentence


def _asks(sentence: str) -> bool:
    """Return whether a sentence is a question or request."""
    sentence = _without_opening(sentence)
    bare = sentence.rstrip("\"'”’)]*_ ")
    return bare.endswith(QUESTION_MARKS) or bool(_ASKS.match(sentence)) or bool(_FIRST.match(sentence))


def _clauses(sentence: str) -> list[str]:
    """Split a sentence before each further question in it."""
    frame = _FRAME.match(sentence)
    if frame and frame.group().strip():
        clauses = _FRAMED_JOINT.split(sentence[frame.end() :])
        end = sentence[-1] if sentence[-1] in "?." else ""
        return [frame.group() + clause.rstrip("?.") + end for clause in clauses]
    first = _FIRST.search(sentence)
    if first is None:
        return [sentence]
    starts = [0]
    ends: list[int] = []
    for joint in _JOINT.finditer(sentence, first.end() - 1):
        start = joint.start("both" if joint["both"] else "word")
        preceding = sentence[max(starts[-1], joint.start() - MAX_COMPARED_CHARACTERS) : joint.start()]
        if joint["both"] or not _repeats_inner_word(preceding, sentence[start : start + MAX_COMPARED_CHARACTERS]):
            ends.append(joint.start())
            starts.append(start)
    ends.append(len(sentence))
    return [sentence[start:end] for start, end in zip(starts, ends, strict=True)]


def _repeats_inner_word(preceding: str, following: str) -> bool:
    """Return whether a clause begins with a question word that stands inside the clause before it.

    "How do we decide what is right and what is wrong" is one question.
    """
    words = [word.group().lower() for word in _WH.finditer(preceding)]
    first = _WH.search(following)
    return first is not None and first.group().lower() in words[1:]


def _question_mark(question: str) -> str:
    """Return the question mark of a text's script."""
    return {"zh": "？", "ja": "？", "ar": "؟", "fa": "؟"}.get(language_of(question), "?")


def _without_opening(part: str) -> str:
    """Remove "and" or "also" at the beginning of a part."""
    opening = _OPENING_WORDS.match(part)
    return part[opening.end() :] if opening else part


def _complete_question(part: str) -> str:
    """Return a part as a complete question, or "" if it has no word."""
    question = _without_opening(" ".join(part.split())).rstrip(" ,;:–—")
    if not any(char.isalnum() for char in question):
        return ""
    if question[-1] not in ".?!？。！…\"'”’)]*_؟":
        question += "." if _ASKS.match(question) else _question_mark(question)
    return question[0].upper() + question[1:]
