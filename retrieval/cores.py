"""Arithmetic over the rows of an array, a stretch of them for each core."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

_MOST = 4
"""Cores that memory keeps busy."""


def by_cores(rows: int, work: Callable[[slice], object], *, apiece: int, step: int = 1) -> None:
    """`work` on stretches of rows that together are all of them, each on a core of its own.

    OpenBLAS's own threads win nothing on such work, and spin for a while afterwards, on the cores on which the next
    message is embedded: a query took half as long again. So each stretch has one.

    Args:
        work: is given a stretch; called from several threads at once.
        apiece: rows from which another core takes some of them.
        step: stretches begin at multiples of it.
    """
    pool, cores = _pool()
    parts = min(cores, rows // apiece + 1)
    cuts = [*(part * rows // parts // step * step for part in range(parts)), rows]
    first, *others = (slice(*pair) for pair in pairwise(cuts))
    with _LOCK, _linear_algebra().limit(limits=1, user_api="blas"):
        waiting = [pool.submit(work, part) for part in others]
        work(first)
        for one in waiting:
            one.result()


# Threads are the process's: one query at a time says how many, and gives them back.
_LOCK = threading.Lock()


@cache
def _linear_algebra() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@cache
def _pool() -> tuple[ThreadPoolExecutor, int]:
    """Threads for rows, and how many cores may share them."""
    cores = min(os.cpu_count() or 1, _MOST)
    return ThreadPoolExecutor(cores, thread_name_prefix="rows"), cores
