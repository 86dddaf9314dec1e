"""Writes the titles of boxes (admonitions, callouts, alerts) that site generators draw around text."""

from __future__ import annotations

BOX_KINDS = frozenset(
    """abstract attention bug caution check danger deprecated error example experimental fail failure faq help hint
    important info missing note question quote security seealso success summary tip todo tldr warning""".split()
)
"""Kinds of boxes whose name is shown above them."""
_NAMES = {"faq": "FAQ", "tldr": "TL;DR", "todo": "To do", "seealso": "See also"}


def box_title(kind: str, title: str) -> str:
    """Return the title of a box with its kind as a bold line: `**Warning: Mind the gap**`; empty if it has none."""
    kind, title = kind.lower(), " ".join(title.replace("**", "").split())
    word = _NAMES.get(kind, kind.capitalize()) if kind in BOX_KINDS and not title.lower().startswith(kind) else ""
    words = ": ".join(filter(None, (word, title)))
    return f"**{words}**" if words else ""
