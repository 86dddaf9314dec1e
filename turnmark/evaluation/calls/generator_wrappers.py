"""Wrappers of generators: a deadline and a default temperature."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Unpack

from turnmark.assistant.llm.calls.cancellation import Stop, TurnStopped, current_stop, stop_context
from turnmark.assistant.llm.calls.protocols import (
    CallOptions,
    Completion,
    Generator,
    GeneratorError,
    GeneratorWrapper,
    PromptMessage,
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

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        if options.get("temperature") is None:
            options["temperature"] = self.temperature
        return self.generator.complete(messages, **options)

    def _converse(self, messages: Sequence[Any], tools: Sequence[Any], **options: Any) -> Any:
        return super()._converse(messages, tools, **{"temperature": self.temperature, **options})


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

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """See `Generator.complete`. Nothing is streamed, because a broken stream could not be retried."""
        on_text = options.pop("on_text", None)
        reply: Completion = self._within(lambda: self.generator.complete(messages, **options))
        if on_text is not None:
            on_text(reply.text)
        return reply

    def _converse(self, messages: Sequence[Any], tools: Sequence[Any], **options: Any) -> Any:
        on_text = options.pop("on_text", None)
        reply = self._within(lambda: super(DeadlineGenerator, self)._converse(messages, tools, **options))
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply

    def _within(self, call: Callable[[], Any]) -> Any:
        """Call a function within the deadline, and count its usage.

        Raises:
            GeneratorError: the deadline has passed, or the call failed.
        """
        problem = f"the sample's deadline of {self._allowed:g} s has passed"
        if not self.left:
            raise GeneratorError("timeout", problem)
        try:
            with stop_context(Stop(current_stop().left(self.left))):  # of nested deadlines, the earliest counts
                reply = call()
        except GeneratorError as error:
            self.count(error.usage)
            raise
        except TurnStopped:
            self.count(Usage(calls=1))
            raise GeneratorError("timeout", problem) from None
        self.count(reply.usage)
        return reply

    def count(self, usage: Usage) -> None:
        """Add the usage of a call."""
        with self._lock:
            self.usage += usage
