"""Split a compound question into sub-questions, and find the question in a long message: by rules, without a model.

A new part begins after a question mark, at an item of a list inside the text ("1) … 2) …"), and, in languages whose
row of `phrases.toml` has `joints`, before a clause that is a question by itself ("…, and what does it cost?").

On 280 labeled questions of Compound-QA the rules find the right number of parts in at least .95 of each set
(tests/assistant/test_split.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

from turnmark.assistant.wording.phrases import Phrases, fold, phrases_of
from turnmark.corpora.text.function_words import language_of
from turnmark.corpora.text.segmentation import QUESTION_MARKS, ends_with_question_mark, reading_words, sentences

MAX_COMPARED_CHARACTERS = 600
"""Maximum characters before a joint that are compared, so that the time grows only with the text's length."""
_MARK = re.compile(r"[?？]+[\"'”’)\]*_]*(?:\s+|(?<=[^\W\d_]\?)(?=[A-Z][a-z]+ )|$)")
_LISTED_ITEM = re.compile(r"(?:(?<=\s)|^)\(?(?P<n>\d{1,2}|[a-h])[).]\s+(?=\S)")
_CLOSING = "\"'”’)]*_ 」』"


def split_questions(text: str, likely: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the sub-questions of a compound question in their order; the unchanged text if it is a single question.

    Each part gets a capital letter and a question mark, and loses the "and" before it. Background
    sentences stay with the question after them; those at the end stay with the last question. "What is the difference
    between A and B" and "How do X and Y compare" are one question.

    Never raises. There is always at least one part, and no part is empty unless the text is.

    Args:
        likely: languages of the conversation and of the documents.
    """
    phrases = phrases_of(text, likely)
    parts = (part for item in _items(text, phrases) for part in _parts_of(item, phrases))
    questions = tuple(filter(None, (_complete_question(part, phrases) for part in parts)))
    return questions if len(questions) > 1 else (text,)


def is_question(sentence: str, likely: tuple[str, ...] = ()) -> bool:
    """Return whether a sentence is a question or request.

    Args:
        likely: languages of the conversation and of the documents.
    """
    return _asks(sentence, phrases_of(sentence, likely))


def _asks(sentence: str, phrases: Phrases) -> bool:
    """Return whether a sentence is a question: by its mark, or by the words that it begins with.

    In a script without spaces a question word may stand anywhere.
    """
    if ends_with_question_mark(sentence.rstrip(_CLOSING)):
        return True
    sentence = phrases.conjunction_at_start.sub("", sentence)
    if "first_questions" in phrases.row:
        return bool(phrases.raw("requests").match(sentence) or phrases.raw("first_questions").match(sentence))
    folded = fold(sentence)
    return bool(
        phrases.begins("questions").match(folded) if phrases.spaced else phrases.find("questions").search(folded)
    )


def _items(text: str, phrases: Phrases) -> list[str]:
    """Return the items of a list of questions and the text before it; the complete text if there is no such list."""
    marks = list(_LISTED_ITEM.finditer(text))
    labels, count = [mark["n"] for mark in marks], len(marks)
    if count < 2 or labels not in (list("123456789")[:count], list("abcdefgh")[:count]):
        return [text]
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    items = [text[mark.end() : end].strip(" ,;\n") for mark, end in zip(marks, ends, strict=True)]
    lead = text[: marks[0].start()].strip()
    introduces = not lead or phrases.raw("introductions").fullmatch(lead) is not None
    if "?" not in text and not (lead and introduces) and not all(_asks(item, phrases) for item in items):
        return [text]
    # Each item is a question, whether or not it looks like one.
    questions = [item if item.endswith((*QUESTION_MARKS, ".", "!", "。")) else f"{item}?" for item in items]
    if introduces:
        return questions
    return [lead, *questions] if ends_with_question_mark(lead) else [f"{lead} {questions[0]}", *questions[1:]]


def _parts_of(text: str, phrases: Phrases) -> list[str]:
    """Return the parts of a text without a list: its questions, with compound sentences split."""
    ends = {end for _, end in sentences(text)} | {mark.end() for mark in _MARK.finditer(text)} | {len(text)}
    questions: list[str] = []
    background = ""
    for begin, end in pairwise(sorted({0, *ends})):
        sentence = text[begin:end].strip()
        if not _asks(sentence, phrases):
            background = f"{background} {sentence}".strip()
            continue
        first, *others = _clauses(sentence, phrases)
        if questions or "joints" in phrases.row:
            first = _complete_question(first, phrases)
        questions += [f"{background} {first}".strip(), *others]
        background = ""
    if background and questions:
        questions[-1] = f"{questions[-1]} {background}"
    return questions or [background]


def _clauses(sentence: str, phrases: Phrases) -> list[str]:
    """Split a sentence before each further question in it."""
    frame = phrases.raw("question_frames").match(sentence)
    if frame and frame.group().strip():
        clauses = phrases.raw("framed_joints").split(sentence[frame.end() :])
        end = sentence[-1] if sentence[-1] in "?." else ""
        return [frame.group() + clause.rstrip("?.") + end for clause in clauses]
    first = phrases.raw("first_questions").search(sentence)
    if first is None:
        return [sentence]
    bounds = [0]
    for joint in phrases.raw("joints").finditer(sentence, first.end() - 1):
        # "How do we decide what is right and what is wrong" is one question: its clauses begin with the same word.
        before = sentence[max(bounds[-1], joint.start() - MAX_COMPARED_CHARACTERS) : joint.start()]
        inner = phrases.raw("question_words").findall(before)[1:]
        word = phrases.raw("question_words").search(joint.group())
        if joint["comma"] or word is None or word.group().lower() not in map(str.lower, inner):
            bounds += [joint.start(), joint.start("question")]
    return [sentence[start:end] for start, end in zip(bounds[::2], [*bounds[1::2], len(sentence)], strict=True)]


def _complete_question(part: str, phrases: Phrases) -> str:
    """Return a part as a complete question without "and" before it, or "" if it has no word."""
    question = phrases.conjunction_at_start.sub("", " ".join(part.split())).rstrip(" ,;:–—")
    if not any(char.isalnum() for char in question):
        return ""
    if question[-1] not in f".?!。！…؟？{_CLOSING}":
        mark = {"zh": "？", "ja": "？", "ar": "؟", "fa": "؟"}.get(language_of(question), "?")
        question += "." if phrases.raw("requests").match(question) else mark
    return question[0].upper() + question[1:]


MIN_LONG_MESSAGE_WORDS = 80
"""Minimum words of a message in which a question is looked for; a shorter one is searched as it is."""
MAX_FRAME_WORDS = 50
"""Maximum words of the first or last paragraph for it to be the question with its background."""
MAX_QUESTIONS = 3
"""Maximum questions that are taken from anywhere in a text."""

_BLANK_LINES = re.compile(r"\n[ \t>]*\n\s*")


def question_in(message: str, refers_back: Callable[[str], bool], likely: tuple[str, ...] = ()) -> str:
    """Return the question of a long message; the unchanged message if it is short or has none.

    It is the short first or last paragraph that has a question, or both; then the sentence that ends or begins the
    message, or else the last questions in it. One that refers to the text ("What does this mean?") needs the text.

    Args:
        refers_back: whether a question refers to the text before it.
        likely: languages of the conversation and of the documents.
    """
    if reading_words(message) < MIN_LONG_MESSAGE_WORDS:
        return message
    asked = _questions(message, likely)
    paragraphs = [paragraph.strip() for paragraph in _BLANK_LINES.split(message) if paragraph.strip()]
    ends = [end for end in (paragraphs[0], paragraphs[-1]) if reading_words(end) <= MAX_FRAME_WORDS]
    question = "\n\n".join(end for end in ends if _questions(end, likely)) if len(paragraphs) > 1 else ""
    if not question:
        at_ends = [message[start:end].strip() for start, end in sentences(message)]
        alone = next((end for end in (at_ends[-1], at_ends[0]) if end in asked), "")
        question = alone or " ".join(asked[-MAX_QUESTIONS:])
    return message if not question or refers_back(question) else question


def _questions(text: str, likely: tuple[str, ...]) -> list[str]:
    """Return the sentences of a text that ask something."""
    found = (text[start:end].strip() for start, end in sentences(text))
    return [sentence for sentence in found if is_question(sentence, likely)]
