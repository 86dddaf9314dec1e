"""Network calls on one background event loop, awaited by ordinary threads.

Why not plain blocking calls: their time-outs are per read, so a reply that drips, a slow name look-up or a stalled
stream outlasts any deadline. A task on a loop can be given one deadline for everything, and cancelled at once.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from turnmark.assistant.generators.stopping import current

T = TypeVar("T")
Tell = Callable[[str], None]

# How long a cancelled call may take to close its connection before its caller is let go.
CLOSING = 2.0

_lock = threading.Lock()
_loop: tuple[int, asyncio.AbstractEventLoop] | None = None


def _running_loop() -> asyncio.AbstractEventLoop:
    """The loop of this process; a forked child gets its own, because threads do not survive a fork."""
    global _loop
    with _lock:
        if _loop is None or _loop[0] != os.getpid():
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="turnmark-generators", daemon=True).start()
            _loop = (os.getpid(), loop)
        return _loop[1]


def drive(work: Callable[[Tell], Coroutine[Any, Any, T]], deadline: float, on_text: Tell | None = None) -> T:
    """Run `work(tell)` on the loop and wait for its result here.

    Args:
        work: makes the coroutine; what it tells reaches `on_text` in this thread, in order.
        deadline: seconds until it is cancelled.
        on_text: whatever it raises cancels the work and travels on, as a KeyboardInterrupt in this thread does.

    Raises:
        TimeoutError: the deadline passed.
        Stopped: the turn that this call is part of was ended from outside; see
            `turnmark.assistant.generators.stopping`.
    """
    stop = current()
    stop.check()
    told: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    ended = threading.Event()

    async def run() -> T:
        try:
            async with asyncio.timeout(stop.left(deadline)):
                return await work(told.put)
        finally:
            ended.set()

    future = asyncio.run_coroutine_threadsafe(run(), _running_loop())
    future.add_done_callback(lambda _: told.put(None))
    try:
        with stop.waking(lambda: told.put(None)):
            while (piece := told.get()) is not None:
                if on_text is not None:
                    on_text(piece)
        stop.check()
        return future.result()
    except BaseException:
        # The caller must not go on while the endpoint still writes for it.
        if not future.done():
            future.cancel()
            ended.wait(CLOSING)
        raise
