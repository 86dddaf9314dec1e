"""The signature of each step of a turn: what it receives after the turn, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass

from turnmark.assistant.steps.step_results import Assessment, CheckedDraft, Draft, Evidence, UnderstoodMessage
from turnmark.assistant.steps.turn_state import Step

UnderstandStep = Step[[], UnderstoodMessage]
"""Finds out what a message asks for in its conversation."""
RetrieveStep = Step[[UnderstoodMessage], Evidence]
"""Finds evidence."""
DecideStep = Step[[Evidence], Assessment]
"""Judges whether the evidence answers the message."""
AnswerStep = Step[[UnderstoodMessage, Evidence, Assessment], Draft]
"""Answers from the evidence, and streams the answer (`Turn.stream`)."""
ReviseStep = Step[[UnderstoodMessage], Draft]
"""Changes the last answer as the message instructs, and streams it (`Turn.stream`)."""
VerifyStep = Step[[UnderstoodMessage, Draft], CheckedDraft]
"""Checks an answer against its sources."""


@dataclass
class Steps:
    """The steps of an assistant, each in one form."""

    understand: UnderstandStep
    retrieve: RetrieveStep
    decide: DecideStep
    answer: AnswerStep
    revise: ReviseStep
    verify: VerifyStep
