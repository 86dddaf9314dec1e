"""Read a JSON request body of OpenAI's chat completions or responses: history, message, and options of the reply.

Sampling options and system messages are ignored, since answers come from the sources; the reply names them. A request
for another kind of reply than text is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from turnmark.assistant.config import MAX_HISTORY_MESSAGES
from turnmark.core.record import Record
from turnmark.core.untrusted import ellipsize, one_line
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Message

MESSAGES = 10_000
"""Maximum messages of a conversation, of which a turn looks at the last `MAX_HISTORY_MESSAGES`."""

_UNHEEDED = ("n", "response_format", "tool_choice", "logprobs", "modalities")
_INSTRUCTIONS = ("system", "developer")
_MOST_IGNORED = 40
_LONGEST_NAME = 60
_ESCAPED = re.compile(r"\\([\\\[\]<])")
_DEFINITIONS = re.compile(r"(?:\n+\[\^\d{1,3}\]:[^\n]*)+\s*\Z")
_NOTE = re.compile(r"[ \t]*\[\^\d{1,3}\]")


class Refusal(Exception):
    """A request cannot be answered.

    Args:
        problems: every mistake in the request.
        param: location of the first mistake.
        status: HTTP status.
        code: OpenAI's error code, if there is one.
    """

    def __init__(
        self, problems: Sequence[str] | str, param: str | None = None, status: int = 400, code: str | None = None
    ) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("; ".join(self.problems))
        self.param, self.status, self.code = param, status, code


class ChatRequest(Record):
    """A valid request."""

    history: tuple[Message, ...] = ()
    message: str
    stream: bool = False
    usage: bool = Field(default=False, description="whether the last chunk of a stream has token counts")
    events: bool = Field(default=False, description="whether a stream has the events of the steps")
    footnotes: bool = True
    ignored: tuple[str, ...] = Field(default=(), description="names of the ignored parts of the request")


class _Wire(BaseModel):
    """Base of request objects: types are strict, and unknown fields are allowed."""

    model_config = ConfigDict(strict=True, extra="allow")


class _Part(_Wire):
    type: Literal["text"]
    text: str


def _parts(content: Any) -> Any:
    """Convert a message's content to a list of parts, if it is a string or null."""
    if isinstance(content, str | None):
        return [{"type": "text", "text": content or ""}]
    return content


class _Message(_Wire):
    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[list[_Part], BeforeValidator(_parts)] = []

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.content)

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if self.role == "user" and not self.text.strip():
            raise ValueError("the message is empty")
        return self


class _StreamOptions(_Wire):
    include_usage: bool | None = None


class _TextFormat(_Wire):
    type: Literal["text"]


class _Ours(_Wire):
    model_config = ConfigDict(strict=True, extra="forbid")

    events: bool | None = None
    footnotes: bool | None = None


class _Body(_Wire):
    """The request body. Options for another kind of reply are mistakes, since ignoring them would give a wrong one."""

    model: str
    messages: list[_Message] = Field(min_length=1, max_length=MESSAGES)
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    turnmark: _Ours | None = None
    n: Literal[1] | None = None
    response_format: _TextFormat | None = None
    tool_choice: Literal["none", "auto"] | None = None
    logprobs: Literal[False] | None = None
    modalities: list[Literal["text"]] | None = None

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        if self.stream_options and not self.stream:
            raise ValueError("stream_options: only with stream: true")
        if self.messages[-1].role != "user":
            raise ValueError("messages: the last message must be the user's: it is what is answered")
        return self


class _ResponsePart(_Wire):
    type: Literal["input_text", "output_text"]
    text: str


def _response_parts(content: Any) -> Any:
    """A message's text, given as a string or as parts, as parts."""
    return [{"type": "input_text", "text": content or ""}] if isinstance(content, str | None) else content


class _Item(_Message):
    """A message of the input; what a reply holds can be sent back as it is."""

    type: Literal["message"] = "message"
    content: Annotated[list[_ResponsePart], BeforeValidator(_response_parts)] = []  # type: ignore[assignment]


def _input_items(given: Any) -> Any:
    """The input, given as a string or as messages, as messages; calls of tools that a reply holds are left out."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if isinstance(given, list):
        return [item for item in given if not (isinstance(item, dict) and item.get("type") == "mcp_call")]
    return given


def _not_kept(value: Any) -> Any:
    if value is not None:
        raise ValueError("nothing is kept here; send the whole conversation as input")
    return value


def _not_had(value: Any) -> Any:
    if value:
        raise ValueError("is not served here")
    return value


_Kept = Annotated[Any, AfterValidator(_not_kept)]
_Other = Annotated[Any, AfterValidator(_not_had)]


class _TextConfig(_Wire):
    format: _TextFormat | None = None


class _ResponseBody(_Wire):
    """A request of `responses`; see `_Body`."""

    model: str
    input: Annotated[list[_Item], BeforeValidator(_input_items)] = Field(min_length=1, max_length=MESSAGES)
    stream: bool | None = None
    turnmark: _Ours | None = None
    previous_response_id: _Kept = None
    conversation: _Kept = None
    background: _Other = None
    prompt: _Other = None
    text: _TextConfig | None = None
    tool_choice: Literal["none", "auto"] | None = None
    top_logprobs: Literal[0] | None = None

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        if self.input[-1].role != "user":
            raise ValueError("input: the last message must be the user's: it is what is answered")
        return self


B = TypeVar("B", _Body, _ResponseBody)


def parse_request(body: bytes, model: str) -> ChatRequest:
    """Parse a JSON request body of chat completions.

    Args:
        model: name of the served model.

    Raises:
        Refusal: every mistake in the request; status 404 for another model.
    """
    request = _checked(_Body, body, model)
    unheeded = [name for name in _UNHEEDED if getattr(request, name) is not None]
    chat_request = _asked(request, "messages", request.messages, unheeded)
    options = request.stream_options
    return chat_request.model_copy(update={"usage": bool(options and options.include_usage)})


def parse_response_request(body: bytes, model: str) -> ChatRequest:
    """What a request of responses asks for; as `parse_request`."""
    request = _checked(_ResponseBody, body, model)
    unheeded = [name for name in ("text", "tool_choice", "top_logprobs") if getattr(request, name) is not None]
    return _asked(request, "input", request.input, unheeded)


def _checked(kind: type[B], body: bytes, model: str) -> B:
    """A request of this kind, for this model."""
    try:
        request = kind.model_validate_json(body)
    except ValidationError as error:
        problems: list[str] = []
        for mistake in error.errors():
            location = _location(mistake["loc"])
            problem = mistake["msg"].removeprefix("Value error, ")
            problems.append(one_line(f"{location}: {problem}" if location else problem))
        first_location = _location(error.errors()[0]["loc"])
        raise Refusal(problems, first_location or None) from None
    if request.model != model:
        message = f"The model {_short_name(request.model)!r} does not exist; the model served here is {model!r}"
        raise Refusal(message, "model", 404, "model_not_found")
    return request


def _asked(
    request: _Body | _ResponseBody, field: str, messages: Sequence[_Message], unheeded: Sequence[str]
) -> ChatRequest:
    """Return the request as a `ChatRequest`.

    Args:
        field: name of the field with the messages.
        unheeded: names of the declared fields that are set and ignored; undeclared fields are ignored, too.
    """
    system = [f"{field}[{n}] ({row.role})" for n, row in enumerate(messages) if row.role in _INSTRUCTIONS]
    ours = request.turnmark or _Ours()
    return ChatRequest(
        history=tuple(_history(messages[:-1])),
        message=messages[-1].text,
        stream=bool(request.stream),
        events=bool(ours.events),
        footnotes=ours.footnotes is not False,
        ignored=(*system, *map(_short_name, (*(request.model_extra or {}), *unheeded)))[:_MOST_IGNORED],
    )


def _history(messages: Sequence[_Message]) -> list[Message]:
    """Convert the messages that a turn looks at, without system messages, empty replies, footnotes and citations."""
    conversation = [message for message in messages if message.role not in _INSTRUCTIONS and message.text.strip()]
    history: list[Message] = []
    for message in conversation[-MAX_HISTORY_MESSAGES:]:
        if message.role == "user":
            history.append(Message(role="user", content=message.text))
        else:
            answer = strip_citations(without_footnotes(message.text))
            history.append(Message(role="assistant", content=answer))
    return history


def _location(location: Sequence[str | int]) -> str:
    """Format the location of a mistake: `messages[0].content[1].type`."""
    keys = (f"[{key}]" if isinstance(key, int) else f".{_short_name(key)}" for key in location)
    return "".join(keys).removeprefix(".")


def _short_name(name: str) -> str:
    """Make a name from the client safe to print: one line, of limited length."""
    return ellipsize(one_line(name), _LONGEST_NAME)


def without_footnotes(text: str) -> str:
    """Undo `footnote_marks` on an answer, and remove its marks; other texts stay nearly unchanged."""
    return _ESCAPED.sub(r"\1", _NOTE.sub("", _DEFINITIONS.sub("", text)))
