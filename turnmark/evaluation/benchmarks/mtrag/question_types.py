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
    """Question types and labels: their shares in MTRAG's human conversations, and their descriptions."""

    starts: Mapping[str, float] = Field(description="type -> share of first questions")
    follows: Mapping[str, Mapping[str, float]] = Field(
        description="type -> type -> share of the questions that come after one of the first type"
    )
    clarifies: float = Field(description="share of later questions that are labeled as clarifications")
    answerability: Mapping[str, float] = Field(description="label -> share of the questions")
    kinds: Mapping[str, str] = Field(description="question type -> its description in the prompt")
    turns: Mapping[str, str] = Field(description="multi-turn type -> its description in the prompt")
    aims: Mapping[str, str] = Field(description="label -> its description in the prompt")


@cache
def load_shares() -> Shares:
    """Load the shares in `question_types.json`."""
    return Shares.model_validate_json(Path(__file__).with_name("question_types.json").read_bytes())


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
    shares = load_shares()
    return {"kind": shares.kinds[step.kind], "turn": shares.turns[step.turn], "aim": shares.aims[step.aim]}


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
        avoided = {*avoid, "Non-Question"} if number == 1 else avoid
        kinds = [name for name in self._shares.kinds if name not in avoided]
        kind = self._draw({name: shares.get(name, 0.0) + _SMOOTHING for name in kinds})
        turn = "N/A"
        if number > 1:
            turn = "Clarification" if self._chance.random() < self._shares.clarifies else "Follow-up"
        labels = ("ANSWERABLE",) if answerable else tuple(self._shares.aims)
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
