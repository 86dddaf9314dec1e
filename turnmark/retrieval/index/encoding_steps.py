"""Encodes blocks of texts in this process or on workers, and reports the progress."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
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


def encode_blocks(
    blocks: Iterable[list[tuple[str, Passage]]],
    encoder: Encoder,
    number: int,
    workers: Workers[Values] | None,
    progress: Progress,
) -> Iterator[tuple[list[str], Values]]:
    """Yield content hashes and their encoded bytes by component, as they are ready; workers yield in any order.

    In this process, a block is encoded in steps that are reported and kept: on a slow machine, it takes half a minute.
    """
    tasks = (([content for content, _ in block], [passage.indexed_text for _, passage in block]) for block in blocks)
    if workers is not None:
        for contents, values in workers.spread((contents, (number, texts)) for contents, texts in tasks):
            progress.advance(len(contents))
            yield contents, values
        return
    steps = _encode_steps(tasks, encoder, progress)
    yield from _prefetch(steps) if encoder.on_gpu else steps


def _encode_steps(
    tasks: Iterable[tuple[list[str], list[str]]], encoder: Encoder, progress: Progress
) -> Iterator[tuple[list[str], Values]]:
    size = FIRST_STEP_TEXTS
    for contents, texts in tasks:
        # The longest first, as the models sort their batches, so that steps cause no padding.
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        while order:
            step, order = order[:size], order[size:]
            started = time.monotonic()
            values = encoder.encode([texts[i] for i in step])
            yield [contents[i] for i in step], values
            # Larger steps keep many cores busy.
            if time.monotonic() - started < QUICK_STEP_SECONDS:
                size = min(2 * size, MAX_STEP_TEXTS)
            progress.advance(len(step))


def _prefetch(steps: Iterator[tuple[list[str], Values]]) -> Iterator[tuple[list[str], Values]]:
    """Yield each step while the next one is encoded in another thread, so that a GPU does not wait for the writing."""
    with ThreadPoolExecutor(1, thread_name_prefix="turnmark-encoding") as pool:
        future = pool.submit(next, steps, None)
        while step := future.result():
            future = pool.submit(next, steps, None)
            yield step
