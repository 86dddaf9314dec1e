"""MTRAG's dimensions of a question (Tables 9 to 11): which types one is of, and how a conversation is planned.

MTRAG labels the questions of its synthetic companion with a classifier that was trained on the labels of the human
conversations (appendix G.1). This is one: a logistic regression a type over the MiniLM vector of the question and some
marks of its wording. Its weights, and how often people let one type follow another, are in `question_types.json`;
`python -m tests.benchmarks.question_types` makes that file and says what the classifier is worth (docs/measured.md).
English only. A question may be of several types.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from pydantic import Field

from turnmark.corpora.text import words
from turnmark.corpora.types import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

QuestionType = Literal[
    "Comparative", "Composite", "Explanation", "Factoid", "How-To", "Keyword", "Non-Question", "Opinion",
    "Summarization", "Troubleshooting",
]  # fmt: skip
TYPES: tuple[QuestionType, ...] = get_args(QuestionType)
WEIGHTS = Path(__file__).with_name("question_types.json")

_AUXILIARY = "is|are|was|were|do|does|did|can|could|will|would|should|has|have|had|may|am|isn't|aren't|don't|doesn't"
MARKS: Mapping[str, str] = {
    "what": r"^(?:and |so |but |ok(?:ay)?,? )?what\b",
    "who": r"^(?:and |so |but )?who(?:se|m)?\b",
    "when or where": r"^(?:and |so |but )?(?:when|where)\b",
    "which": r"\bwhich\b",
    "how": r"^(?:and |so |but )?how (?!many|much|long|old|often|far|big|tall|high)",
    "how many": r"\bhow (?:many|much|long|old|often|far|big|tall|high)\b",
    "how to": r"\bhow (?:to|do (?:i|you|we|they)|can (?:i|you|we)|should (?:i|we)|would (?:i|you))\b",
    "why": r"\bwhy\b|\breasons?\b|\bhow come\b",
    "yes or no": rf"^(?:and |so |but )?(?:{_AUXILIARY})\b",
    "compares": r"\b(?:differen(?:ce|t|ces)|compare[ds]?|comparison|versus|vs|pros and cons|similar|than|better|worse)"
    r"\b",
    "opinion": r"\b(?:think|opinion|best|better|should|recommend|favou?rite|worth|advice|good|prefer|believe|agree)\b",
    "tells": r"\b(?:tell|describe|explain|summar\w+|overview|about|information|history|give me|details?)\b",
    "trouble": r"\b(?:errors?|fails?|failed|problems?|issues?|wrong|fix|not working|doesn't work|stuck|trouble)\b",
    "first person": r"\b(?:i|i'm|i've|my|me|we|our)\b",
    "joins": r"\band\b",
    "asks": r"\?",
    "asks twice": r"\?.*\?",
    "polite": r"\b(?:thanks?|thank you|hi|hello|ok(?:ay)?|great|cool|interesting|sounds|wow)\b",
}
"""What the classifier sees of a question's wording: name -> pattern, looked for in lower case."""
_MARKS = tuple(re.compile(pattern, re.DOTALL) for pattern in MARKS.values())
Embed = Callable[[Sequence[str]], "NDArray[np.float32]"]


def surface(question: str) -> list[float]:
    """The marks of a question's wording as 0 or 1; last the logarithm of its length, and whether it is very short."""
    low = " ".join(question.lower().split())
    count = len(words(low))
    short = float(count <= 4 and "?" not in low)
    return [*(float(bool(mark.search(low))) for mark in _MARKS), math.log1p(count), short]


class Model(Record):
    """The classifier, and what follows what."""

    made_by: str = Field(description="the command that wrote it")
    intercepts: Mapping[str, float] = Field(description="type -> of its logistic regression")
    weights: Mapping[str, tuple[float, ...]] = Field(
        description="type -> of each dimension of the vector, then of each entry of `surface`"
    )
    starts: Mapping[str, float] = Field(description="type -> share of first questions")
    follows: Mapping[str, Mapping[str, float]] = Field(
        description="type -> type -> share of the questions that come after one of the first type"
    )
    clarifies: float = Field(description="share of later questions that are labelled as clarifications")
    answerability: Mapping[str, float] = Field(description="label -> share of the questions")


@lru_cache(maxsize=1)
def model() -> Model:
    """What the package ships."""
    return Model.model_validate_json(WEIGHTS.read_bytes())


def chances(questions: Sequence[str], embed: Embed) -> list[dict[str, float]]:
    """For each question the probability of every type that the classifier knows.

    Args:
        embed: texts -> unit vectors of the bundled MiniLM; the weights are for no other model.
    """
    import numpy as np

    if not questions:
        return []
    weights_of = model()
    features = np.hstack([np.asarray(embed(questions), np.float64), np.asarray([surface(text) for text in questions])])
    logits = {
        name: features @ np.asarray(weights) + weights_of.intercepts[name]
        for name, weights in weights_of.weights.items()
    }
    return [
        {name: float(1 / (1 + np.exp(-np.clip(values[row], -60, 60)))) for name, values in logits.items()}
        for row in range(len(questions))
    ]


def labels(probabilities: Mapping[str, float]) -> tuple[str, ...]:
    """The types of a question from their probabilities: those above a half, the likeliest first; one at least."""
    order = sorted(probabilities, key=lambda name: (-probabilities[name], name))
    return tuple(name for name in order if probabilities[name] > 0.5) or tuple(order[:1])


# --- the plan of a conversation --------------------------------------------------------------------------------------

TYPE_INSTRUCTIONS: Mapping[str, str] = {
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
    """Plans a conversation turn by turn: which type follows which, and what the passages are to answer.

    Shares are those of the human conversations (`Model`).
    """

    def __init__(self, chance: random.Random, shares: Model, most_turns: int = MOST_TURNS) -> None:
        self._chance, self._shares = chance, shares
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
            for name in TYPES
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
