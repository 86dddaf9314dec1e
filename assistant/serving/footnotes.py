"""An answer as Markdown whose marks are footnotes, whole or while it comes; and such an answer without them.

Answers keep their emphasis, lists and code. What a client could load, follow or run is escaped: no image, link or tag
of a document's or a model's becomes active.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from turnmark.corpora.text import printable

if TYPE_CHECKING:
    from turnmark.assistant.types import Reply

_LIVE = re.compile(r"[\\\[\]<]")
_ESCAPED = re.compile(r"\\([\\\[\]<])")
_DEFINITIONS = re.compile(r"(?:\n+\[\^\d{1,3}\]:[^\n]*)+\s*\Z")
_NOTE = re.compile(r"[ \t]*\[\^\d{1,3}\]")
# The beginning of a mark that may still become one.
_OPEN = re.compile(r"\[[\d\s,–-]{0,24}\Z")


def with_footnotes(reply: Reply) -> str:
    """The answer with its steps, its marks as footnotes, and beneath them what they stand for."""
    from turnmark.assistant.session import full_text

    return "\n\n".join(filter(None, (noted(full_text(reply), len(reply.citations)), definitions(reply))))


def definitions(reply: Reply) -> str:
    """A line for each source that is used; empty where none is."""
    from turnmark.assistant.export import escaped
    from turnmark.assistant.show import sources_used, where

    return "\n".join(f"[^{one.n}]: {escaped(where(one))}" for one in sources_used(reply))


def noted(text: str, sources: int) -> str:
    """A text with its marks as footnotes; whatever else would be active is escaped.

    Args:
        sources: how many there are. A mark that points beyond them is shown as it stands.
    """
    from turnmark.assistant.steps.marks import MARK, cited

    text, pieces, at = printable(text), [], 0
    for match in MARK.finditer(text):
        numbers = cited(match.group())
        if all(1 <= number <= sources for number in numbers):
            pieces += [_inert(text[at : match.start()]), *(f"[^{number}]" for number in numbers)]
            at = match.end()
    return "".join([*pieces, _inert(text[at:])])


def _inert(text: str) -> str:
    return _LIVE.sub(r"\\\g<0>", text)


class Noting:
    """`noted` for a text that comes in pieces: what may still become a mark waits for its end."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """What of the text so far can be shown."""
        text = self._held + piece
        open_mark = _OPEN.search(text)
        cut = open_mark.start() if open_mark else len(text)
        self._held = text[cut:]
        return noted(text[:cut], 999)

    def end(self) -> str:
        """What was still held."""
        held, self._held = self._held, ""
        return noted(held, 999)


def without_footnotes(text: str) -> str:
    """An answer as it was before `with_footnotes`, less its marks; any other text nearly as it stands."""
    return _ESCAPED.sub(r"\1", _NOTE.sub("", _DEFINITIONS.sub("", text)))
