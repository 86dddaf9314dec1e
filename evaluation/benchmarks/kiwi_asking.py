"""What KIWI's judging and analysing ask a model: one prompt, one small object back, at the paper's temperature of 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

from pydantic import BaseModel

from turnmark.assistant.budget import count_tokens
from turnmark.assistant.generators.base import ErrorKind, Generator, GeneratorError, PromptMessage
from turnmark.assistant.structured import Failure, ask
from turnmark.assistant.types import Usage
from turnmark.evaluation.judging.prompting import room_for

T = TypeVar("T", bound=BaseModel)
_KINDS: dict[str, ErrorKind] = {"length": "bad_reply", "invalid": "bad_reply", "content_filter": "refused"}


def fits(generator: Generator, prompt: Sequence[PromptMessage]) -> bool:
    """Whether a prompt leaves room for a reply and its repair."""
    return sum(count_tokens(message.content) for message in prompt) <= room_for(generator)


def asked(generator: Generator, prompt: Sequence[PromptMessage], schema: type[T]) -> tuple[T, Usage]:
    """The object that a model gives, and what it took.

    Raises:
        GeneratorError: it gave none of that form, or the prompt does not fit into its context.
    """
    if not fits(generator, prompt):
        raise GeneratorError("bad_request", f"the turn does not fit into the context of {generator.name}")
    reply, used = ask(generator, prompt, schema, temperature=0.0)
    if isinstance(reply, Failure):
        kind = _KINDS.get(reply.kind) or cast(ErrorKind, reply.kind)
        raise GeneratorError(kind, reply.reason or "no usable reply came", used)
    return reply, used
