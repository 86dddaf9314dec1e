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
