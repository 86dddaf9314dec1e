"""What keeps calls of a model within bounds: until when, at which temperature."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Unpack

from turnmark.assistant.generators.base import (
    CallOptions,
    Completion,
    Generator,
    GeneratorError,
    GeneratorWrapper,
    PromptMessage,
)
from turnmark.assistant.generators.cache import Cached
from turnmark.assistant.generators.stopping import Stop, Stopped, current, stoppable
from turnmark.assistant.types import Usage
from turnmark.core.errors import RequestError
from turnmark.core.specs import parse_spec


def with_temperature(generator: Generator, temperature: float) -> Generator:
    """The same generator, whose calls that name no temperature have this one; as it is where its spec names one."""
    try:
        has_own = "temperature" in parse_spec(generator.name).options
    except RequestError:  # somebody else's generator is called what it likes
        has_own = False
    return generator if has_own else _WithTemperature(generator, temperature)


class _WithTemperature(GeneratorWrapper):
    def __init__(self, generator: Generator, temperature: float) -> None:
        super().__init__(generator)
        self.temperature = temperature

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        if options.get("temperature") is None:
            options["temperature"] = self.temperature
        return self.generator.complete(messages, **options)


class ModelNoting(GeneratorWrapper):
    """A judge's generator that notes which model its endpoint says has answered."""

    def __init__(self, generator: Generator) -> None:
        super().__init__(generator)
        self.models: dict[str, None] = {}

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """See `Generator.complete`."""
        reply = self.generator.complete(messages, **options)
        self.models[reply.model] = None
        return reply

    def over(self, generator: Generator) -> ModelNoting:
        """The same notes over another generator."""
        other = ModelNoting(generator)
        other.models = self.models
        return other


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
        """See `Generator.complete`. Nothing is streamed: nobody watches, and a broken stream could not be retried."""
        on_text = options.pop("on_text", None)
        reply: Completion = self._within(lambda: self.generator.complete(messages, **options))
        if on_text is not None:
            on_text(reply.text)
        return reply

    def _converse(self, messages: Sequence[Any], tools: Sequence[Any], **options: Any) -> Any:
        return self._within(lambda: super(Bounded, self)._converse(messages, tools, **options))

    def _within(self, call: Callable[[], Any]) -> Any:
        """What a call gives, which ends with the sample's time and is counted."""
        problem = f"the sample's deadline of {self._allowed:g} s has passed"
        if not self.left:
            raise GeneratorError("timeout", problem)
        try:
            with stoppable(Stop(current().left(self.left))):  # one around another: the shorter time holds
                reply = call()
        except GeneratorError as error:
            self.count(error.usage)
            raise
        except Stopped:
            self.count(Usage(calls=1))
            raise GeneratorError("timeout", problem) from None
        self.count(reply.usage)
        return reply

    def count(self, usage: Usage) -> None:
        """Add what a call cost."""
        with self._lock:
            self.usage += usage
