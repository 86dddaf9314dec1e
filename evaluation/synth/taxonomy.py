"""MTRAG's dimensions (appendix A, Tables 9 to 11) as instructions, and how a conversation is planned over them."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from turnmark.evaluation.synth.question_types import TYPES, Model

KINDS: Mapping[str, str] = {
    "Comparative": "it asks to compare things, or sides of one thing, or which of several is better",
    "Composite": "it holds two or three questions that belong together or build on each other",
    "Explanation": "it asks for the reason behind something",
    "Factoid": "it asks for one piece of information, such as a name, a date, a number, or yes or no",
    "How-To": "it asks how something is done",
    "Keyword": "it is a few keywords as one would type them into a search box, no sentence",
    "Non-Question": "it asks nothing and tells the assistant something: of the user's own case, or what it meant",
    "Opinion": "it asks what the assistant thinks, or which is best, perhaps in a leading way",
    "Summarization": "it asks for a summary of a process, a policy or a subject",
    "Troubleshooting": "it tells of a problem and asks what to do about it",
}
"""What a question of each type is like."""
FIRST = "It opens the conversation and can be understood by itself."
TURNS: Mapping[str, str] = {
    "Follow-up": "It goes on from what was said, asking for more or for something related.",
    "Clarification": "It asks what the assistant's last reply meant, or makes clear what the user had meant.",
}
AIMS: Mapping[str, str] = {
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
class Step:
    """What a turn is meant to be."""

    kind: str
    turn: str
    aim: str


class Flow:
    """Plans a conversation turn by turn: which type follows which, and what the passages are to answer.

    Shares are those of the human conversations (`question_types.Model`).
    """

    def __init__(self, chance: random.Random, known: Model, most: int = MOST_TURNS) -> None:
        self._chance, self._known = chance, known
        self.turns = chance.randint(min(FEWEST_TURNS, most), most)
        self._unanswerable = 0

    def next(self, number: int, before: Sequence[str], avoid: Collection[str] = (), answerable: bool = False) -> Step:
        """The turn `number`, from 1.

        Args:
            before: types of the question before.
            avoid: types that were tried and did not do.
            answerable: only what the passages answer.
        """
        shares = self._known.starts if number == 1 else self._after(before)
        kind = self._drawn({
            name: shares.get(name, 0.0) + _SMOOTHED
            for name in TYPES
            if name not in avoid and not (number == 1 and name == "Non-Question")
        })  # fmt: skip
        turn = "N/A"
        if number > 1:
            turn = "Clarification" if self._chance.random() < self._known.clarifies else "Follow-up"
        aims = {name: self._known.answerability.get(name, 0.0) for name in (("ANSWERABLE",) if answerable else AIMS)}
        if not answerable and (number == 1 or self.full):
            aims["UNANSWERABLE"] = 0.0
        return Step(kind, turn, self._drawn(aims))

    @property
    def full(self) -> bool:
        """Whether it has all the unanswerable turns that it may have."""
        return self._unanswerable >= MOST_UNANSWERABLE

    def took(self, answerability: str) -> None:
        """A turn was kept."""
        self._unanswerable += answerability == "UNANSWERABLE"

    def _after(self, before: Sequence[str]) -> dict[str, float]:
        found: dict[str, float] = {}
        for name in before:
            for other, share in self._known.follows.get(name, {}).items():
                found[other] = found.get(other, 0.0) + share / len(before)
        return found

    def _drawn(self, shares: Mapping[str, float]) -> str:
        names = list(shares)
        return self._chance.choices(names, [shares[name] for name in names])[0]
