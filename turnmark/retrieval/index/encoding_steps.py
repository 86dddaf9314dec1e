"""Encodes blocks of texts in this process or on workers, and reports the progress."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from turnmark.core.console import Progress
from turnmark.corpora.types import Passage
from turnmark.retrieval.index.encoders import Encoder, Values

if TYPE_CHECKING:
    from turnmark.retrieval.services.ray_cluster import Workers

FIRST_STEP_TEXTS = 32
"""Texts that are encoded before the first progress is reported."""
MAX_STEP_TEXTS = 1024
"""Maximum texts of a step. The token vectors of 1,024 texts take a quarter of a gigabyte before they are packed."""
QUICK_STEP_SECONDS = 0.5
"""After a step that took less time, the next one has twice as many texts."""


class EncodingSteps:
    """Encodes blocks of texts in steps that are reported and kept: on a slow machine, a block takes half a minute."""

    def __init__(self, encoder: Encoder, progress: Progress) -> None:
        self._encoder, self._progress, self._size = encoder, progress, FIRST_STEP_TEXTS

    def encode(self, contents: Sequence[str], texts: Sequence[str]) -> Iterator[tuple[list[str], Values]]:
        """Yield, for each step, the content hashes of its texts and their values, in the same order."""
        # The longest first, as the models sort their batches, so that steps cause no padding.
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        while order:
            step, order = order[: self._size], order[self._size :]
            started = time.monotonic()
            values = self._encoder.encode([texts[i] for i in step])
            yield [contents[i] for i in step], {key: list(encoded) for key, encoded in values.items()}
            # Larger steps keep many cores busy.
            if time.monotonic() - started < QUICK_STEP_SECONDS:
                self._size = min(2 * self._size, MAX_STEP_TEXTS)
            self._progress.advance(len(step))


def encode_blocks(
    blocks: Iterable[list[tuple[str, Passage]]],
    encoder: Encoder,
    number: int,
    workers: Workers[Values] | None,
    progress: Progress,
) -> Iterator[tuple[list[str], Values]]:
    """Yield content hashes and their encoded bytes by component, as they are ready; workers yield in any order."""
    tasks = (([content for content, _ in block], [passage.indexed_text for _, passage in block]) for block in blocks)
    if workers is None:
        steps = EncodingSteps(encoder, progress)
        if encoder.on_gpu:
            yield from _prefetch(tasks, steps)
        else:
            for contents, texts in tasks:
                yield from steps.encode(contents, texts)
        return
    for contents, values in workers.spread((contents, (number, texts)) for contents, texts in tasks):
        progress.advance(len(contents))
        yield contents, values


def _prefetch(tasks: Iterable[tuple[list[str], list[str]]], steps: EncodingSteps) -> Iterator[tuple[list[str], Values]]:
    """Yield the steps of each task, while the next task is encoded in another thread."""
    with ThreadPoolExecutor(1, thread_name_prefix="turnmark-encoding") as pool:
        running: Future[list[tuple[list[str], Values]]] | None = None
        for contents, texts in tasks:
            future = pool.submit(lambda task: list(steps.encode(*task)), (contents, texts))
            if running is not None:
                yield from running.result()
            running = future
        if running is not None:
            yield from running.result()
