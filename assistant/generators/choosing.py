"""How likely a model holds each of a few answers: probabilities of words, where its bare word is worth little."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import exp, log
from typing import Protocol, runtime_checkable

from pydantic import Field

from turnmark.assistant.generators.base import Generator, GeneratorError, PromptMessage
from turnmark.assistant.types import Usage
from turnmark.corpora.types import Record

LEAST_LOGPROB = -9999.0
"""Stands for a probability of nothing, whose logarithm is no number of JSON; vLLM writes the same."""
_WORD = re.compile(r"\w{1,40}")


class Choice(Record):
    """What a model thinks of a few options as the beginning of its reply."""

    options: tuple[str, ...]
    logprobs: tuple[float, ...] = Field(
        description="of each option: natural logarithm of the probability that the reply begins with its first token; "
        "-9999 where it is too small to be told"
    )
    usage: Usage

    @property
    def probabilities(self) -> tuple[float, ...]:
        """Of each option, given that the reply is one of them; they add up to 1. All alike where none was likely."""
        highest = max(self.logprobs)
        weights = [exp(value - highest) for value in self.logprobs]
        return tuple(weight / sum(weights) for weight in weights)


@runtime_checkable
class ChoiceGenerator(Protocol):
    """A generator that tells the probabilities of options."""

    def choose(
        self, messages: Sequence[PromptMessage], options: Sequence[str], *, deadline: float | None = None
    ) -> Choice:
        """How likely the reply begins with each option, at temperature 1 and with no limit on what else it may say.

        Args:
            options: words as the prompt asks for them ("Yes", "No"; case counts), different in their first token.
            deadline: seconds for all; None: the generator's own.

        Raises:
            GeneratorError: no reply was to be had, or the endpoint tells no probabilities.
        """
        ...


def choose(
    generator: Generator, messages: Sequence[PromptMessage], options: Sequence[str], *, deadline: float | None = None
) -> Choice | None:
    """See `ChoiceGenerator.choose`; None where the generator cannot tell.

    Raises:
        GeneratorError: see there.
    """
    return generator.choose(messages, options, deadline=deadline) if isinstance(generator, ChoiceGenerator) else None


def check_words(options: Sequence[str]) -> None:
    """Raises: GeneratorError: an option is no word, or there are fewer than two different ones."""
    if len(set(options)) < max(2, len(options)) or not all(_WORD.fullmatch(option) for option in options):
        raise GeneratorError("bad_request", f"expected two or more different words as options, got {list(options)}")


def choice_of(options: Sequence[str], tokens: Sequence[tuple[str, float]], usage: Usage) -> Choice:
    """The choice that the likeliest first tokens of a reply show.

    A token counts for an option that it begins, white space before it left out; "Y" counts for "Yes".

    Args:
        tokens: the likeliest first tokens with their logarithms, as an endpoint lists them.
    """
    logprobs = []
    for option in options:
        total = sum(exp(value) for text, value in tokens if text.strip() and option.startswith(text.strip()))
        logprobs.append(min(0.0, log(total)) if total > 0 else LEAST_LOGPROB)
    return Choice(options=tuple(options), logprobs=tuple(logprobs), usage=usage)
