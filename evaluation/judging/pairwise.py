"""Two replies side by side, always in both orders: a judge that follows the position is caught, counted and told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.prompts import fence_tag
from turnmark.assistant.structured import Failure
from turnmark.assistant.types import Usage
from turnmark.corpora.types import Record
from turnmark.evaluation.judging.judgements import Outcome
from turnmark.evaluation.judging.prompting import fit, room_for
from turnmark.evaluation.judging.rubrics import TOO_LONG, failed
from turnmark.evaluation.judging.verdicts import Labels, ask_verdict
from turnmark.evaluation.prompts import framed, load_prompt

FIVE = Labels(offered=("A>>B", "A>B", "A=B", "B>A", "B>>A"))
"""The labels of Arena-Hard."""
MARGINS: Mapping[str, int] = {"A>>B": 2, "A>B": 1, "A=B": 0, "B>A": -1, "B>>A": -2}
CRITERIA = (
    "Consider whether each reply is correct, answers all that is asked, keeps to the question, and is clear and no "
    "longer than it need be."
)

Side = Literal["ours", "theirs", "tie"]


class Order(Record):
    """What the judge said of one order, seen from our reply."""

    ours_first: bool
    outcome: Outcome
    margin: int | None = Field(default=None, description="2 much better … -2 much worse, for ours; None: no verdict")


class Pair(Record):
    """Both orders of one pair."""

    orders: tuple[Order, Order]

    @property
    def margins(self) -> tuple[int, ...]:
        """The verdicts that there are, for ours."""
        return tuple(order.margin for order in self.orders if order.margin is not None)

    @property
    def flipped(self) -> bool | None:
        """Whether the two orders name different winners; None where one of them has no verdict."""
        return None if len(self.margins) < 2 else _sign(self.margins[0]) != _sign(self.margins[1])

    @property
    def winner(self) -> Side | None:
        """The side that both orders name; `tie` where they differ, None where one has no verdict."""
        if self.flipped is None:
            return None
        if self.flipped:
            return "tie"
        return ("theirs", "tie", "ours")[_sign(self.margins[0]) + 1]

    @property
    def usage(self) -> Usage:
        """What both orders cost."""
        return self.orders[0].outcome.usage + self.orders[1].outcome.usage


class Pairs(Record):
    """Many pairs summed up."""

    pairs: int
    verdicts: int = Field(description="of two a pair, those that there are")
    failed: int = Field(description="verdicts that there are not")
    flips: int = Field(description="pairs whose orders name different winners: how inconsistent the judge is")
    flip_rate: float | None = Field(description="flips / pairs with two verdicts")
    first_wins: float | None = Field(description="share of decided verdicts for the reply that came first; .5 is fair")
    win_rate: float | None = Field(description="share of verdicts in which ours is as good as or better than theirs")


def _sign(margin: int) -> int:
    return (margin > 0) - (margin < 0)


def compare(
    generator: Generator, question: str, ours: str, theirs: str, criteria: str = CRITERIA, prompts: Path | None = None
) -> Pair:
    """Ask a judge twice which reply is better, ours first and theirs first. Never raises for what the judge does."""
    return Pair(
        orders=(
            _one(generator, question, ours, theirs, criteria, prompts, True),
            _one(generator, question, theirs, ours, criteria, prompts, False),
        )
    )


def _one(
    generator: Generator, question: str, first: str, second: str, criteria: str, prompts: Path | None, ours_first: bool
) -> Order:
    tag = fence_tag(question, first, second)
    prompt = load_prompt("pairwise", prompts)
    messages = prompt.render(
        tag=tag, criteria=criteria, question=framed(prompt, question, "question", tag),
        first=framed(prompt, first, "reply", tag), second=framed(prompt, second, "reply", tag),
    )  # fmt: skip
    if fit(lambda *_: messages, (), (), room_for(generator)) is None:
        return Order(ours_first=ours_first, outcome=TOO_LONG)
    told, usage = ask_verdict(generator, messages, FIVE, prompts)
    if isinstance(told, Failure):
        return Order(ours_first=ours_first, outcome=failed(told, usage))
    margin = MARGINS[told.verdict.label] * (1 if ours_first else -1)
    outcome = Outcome(status="scored", value=float(margin), label=told.verdict.label, reason=told.text, usage=usage)
    return Order(ours_first=ours_first, outcome=outcome, margin=margin)


def summed(pairs: Iterable[Pair]) -> Pairs:
    """How many were won, and how far the judge followed the position."""
    made = list(pairs)
    orders = [order for pair in made for order in pair.orders]
    margins = [order.margin for order in orders if order.margin is not None]
    decided = [order for order in orders if order.margin]
    whole = [pair for pair in made if pair.flipped is not None]
    flips = sum(bool(pair.flipped) for pair in whole)
    to_first = sum((order.margin or 0) > 0 if order.ours_first else (order.margin or 0) < 0 for order in decided)
    return Pairs(
        pairs=len(made),
        verdicts=len(margins),
        failed=len(orders) - len(margins),
        flips=flips,
        flip_rate=flips / len(whole) if whole else None,
        first_wins=to_first / len(decided) if decided else None,
        win_rate=sum(margin >= 0 for margin in margins) / len(margins) if margins else None,
    )
