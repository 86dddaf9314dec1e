"""What a language model is asked and what it answers: the protocol of all generators, and their one kind of error."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Any, Literal, Protocol, TypedDict, Unpack

from pydantic import BaseModel, Field

from turnmark.assistant.types import Usage
from turnmark.corpora.errors import TurnmarkError
from turnmark.corpora.types import Record

FinishReason = Literal["stop", "length", "content_filter", "other"]
Size = Literal["large", "small"]
ErrorKind = Literal["timeout", "rate_limited", "unavailable", "refused", "bad_reply", "auth", "bad_request"]

MAX_TOKENS = 1024
DEADLINE, OWN_DEADLINE = 120.0, 300.0
"""Seconds without a token, the first one included; the second for an address of this machine, and in process."""
RETRIES = 4
CONTEXT_TOKENS = 8192
OnText = Callable[[str], None]

ON_RATE_LIMIT: ContextVar[Callable[[], None] | None] = ContextVar("ON_RATE_LIMIT", default=None)
"""Called for every 429 that a call of this thread meets: whoever sends many calls can send fewer."""


class PromptMessage(Record):
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


class Completion(Record):
    """What a model wrote, and why it stopped. Only `finish_reason` "stop" says that the text is complete."""

    text: str
    finish_reason: FinishReason
    usage: Usage = Field(description="of this call: every request sent for it, the tokens of the one that was answered")
    model: str = Field(description="as the endpoint names it")
    max_tokens: int = Field(description="the limit of the reply under which it was asked for")
    estimated: bool = Field(default=False, description="True: no usage was reported, tokens are characters / 4")
    saved: Usage | None = Field(
        default=None, description="from the response cache: what it cost when it was made; None: it was made now"
    )


class GeneratorError(TurnmarkError):
    """A call that gave no completion.

    Args:
        kind: `timeout` no token came before the deadline; `rate_limited`; `unavailable` no connection, a server error,
            a cut stream; `refused` the model or its filter declined; `bad_reply` not a completion; `auth`;
            `bad_request`.
        message: for the person; never holds a secret.
        usage: requests sent in vain.
    """

    def __init__(self, kind: ErrorKind, message: str, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.usage = usage or Usage()


class EmptyReply(GeneratorError):
    """The model was asked and wrote nothing: its failure, not the endpoint's."""

    def __init__(self, message: str, usage: Usage | None = None) -> None:
        super().__init__("bad_reply", message, usage)


class SchemaRefused(GeneratorError):
    """The endpoint takes no schema. The same call without one may succeed, with the schema in words."""

    def __init__(self, message: str, usage: Usage | None = None) -> None:
        super().__init__("bad_request", message, usage)


class CallOptions(TypedDict, total=False):
    """What a call of `Generator.complete` may say.

    Args:
        max_tokens: limit of the reply. None: `reply_tokens`.
        temperature: None: the generator's own (option `temperature`, else 0).
        schema: the reply shall be one JSON object of this form.
        deadline: seconds without a token, the wait for the first one and retries included. None: the generator's own
            (option `deadline`, else 300 for this machine and 120 elsewhere).
        on_text: receives each piece of text as it comes, in the caller's thread. What was passed on is never
            retracted: a stream that breaks after its first piece is not retried.
    """

    max_tokens: int | None
    temperature: float | None
    schema: type[BaseModel] | None
    deadline: float | None
    on_text: OnText | None


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
        """Tokens that a reply may have unless a call says otherwise: the room that the prompt must leave."""
        ...

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """One reply.

        Raises:
            SchemaRefused: a schema was given and is not supported.
            GeneratorError: no reply was to be had.
        """
        ...


class CallSettings(Record):
    """What the options of a spec settle, the same for every generator that calls a model."""

    max_tokens: int = MAX_TOKENS
    temperature: float = 0.0
    deadline: float = DEADLINE
    size: Size = "large"
    retries: int = RETRIES
    context: int | None = None
    seed: int | None = None
    concurrency: int | None = None


# --- the options of a spec -------------------------------------------------------------------------------------------


def _whole(low: int, high: int = 2**63 - 1) -> Callable[[str], int]:
    def convert(text: str) -> int:
        # int() also takes "1_0", other scripts' digits, and thousands of digits.
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not low <= int(text) <= high:
            raise ValueError(f"a whole number, {low} or more")
        return int(text)

    return convert


def _one_of(values: Mapping[str, Any], expected: str) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        if text not in values:
            raise ValueError(expected)
        return values[text]

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
    "size": _one_of({"large": "large", "small": "small"}, "large or small"),
    "retries": _whole(0),
    "context": _whole(256),
    "seed": _whole(0),
    "concurrency": _whole(1),
}

CACHE: Mapping[str, Callable[[str], Any]] = {"cache": _one_of({"0": False, "1": True}, "1 (yes) or 0 (no)")}
"""The option that `open_generator` takes off a spec before the factory sees it, unless its value is wrong."""


# --- what a generator says beyond the protocol -----------------------------------------------------------------------


class GeneratorBase:
    """What a generator says beyond `Generator`. Yours may derive from it, and override what differs."""

    name: str
    size: Size = "large"
    """How a turn is laid out for it: in full, or in the short form for models of a few billion parameters."""
    deadline: float = DEADLINE
    """Seconds without a token, unless a call says otherwise."""
    temperature: float | None = None
    """Of a call that names none; None: not known."""
    at_once: int | None = None
    """Calls that it answers at once, the others waiting; None: as many as there are."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What decides its replies, beyond what a call says: for the response cache; without secrets."""
        return {"name": self.name}

    def make_ready(self) -> None:
        """Start now what calls need, so that no call waits for it; a first call starts it too."""


def traits_of(generator: Generator) -> GeneratorBase:
    """What a generator says beyond the protocol; the defaults for one that does not derive from `GeneratorBase`."""
    if isinstance(generator, GeneratorBase):
        return generator
    traits = GeneratorBase()
    traits.name = generator.name
    return traits


def make_ready(generator: Generator) -> None:
    """See `GeneratorBase.make_ready`."""
    traits_of(generator).make_ready()


@dataclass
class Call:
    """A call of `Generator.complete`, with the generator's settings for what it leaves open.

    Attributes:
        limit: tokens of the reply.
        began: whether a piece of the reply was passed on.
    """

    limit: int
    temperature: float
    deadline: float
    schema: type[BaseModel] | None = None
    on_text: OnText | None = None
    began: bool = False

    def show(self, piece: str) -> None:
        """Pass a piece of the reply on."""
        self.began = True
        if self.on_text is not None:
            self.on_text(piece)


class ConfiguredGenerator(GeneratorBase):
    """A generator whose limits and defaults are the options of its spec."""

    temperature: float

    def __init__(self, name: str, settings: CallSettings) -> None:
        self.name, self._settings = name, settings
        self.reply_tokens, self.temperature = settings.max_tokens, settings.temperature
        self.deadline, self.size = settings.deadline, settings.size

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def _call(self, options: CallOptions) -> Call:
        limit, temperature = options.get("max_tokens"), options.get("temperature")
        deadline = options.get("deadline")
        return Call(
            limit=self.reply_tokens if limit is None else limit,
            temperature=self.temperature if temperature is None else temperature,
            deadline=self.deadline if deadline is None else deadline,
            schema=options.get("schema"),
            on_text=options.get("on_text"),
        )


class _HasContent(Protocol):
    @property
    def content(self) -> str: ...


def estimate_usage(messages: Sequence[_HasContent], text: str, calls: int) -> Usage:
    """Usage of a call whose endpoint reported none: characters / 4, rounded up."""
    prompt = sum(len(message.content) for message in messages)
    return Usage(calls=calls, prompt_tokens=ceil(prompt / 4), completion_tokens=ceil(len(text) / 4))


_THINKING = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>\s*", re.DOTALL)


def without_thinking(text: str) -> str:
    """The reply without the block of reasoning that some models write in front of it."""
    match = _THINKING.match(text)
    return text[match.end() :] if match else text


class GeneratorWrapper(GeneratorBase):
    """Name, limits and traits of the generator behind; a wrapper adds its `complete`."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.name, self.reply_tokens = generator.name, generator.reply_tokens
        traits = traits_of(generator)
        self.deadline, self.temperature, self.size = traits.deadline, traits.temperature, traits.size
        self.at_once = traits.at_once
        if hasattr(generator, "converse"):  # an attribute, as only some generators call tools
            self.converse = self._converse

    def _converse(self, messages: Sequence[Any], tools: Sequence[Any], **options: Any) -> Any:
        """`ToolGenerator.converse` of the generator behind."""
        return self.generator.converse(messages, tools, **options)  # type: ignore[attr-defined]

    @property
    def context_tokens(self) -> int:
        """See `Generator.context_tokens`."""
        return self.generator.context_tokens

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `GeneratorBase.identity`."""
        return traits_of(self.generator).identity

    def make_ready(self) -> None:
        """See `GeneratorBase.make_ready`."""
        traits_of(self.generator).make_ready()
