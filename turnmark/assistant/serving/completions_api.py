"""Convert a reply for clients: to text with footnotes, and to OpenAI's objects (completion, stream chunk, error).

Further data is in the field `turnmark`. Answers keep their emphasis, lists and code. Images, links and tags from
documents or models are escaped, so that a client cannot load, follow or run them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.responses import Response

from turnmark.assistant.citations.marks import cited_numbers
from turnmark.assistant.serving.request_bodies import ChatRequest, RejectedRequest
from turnmark.assistant.sessions.conversation import cite, has_same_words, sources_used
from turnmark.assistant.types import Event, Reply
from turnmark.core.untrusted import (
    CITATION_MARK,
    CODE_SPAN,
    code_spans,
    escape_markdown_line,
    is_in_code,
    make_printable,
    valid_text,
)

_ACTIVE_CHARACTER = re.compile(r"[\\\[\]<]")
# A bracketed number in code, e.g. an index. Its escapes are removed again, unless it could be a link outside of code.
_ESCAPED_INDEX = re.compile(r"\\\[([\d\s,:–-]+)\\\](?![(:])")
# Text at the end of a piece that the next piece may complete: a mark or code; in a code block, a number or the fence.
_UNFINISHED_SPAN = re.compile(r"(?:\[[\d\s,–-]{0,24}|`+[^`\n]*)\Z")
_UNFINISHED_IN_BLOCK = re.compile(r"(?:\[[\d\s,:–-]{0,24}\]?|`+)\Z")
# A footnote mark of ours. One that the answer itself contained is escaped; a definition is at the start of a line.
_FOOTNOTE = re.compile(r"(?!^\[\^\d{1,3}\]:)(?<!\\)\[\^(\d{1,3})\]", re.MULTILINE)
_FENCE = "```"
_MAX_SOURCES = 999

CHECKED_ANSWER_HEADING = "\n\n*After checking:*\n\n"
_LINE_WITH_BREAK = re.compile(r"[^\n]*\n+|[^\n]+")
_ERROR_TYPES: Mapping[int, str] = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def content(reply: Reply, footnotes: bool, note: str = "") -> str:
    """Return the answer as Markdown with footnotes, or with its citation marks unchanged, and the note of a request."""
    answer = convert_marks(reply.answer, len(reply.citations)) if footnotes else make_printable(reply.answer)
    return "\n\n".join(filter(None, (answer, note, footnote_definitions(reply) if footnotes else "")))


def footnote_definitions(reply: Reply) -> str:
    """Return a footnote definition for each used source; empty if there are none."""
    return "\n".join(f"[^{citation.n}]: {escape_markdown_line(cite(citation))}" for citation in sources_used(reply))


def convert_marks(text: str, sources: int) -> str:
    """Convert the citation marks of a text to footnotes, and escape everything else that would be active.

    Args:
        sources: number of sources. A mark with a higher number, or in code, is not converted.
    """
    pieces: list[str] = []
    for index, piece in enumerate(CODE_SPAN.split(make_printable(text))):
        is_code = index % 2 == 1
        if is_code:
            # Code is escaped as well, since clients differ in what they treat as code.
            pieces.append(_ESCAPED_INDEX.sub(r"[\1]", _escape(piece)))
        else:
            pieces.append(_with_footnotes(piece, sources))
    return "".join(pieces)


def _with_footnotes(text: str, sources: int) -> str:
    pieces: list[str] = []
    end = 0
    for match in CITATION_MARK.finditer(text):
        numbers = cited_numbers(match.group())
        if all(1 <= number <= sources for number in numbers):
            pieces.append(_escape(text[end : match.start()]))
            pieces += [f"[^{number}]" for number in numbers]
            end = match.end()
    pieces.append(_escape(text[end:]))
    return "".join(pieces)


def _escape(text: str) -> str:
    return _ACTIVE_CHARACTER.sub(r"\\\g<0>", text)


class ReplyText:
    """The streamed text of one reply.

    Text that was sent cannot be retracted. If checking changed the answer, the checked answer follows under a separate
    heading.
    """

    def __init__(self, footnotes: bool, note: str = "") -> None:
        self._footnotes, self._note = footnotes, note
        self._written = self._held = self._fence = ""
        self._sources = _MAX_SOURCES

    def add(self, event: Event) -> str:
        """Return the text to send for an event; a possible beginning of a citation mark is held back."""
        if event.step == "retrieve":  # a model that searches again may cite further sources
            self._sources = len(event.detail.get("hits", ())) or _MAX_SOURCES
        if "tool" in event.detail and "found" not in event.detail and self._written:
            # Text before the call has been sent already, but it is not part of the answer.
            before_call, self._written = self._closed(), ""
            return f"{before_call}\n\n"
        self._written += event.delta
        if not self._footnotes or not event.delta:
            return make_printable(event.delta)
        text = self._fence + self._held + event.delta
        in_block = False
        search_from = 0
        code_spans = list(CODE_SPAN.finditer(text))
        if code_spans:
            last = code_spans[-1]
            in_block = last[0].startswith(_FENCE) and not last[0].endswith(_FENCE, len(_FENCE))
            search_from = last.start() + len(_FENCE) if in_block else last.end()
        unfinished = (_UNFINISHED_IN_BLOCK if in_block else _UNFINISHED_SPAN).search(text, search_from)
        cut = unfinished.start() if unfinished else len(text)
        shown = convert_marks(text[:cut], self._sources).removeprefix(self._fence)
        self._held = text[cut:]
        self._fence = _FENCE if in_block else ""
        return shown

    def rest(self, reply: Reply) -> Iterator[str]:
        """Yield the rest of the text line by line, after the last event."""
        yield from _LINE_WITH_BREAK.findall(self._rest(reply))

    def _rest(self, reply: Reply) -> str:
        complete = content(reply, self._footnotes, self._note)
        if not self._written.strip():
            return complete
        pending = self._closed()
        if reply.checks.repaired or not has_same_words(self._written, reply):
            return f"{pending}{CHECKED_ANSWER_HEADING}{complete}"
        definitions = footnote_definitions(reply) if self._footnotes else ""
        return "".join([pending, *(f"\n\n{block}" for block in (self._note, definitions) if block)])

    def _closed(self) -> str:
        """Return the text that was held back, now that nothing more can complete it."""
        held = convert_marks(self._fence + self._held, self._sources).removeprefix(self._fence)
        self._held = self._fence = ""
        return held


class ReplyForm:
    """Makes chat completion objects of one reply, each with its id, time and model."""

    def __init__(self, identity: str, created: int, model: str, chat_request: ChatRequest) -> None:
        self._head = {"id": identity, "created": created, "model": model}
        self._request = chat_request
        self._text = ReplyText(chat_request.footnotes, chat_request.note)

    def completion(self, reply: Reply) -> dict[str, Any]:
        """Return the complete reply as a chat completion."""
        message = {
            "role": "assistant",
            "content": content(reply, self._request.footnotes, self._request.note),
            "refusal": None,
        }
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": token_counts(reply),
            "turnmark": reply_extension(reply, self._request),
        }

    def begin(self) -> Iterator[dict[str, Any]]:
        """Yield the first chunk of a stream."""
        yield self._chunk({"role": "assistant", "content": ""})

    def event(self, event: Event) -> Iterator[dict[str, Any]]:
        """Yield the chunk of a turn's event, if there is anything to send."""
        extension = {"event": event.model_dump(mode="json")} if self._request.events else None
        text = self._text.add(event)
        if text or extension:
            yield self._chunk({"content": text} if text else {}, extension=extension)

    def end(self, reply: Reply) -> Iterator[dict[str, Any]]:
        """Yield the rest of the content, the last chunk and, if requested, the token counts."""
        for piece in self._text.rest(reply):
            yield self._chunk({"content": piece})
        yield self._chunk({}, "stop", reply_extension(reply, self._request))
        if self._request.usage:
            yield {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": token_counts(reply)}

    def failed(self, refusal: RejectedRequest) -> Iterator[dict[str, Any]]:
        """Yield the error that ends a stream without a reply."""
        yield error(refusal)

    def _chunk(
        self, delta: Mapping[str, Any], finish: str | None = None, extension: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": [choice]}
        return {**chunk, "turnmark": extension} if extension else chunk


def reply_extension(reply: Reply, chat_request: ChatRequest) -> dict[str, Any]:
    """Return the reply as in `ask --json`, and the names of the ignored parts of the request."""
    return {**reply.model_dump(mode="json"), "ignored": list(chat_request.ignored)}


def find_citations(text: str, footnotes: bool, sources: int) -> list[tuple[int, int]]:
    """Find the citations in a text made by `content`: the offset and source number of each mark, in text order.

    Args:
        footnotes: whether the marks are footnotes.
        sources: number of sources. A mark with a higher number, or in code, cites nothing.
    """
    if footnotes:
        places = [(match.start(), int(match[1])) for match in _FOOTNOTE.finditer(text)]
        return [(place, number) for place, number in places if 1 <= number <= sources]
    code = code_spans(text)
    places = []
    for match in CITATION_MARK.finditer(text):
        if not is_in_code(match.start(), code):
            places += [(match.start(), n) for n in cited_numbers(match.group()) if 1 <= n <= sources]
    return places


def token_counts(reply: Reply) -> dict[str, int]:
    """Return the tokens of all calls of the turn, or 0 without a language model."""
    prompt = sum(role_usage.prompt_tokens for role_usage in reply.usage.values())
    completion = sum(role_usage.completion_tokens for role_usage in reply.usage.values())
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def error(refusal: RejectedRequest) -> dict[str, Any]:
    """Return an error as OpenAI's error object."""
    kind = _ERROR_TYPES.get(refusal.status, "server_error" if refusal.status >= 500 else "invalid_request_error")
    return {"error": {"message": str(refusal), "type": kind, "param": refusal.param, "code": refusal.code}}


def rejection_response(refusal: RejectedRequest) -> Response:
    """Return an error as an HTTP response."""
    headers: dict[str, str] = {}
    if refusal.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if refusal.status >= 500:
        # Without this, OpenAI's client would retry a failed turn, which does not help.
        headers["x-should-retry"] = "false"
    return json_response(error(refusal), refusal.status, headers)


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a value as a JSON response."""
    return Response(json_bytes(value), status, headers, "application/json")


def json_bytes(value: Any) -> bytes:
    """Encode a value as JSON in UTF-8."""
    return valid_text(json.dumps(value, ensure_ascii=False, allow_nan=False)).encode()
