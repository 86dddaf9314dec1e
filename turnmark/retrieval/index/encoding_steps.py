"""Encodes blocks of texts in steps, and reports each step."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from turnmark.core.console import Progress
from turnmark.retrieval.index.components import Encoder, Values

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
