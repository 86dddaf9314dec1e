"""Find the question in a long message, such as a pasted text with a question before or after it.

The words of the text would outweigh the question in every search, and an embedder reads only the beginning of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from turnmark.assistant.steps.understand.compound_questions import is_question
from turnmark.corpora.text.segmentation import reading_words, sentences

MIN_LONG_MESSAGE_WORDS = 80
"""Minimum words of a message in which a question is looked for; a shorter one is searched as it is."""
MAX_FRAME_WORDS = 50
"""Maximum words of the first or last paragraph for it to be the question with its background."""
MAX_QUESTIONS = 3
"""Maximum questions that are taken from anywhere in a text."""

_BLANK_LINES = re.compile(r"\n[ \t>]*\n\s*")


def question_in(message: str, refers_back: Callable[[str], bool], likely: tuple[str, ...] = ()) -> str:
    """Return the question of a long message; the unchanged message if it is short or has none.

    The question is looked for at the end, at the beginning, and then anywhere. One that refers to the text, such as
    "What does this mean?", needs the text.

    Args:
        refers_back: whether a question refers to the text before it.
        likely: languages of the conversation and of the documents.
    """
    if reading_words(message) < MIN_LONG_MESSAGE_WORDS:
        return message
    question = _at_an_end(message, likely) or _anywhere(message, likely)
    return message if not question or refers_back(question) else question


def _at_an_end(message: str, likely: tuple[str, ...]) -> str:
    """Return the short first or last paragraph that has a question, or both; without any, one that stands apart."""
    paragraphs = [paragraph.strip() for paragraph in _BLANK_LINES.split(message) if paragraph.strip()]
    if len(paragraphs) < 2:
        return ""
    ends = [end for end in (paragraphs[0], paragraphs[-1]) if reading_words(end) <= MAX_FRAME_WORDS]
    asking = [end for end in ends if _questions(end, likely)]
    return "\n\n".join(asking)


def _anywhere(message: str, likely: tuple[str, ...]) -> str:
    """Return the question that ends the message, or begins it, or the last ones inside it."""
    asked = _questions(message, likely)
    if not asked:
        return ""
    spans = sentences(message)
    last = message[spans[-1][0] : spans[-1][1]].strip()
    first = message[spans[0][0] : spans[0][1]].strip()
    for end in (last, first):
        if end in asked:
            return end
    return " ".join(asked[-MAX_QUESTIONS:])


def _questions(text: str, likely: tuple[str, ...]) -> list[str]:
    """Return the sentences of a text that ask something."""
    found = (text[start:end].strip() for start, end in sentences(text))
    return [sentence for sentence in found if is_question(sentence, likely)]
