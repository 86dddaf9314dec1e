"""The questions about a task's answers on the page that `report --rate` writes for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ANSWER_PROPERTIES = ("faithfulness", "appropriateness", "naturalness", "completeness")
"""The properties of an answer that people rate, in the order of the tables."""
SCALE = ("1", "2", "3", "4")


@dataclass(frozen=True)
class RatingForm:
    """The form of a rating page.

    Attributes:
        scales: what is rated -> the choices.
        asks: heading of the user's message.
        pairs: whether two answers are compared as well.
        revises: whether the last message of the history is an answer that the rated answers revise.
    """

    scales: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict.fromkeys(ANSWER_PROPERTIES, SCALE))
    asks: str = "Question"
    pairs: bool = True
    revises: bool = False
