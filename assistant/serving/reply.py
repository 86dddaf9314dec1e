"""A turn's reply for clients: as text with footnotes, and in OpenAI's forms (completion, chunks of a stream, error).

What they have no field for is in `turnmark`. Answers keep their
emphasis, lists and code. What a client could load, follow or run is escaped: no image, link or tag of a document's or a
model's becomes active.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.responses import Response

from turnmark.assistant.export import escape_markdown
from turnmark.assistant.serving.request import ChatRequest, Refusal
from turnmark.assistant.session import cite, says_same, sources_used
from turnmark.assistant.steps.marks import CODE, MARK, cited_numbers
from turnmark.assistant.types import Event, Reply
from turnmark.core.console import printable, valid_text

_LIVE = re.compile(r"[\\\[\]<]")
# In code a bracketed number is code; what would be a link or a definition if it were none stays escaped.
_CODE_INDEX = re.compile(r"\\\[([\d\s,:–-]+)\\\](?![(:])")
# What the next piece may complete: a mark or code; inside a block of code, a number or its end.
_OPEN = re.compile(r"(?:\[[\d\s,–-]{0,24}|`+[^`\n]*)\Z")
_OPEN_INSIDE = re.compile(r"(?:\[[\d\s,:–-]{0,24}\]?|`+)\Z")
# Not one that an answer itself had, which is escaped, and not the definition of one.
_FOOTNOTE = re.compile(r"(?!^\[\^\d{1,3}\]:)(?<!\\)\[\^(\d{1,3})\]", re.MULTILINE)
_FENCE = "```"
_MOST_SOURCES = 999

AFTER = "\n\n*After checking:*\n\n"
_PIECE = re.compile(r"[^\n]*\n+|[^\n]+")
_TYPES: Mapping[int, str] = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def content(reply: Reply, footnotes: bool) -> str:
    """The answer with its steps, as Markdown with footnotes, or with its marks unchanged."""
    if not footnotes:
        return printable(reply.answer)
    return "\n\n".join(filter(None, (footnote_marks(reply.answer, len(reply.citations)), definitions(reply))))


def definitions(reply: Reply) -> str:
    """A footnote's line for each source that is used; empty where none is."""
    return "\n".join(f"[^{citation.n}]: {escape_markdown(cite(citation))}" for citation in sources_used(reply))


def footnote_marks(text: str, sources: int) -> str:
    """A text with its marks as footnotes; whatever else would be active is escaped.

    Args:
        sources: how many there are. A mark that points beyond them stays as it is, and so does one in code.
    """
    # Code is escaped, too: clients differ in what they take for code.
    pieces = enumerate(CODE.split(printable(text)))
    return "".join(_CODE_INDEX.sub(r"[\1]", _inert(piece)) if n % 2 else _marked(piece, sources) for n, piece in pieces)


def _marked(text: str, sources: int) -> str:
    pieces, end = [], 0
    for match in MARK.finditer(text):
        numbers = cited_numbers(match.group())
        if all(1 <= number <= sources for number in numbers):
            pieces += [_inert(text[end : match.start()]), *(f"[^{number}]" for number in numbers)]
            end = match.end()
    return "".join([*pieces, _inert(text[end:])])


def _inert(text: str) -> str:
    return _LIVE.sub(r"\\\g<0>", text)


class ReplyText:
    """The text of one reply, sent as it is written.

    What was sent cannot be taken back: if checking changed the words, the checked answer follows under a line that
    says so.
    """

    def __init__(self, footnotes: bool) -> None:
        self._footnotes = footnotes
        self._written = self._held = self._fence = ""
        self._sources = _MOST_SOURCES

    def add(self, event: Event) -> str:
        """What is sent of an event; what may still become a footnote's mark waits for its end."""
        if event.step == "retrieve":  # a model that searches on may cite more than was counted
            self._sources = len(event.detail.get("hits", ())) or _MOST_SOURCES
        self._written += event.delta
        if not self._footnotes or not event.delta:
            return printable(event.delta)
        text = self._fence + self._held + event.delta
        *_, code = [None, *CODE.finditer(text)]
        inside = bool(code and code[0].startswith(_FENCE) and not code[0].endswith(_FENCE, len(_FENCE)))
        safe = 0 if code is None else code.start() + len(_FENCE) if inside else code.end()
        open_ = (_OPEN_INSIDE if inside else _OPEN).search(text, safe)
        cut = open_.start() if open_ else len(text)
        shown = footnote_marks(text[:cut], self._sources).removeprefix(self._fence)
        self._held, self._fence = text[cut:], _FENCE if inside else ""
        return shown

    def rest(self, reply: Reply) -> Iterator[str]:
        """What is still to be sent, line by line."""
        yield from _PIECE.findall(self._rest(reply))

    def _rest(self, reply: Reply) -> str:
        complete = content(reply, self._footnotes)
        if not self._written.strip():
            return complete
        pending = footnote_marks(self._fence + self._held, self._sources).removeprefix(self._fence)
        if reply.checks.repaired or not says_same(self._written, reply):
            return f"{pending}{AFTER}{complete}"
        notes = definitions(reply) if self._footnotes else ""
        return f"{pending}\n\n{notes}" if notes else pending


class ReplyForm:
    """One reply in the forms of chat completions; its id, time and model are in each of them."""

    def __init__(self, identity: str, created: int, model: str, chat_request: ChatRequest) -> None:
        self._head = {"id": identity, "created": created, "model": model}
        self._request = chat_request
        self._text = ReplyText(chat_request.footnotes)

    def completion(self, reply: Reply) -> dict[str, Any]:
        """A reply in one piece."""
        message = {"role": "assistant", "content": content(reply, self._request.footnotes), "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return {
            **self._head, "object": "chat.completion", "choices": [choice], "usage": token_counts(reply),
            "turnmark": reply_extension(reply, self._request),
        }  # fmt: skip

    def begin(self) -> Iterator[dict[str, Any]]:
        """The chunk that opens a stream."""
        yield self._chunk({"role": "assistant", "content": ""})

    def event(self, event: Event) -> Iterator[dict[str, Any]]:
        """What is sent of a turn's event."""
        extension = {"event": event.model_dump(mode="json")} if self._request.events else None
        text = self._text.add(event)
        if text or extension:
            yield self._chunk({"content": text} if text else {}, extension=extension)

    def end(self, reply: Reply) -> Iterator[dict[str, Any]]:
        """The rest of the content, the chunk that closes it, and token counts where they were asked for."""
        for piece in self._text.rest(reply):
            yield self._chunk({"content": piece})
        yield self._chunk({}, "stop", reply_extension(reply, self._request))
        if self._request.usage:
            yield {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": token_counts(reply)}

    def failed(self, refusal: Refusal) -> Iterator[dict[str, Any]]:
        """What ends a stream without a reply."""
        yield error(refusal)

    def _chunk(
        self, delta: Mapping[str, Any], finish: str | None = None, extension: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": [choice]}
        return {**chunk, "turnmark": extension} if extension else chunk


def reply_extension(reply: Reply, chat_request: ChatRequest) -> dict[str, Any]:
    """What `ask --json` prints, and what of the request was not heeded."""
    return {**reply.model_dump(mode="json"), "ignored": list(chat_request.ignored)}


def cited_places(text: str, footnotes: bool, sources: int) -> list[tuple[int, int]]:
    """Where an answer that was made by `content` cites, and the number of the source, in the order of the text.

    Args:
        footnotes: its marks are footnotes.
        sources: how many there are. A mark that points beyond them cites nothing, and so does one in code.
    """
    if footnotes:
        places = [(match.start(), int(match[1])) for match in _FOOTNOTE.finditer(text)]
        return [(place, number) for place, number in places if 1 <= number <= sources]
    code = [match.span() for match in CODE.finditer(text)]
    places = []
    for match in MARK.finditer(text):
        if not any(start <= match.start() < end for start, end in code):
            places += [(match.start(), n) for n in cited_numbers(match.group()) if 1 <= n <= sources]
    return places


def token_counts(reply: Reply) -> dict[str, int]:
    """The tokens of all calls of the turn; none without a language model."""
    prompt = sum(role_usage.prompt_tokens for role_usage in reply.usage.values())
    completion = sum(role_usage.completion_tokens for role_usage in reply.usage.values())
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def error(refusal: Refusal) -> dict[str, Any]:
    """An error in OpenAI's form."""
    kind = _TYPES.get(refusal.status, "server_error" if refusal.status >= 500 else "invalid_request_error")
    return {"error": {"message": str(refusal), "type": kind, "param": refusal.param, "code": refusal.code}}


def refuse(refusal: Refusal) -> Response:
    """An error as a response."""
    headers = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {}
    # A turn that failed is not worth trying again by itself, as OpenAI's client would.
    headers |= {"x-should-retry": "false"} if refusal.status >= 500 else {}
    return json_response(error(refusal), refusal.status, headers)


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A value as JSON."""
    return Response(json_bytes(value), status, headers, "application/json")


def json_bytes(value: Any) -> bytes:
    """A value as JSON in UTF-8."""
    return valid_text(json.dumps(value, ensure_ascii=False, allow_nan=False)).encode()
