"""The cache of embeddings: of lists of texts, of single texts, and of what conversations are read as."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from turnmark.retrieval.given import Embed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

CAPACITY = 8192
"""Vectors that `by_list` and `by_text` keep: 12 MiB at the bundled model's 384 dimensions."""


class Cache(Generic[K, V]):
    """Computes values by key, many at once, and keeps the most recently used. Safe to call from many threads.

    Args:
        compute: keys -> their values, in order; must be safe to call from many threads, too.
        capacity: the most that all kept values weigh together.
        weigh: the weight of a value; by default 1 each.
    """

    def __init__(
        self, compute: Callable[[Sequence[K]], Iterable[V]], capacity: int, weigh: Callable[[V], int] = lambda _: 1
    ) -> None:
        self._compute, self._capacity, self._weigh = compute, capacity, weigh
        self._values: OrderedDict[K, V] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    @property
    def weight(self) -> int:
        """What the kept values weigh together; never more than the capacity."""
        return self._weight

    def get(self, keys: Sequence[K]) -> list[V]:
        """The values of some keys, in order; what is not kept is computed in one call."""
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
            return  # It would push out everything else.
        if key not in self._values:
            self._values[key] = value
            self._weight += weight
        self._values.move_to_end(key)
        while self._weight > self._capacity:
            self._weight -= self._weigh(self._values.popitem(last=False)[1])


def by_list(embed: Embed, capacity: int = CAPACITY) -> Embed:
    """An `Embed` that embeds no list of texts twice; its arrays are shared and read-only.

    A list is kept whole: in its last digits the vector of a text depends on the texts that are embedded beside it, and
    so it is always the same, whoever asked first.
    """

    def compute(lists: Sequence[tuple[str, ...]]) -> list[NDArray[np.float32]]:
        arrays = [embed(list(texts)) for texts in lists]
        for array in arrays:
            array.setflags(write=False)
        return arrays

    cache: Cache[tuple[str, ...], NDArray[np.float32]] = Cache(compute, capacity, len)
    return lambda texts: cache.get([tuple(texts)])[0]


def by_text(embed: Embed, capacity: int = CAPACITY) -> Embed:
    """An `Embed` that embeds no text twice: the steps of a turn ask for the same sentences one after the other."""
    cache: Cache[str, NDArray[np.float32]] = Cache(embed, capacity)

    def vectors(texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        return np.stack(cache.get(texts)) if texts else embed([])

    return vectors
