"""Wrappers of generators: a deadline and a default temperature."""

from __future__ import annotations

import threading
import time
from functools import partial

from turnmark.assistant.llm.calls.cancellation import Stop, TurnStopped, current_stop, stop_context
from turnmark.assistant.llm.calls.protocols import (
    CallOptions,
    Completion,
    Generator,
    GeneratorError,
    GeneratorWrapper,
)
from turnmark.assistant.llm.generators.response_cache import CachedGenerator
from turnmark.assistant.types import Usage
from turnmark.core.errors import RequestError
from turnmark.core.specs import parse_spec


def with_temperature(generator: Generator, temperature: float) -> Generator:
    """Give a generator a default temperature, unless its spec sets one."""
    try:
        sets_temperature = "temperature" in parse_spec(generator.name).options
    except RequestError:  # the name of a third-party generator need not be a spec
        sets_temperature = False
    return generator if sets_temperature else _WithTemperature(generator, temperature)


class _WithTemperature(GeneratorWrapper):
    def __init__(self, generator: Generator, temperature: float) -> None:
        super().__init__(generator)
        self.temperature = temperature

    def _around(self, call: partial[Completion], options: CallOptions) -> Completion:
        if options.get("temperature") is None:
            options["temperature"] = self.temperature
        return call(**options)


class DeadlineGenerator(GeneratorWrapper):
    """A generator whose calls end with the sample's deadline, and whose usage is counted.

    Args:
        seconds: time until the deadline.
    """

    def __init__(self, generator: Generator, seconds: float) -> None:
        super().__init__(generator)
        self._ends, self._allowed = time.monotonic() + seconds, seconds
        self._lock = threading.Lock()
        self.usage = Usage()

    @property
    def left(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(0.0, self._ends - time.monotonic())

    @property
    def repeat(self) -> int:
        """Number of the repeat, for a cached generator; 0 for others, which do not know it."""
        return self.generator.repeat if isinstance(self.generator, CachedGenerator) else 0

    def _around(self, call: partial[Completion], options: CallOptions) -> Completion:
        """Make a call within the deadline, and count its usage.

        Nothing is streamed, because a broken stream could not be retried.

        Raises:
            GeneratorError: the deadline has passed, or the call failed.
        """
        on_text = options.pop("on_text", None)
        problem = f"the sample's deadline of {self._allowed:g} s has passed"
        if not self.left:
            raise GeneratorError("timeout", problem)
        try:
            with stop_context(Stop(current_stop().left(self.left))):  # of nested deadlines, the earliest counts
                reply = call(**options)
        except GeneratorError as error:
            self.count(error.usage)
            raise
        except TurnStopped:
            self.count(Usage(calls=1))
            raise GeneratorError("timeout", problem) from None
        self.count(reply.usage)
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply

    def count(self, usage: Usage) -> None:
        """Add the usage of a call."""
        with self._lock:
            self.usage += usage
