"""Which languages a prompt names. A conversation in English over English documents needs no mention of any."""

from __future__ import annotations

from turnmark.assistant.steps.turn_state import Turn
from turnmark.corpora.text.languages import ENGLISH, language_name

MAX_NAMED_LANGUAGES = 3
"""Maximum languages of the documents that a prompt names."""


def languages_to_search(turn: Turn) -> str:
    """Return the names of the documents' languages for a prompt, or "" if documents and message are in English."""
    if not turn.languages or (*turn.languages, turn.language) == (ENGLISH, ENGLISH):
        return ""
    return " and ".join(language_name(code) for code in turn.languages[:MAX_NAMED_LANGUAGES])


def language_to_answer(turn: Turn) -> str:
    """Return the name of the message's language for a prompt, or "" if all documents are in that language."""
    return "" if {*turn.languages} <= {turn.language} else language_name(turn.language)
