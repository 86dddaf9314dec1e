"""Encodes blocks of texts in steps, and reports each step."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from turnmark.core.console import Progress
from turnmark.retrieval.components import Encoder

FIRST_STEP_TEXTS = 32
"""Texts that are encoded before the first progress is reported."""
QUICK_STEP_SECONDS = 0.5
"""After a step that took less time, the next one has twice as many texts."""


class EncodingSteps:
    """Encodes blocks of texts in steps that are reported: on a slow machine, a block takes half a minute."""

    def __init__(self, encoder: Encoder, progress: Progress) -> None:
        self._encoder, self._progress, self._size = encoder, progress, FIRST_STEP_TEXTS

    def encode(self, texts: Sequence[str]) -> Mapping[str, Sequence[bytes]]:
        """Return the values of the texts in their order."""
        # The longest first, as the models sort their batches, so that steps cause no padding.
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        values: dict[str, list[bytes]] = {key: [b""] * len(texts) for key in self._encoder.keys}
        while order:
            step, order = order[: self._size], order[self._size :]
            started = time.monotonic()
            for key, encoded in self._encoder.encode([texts[i] for i in step]).items():
                for i, value in zip(step, encoded, strict=True):
                    values[key][i] = value
            # Larger steps keep many cores busy.
            if time.monotonic() - started < QUICK_STEP_SECONDS:
                self._size *= 2
            self._progress.advance(len(step))
        return values
