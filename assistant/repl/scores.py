"""What measures answers. The metrics live further up the house; whoever mounts `chat` hands them in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from turnmark.assistant.session import Exchange
from turnmark.corpora.types import Message

MISSING = "nothing here measures answers: the metrics come with the evaluation room, which did not start this chat"


class Scores(Protocol):
    """Measures of an answer that need no judge."""

    def similarity(self, answer: str, reference: str) -> tuple[str, float] | None:
        """A metric's name, and how alike it finds two texts, 0..1; None where there is nothing to compare."""
        ...

    def grade(self, exchange: Exchange, history: Sequence[Message]) -> Sequence[tuple[str, float | None, str]]:
        """Name, value and a remark of each metric of a turn; None where it has nothing to measure.

        Args:
            history: the messages before the turn.
        """
        ...
