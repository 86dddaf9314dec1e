"""The protocols of generators (language models): messages, completions, tools, options and errors."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Annotated, Any, Literal, Protocol, TypedDict, Unpack, runtime_checkable

from pydantic import BaseModel, Field, NonNegativeInt, PositiveInt, TypeAdapter, ValidationError

from turnmark.assistant.types import Usage
from turnmark.core.errors import TurnmarkError
from turnmark.core.record import Record
from turnmark.corpora.types import MediaType

FinishReason = Literal["stop", "length", "content_filter", "other"]
Size = Literal["large", "small"]
ErrorKind = Literal["timeout", "rate_limited", "unavailable", "refused", "bad_reply", "auth", "bad_request"]

MAX_TOKENS = 1024
PICTURE_TOKENS, PIXELS_PER_TOKEN = 1600, 750
"""Maximum prompt tokens of a picture, and the pixels of a token in a smaller one, by Anthropic's formula. OpenAI counts
85 to 1,105 tokens, Qwen2.5-VL one per 784 pixels."""
DEADLINE_SECONDS, LOCAL_DEADLINE_SECONDS = 120.0, 300.0
"""Maximum seconds between two tokens and before the first; the second value is for models on this machine."""
MAX_RETRIES = 4
CONTEXT_TOKENS = 8192
OnText = Callable[[str], None]

ON_RATE_LIMIT: ContextVar[Callable[[], None] | None] = ContextVar("ON_RATE_LIMIT", default=None)
"""Called for every HTTP status 429 in a call of this thread, so that the caller can send fewer calls."""


class PromptPicture(Record):
    """A picture of a prompt. Neither its `repr` nor its JSON contains the bytes."""

    content: bytes = Field(repr=False, exclude=True)
    media_type: MediaType

    @property
    def sha256(self) -> str:
        """The hash of the bytes, which stands for the picture in keys of caches."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def data_uri(self) -> str:
        """The picture as a data URI, as endpoints expect it."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.content).decode('ascii')}"


class PromptMessage(Record):
    """One message of a prompt. A generator that is sent pictures must take them (`GeneratorBase.takes_pictures`)."""

    role: Literal["system", "user", "assistant"]
    content: str
    pictures: tuple[PromptPicture, ...] = ()


class ToolCall(Record):
    """A tool call that a model requests. Its arguments are untrusted."""

    id: str
    name: str
    arguments: str = Field(description="arguments as the model wrote them, usually JSON")


class Completion(Record):
    """The text of a model and why it stopped. The text is complete only if `finish_reason` is "stop".

    In a conversation with tools, a reply without calls is the answer.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason = Field(description="`stop` also if the reply ends with tool calls")
    usage: Usage = Field(description="all requests of this call, and the tokens of the answered one")
    model: str = Field(description="name of the model at the endpoint")
    max_tokens: int = Field(description="maximum tokens of the reply in this call")
    saved: Usage | None = Field(
        default=None, description="usage of the original call of a cached reply, or None if it is not from the cache"
    )
    reasoning: str = Field(default="", description="what the model wrote for itself before the text")

    @property
    def message(self) -> ToolMessage:
        """The reply as the next message of the conversation."""
        return ToolMessage(role="assistant", content=self.text, calls=self.calls)


class GeneratorError(TurnmarkError):
    """A failed call.

    Args:
        kind: `timeout` (no token before the deadline), `rate_limited`, `unavailable` (no connection, a server error, a
            broken stream), `refused` (by the model or its filter), `bad_reply` (not a completion), `auth` or
            `bad_request`.
        message: for the user; never contains a secret.
        usage: usage of the failed requests.
    """

    def __init__(self, kind: ErrorKind, message: str, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.usage = usage or Usage()


class EmptyReply(GeneratorError):
    """An empty reply of the model, which is not a failure of the endpoint."""

    def __init__(self, message: str, usage: Usage | None = None) -> None:
        super().__init__("bad_reply", message, usage)


class UnsupportedRequest(GeneratorError):
    """An endpoint does not support a part of a request."""

    def __init__(self, message: str, usage: Usage | None = None) -> None:
        super().__init__("bad_request", message, usage)


class SchemaRefused(UnsupportedRequest):
    """An endpoint does not support schemas. It may succeed with the schema in the prompt."""


class ToolsRefused(UnsupportedRequest):
    """An endpoint does not support tools. The same request without them may succeed."""


class PicturesRefused(UnsupportedRequest):
    """A generator or its endpoint does not take pictures. No retry can help, only another model."""

    def __init__(self, message: str, usage: Usage | None = None) -> None:
        hint = "; name a model that reads pictures, such as openai:gpt-4o-mini or ollama:qwen2.5vl"
        super().__init__(message + hint, usage)


class CallOptions(TypedDict, total=False):
    """Options of `Generator.complete`, or None for the generator's default.

    Args:
        max_tokens: maximum tokens of the reply.
        schema: schema of the JSON object in the reply.
        deadline: maximum seconds between tokens, and before the first one, including retries.
        on_text: called with each piece of text when it arrives, in the caller's thread. Pieces are never retracted: a
            stream that breaks after its first piece is not retried.
    """

    max_tokens: int | None
    temperature: float | None
    schema: type[BaseModel] | None
    deadline: float | None
    on_text: OnText | None


class Generator(Protocol):
    """A language model: any object with these properties and this method. Calls may come from many threads."""

    @property
    def name(self) -> str:
        """The spec in normal form, without secrets, for manifests."""
        ...

    @property
    def context_tokens(self) -> int:
        """Maximum tokens of prompt and reply together. The first use may ask the endpoint."""
        ...

    @property
    def reply_tokens(self) -> int:
        """Default maximum tokens of a reply, for which the prompt must leave room."""
        ...

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """Return one reply.

        Args:
            messages: the prompt; each message has a `role` and `content`.
            options: `max_tokens`, `temperature`, `schema`, `deadline` and `on_text`; None for the generator's default.

        Raises:
            SchemaRefused: a schema was given and is not supported.
            GeneratorError: the call failed.
        """
        ...


# --- tools -----------------------------------------------------------------------------------------------------------


class Tool(Record):
    """A function that a model may call."""

    name: str
    description: str
    parameters: Mapping[str, Any] = Field(description="JSON schema of its arguments, an object")


class ToolMessage(Record):
    """One message of a conversation with tools."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: tuple[ToolCall, ...] = Field(default=(), description="tool calls of an assistant's message")
    call_id: str = Field(default="", description="id of the call that a tool's message answers")


@runtime_checkable
class ToolGenerator(Protocol):
    """A generator that calls tools."""

    def converse(
        self, messages: Sequence[ToolMessage], tools: Sequence[Tool], **options: Unpack[CallOptions]
    ) -> Completion:
        """Return the next reply of the conversation.

        Without tools the model has to answer in text. No schema is given.

        Raises:
            ToolsRefused: the endpoint does not support tools. Further calls with tools raise it without a request.
            GeneratorError: the call failed.
        """
        ...


# --- the options of a spec -------------------------------------------------------------------------------------------

Seconds = Annotated[float, Field(gt=0, le=86_400)]


class CallSettings(Record):
    """The options of a spec, the same for every generator that calls a model."""

    max_tokens: PositiveInt = MAX_TOKENS
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    deadline: Seconds = DEADLINE_SECONDS
    size: Size = "large"
    retries: NonNegativeInt = MAX_RETRIES
    context: Annotated[int, Field(ge=256)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    concurrency: PositiveInt | None = None


def option(kind: Any) -> Callable[[str], Any]:
    """Return the function that converts the text of an option to a type."""
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
CACHE_OPTION: Mapping[str, Callable[[str], Any]] = {"cache": option(Literal["0", "1"])}
"""The option that `open_generator` removes from a spec before it calls the factory, unless its value is wrong."""


# --- optional traits of a generator ----------------------------------------------------------------------------------


class GeneratorBase:
    """Optional traits of a generator, with defaults. Your generator may derive from this class and override them."""

    name: str
    size: Size = "large"
    """Reader profile: `large` gets the full prompts, `small` short ones for models of a few billion parameters."""
    deadline: float = DEADLINE_SECONDS
    """Default maximum seconds between tokens."""
    temperature: float | None = None
    """Default temperature, or None if it is not known."""
    at_once: int | None = None
    """Maximum concurrent calls, or None for no limit."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """Everything that determines replies except the options of a call, for the response cache; no secrets."""
        return {"name": self.name}

    @property
    def takes_pictures(self) -> bool:
        """Whether messages may contain pictures, as far as it is known."""
        return False

    def make_ready(self) -> None:
        """Start servers or load models now, so that the first call does not wait for them."""


def traits_of(generator: Generator) -> GeneratorBase:
    """Return the optional traits of a generator; the defaults if it does not derive from `GeneratorBase`."""
    if isinstance(generator, GeneratorBase):
        return generator
    traits = GeneratorBase()
    traits.name = generator.name
    return traits


@dataclass
class Call:
    """The options of a call of `Generator.complete`, completed with the generator's defaults."""

    limit: int
    temperature: float
    deadline: float
    schema: type[BaseModel] | None = None
    on_text: OnText | None = None
    began: bool = False
    """Whether a piece of the reply was passed to `on_text`."""

    def show(self, piece: str) -> None:
        """Pass a piece of the reply to `on_text`."""
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
        defaults = {"max_tokens": self.reply_tokens, "temperature": self.temperature, "deadline": self.deadline}
        effective: dict[str, Any] = defaults | {name: value for name, value in options.items() if value is not None}
        return Call(limit=effective.pop("max_tokens"), **effective)


def estimate_picture_tokens(width: int, height: int) -> int:
    """Estimate the prompt tokens of a picture from its size in pixels."""
    return min(PICTURE_TOKENS, ceil(width * height / PIXELS_PER_TOKEN))


def estimate_usage(messages: Sequence[Any], text: str, calls: int) -> Usage:
    """Estimate the usage of a call whose endpoint reported none: characters / 4, rounded up, and `PICTURE_TOKENS`."""
    prompt = sum(len(message.content) for message in messages)
    pictures = sum(len(getattr(message, "pictures", ())) for message in messages)
    prompt_tokens = ceil(prompt / 4) + pictures * PICTURE_TOKENS
    return Usage(calls=calls, prompt_tokens=prompt_tokens, completion_tokens=ceil(len(text) / 4))


class GeneratorWrapper(GeneratorBase):
    """Base of wrappers, with name, limits and traits of the wrapped generator; subclasses override `_around`."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.name, self.reply_tokens = generator.name, generator.reply_tokens
        traits = traits_of(generator)
        self.deadline, self.temperature, self.size = traits.deadline, traits.temperature, traits.size
        self.at_once = traits.at_once
        if hasattr(generator, "converse"):  # set only here, since not every generator supports tools
            self.converse = self._converse

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """See `Generator.complete`."""
        return self._around(partial(self.generator.complete, messages), options)

    def _converse(self, messages: Sequence[Any], tools: Sequence[Any], **options: Unpack[CallOptions]) -> Completion:
        return self._around(partial(self.generator.converse, messages, tools), options)  # type: ignore[attr-defined]

    def _around(self, call: partial[Completion], options: CallOptions) -> Completion:
        """Make a call of `complete` or `converse`, whose first argument is the messages."""
        return call(**options)

    @property
    def context_tokens(self) -> int:
        return self.generator.context_tokens

    @property
    def identity(self) -> Mapping[str, Any]:
        return traits_of(self.generator).identity

    @property
    def takes_pictures(self) -> bool:
        return traits_of(self.generator).takes_pictures

    def make_ready(self) -> None:
        traits_of(self.generator).make_ready()
