"""A reply as the text that a client shows, whole or as it comes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from turnmark.assistant.serving.footnotes import Noting, definitions, with_footnotes
from turnmark.assistant.session import full_text
from turnmark.assistant.types import Reply
from turnmark.corpora.text import printable

AFTER = "\n\n*After checking:*\n\n"
_PIECE = re.compile(r"[^\n]*\n+|[^\n]+")


def content(reply: Reply, footnotes: bool) -> str:
    """The answer with its steps, as Markdown with footnotes or with its marks as they stand."""
    return with_footnotes(reply) if footnotes else printable(full_text(reply))


class Telling:
    """The text of one reply as it is told piece by piece.

    Who was told something cannot be told to forget it. So only what was checked is told, unless drafts are wanted: they
    are told as they come, and where checking changed the answer, the checked one follows under a line that says so.
    """

    def __init__(self, footnotes: bool, drafts: bool) -> None:
        self._footnotes, self._drafts = footnotes, drafts
        self._noting, self._drafted = Noting(), ""

    def draft(self, delta: str) -> str:
        """What is told of a piece of the draft."""
        self._drafted += delta
        if not self._drafts:
            return ""
        return self._noting.feed(delta) if self._footnotes else printable(delta)

    def rest(self, reply: Reply) -> Iterator[str]:
        """What is still to be told, line by line."""
        yield from _PIECE.findall(self._rest(reply))

    def _rest(self, reply: Reply) -> str:
        whole = content(reply, self._footnotes)
        if not (self._drafts and self._drafted.strip()):
            return whole
        held = self._noting.end() if self._footnotes else ""
        if reply.checks.repaired or not self._drafted.strip().startswith(reply.answer.strip()):
            return f"{held}{AFTER}{whole}"
        notes = definitions(reply) if self._footnotes else ""
        return f"{held}\n\n{notes}" if notes else held
