"""Functions that embed texts, and a cache of the vectors that they return."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Embed = Callable[[Sequence[str]], "NDArray[np.float32]"]
"""A function that returns the unit vectors of texts, in order, of shape (texts, dimension)."""


K = TypeVar("K", bound=Hashable)


V = TypeVar("V")


MAX_CACHED_VECTORS = 8192
"""Default capacity of `cache_by_list` and `cache_by_text`: 12 MiB at the bundled model's 384 dimensions."""


class Cache(Generic[K, V]):
    """A cache of the most recently used values, which are computed in batches. Safe to call from many threads.

    Args:
        compute: returns the values of keys, in order; must also be safe to call from many threads.
        capacity: maximum total weight of the cached values.
        weigh: returns the weight of a value; by default every value weighs 1.
    """

    def __init__(
        self, compute: Callable[[Sequence[K]], Iterable[V]], capacity: int, weigh: Callable[[V], int] = lambda _: 1
    ) -> None:
        self._compute, self._capacity, self._weigh = compute, capacity, weigh
        self._values: OrderedDict[K, V] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, keys: Sequence[K]) -> list[V]:
        """Return the values of keys, in order; missing values are computed in one call."""
        unique = list(dict.fromkeys(keys))
        with self._lock:
            values = {key: self._values[key] for key in unique if key in self._values}
        missing = [key for key in unique if key not in values]
        if missing:
            values.update(zip(missing, self._compute(missing), strict=True))
        with self._lock:
            for key in unique:
                self._keep(key, values[key])
        return [values[key] for key in keys]

    def _keep(self, key: K, value: V) -> None:
        weight = self._weigh(value)
        if weight > self._capacity:
            return  # it would displace everything else
        if key not in self._values:
            self._values[key] = value
            self._weight += weight
        self._values.move_to_end(key)
        while self._weight > self._capacity:
            self._weight -= self._weigh(self._values.popitem(last=False)[1])


def cache_by_list(embed: Embed, capacity: int = MAX_CACHED_VECTORS) -> Embed:
    """Return an `Embed` that caches the vectors of each list of texts; its arrays are shared and read-only.

    The key is the complete list: the last digits of a vector depend on the texts embedded with it, so a cache by text
    would depend on the order of calls.
    """

    def compute(lists: Sequence[tuple[str, ...]]) -> list[NDArray[np.float32]]:
        arrays = [embed(list(texts)) for texts in lists]
        for array in arrays:
            array.setflags(write=False)
        return arrays

    cache: Cache[tuple[str, ...], NDArray[np.float32]] = Cache(compute, capacity, len)
    return lambda texts: cache.get([tuple(texts)])[0]


def cache_by_text(embed: Embed, capacity: int = MAX_CACHED_VECTORS) -> Embed:
    """Return an `Embed` that caches the vector of each text, because the steps of a turn embed the same sentences."""
    cache: Cache[str, NDArray[np.float32]] = Cache(embed, capacity)

    def vectors(texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack(cache.get(texts)) if texts else embed([])

    return vectors
