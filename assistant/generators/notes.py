"""What a generator says to the person beside its replies: that a server starts, that a cache was damaged."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar

from turnmark.corpora.console import inert

TELL: ContextVar[Callable[[str], None] | None] = ContextVar("TELL", default=None)
"""Told of each note instead of standard error: whoever draws on the terminal can show it in its place."""


def tell(text: str) -> None:
    """A note for the person, one line."""
    teller = TELL.get()
    if teller is not None:
        teller(inert(text))
    elif sys.stderr is not None:
        sys.stderr.write(f"turnmark: {inert(text)}\n")
        sys.stderr.flush()
