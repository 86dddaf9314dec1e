"""Which items of a benchmark take part: `--only`, `--sample` and `--limit`, in this order."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence

from pydantic import Field

from corpora.errors import Mistakes
from corpora.types import Problem, Record
from evaluation.benchmarks.base import Item


class Selection(Record):
    """What was asked for."""

    only: tuple[str, ...] = ()
    sample: int | None = Field(default=None, description="so many, drawn at random by the seed")
    limit: int | None = Field(default=None, description="the first so many of what is left")
    seed: int = 0

    def check(self, mistakes: Mistakes) -> None:
        """Take down what is wrong with the numbers by themselves."""
        for flag, value in (("--limit", self.limit), ("--sample", self.sample)):
            if value is not None and value < 1:
                mistakes.add(f"{flag} {value}: a number from 1 was expected")

    def of(self, ids: Sequence[str], mistakes: Mistakes) -> list[str]:
        """The ids that take part, in the order of the data."""
        there = set(ids)
        for name in self.only:
            if name not in there:
                mistakes.add(f"--only {name!r}: no item of the data has this id")
        only = frozenset(self.only)
        chosen = [name for name in ids if name in only] if only else list(ids)
        if self.sample is not None and 0 < self.sample < len(chosen):
            drawn = set(random.Random(self.seed).sample(range(len(chosen)), self.sample))
            chosen = [name for place, name in enumerate(chosen) if place in drawn]
        return chosen if self.limit is None or self.limit < 1 else chosen[: self.limit]


def selected(items: Iterable[Item | Problem], chosen: frozenset[str] | None) -> Iterator[Item]:
    """The items that take part; None: all of them."""
    for item in items:
        if isinstance(item, Item) and (chosen is None or item.id in chosen):
            yield item
