"""What a language model is asked and what it answers: the protocol of all generators, and their one kind of error."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from math import ceil, isfinite
from typing import Any, Literal, Protocol

from pydantic import BaseModel, Field

from assistant.types import Usage
from corpora.errors import RequestError, TurnwiseError
from corpora.specs import Spec, check_options, load_python
from corpora.types import Record

FinishReason = Literal["stop", "length", "content_filter", "other"]
ErrorKind = Literal["timeout", "rate_limited", "unavailable", "refused", "bad_reply", "auth", "bad_request"]

MAX_TOKENS = 1024
DEADLINE = 60.0
RETRIES = 4
CONTEXT_TOKENS = 8192

OnText = Callable[[str], None]

ON_RATE_LIMIT: ContextVar[Callable[[], None] | None] = ContextVar("ON_RATE_LIMIT", default=None)
"""Told of every 429 that a call of this thread meets, before it waits: whoever sends many calls can send fewer."""


class PromptMessage(Record):
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


class Completion(Record):
    """What a model wrote, and why it stopped. Only `finish_reason` "stop" says that the text is whole."""

    text: str
    finish_reason: FinishReason
    usage: Usage = Field(description="of this call: every request sent for it, the tokens of the one that was answered")
    model: str = Field(description="as the endpoint names it")
    max_tokens: int = Field(description="the limit of the reply under which it was asked for")
    estimated: bool = Field(default=False, description="True: no usage was reported, tokens are characters / 4")


class GeneratorError(TurnwiseError):
    """A call that gave no completion.

    Args:
        kind: `timeout` the deadline passed; `rate_limited`; `unavailable` no connection, a server error, a cut stream;
            `refused` the model or its filter declined; `bad_reply` an answer that is none; `auth`; `bad_request`.
        message: for the person; never holds a secret.
        usage: requests sent in vain.
    """

    def __init__(self, kind: ErrorKind, message: str, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.usage = usage or Usage()


class SchemaRefused(GeneratorError):
    """The endpoint takes no schema. The same call without one may succeed, with the schema told in words."""

    def __init__(self, message: str, usage: Usage | None = None) -> None:
        super().__init__("bad_request", message, usage)


class Generator(Protocol):
    """A language model. Synchronous, and safe to call from many threads."""

    @property
    def name(self) -> str:
        """The spec in normal form, without any secret: what manifests hold."""
        ...

    @property
    def context_tokens(self) -> int:
        """Tokens that prompt and reply may have together. The first use may ask the endpoint."""
        ...

    @property
    def reply_tokens(self) -> int:
        """Tokens that a reply may have unless a call says otherwise: the room to leave beside the prompt."""
        ...

    def complete(
        self,
        messages: Sequence[PromptMessage],
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        schema: type[BaseModel] | None = None,
        deadline: float | None = None,
        on_text: OnText | None = None,
    ) -> Completion:
        """One reply.

        Args:
            max_tokens: limit of the reply. None: `reply_tokens`.
            temperature: None: the generator's own (option `temperature`, else 0).
            schema: the reply shall be one JSON object of this form.
            deadline: seconds for the whole call, retries and stalls included. None: the generator's own (option
                `deadline`, else 60).
            on_text: told of each piece of text as it comes, in the caller's thread. What was told is never retracted:
                a stream that breaks after its first piece is not retried.

        Raises:
            SchemaRefused: a schema was given and is not supported.
            GeneratorError: no reply was to be had.
        """
        ...


class Settings(Record):
    """What the options of a spec settle, the same for every generator that calls a model."""

    max_tokens: int = MAX_TOKENS
    temperature: float = 0.0
    deadline: float = DEADLINE
    retries: int = RETRIES
    context: int | None = None


def _whole(low: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        value = int(text)
        if value < low:
            raise ValueError(f"a whole number, {low} or more")
        return value

    return convert


def _real(low: float, high: float) -> Callable[[str], float]:
    def convert(text: str) -> float:
        value = float(text)
        if not isfinite(value) or not low <= value <= high:
            raise ValueError(f"a number from {low:g} to {high:g}")
        return value

    return convert


seconds = _real(0.0, 86_400.0)

SETTINGS: Mapping[str, Callable[[str], Any]] = {
    "max_tokens": _whole(1),
    "temperature": _real(0.0, 2.0),
    "deadline": _real(0.01, 86_400.0),
    "retries": _whole(0),
    "context": _whole(256),
}


def call_deadline(generator: Generator) -> float:
    """Seconds that a call may take when it says nothing else; generators may tell it as `deadline`."""
    own = getattr(generator, "deadline", DEADLINE)
    return float(own) if isinstance(own, int | float) else DEADLINE


def no_model(spec: Spec) -> None:
    """`extractive`: no language model; every step uses its embedded form."""
    problems = ["generator 'extractive' takes no argument and no url"] if spec.argument or spec.url else []
    try:
        check_options(spec, {}, "generator")
    except RequestError as error:
        problems += error.problems
    if problems:
        raise RequestError(problems)


def open_python(spec: Spec) -> Any:
    """`python:pkg.mod:factory`: whatever the factory returns; it must be a `Generator`."""
    check_options(spec, {}, "generator")
    return load_python(spec.argument, "generator")()


def estimate(messages: Sequence[PromptMessage], text: str, calls: int) -> Usage:
    """Usage of a call whose endpoint reported none: characters / 4, rounded up."""
    prompt = sum(len(message.content) for message in messages)
    return Usage(calls=calls, prompt_tokens=ceil(prompt / 4), completion_tokens=ceil(len(text) / 4))


_THINKING = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>\s*", re.DOTALL)


def without_thinking(text: str) -> str:
    """The reply without the block of reasoning that some models write in front of it."""
    match = _THINKING.match(text)
    return text[match.end() :] if match else text
