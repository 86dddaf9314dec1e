"""Writes the titles of boxes (admonitions, callouts, alerts) that site generators draw around text."""

from __future__ import annotations

from turnmark.corpora.text.word_lists import read_word_lists

_WORDS = read_word_lists(__file__)
BOX_KINDS = _WORDS["kinds"]
_NAMES = {"faq": "FAQ", "tldr": "TL;DR", "todo": "To do", "seealso": "See also"}


def box_title(kind: str, title: str) -> str:
    """Return the title of a box with its kind as a bold line: `**Warning: Mind the gap**`; empty if it has none."""
    kind, title = kind.lower(), " ".join(title.replace("**", "").split())
    is_named = title.lower().startswith(kind) or title.lower().rstrip(" :!") in _WORDS["translations"]
    word = _NAMES.get(kind, kind.capitalize()) if kind in BOX_KINDS and not is_named else ""
    words = ": ".join(filter(None, (word, title)))
    return f"**{words}**" if words else ""
