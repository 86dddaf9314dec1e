"""Krippendorff's alpha: how far judges agree beyond chance, 1 being agreement and 0 what chance would give.

Source: K. Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011). Own code, since it is short; the tests
hold it against the published examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import permutations
from typing import Literal

Level = Literal["nominal", "interval"]


def krippendorff_alpha(units: Iterable[Sequence[float | str | None]], level: Level) -> float | None:
    """The reliability of the values that several judges gave to the same units.

    Args:
        units: for each unit what the judges said, None where one said nothing. Units with fewer than two values count
            for nothing, as nothing can agree there.
        level: `nominal` for labels, `interval` for numbers (their squared differences count).

    Returns:
        1 at most; below 0 where they disagree more than chance would. None where it is not defined: no unit has two
        values, or all values are the same, so that chance would agree as well.
    """
    difference: Callable[[float | str, float | str], float] = _nominal if level == "nominal" else _interval
    weights: dict[tuple[float | str, float | str], float] = {}
    for unit in units:
        values = [value for value in unit if value is not None]
        if len(values) < 2:
            continue
        for pair in permutations(values, 2):
            weights[pair] = weights.get(pair, 0.0) + 1 / (len(values) - 1)
    totals: dict[float | str, float] = {}
    for (value, _), weight in weights.items():
        totals[value] = totals.get(value, 0.0) + weight
    n = sum(totals.values())
    observed = sum(weight * difference(*pair) for pair, weight in weights.items())
    expected = sum(
        one * other * difference(value, against) for value, one in totals.items() for against, other in totals.items()
    )
    if n <= 1 or expected <= 0:
        return None
    return 1 - (n - 1) * observed / expected


def _nominal(one: float | str, other: float | str) -> float:
    return float(one != other)


def _interval(one: float | str, other: float | str) -> float:
    return (float(one) - float(other)) ** 2
