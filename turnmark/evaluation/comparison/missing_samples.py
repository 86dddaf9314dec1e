"""Report the samples that a comparison of two runs leaves out, and whether they are like the samples that it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from math import comb

from turnmark.evaluation.comparison.comparable_runs import ComparedRun
from turnmark.evaluation.scores.score_tally import Facts

MAX_CHANCE = 0.001
"""Maximum probability that a kind of sample is left out so often by chance, for it to be reported."""
MAX_KINDS = 3
"""Maximum kinds of samples in a note."""


def describe_missing_samples(first: ComparedRun, run: ComparedRun, fate: str) -> Iterator[str]:
    """Yield notes on the samples that only one of two runs has, tried or answered, and on their kinds.

    Args:
        fate: what happens to them, e.g. `are left out`.
    """
    facts = {**(run.facts or {}), **(first.facts or {})}
    shared = {name for name in first.domains if name in run.domains}
    for side, other in ((first, run), (run, first)):
        only_here = side.domains.keys() - other.domains.keys()
        if only_here:
            yield f"{len(only_here)} samples of {side.letter} are not in {other.letter} and {fate}"
            yield from _note_uneven_kinds(only_here, shared, facts)
    untried = shared & (first.skipped | run.skipped)
    if untried:
        yield f"{len(untried)} samples were not tried in {first.letter} or {run.letter} and {fate}"
        yield from _note_uneven_kinds(untried, shared - untried, facts)
    for side in (first, run):
        failed = (shared - untried) & side.failed
        if failed:
            yield f"{len(failed)} samples failed in {side.letter} and {fate}"
            yield from _note_uneven_kinds(failed, shared - untried - failed, facts)


def _note_uneven_kinds(left_out: Collection[str], kept: Collection[str], facts: Mapping[str, Facts]) -> Iterator[str]:
    """Yield a note if some kinds of samples are left out more often than chance would do it."""
    here, there = _count_kinds(left_out, facts), _count_kinds(kept, facts)
    kinds: list[tuple[float, str]] = []
    for (dimension, value), count in here.items():
        kept_count = there[dimension, value]
        chance = _chance(count, len(left_out), count + kept_count, len(left_out) + len(kept))
        if chance < MAX_CHANCE:
            share = f"{count} of these {len(left_out)}, but {kept_count} of the {len(kept)} others"
            kinds.append((chance, f"{dimension} {value} ({share})"))
    if kinds:
        listed = "; ".join(text for _, text in sorted(kinds)[:MAX_KINDS])
        yield f"these samples are not spread like the rest: {listed}"


def _count_kinds(names: Collection[str], facts: Mapping[str, Facts]) -> Counter[tuple[str, str]]:
    kinds: Counter[tuple[str, str]] = Counter()
    for name in names:
        if name in facts:
            kinds.update((dimension, value) for dimension, values in facts[name].labels.items() for value in values)
    return kinds


def _chance(seen: int, drawn: int, of_kind: int, total: int) -> float:
    """Return the probability that a draw has at least so many of a kind (the tail of the hypergeometric distribution).

    Args:
        seen: number of the kind among those drawn.
        of_kind: number of the kind in all.
    """
    ways = comb(total, drawn)
    tail = sum(
        comb(of_kind, count) * comb(total - of_kind, drawn - count) for count in range(seen, min(drawn, of_kind) + 1)
    )
    return tail / ways
