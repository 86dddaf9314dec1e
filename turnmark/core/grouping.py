"""Group values by a key, and cut sequences into lists."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def group_pairs(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return key -> its values, from pairs of key and value, in the order in which the keys first occur."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def batched(values: Iterable[V], size: int) -> Iterator[list[V]]:
    """Yield the values in lists of `size`; the last one may be shorter."""
    iterator = iter(values)
    while batch := list(islice(iterator, size)):
        yield batch


def join_neighbors(values: Iterable[V], join: Callable[[V, V], V | None]) -> list[V]:
    """Return the values, each joined with the one before it unless `join(before, value)` is None."""
    joined: list[V] = []
    for value in values:
        both = join(joined[-1], value) if joined else None
        if both is None:
            joined.append(value)
        else:
            joined[-1] = both
    return joined


def runs(values: Iterable[V], goes_on: Callable[[V, V], bool]) -> list[list[V]]:
    """Return the values in runs, in each of which `goes_on(before, value)` is true for neighbors."""
    found: list[list[V]] = []
    for value in values:
        if found and goes_on(found[-1][-1], value):
            found[-1].append(value)
        else:
            found.append([value])
    return found
