"""A request of OpenAI's chat completions as a turn: the conversation before, the message, and how it is to be answered.

What a client sends beside it is taken as OpenAI's API has it. What only tunes a model's writing is let pass and named
in the reply, since sources decide here what is said; what could not be answered as it asks is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from turnmark.corpora.console import inert, valid_text
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Message, Record

Streaming = Literal["final", "draft"]
STREAMINGS: tuple[Streaming, ...] = ("final", "draft")

_USED = frozenset(("model", "messages", "stream", "stream_options", "turnmark"))
_OPTIONS = ("events", "footnotes", "stream")
_MOST_IGNORED = 40
_LONGEST_NAME = 60
_ESCAPED = re.compile(r"\\([\\\[\]<])")
_DEFINITIONS = re.compile(r"(?:\n+\[\^\d{1,3}\]:[^\n]*)+\s*\Z")
_NOTE = re.compile(r"[ \t]*\[\^\d{1,3}\]")


class Refusal(Exception):
    """A request that cannot be answered.

    Args:
        problems: every mistake in it.
        param: where the first one is.
        status: of HTTP.
        code: as OpenAI names this kind, where it does.
    """

    def __init__(
        self, problems: Sequence[str] | str, param: str | None = None, status: int = 400, code: str | None = None
    ) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("; ".join(self.problems))
        self.param, self.status, self.code = param, status, code


class ChatRequest(Record):
    """A request that was understood."""

    history: tuple[Message, ...] = ()
    message: str
    stream: bool = False
    usage: bool = Field(default=False, description="a stream ends with a chunk of token counts")
    events: bool = Field(default=False, description="a stream tells each step and the draft as they come")
    footnotes: bool = True
    streaming: Streaming = "final"
    ignored: tuple[str, ...] = Field(default=(), description="what the request has and the turn does not heed")


def parse_body(body: bytes) -> dict[str, Any]:
    """A request's JSON object.

    Raises:
        Refusal: it is none.
    """

    def no_number(word: str) -> float:
        raise ValueError(f"{word} is no number of JSON")

    try:
        value = json.loads(body.decode("utf-8"), parse_constant=no_number)
    except RecursionError:
        raise Refusal("the body is JSON nested too deeply") from None
    except ValueError as error:
        raise Refusal(f"the body is not JSON ({inert(error)})") from None
    if not isinstance(value, dict):
        raise Refusal("the body is no JSON object")
    return value


def parse_request(
    body: Mapping[str, Any], model: str, max_messages: int, footnotes: bool = True, streaming: Streaming = "final"
) -> ChatRequest:
    """What a request asks for.

    Args:
        body: its JSON object.
        model: the one that is served.
        max_messages: messages, at most.
        footnotes, streaming: what holds where the request does not say.

    Raises:
        Refusal: every mistake in it; 404 for another model.
    """
    reading = _Reading(body)
    reading.model(model)
    history, message = reading.conversation(max_messages)
    stream = reading.flag("stream", body, False)
    options = reading.table("stream_options")
    usage = reading.flag("include_usage", options, False, "stream_options.")
    if options and not stream:
        reading.wrong("stream_options", "only with stream: true")
    ours = reading.table("turnmark")
    reading.refused()
    for name in ours:
        if name not in _OPTIONS:
            reading.wrong(f"turnmark.{_named(name)}", f"no such option; there are: {', '.join(_OPTIONS)}")
    events = reading.flag("events", ours, False, "turnmark.")
    noted = reading.flag("footnotes", ours, footnotes, "turnmark.")
    stream_mode = ours.get("stream", streaming)
    if stream_mode not in STREAMINGS:
        reading.wrong("turnmark.stream", f"one of {', '.join(STREAMINGS)} was expected")
        stream_mode = streaming
    reading.check()
    passed = dict.fromkeys([*reading.passed, *(_named(name) for name in body if name not in _USED)])
    return ChatRequest(
        history=history, message=message, stream=stream, usage=usage, events=events, footnotes=noted,
        streaming=stream_mode, ignored=tuple(passed)[:_MOST_IGNORED],
    )  # fmt: skip


class _Reading:
    """A request as it is read, and what is wrong with it."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body = body
        self.problems: list[str] = []
        self.param: str | None = None
        self.passed: list[str] = []

    def wrong(self, param: str, problem: str) -> None:
        self.param = self.param or param
        self.problems.append(f"{param}: {problem}")

    def check(self) -> None:
        if self.problems:
            raise Refusal(self.problems, self.param)

    def model(self, served: str) -> None:
        """The model is the one that is served."""
        name = self.body.get("model")
        if not isinstance(name, str) or not name:
            self.wrong("model", f"missing; the model served here is {served!r}")
        elif name != served:
            message = f"The model {_named(name)!r} does not exist; the model served here is {served!r}"
            raise Refusal(message, "model", 404, "model_not_found")

    def flag(self, name: str, table: Mapping[str, Any], default: bool, prefix: str = "") -> bool:
        value = table.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.wrong(prefix + name, "true or false was expected")
            return default
        return value

    def table(self, name: str) -> Mapping[str, Any]:
        value = self.body.get(name)
        if value is not None and not isinstance(value, dict):
            self.wrong(name, "an object was expected")
        return value if isinstance(value, dict) else {}

    def refused(self) -> None:
        """What asks for another kind of reply than there is: to let it pass would be to answer something else."""
        body = self.body
        if body.get("n") not in (None, 1):
            self.wrong("n", "one reply a request")
        form = body.get("response_format")
        if form is not None and not (isinstance(form, dict) and form.get("type") == "text"):
            self.wrong("response_format", 'replies are text; leave it out, or {"type": "text"}')
        choice = body.get("tool_choice")
        if choice not in (None, "none", "auto"):
            self.wrong("tool_choice", "no tool is called here; leave it out, or none, or auto")
        if body.get("logprobs"):
            self.wrong("logprobs", "there are none: sentences come from sources")
        if body.get("modalities") not in (None, ["text"]):
            self.wrong("modalities", 'replies are text; leave it out, or ["text"]')

    def conversation(self, max_messages: int) -> tuple[tuple[Message, ...], str]:
        """The turns before, and the message to answer."""
        rows = self.body.get("messages")
        if not isinstance(rows, list) or not rows:
            self.wrong("messages", "a list of messages was expected, the last one the user's")
            return (), ""
        if len(rows) > max_messages:
            self.wrong("messages", f"{len(rows)} messages, and {max_messages} are the most; leave the oldest out")
            return (), ""
        problems_before = len(self.problems)
        messages = [message for at, row in enumerate(rows) if (message := self._message(at, row)) is not None]
        if len(self.problems) > problems_before:
            return (), ""
        if not messages or messages[-1].role != "user" or rows[-1].get("role") != "user":
            self.wrong("messages", "the last message must be the user's: it is what is answered")
            return (), ""
        return tuple(messages[:-1]), messages[-1].content

    def _message(self, at: int, row: Any) -> Message | None:
        """One message; None for one that is let pass, or is wrong."""
        place = f"messages[{at}]"
        if not isinstance(row, dict):
            self.wrong(place, "an object with role and content was expected")
            return None
        role = row.get("role")
        if role in ("system", "developer"):
            self.passed.append(f"{place} ({role})")
            return None
        if role not in ("user", "assistant"):
            self.wrong(f"{place}.role", "one of system, developer, user, assistant was expected")
            return None
        text = self._text(f"{place}.content", row.get("content"))
        if text is None:
            return None
        if not text.strip():
            if role == "user":
                self.wrong(f"{place}.content", "the message is empty")
            return None
        if role == "assistant":
            text = strip_citations(without_footnotes(text))
        return Message(role=role, content=text)

    def _text(self, place: str, content: Any) -> str | None:
        """A message's text, given as a string or as parts of type `text`."""
        if content is None:
            content = ""
        if isinstance(content, str):
            return valid_text(content)
        if not isinstance(content, list):
            self.wrong(place, "a text, or a list of text parts was expected")
            return None
        pieces, problems_before = [], len(self.problems)
        for at, part in enumerate(content):
            kind = part.get("type") if isinstance(part, dict) else None
            piece = part.get("text") if isinstance(part, dict) else None
            if kind != "text" or not isinstance(piece, str):
                self.wrong(f"{place}[{at}]", 'only parts {"type": "text", "text": …} can be read')
            else:
                pieces.append(valid_text(piece))
        return "\n".join(pieces) if len(self.problems) == problems_before else None


def _named(name: str) -> str:
    """A name of the client's own making, as one short inert line."""
    line = inert(name)
    return line if len(line) <= _LONGEST_NAME else f"{line[:_LONGEST_NAME]}…"


def without_footnotes(text: str) -> str:
    """An answer as it was before `with_footnotes`, less its marks; any other text nearly as it stands."""
    return _ESCAPED.sub(r"\1", _NOTE.sub("", _DEFINITIONS.sub("", text)))
