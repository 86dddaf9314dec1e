"""Embedding for many threads, by one thread.

PyTorch keeps a pool of threads for each thread that calls it, so that sixteen callers on their own would only get into
each other's way. Requests are not merged: in its last digits a vector depends on the texts that are embedded beside it,
and a sample must not depend on which other samples happen to run.
"""

from __future__ import annotations

import atexit
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_PATIENCE = 5.0
"""Seconds that the end of the process waits for the texts that are being embedded."""


class SharedEmbed:
    """Callable as `turnmark.retrieval.task_passages.Embed` from any thread; `encode` is called from one only."""

    def __init__(self, encode: Callable[[Sequence[str]], NDArray[np.float32]], name: str = "the embedder") -> None:
        self.name = name
        self._encode = encode
        self._asked: queue.SimpleQueue[tuple[list[str], Future[NDArray[np.float32]]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ending = False

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of `texts`, in their order."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True, name="embedding")
                self._thread.start()
                atexit.register(self._end, self._thread)
        future: Future[NDArray[np.float32]] = Future()
        self._asked.put((list(texts), future))
        return future.result()

    def _end(self, thread: threading.Thread) -> None:
        """After Ctrl-C texts may still be waiting. A thread in native code at the interpreter's end would abort it."""
        self._ending = True
        self._asked.put(([], Future()))
        thread.join(_PATIENCE)

    def _work(self) -> None:
        while True:
            texts, future = self._asked.get()
            if self._ending:
                return
            try:
                future.set_result(self._encode(texts))
            except BaseException as error:
                future.set_exception(error)


def shared_embedder(spec: str) -> SharedEmbed:
    """The embedder that a spec names, loaded when the first text is embedded: some runs embed nothing."""
    from turnmark.retrieval.embed import Embedder, open_embedder

    opened: list[Embedder] = []

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        if not opened:
            opened.append(open_embedder(spec))
            # One text by itself: OpenVINO may wait for itself where the first batch of a process has several.
            opened[0].encode(["load the model"], "passage")
        return opened[0].encode(texts, "passage")

    return SharedEmbed(encode, spec)
