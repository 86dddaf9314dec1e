"""A generator at the temperature that a benchmark asks for, unless its spec names another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from turnmark.assistant.generators.base import CallOptions, Completion, Generator, GeneratorWrapper, PromptMessage
from turnmark.corpora.errors import RequestError
from turnmark.corpora.specs import parse_spec


def heated(generator: Generator, temperature: float) -> Generator:
    """The same generator, whose calls that name no temperature have this one; as it is where its spec names one."""
    try:
        named = "temperature" in parse_spec(generator.name).options
    except RequestError:  # somebody else's generator is called what it likes
        named = False
    return generator if named else _Heated(generator, temperature)


class _Heated(GeneratorWrapper):
    def __init__(self, generator: Generator, temperature: float) -> None:
        super().__init__(generator)
        self._temperature = temperature

    @property
    def temperature(self) -> float:
        """Of a call that names none."""
        return self._temperature

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        if options.get("temperature") is None:
            options["temperature"] = self._temperature
        return self.generator.complete(messages, **options)
