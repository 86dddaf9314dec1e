"""Plan a conversation over MTRAG's question dimensions (Tables 9 to 11), by their shares in the human conversations.

`question_types.json` contains the shares of question types after another type. A question of several types counts for
each.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import Field

from turnmark.core.record import Record


class Shares(Record):
    """Shares of question types and labels in MTRAG's human conversations."""

    starts: Mapping[str, float] = Field(description="type -> share of first questions")
    follows: Mapping[str, Mapping[str, float]] = Field(
        description="type -> type -> share of the questions that come after one of the first type"
    )
    clarifies: float = Field(description="share of later questions that are labeled as clarifications")
    answerability: Mapping[str, float] = Field(description="label -> share of the questions")


@cache
def load_shares() -> Shares:
    """Load the shares in `question_types.json`."""
    return Shares.model_validate_json(Path(__file__).with_name("question_types.json").read_bytes())


TYPE_INSTRUCTIONS: Mapping[str, str] = {
    "Comparative": "it asks to compare things, or sides of one thing, or which of several is better",
    "Composite": "it holds two or three questions that belong together or build on each other",
    "Explanation": "it asks for the reason behind something",
    "Factoid": "it asks for one piece of information, such as a name, a date, a number, or yes or no",
    "How-To": "it asks how something is done",
    "Keyword": "it is a few keywords as one would type them into a search box, no sentence",
    "Non-Question": "it asks nothing and gives the assistant information: about the user's case, or what it meant",
    "Opinion": "it asks what the assistant thinks, or which is best, perhaps in a leading way",
    "Summarization": "it asks for a summary of a process, a policy or a subject",
    "Troubleshooting": "it describes a problem and asks what to do about it",
}
"""Question type -> its description in the prompt."""
FIRST_TURN = "It opens the conversation and can be understood by itself."
TURN_INSTRUCTIONS: Mapping[str, str] = {
    "Follow-up": "It goes on from what was said, asking for more or for something related.",
    "Clarification": "It asks what the assistant's last reply meant, or makes clear what the user had meant.",
}
ANSWERABILITY: Mapping[str, str] = {
    "ANSWERABLE": "The passages answer it in full; it is about something in them that was not asked yet.",
    "PARTIAL": "The passages answer a part of it, and say nothing of another part.",
    "UNANSWERABLE": "It is on the subject and likely to be asked, but the passages do not answer it, not even in part.",
}
MAX_TURNS = 8
"""Maximum number of turns; in longer conversations questions repeat and answers hallucinate (appendix G.1)."""
MIN_PLANNED_TURNS = 4
MAX_UNANSWERABLE = 2
"""Maximum number of unanswerable turns in one conversation (appendix B.2)."""
_SMOOTHING = 0.02
"""Added to each share (additive smoothing), because the shares come from only two domains."""


@dataclass(frozen=True)
class PlannedTurn:
    """The planned question type (`kind`), multi-turn type (`turn`) and answerability (`aim`) of a turn."""

    kind: str
    turn: str
    aim: str


def instructions(step: PlannedTurn) -> dict[str, str]:
    """Return placeholder of the prompt `mtrag-question` -> instruction for a planned turn."""
    return {
        "kind": TYPE_INSTRUCTIONS[step.kind],
        "turn": TURN_INSTRUCTIONS.get(step.turn, FIRST_TURN),
        "aim": ANSWERABILITY[step.aim],
    }


class ConversationPlan:
    """A plan of a conversation, made turn by turn: question type, multi-turn type and answerability."""

    def __init__(self, chance: random.Random, most_turns: int = MAX_TURNS) -> None:
        self._chance, self._shares = chance, load_shares()
        self.turns = chance.randint(min(MIN_PLANNED_TURNS, most_turns), most_turns)
        self._unanswerable = 0

    def next(
        self, number: int, previous_types: Sequence[str], avoid: Collection[str] = (), answerable: bool = False
    ) -> PlannedTurn:
        """Plan a turn at random.

        Args:
            number: number of the turn, from 1.
            previous_types: types of the previous question.
            avoid: types that were tried for this turn and failed.
            answerable: plan only an answerable turn.
        """
        shares = self._shares.starts if number == 1 else self._after(previous_types)
        share_of_kind: dict[str, float] = {}
        for name in TYPE_INSTRUCTIONS:
            opens_with_statement = number == 1 and name == "Non-Question"
            if name not in avoid and not opens_with_statement:
                share_of_kind[name] = shares.get(name, 0.0) + _SMOOTHING
        kind = self._draw(share_of_kind)
        turn = "N/A"
        if number > 1:
            turn = "Clarification" if self._chance.random() < self._shares.clarifies else "Follow-up"
        labels = ("ANSWERABLE",) if answerable else tuple(ANSWERABILITY)
        share_of_aim = {name: self._shares.answerability.get(name, 0.0) for name in labels}
        if not answerable and (number == 1 or self.full):
            share_of_aim["UNANSWERABLE"] = 0.0
        return PlannedTurn(kind, turn, self._draw(share_of_aim))

    @property
    def full(self) -> bool:
        """Whether the conversation has the largest number of unanswerable turns."""
        return self._unanswerable >= MAX_UNANSWERABLE

    def record(self, answerability: str) -> None:
        """Count a turn that was kept."""
        self._unanswerable += answerability == "UNANSWERABLE"

    def _after(self, previous_types: Sequence[str]) -> dict[str, float]:
        shares: dict[str, float] = {}
        for name in previous_types:
            for following, share in self._shares.follows.get(name, {}).items():
                shares[following] = shares.get(following, 0.0) + share / len(previous_types)
        return shares

    def _draw(self, shares: Mapping[str, float]) -> str:
        names = list(shares)
        return self._chance.choices(names, [shares[name] for name in names])[0]
