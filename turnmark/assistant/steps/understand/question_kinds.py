"""Recognize questions of what something is or how it is done, by the words of each language in `phrases.toml`."""

from __future__ import annotations

import re
from functools import lru_cache

from turnmark.assistant.wording.phrases import fold, phrases_of
from turnmark.corpora.text.function_words import content_words


@lru_cache(maxsize=256)
def defined_subject(message: str, languages: tuple[str, ...] = ()) -> str:
    """Return what a message asks the definition of, folded; "" if it asks something else.

    Args:
        languages: languages that an undecided message may be in.
    """
    phrases = phrases_of(message, languages)
    # "What is the Net Loft?" names its subject; "what is the limit?" does not.
    subject = phrases.defined_in(fold(re.sub(r"(?<= )the (?=[A-Z])", "", message)))
    return subject if subject and content_words(subject.split()[0], phrases.language) else ""


def wants_procedure(message: str, languages: tuple[str, ...] = ()) -> bool:
    """Return whether a message asks how something is done, so that steps are wanted."""
    asks_steps = phrases_of(message, languages).find("asks_steps").search(fold(message))
    return asks_steps is not None and not defined_subject(message, languages)
