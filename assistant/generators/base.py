"""What a language model is asked and what it answers: the protocols of all generators, and their one kind of error."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Any, Literal, Protocol, TypedDict, Unpack, runtime_checkable

from pydantic import BaseModel, Field, NonNegativeInt, PositiveInt, TypeAdapter, ValidationError

from turnmark.assistant.types import Usage
from turnmark.core.errors import TurnmarkError
from turnmark.core.record import Record

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
    """What a call of `Generator.complete` may say; None: what holds for the generator.

    Args:
        max_tokens: limit of the reply.
        schema: the reply shall be one JSON object of this form.
        deadline: seconds without a token, the wait for the first one and retries included.
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
        """One reply; `SchemaRefused` if a schema was given and is not supported."""
        ...


# --- tools -----------------------------------------------------------------------------------------------------------


class Tool(Record):
    """A function that a model may call."""

    name: str
    description: str
    parameters: Mapping[str, Any] = Field(description="JSON schema of its arguments, an object")


class ToolCall(Record):
    """A call that a model asks for. Its arguments are what the model wrote: check them."""

    id: str
    name: str
    arguments: str = Field(description="JSON, if the model kept to it")


class ToolMessage(Record):
    """One message of such a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: tuple[ToolCall, ...] = Field(default=(), description="of an assistant's message")
    call_id: str = Field(default="", description="of a tool's message: the call that it answers")


class ToolReply(Record):
    """What a model wrote, and the calls that it asks for; none: this is its answer."""

    text: str
    calls: tuple[ToolCall, ...]
    usage: Usage
    finish_reason: FinishReason = Field(description="stop: also after calls")

    @property
    def message(self) -> ToolMessage:
        """The reply as a message of the conversation that goes on."""
        return ToolMessage(role="assistant", content=self.text, calls=self.calls)


@runtime_checkable
class ToolGenerator(Protocol):
    """A generator that calls tools."""

    def converse(
        self,
        messages: Sequence[ToolMessage],
        tools: Sequence[Tool],
        *,
        max_tokens: int | None = None,
        on_text: OnText | None = None,
    ) -> ToolReply:
        """The next message of the conversation.

        Without tools the model has to answer in text. An endpoint that refuses them is a `bad_request`.
        """
        ...


# --- the options of a spec -------------------------------------------------------------------------------------------

Seconds = Annotated[float, Field(gt=0, le=86_400)]


class CallSettings(Record):
    """What the options of a spec settle, the same for every generator that calls a model."""

    max_tokens: PositiveInt = MAX_TOKENS
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    deadline: Seconds = DEADLINE
    size: Size = "large"
    retries: NonNegativeInt = RETRIES
    context: Annotated[int, Field(ge=256)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    concurrency: PositiveInt | None = None


def option(kind: Any) -> Callable[[str], Any]:
    """What turns the text of an option into a value of a type."""
    adapter = TypeAdapter(kind)

    def convert(text: str) -> Any:
        try:
            return adapter.validate_strings(text)
        except ValidationError as error:
            raise ValueError(error.errors()[0]["msg"]) from None

    return convert


SETTINGS: Mapping[str, Callable[[str], Any]] = {
    name: option(Annotated[field.annotation, field]) for name, field in CallSettings.model_fields.items()
}
CACHE: Mapping[str, Callable[[str], Any]] = {"cache": option(Literal["0", "1"])}
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
    """A call of `Generator.complete`, with the generator's settings for what it leaves open."""

    limit: int
    temperature: float
    deadline: float
    schema: type[BaseModel] | None = None
    on_text: OnText | None = None
    began: bool = False
    """Whether a piece of the reply was passed on."""

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

    def _call(self, options: CallOptions) -> Call:
        own = {"max_tokens": self.reply_tokens, "temperature": self.temperature, "deadline": self.deadline}
        said: dict[str, Any] = own | {name: value for name, value in options.items() if value is not None}
        return Call(limit=said.pop("max_tokens"), **said)


def estimate_usage(messages: Sequence[Any], text: str, calls: int) -> Usage:
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
