"""The signature of each step of a turn: what it receives and what it returns. A form is a class that fulfills one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from turnmark.assistant.steps.step_results import (
    Assessment,
    CheckedDraft,
    Draft,
    Evidence,
    UnderstoodMessage,
)
from turnmark.assistant.steps.turn_state import Turn


class UnderstandStep(Protocol):
    """Finds out what a message asks for in its conversation."""

    name: str

    def __call__(self, turn: Turn, /) -> UnderstoodMessage: ...


class RetrieveStep(Protocol):
    """Finds evidence.

    The class attribute `rounds` is the maximum number of rounds of searching and judging. A class that does not have it
    has one round.
    """

    name: str

    def __call__(
        self, turn: Turn, understood: UnderstoodMessage, found: Evidence | None, assessment: Assessment | None, /
    ) -> Evidence:
        """Search for a message.

        Args:
            found, assessment: the evidence of the previous round and its assessment; both are None in the first round.
        """


class DecideStep(Protocol):
    """Judges whether the evidence answers the message."""

    name: str

    def __call__(self, turn: Turn, evidence: Evidence, /) -> Assessment: ...


class AnswerStep(Protocol):
    """Answers from the evidence, and streams the answer (`Turn.stream`)."""

    name: str

    def __call__(
        self, turn: Turn, understood: UnderstoodMessage, evidence: Evidence, assessment: Assessment, /
    ) -> Draft: ...


class ReviseStep(Protocol):
    """Changes the last answer as the message instructs, and streams it (`Turn.stream`)."""

    name: str

    def __call__(self, turn: Turn, understood: UnderstoodMessage, /) -> Draft: ...


class VerifyStep(Protocol):
    """Checks an answer against its sources."""

    name: str

    def __call__(self, turn: Turn, understood: UnderstoodMessage, draft: Draft, /) -> CheckedDraft: ...


def max_rounds(step: RetrieveStep) -> int:
    """Return the maximum number of rounds of searching that a retrieve step allows."""
    rounds: int = getattr(step, "rounds", 1)
    return rounds


@dataclass
class Steps:
    """The steps of an assistant, each in one form."""

    understand: UnderstandStep
    retrieve: RetrieveStep
    decide: DecideStep
    answer: AnswerStep
    revise: ReviseStep
    verify: VerifyStep
