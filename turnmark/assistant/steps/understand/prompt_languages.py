"""Which languages a prompt names. A conversation in English over English documents needs no mention of any."""

from __future__ import annotations

from collections.abc import Mapping

from turnmark.assistant.steps.turn_state import Turn
from turnmark.corpora.text.languages import ENGLISH, language_name

MAX_NAMED_LANGUAGES = 3
"""Maximum languages of the documents that a prompt names."""
MIN_NAMED_SHARE = 0.02
"""Minimum share of the passages in a language that a prompt names."""


def languages_to_search(turn: Turn) -> str:
    """Return the names of the documents' languages for a prompt, or "" if documents and message are in English."""
    languages = _named_languages(turn)
    if not languages or (*languages, turn.language) == (ENGLISH, ENGLISH):
        return ""
    return " and ".join(language_name(code) for code in languages[:MAX_NAMED_LANGUAGES])


def language_to_answer(turn: Turn) -> str:
    """Return the name of the message's language for a prompt, or "" if all documents are in that language."""
    return "" if {*_named_languages(turn)} <= {turn.language} else language_name(turn.language)


def _named_languages(turn: Turn) -> list[str]:
    return [code for code in turn.languages if code not in turn.rare_languages]


def rare_languages(passages: Mapping[str, int]) -> frozenset[str]:
    """Return the languages with so few of the passages that a prompt does not name them.

    Args:
        passages: language -> number of its passages.
    """
    least = MIN_NAMED_SHARE * sum(passages.values())
    return frozenset(language for language, count in passages.items() if count < least)
