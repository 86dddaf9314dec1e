"""Which items of a benchmark take part: `--only`, `--sample` and `--limit`, in this order."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence

from pydantic import Field

from turnmark.corpora.errors import ErrorCollector
from turnmark.corpora.mtrag import canonical_id
from turnmark.corpora.types import Problem, Record
from turnmark.evaluation.benchmarks.base import Item


def all_alike(_: str) -> str:
    """The stratum of items that are in one."""
    return ""


class Selection(Record):
    """What was asked for."""

    only: tuple[str, ...] = ()
    sample: int | None = Field(default=None, description="so many, drawn at random by the seed")
    limit: int | None = Field(default=None, description="the first so many of what is left")
    seed: int = 0

    def check(self, errors: ErrorCollector) -> None:
        """Take down what is wrong with the numbers by themselves."""
        for flag, value in (("--limit", self.limit), ("--sample", self.sample)):
            if value is not None and value < 1:
                errors.add(f"{flag} {value}: a number from 1 was expected")

    def of(self, ids: Sequence[str], errors: ErrorCollector, stratum: Callable[[str], str] = all_alike) -> list[str]:
        """The ids that take part, in the order of the data.

        Args:
            stratum: of an id; a sample has of each its share of all ids, to within one.
        """
        there = set(ids)
        only = frozenset(map(canonical_id, self.only))
        for name in self.only:
            if canonical_id(name) not in there:
                errors.add(f"--only {name!r}: no item of the data has this id")
        chosen = [name for name in ids if name in only] if only else list(ids)
        if self.sample is not None and 0 < self.sample < len(chosen):
            chosen = self._drawn(chosen, self.sample, stratum)
        return chosen if self.limit is None or self.limit < 1 else chosen[: self.limit]

    def _drawn(self, ids: Sequence[str], sample: int, stratum: Callable[[str], str]) -> list[str]:
        places: dict[str, list[int]] = {}
        for place, name in enumerate(ids):
            places.setdefault(stratum(name), []).append(place)
        shares = {name: sample * len(own) / len(ids) for name, own in places.items()}
        counts = {name: int(share) for name, share in shares.items()}
        rest = sorted(shares, key=lambda name: counts[name] - shares[name])[: sample - sum(counts.values())]
        rng = random.Random(self.seed)
        drawn: set[int] = set()
        for name, own in places.items():
            drawn.update(rng.sample(own, counts[name] + (name in rest)))
        return [name for place, name in enumerate(ids) if place in drawn]


def selected(items: Iterable[Item | Problem], chosen: frozenset[str] | None) -> Iterator[Item]:
    """The items that take part; None: all of them."""
    for item in items:
        if isinstance(item, Item) and (chosen is None or item.id in chosen):
            yield item
