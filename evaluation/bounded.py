"""A generator for one sample: its calls end by the sample's deadline, and what they cost is added up."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Unpack

from turnmark.assistant.generators.base import (
    CallOptions,
    Completion,
    Generator,
    GeneratorError,
    GeneratorWrapper,
    PromptMessage,
)
from turnmark.assistant.generators.cache import Cached
from turnmark.assistant.types import Usage


class Bounded(GeneratorWrapper):
    """Passes calls on to a generator.

    Args:
        ends: when the sample must be done, by `time.monotonic()`.
        allowed: seconds that it had, for the message.
    """

    def __init__(self, generator: Generator, ends: float, allowed: float) -> None:
        super().__init__(generator)
        self._ends, self._allowed = ends, allowed
        self._lock = threading.Lock()
        self.usage = Usage()

    @classmethod
    def until(cls, generator: Generator, seconds: float) -> Bounded:
        """One whose sample has so many seconds from now."""
        return cls(generator, time.monotonic() + seconds, seconds)

    @property
    def left(self) -> float:
        """Seconds that the sample still has, 0 at least."""
        return max(0.0, self._ends - time.monotonic())

    @property
    def repeat(self) -> int:
        """Which of an item's samples this is, where that makes a difference to the generator: with a cache."""
        return self.generator.repeat if isinstance(self.generator, Cached) else 0

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """See `Generator.complete`. Nothing is streamed: nobody watches, and a broken stream could not be retried.

        Raises:
            GeneratorError: as the generator, or `timeout` where the sample's time is over.
        """
        left = self._ends - time.monotonic()
        if left <= 0:
            raise GeneratorError("timeout", f"the sample's deadline of {self._allowed:g} s has passed")
        deadline, on_text = options.get("deadline"), options.pop("on_text", None)
        options["deadline"] = min(self.deadline if deadline is None else deadline, left)
        try:
            reply = self.generator.complete(messages, **options)
        except GeneratorError as error:
            self.count(error.usage)
            raise
        self.count(reply.usage)
        if on_text is not None:
            on_text(reply.text)
        return reply

    def count(self, usage: Usage) -> None:
        """Add what a call cost."""
        with self._lock:
            self.usage += usage
