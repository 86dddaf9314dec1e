"""Parse request bodies of OpenAI's chat completions and responses: history, message and options.

Sampling options, system messages and tool messages are ignored, since answers come from the documents; the reply lists
them. A request for any kind of reply but text is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from turnmark.assistant.config import MAX_HISTORY_MESSAGES
from turnmark.assistant.wording.reply_texts import UNREAD_PARTS_TEXT, in_language, translations_of
from turnmark.core.record import Record
from turnmark.core.untrusted import ellipsize, one_line
from turnmark.corpora.text.function_words import language_of
from turnmark.corpora.text.segmentation import strip_citations
from turnmark.corpora.types import Message
from turnmark.retrieval.storage.filters import where_texts

MAX_MESSAGES = 10_000
"""Maximum messages in a request; a turn uses the last `MAX_HISTORY_MESSAGES`."""

_IGNORED_OPTIONS = ("n", "response_format", "tool_choice", "logprobs", "modalities")
_USED_ROLES = ("user", "assistant")
"""Messages of other roles are left out: instructions, and results of tools that the client ran for another model."""
_UNREAD_PARTS = frozenset(("image_url", "image", "input_image", "input_audio", "file", "input_file"))
"""Parts of a message that are not read; it is answered from its text, with a note."""
_MAX_IGNORED_NAMES = 40
_MAX_NAME_CHARS = 60
_ESCAPED_CHARACTER = re.compile(r"\\([\\\[\]<])")
_FOOTNOTE_DEFINITIONS = re.compile(r"(?:\n+\[\^\d{1,3}\]:[^\n]*)+\s*\Z")
_FOOTNOTE_MARK = re.compile(r"[ \t]*\[\^\d{1,3}\]")


class RejectedRequest(Exception):
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

    model: str = Field(default="", description="name of the requested model; if empty, the default one")
    history: tuple[Message, ...] = ()
    message: str
    stream: bool = False
    usage: bool = Field(default=False, description="whether the last chunk of a stream has token counts")
    events: bool = Field(default=False, description="whether a stream has the events of the steps")
    footnotes: bool = True
    where: tuple[str, ...] = Field(default=(), description="answer only from documents that meet these conditions")
    ignored: tuple[str, ...] = Field(default=(), description="names of the ignored parts of the request")
    note: str = Field(default="", description="what the person must know of the message; a line of the reply's text")


class _RequestObject(BaseModel):
    """Base of request objects: types are strict, and unknown fields are allowed."""

    model_config = ConfigDict(strict=True, extra="allow")


class _TextPart(_RequestObject):
    type: Literal["text"]
    text: str


def _to_parts(content: Any, kind: str = "text") -> Any:
    """Convert a message's content to a list of parts, if it is a string or null."""
    return [{"type": kind, "text": content or ""}] if isinstance(content, str | None) else content


class _ClientMessage(_RequestObject):
    role: str
    unread_parts: list[str] = []
    content: Annotated[list[_TextPart], BeforeValidator(_to_parts)] = []

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.content)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_unused_content(cls, message: Any) -> Any:
        """Drop the content of a message that is left out, which may have any form, and pictures and files of others."""
        if not isinstance(message, dict):
            return message
        role, content = message.get("role"), message.get("content")
        if isinstance(role, str) and role not in _USED_ROLES:
            return {key: value for key, value in message.items() if key != "content"}
        if isinstance(content, list):
            kinds = [part.get("type") if isinstance(part, dict) else None for part in content]
            kept = [part for part, kind in zip(content, kinds, strict=True) if kind not in _UNREAD_PARTS]
            return {**message, "content": kept, "unread_parts": sorted({*kinds} & _UNREAD_PARTS)}
        return message

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if self.role == "user" and not self.text.strip():
            raise ValueError("the message is empty; write a question")
        return self


class _StreamOptions(_RequestObject):
    include_usage: bool | None = None


class _TextFormat(_RequestObject):
    type: Literal["text"]


class _TurnmarkOptions(_RequestObject):
    model_config = ConfigDict(strict=True, extra="forbid")

    events: bool | None = None
    footnotes: bool | None = None
    where: str | list[str] | dict[str, str] | None = None


class _CompletionBody(_RequestObject):
    """A request body of chat completions.

    An option for another kind of reply is a mistake: ignoring it would return a reply that the client cannot use.
    """

    model: str
    messages: list[_ClientMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    turnmark: _TurnmarkOptions | None = None
    n: Literal[1] | None = None
    response_format: _TextFormat | None = None
    tool_choice: Literal["none", "auto"] | None = None
    logprobs: Literal[False] | None = None
    modalities: list[Literal["text"]] | None = None

    @model_validator(mode="after")
    def _check_last_message(self) -> Self:
        if self.stream_options and not self.stream:
            raise ValueError("stream_options: needs stream: true")
        if self.messages[-1].role != "user":
            raise ValueError("messages: the last message must have role user; it is the one that is answered")
        return self


class _ResponsePart(_RequestObject):
    type: Literal["input_text", "output_text"]
    text: str


class _InputMessage(_ClientMessage):
    """A message of the input; the output of an earlier response can be sent back unchanged."""

    type: Literal["message"] = "message"
    content: Annotated[list[_ResponsePart], BeforeValidator(partial(_to_parts, kind="input_text"))] = []  # type: ignore[assignment]


_TOOL_ITEMS = ("mcp_call", "function_call", "function_call_output", "reasoning")


def _to_input_messages(given: Any) -> Any:
    """Convert the input to a list of messages, if it is a string; leave out tool calls and their results."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if isinstance(given, list):
        return [item for item in given if not (isinstance(item, dict) and item.get("type") in _TOOL_ITEMS)]
    return given


def _refuse_stored_state(value: Any) -> Any:
    if value is not None:
        raise ValueError("this server stores no conversations; send the whole conversation as input")
    return value


def _refuse_unsupported(value: Any) -> Any:
    if value:
        raise ValueError("is not supported")
    return value


_StoredState = Annotated[Any, AfterValidator(_refuse_stored_state)]
_UnsupportedField = Annotated[Any, AfterValidator(_refuse_unsupported)]


class _TextConfig(_RequestObject):
    format: _TextFormat | None = None


class _ResponseBody(_RequestObject):
    """A request body of responses; see `_CompletionBody`."""

    model: str
    input: Annotated[list[_InputMessage], BeforeValidator(_to_input_messages)] = Field(
        min_length=1, max_length=MAX_MESSAGES
    )
    stream: bool | None = None
    turnmark: _TurnmarkOptions | None = None
    previous_response_id: _StoredState = None
    conversation: _StoredState = None
    background: _UnsupportedField = None
    prompt: _UnsupportedField = None
    text: _TextConfig | None = None
    tool_choice: Literal["none", "auto"] | None = None
    top_logprobs: Literal[0] | None = None

    @model_validator(mode="after")
    def _check_last_message(self) -> Self:
        if self.input[-1].role != "user":
            raise ValueError("input: the last message must have role user; it is the one that is answered")
        return self


B = TypeVar("B", bound=BaseModel)
G = TypeVar("G")


def parse_request(body: bytes) -> ChatRequest:
    """Parse a JSON request body of chat completions; raise `RejectedRequest` with every mistake."""
    request = parse(_CompletionBody.model_validate_json, body)
    ignored = [name for name in _IGNORED_OPTIONS if getattr(request, name) is not None]
    chat_request = _to_chat_request(request, "messages", request.messages, ignored)
    options = request.stream_options
    return chat_request.model_copy(update={"usage": bool(options and options.include_usage)})


def parse_response_request(body: bytes) -> ChatRequest:
    """Parse a JSON request body of responses, as `parse_request` does."""
    request = parse(_ResponseBody.model_validate_json, body)
    ignored = [name for name in ("text", "tool_choice", "top_logprobs") if getattr(request, name) is not None]
    return _to_chat_request(request, "input", request.input, ignored)


def parse(validate: Callable[[G], B], given: G) -> B:
    """Return the record of what a client sent; raise `RejectedRequest` with every mistake."""
    try:
        return validate(given)
    except ValidationError as error:
        problems: list[str] = []
        for mistake in error.errors():
            location = _format_location(mistake["loc"])
            problem = mistake["msg"].removeprefix("Value error, ")
            problems.append(one_line(f"{location}: {problem}" if location else problem))
        first_location = _format_location(error.errors()[0]["loc"])
        raise RejectedRequest(problems, first_location or None) from None


def _to_chat_request(
    request: _CompletionBody | _ResponseBody, field: str, messages: Sequence[_ClientMessage], ignored: Sequence[str]
) -> ChatRequest:
    """Convert a validated body to a `ChatRequest`.

    Args:
        field: name of the field with the messages.
        ignored: names of the declared fields that are set but have no effect; undeclared fields have none either.
    """
    system = [f"{field}[{n}] ({short_name(row.role)})" for n, row in enumerate(messages) if row.role not in _USED_ROLES]
    system += [f"{field}[{n}].content ({kind})" for n, row in enumerate(messages) for kind in row.unread_parts]
    own = request.turnmark or _TurnmarkOptions()
    last = messages[-1]
    return ChatRequest(
        model=request.model,
        history=tuple(_to_history(messages[:-1])),
        message=last.text,
        note=f"*{in_language(UNREAD_PARTS_TEXT, language_of(last.text))}*" if last.unread_parts else "",
        stream=bool(request.stream),
        events=bool(own.events),
        footnotes=own.footnotes is not False,
        where=where_texts(own.where or ()),
        ignored=(*system, *map(short_name, (*(request.model_extra or {}), *ignored)))[:_MAX_IGNORED_NAMES],
    )


def _to_history(messages: Sequence[_ClientMessage]) -> Iterator[Message]:
    """Yield the messages that a turn uses; leave out system messages, empty replies, footnotes and citation marks."""
    conversation = [message for message in messages if message.role in _USED_ROLES and message.text.strip()]
    for message in conversation[-MAX_HISTORY_MESSAGES:]:
        if message.role == "user":
            yield Message(role="user", content=message.text)
        else:
            yield Message(role="assistant", content=strip_citations(remove_footnotes(message.text)))


def _format_location(location: Sequence[str | int]) -> str:
    """Format the location of a mistake: `messages[0].content[1].type`."""
    keys = (f"[{key}]" if isinstance(key, int) else f".{short_name(key)}" for key in location)
    return "".join(keys).removeprefix(".")


def short_name(name: str) -> str:
    """Make a name from the client safe to print: one line, of limited length."""
    return ellipsize(one_line(name), _MAX_NAME_CHARS)


def remove_footnotes(text: str) -> str:
    """Undo `convert_marks` on an answer, and remove its marks and its note; other texts stay nearly unchanged."""
    text = _FOOTNOTE_DEFINITIONS.sub("", text)
    for note in translations_of(UNREAD_PARTS_TEXT):
        text = text.removesuffix(f"\n\n*{note}*")
    return _ESCAPED_CHARACTER.sub(r"\1", _FOOTNOTE_MARK.sub("", text))
