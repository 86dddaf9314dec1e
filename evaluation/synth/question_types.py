"""Plans a conversation over MTRAG's dimensions of a question (Tables 9 to 11), by the shares of the human ones.

`question_types.json` holds how often people let one type follow another; a question of several types counts for each.
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
    """How MTRAG's human conversations go."""

    starts: Mapping[str, float] = Field(description="type -> share of first questions")
    follows: Mapping[str, Mapping[str, float]] = Field(
        description="type -> type -> share of the questions that come after one of the first type"
    )
    clarifies: float = Field(description="share of later questions that are labelled as clarifications")
    answerability: Mapping[str, float] = Field(description="label -> share of the questions")


@cache
def load_shares() -> Shares:
    """The shares that the package ships."""
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
"""What a question of each type is like."""
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
MOST_TURNS = 8
"""Beyond which questions repeat and answers make things up (appendix G.1)."""
FEWEST_TURNS = 4
MOST_UNANSWERABLE = 2
"""In one conversation (appendix B.2)."""
_SMOOTHED = 0.02
"""Added to each share, so that no type is shut out by what two domains happen to hold."""


@dataclass(frozen=True)
class PlannedTurn:
    """What a turn is meant to be."""

    kind: str
    turn: str
    aim: str


def instructions(step: PlannedTurn) -> dict[str, str]:
    """A planned turn in words, as the prompt `mtrag-question` has places for them."""
    return {
        "kind": TYPE_INSTRUCTIONS[step.kind],
        "turn": TURN_INSTRUCTIONS.get(step.turn, FIRST_TURN),
        "aim": ANSWERABILITY[step.aim],
    }


class ConversationPlan:
    """Plans a conversation turn by turn: which type follows which, and what the passages are to answer."""

    def __init__(self, chance: random.Random, most_turns: int = MOST_TURNS) -> None:
        self._chance, self._shares = chance, load_shares()
        self.turns = chance.randint(min(FEWEST_TURNS, most_turns), most_turns)
        self._unanswerable = 0

    def next(
        self, number: int, previous_types: Sequence[str], avoid: Collection[str] = (), answerable: bool = False
    ) -> PlannedTurn:
        """The turn `number`, from 1.

        Args:
            previous_types: types of the question before.
            avoid: types that were tried and did not do.
            answerable: only what the passages answer.
        """
        shares = self._shares.starts if number == 1 else self._after(previous_types)
        kind = self._drawn({
            name: shares.get(name, 0.0) + _SMOOTHED
            for name in TYPE_INSTRUCTIONS
            if name not in avoid and not (number == 1 and name == "Non-Question")
        })  # fmt: skip
        turn = "N/A"
        if number > 1:
            turn = "Clarification" if self._chance.random() < self._shares.clarifies else "Follow-up"
        aims = {
            name: self._shares.answerability.get(name, 0.0)
            for name in (("ANSWERABLE",) if answerable else ANSWERABILITY)
        }
        if not answerable and (number == 1 or self.full):
            aims["UNANSWERABLE"] = 0.0
        return PlannedTurn(kind, turn, self._drawn(aims))

    @property
    def full(self) -> bool:
        """Whether it has all the unanswerable turns that it may have."""
        return self._unanswerable >= MOST_UNANSWERABLE

    def record(self, answerability: str) -> None:
        """A turn was kept."""
        self._unanswerable += answerability == "UNANSWERABLE"

    def _after(self, previous_types: Sequence[str]) -> dict[str, float]:
        shares: dict[str, float] = {}
        for name in previous_types:
            for following, share in self._shares.follows.get(name, {}).items():
                shares[following] = shares.get(following, 0.0) + share / len(previous_types)
        return shares

    def _drawn(self, shares: Mapping[str, float]) -> str:
        names = list(shares)
        return self._chance.choices(names, [shares[name] for name in names])[0]
