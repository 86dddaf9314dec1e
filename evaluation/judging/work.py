"""Many calls at once, in threads that nobody waits for at the end: a judge that hangs does not keep the command."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from turnmark.assistant.generators.base import ON_RATE_LIMIT
from turnmark.evaluation.pace import Pace

J = TypeVar("J")
R = TypeVar("R")


def at_once(
    jobs: Iterator[J],
    do: Callable[[J], R],
    most: int,
    may: Callable[[J, int], bool] = lambda _, __: True,
    refused: Callable[[J], None] = lambda _: None,
) -> Iterator[tuple[J, R]]:
    """What `do` makes of each job, as it comes; one after the other in this thread where `most` is 1.

    Args:
        jobs: taken one by one, by this thread.
        most: jobs at once; fewer while an endpoint answers 429.
        may: job, how many run -> whether it may be started beside them; asked again once one of them has ended.
        refused: told of a job that may not be started though nothing else runs; it is left out.

    Raises:
        Exception: what `do` raised, once it is met; nothing more is started then.
    """
    if most == 1:
        for job in jobs:
            if may(job, 0):
                yield job, do(job)
            else:
                refused(job)
        return
    pace = Pace(most)
    asked: queue.SimpleQueue[tuple[J] | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[J, R | None, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        ON_RATE_LIMIT.set(pace.slow_down)
        while (taken := asked.get()) is not None:
            (job,) = taken
            try:
                done.put((job, do(job), None))
            except BaseException as error:
                done.put((job, None, error))

    running, threads, left = 0, 0, True
    waiting: J | None = None
    try:
        while True:
            while left and running < pace.limit:
                following = waiting if waiting is not None else next(jobs, None)
                waiting = None
                if following is None:
                    left = False
                    break
                if not may(following, running):
                    if running:
                        waiting = following
                        break
                    refused(following)
                    continue
                if threads < min(most, running + 1):
                    threading.Thread(target=work, daemon=True, name="judge").start()
                    threads += 1
                asked.put((following,))
                running += 1
            if not running:
                return
            job, result, error = done.get()
            running -= 1
            if error is not None:
                raise error
            pace.went_well()
            yield job, result  # type: ignore[misc]
    finally:
        for _ in range(threads):
            asked.put(None)
