"""Arithmetic over the rows of an array, a stretch of them for each core."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from typing import Any

_MOST = 4
"""Cores that memory keeps busy when vectors are compared; two were all that token products were tried with."""


def by_cores(rows: int, work: Callable[[slice], object], *, apiece: int, step: int = 1) -> None:
    """`work` on stretches of rows that together are all of them, each on a core of its own; ends when all have ended.

    OpenBLAS's own threads win nothing on such work, and spin for a while afterwards, on the cores on which the next
    message is embedded: a query took half as long again. So each stretch has one.

    Args:
        work: is given a stretch; called from several threads at once, and must not call this again.
        apiece: rows from which another core takes some of them.
        step: stretches begin at multiples of it.
    """
    pool, cores = _pool()
    parts = min(cores, rows // apiece + 1)
    cuts = [*(part * rows // parts // step * step for part in range(parts)), rows]
    first, *others = (slice(*pair) for pair in pairwise(cuts))
    with _OneThread():
        waiting = [pool.submit(work, part) for part in others]
        try:
            work(first)
        finally:
            wait(waiting)
    for one in waiting:
        one.result()


class _OneThread:
    """Linear algebra in one thread while at least one caller is inside: how many it has is the whole process's."""

    _lock = threading.Lock()
    _inside = 0
    _limit: Any = None

    def __enter__(self) -> None:
        with _OneThread._lock:
            if not _OneThread._inside:
                _OneThread._limit = _linear_algebra().limit(limits=1, user_api="blas")
            _OneThread._inside += 1

    def __exit__(self, *_: object) -> None:
        with _OneThread._lock:
            _OneThread._inside -= 1
            if not _OneThread._inside:
                _OneThread._limit.restore_original_limits()


@cache
def _linear_algebra() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@cache
def _pool() -> tuple[ThreadPoolExecutor, int]:
    """Threads for rows, and how many cores may share them."""
    cores = min(os.cpu_count() or 1, _MOST)
    return ThreadPoolExecutor(cores, thread_name_prefix="rows"), cores
