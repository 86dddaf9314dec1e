"""Two replies side by side, always in both orders: a judge that follows the position is caught, counted and told."""

from __future__ import annotations

from collections.abc import Mapping
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
    reply, usage = ask_verdict(generator, messages, FIVE, prompts)
    if isinstance(reply, Failure):
        return Order(ours_first=ours_first, outcome=failed(reply, usage))
    margin = MARGINS[reply.verdict.label] * (1 if ours_first else -1)
    outcome = Outcome(status="scored", value=float(margin), label=reply.verdict.label, reason=reply.text, usage=usage)
    return Order(ours_first=ours_first, outcome=outcome, margin=margin)
