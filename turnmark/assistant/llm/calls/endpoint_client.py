"""The client of an endpoint: make strict schemas for structured output, and read replies and errors.

Everything that an endpoint sends is untrusted.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, Field

from turnmark.assistant.llm.calls.cancellation import report_wait
from turnmark.assistant.llm.calls.protocols import ON_RATE_LIMIT, ErrorKind, FinishReason, GeneratorError, ToolCall
from turnmark.core.untrusted import excerpt, redact, valid_text

if TYPE_CHECKING:
    from openai import AsyncOpenAI

CONNECT_SECONDS = 10.0
_NO_QUOTA = "insufficient_quota"
"""Code of the error 429 that means that the account has no credit, not that requests come too fast."""
_NO_KEY = "no-key"  # the client requires a key; a server without keys ignores it


@dataclass
class RequestTally:
    """Number of requests of a call, including retries, and the HTTP status and problem of the last response."""

    sent: int = 0
    status: int = 0
    problem: str = ""


TALLY: ContextVar[RequestTally | None] = ContextVar("TALLY", default=None)


async def _on_request(_request: Any) -> None:
    tally = TALLY.get()
    if tally:
        tally.sent += 1
        tally.problem = "no connection"


async def _on_response(response: Any) -> None:
    tally = TALLY.get()
    if tally is None:
        return
    tally.status = response.status_code
    if response.status_code < 400:
        return
    body = await response.aread()
    said = _without_pictures(_error_message(_json_or_text(body)))
    tally.problem = f"{response.status_code}: {excerpt(said)}".rstrip(": ")
    words = body.decode("utf-8", "replace")
    if response.status_code == 500 and (objects_to_system(words) or _PICTURE_OBJECTION.search(words)):
        response.headers["x-should-retry"] = "false"
    if response.status_code != 429:
        return
    if _NO_QUOTA.encode() in body:
        response.headers["x-should-retry"] = "false"  # the client obeys it; waiting does not bring back a quota
    elif on_rate_limit := ON_RATE_LIMIT.get():
        on_rate_limit()


def is_local_url(url: str) -> bool:
    """Return whether a URL is on this machine."""
    host = (urlsplit(url).hostname or "") if url else ""
    return host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.")


def client_of(url: str, key: str, retries: int) -> AsyncOpenAI:
    """Return the SDK's client with retries and a time-out for connecting only; the caller keeps the deadline.

    It sends through HTTPX2: HTTPX's connection pool checks every idle connection at each request and response, which
    takes most of the time with 64 concurrent requests (encode/httpcore#1035).
    """
    import httpx
    import openai

    trust_env = not is_local_url(url)  # a proxy from the environment cannot reach this machine's loopback
    http = openai.DefaultAsyncHttpx2Client(
        trust_env=trust_env,
        # HTTPX uses certifi's certificate authorities; HTTPX2 uses the system's, which a small container lacks.
        verify=httpx.create_ssl_context(trust_env=trust_env),
        event_hooks={"request": [_on_request], "response": [_on_response]},
    )
    client = openai.AsyncOpenAI(
        api_key=key or _NO_KEY,
        base_url=url,
        max_retries=retries,
        timeout=openai.Timeout(None, connect=CONNECT_SECONDS),
        http_client=http,
    )
    _report_retries(client)
    _ = client.chat.completions  # loads its modules now, not within the first call's deadline
    return client


def _report_retries(client: Any) -> None:
    """Let a client report how long it waits before it retries a request."""
    wait_before_retry = client._calculate_retry_timeout

    def reported(*args: Any, **options: Any) -> float:
        seconds = float(wait_before_retry(*args, **options))
        tally = TALLY.get()
        report_wait(seconds, tally.problem if tally else "")
        return seconds

    client._calculate_retry_timeout = reported


_SYSTEM_OBJECTION = re.compile(
    r"system.{0,30}\b(?:role|message|prompt|instruction)|role.{0,80}\bsystem\b"
    r"|developer instruction|roles must alternate",
    re.IGNORECASE | re.DOTALL,
)


# llama.cpp and Ollama refuse pictures with the status 500, which would be retried.
_PICTURE_OBJECTION = re.compile(r"mmproj|image input", re.IGNORECASE)


def objects_to_system(words: str) -> bool:
    """Return whether an error refuses messages of the role `system`, as the templates of several models do."""
    return bool(_SYSTEM_OBJECTION.search(words))


def _json_or_text(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body[:MAX_ERROR_BYTES].decode("utf-8", "replace")


MAX_ERROR_BYTES = 2000
"""Maximum bytes of an error that is not JSON."""

# --- replies ---------------------------------------------------------------------------------------------------------

# Finish reasons of several servers, in lower case.
_FINISH_REASONS: dict[str, FinishReason] = {
    **dict.fromkeys(("stop", "end_turn", "eos", "eos_token", "stop_sequence", "complete"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_output_tokens"), "length"),
    **dict.fromkeys(("content_filter", "safety", "blocklist", "prohibited_content", "refusal"), "content_filter"),
}


def finish_reason(word: object) -> FinishReason:
    """Normalize a server's finish reason; "other" for unknown or missing ones."""
    return _FINISH_REASONS.get(str(word).lower(), "other")


def first_choice(reply: Any) -> Any:
    """Return the first choice of a completion or a chunk, or None."""
    choices = field_of(reply, "choices")
    return choices[0] if isinstance(choices, list) and choices else None


def reported_usage(reply: Any) -> dict[str, int] | None:
    """Return the reported tokens, in OpenAI's or Anthropic's form; None if a number is missing."""
    usage = field_of(reply, "usage")
    names = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
    reported = {key: field_of(usage, key) for key in names}
    if not any(isinstance(value, int) for value in reported.values()):
        reported = {key: field_of(usage, name) for key, name in names.items()}
    counts = {key: value for key, value in reported.items() if isinstance(value, int) and value >= 0}
    if len(counts) < len(reported):
        return None
    cached = field_of(field_of(usage, "prompt_tokens_details"), "cached_tokens")
    if isinstance(cached, int) and cached > 0:
        counts["cached_tokens"] = cached
    return counts


def field_of(value: Any, name: str) -> Any:
    """Return a field of an object or a dict; None if missing."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


@dataclass
class PartialReply:
    """The part of a reply that has arrived so far."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    finish: object = None
    usage: dict[str, int] | None = None
    model: str = ""
    events: int = 0
    _calls: list[dict[str, str]] = field(default_factory=list)
    _at: dict[str, int] = field(default_factory=dict)

    def add(self, event: Any) -> str:
        """Add an event of a stream, or a complete reply; return the text that it adds.

        Raises:
            ValueError: the content is not text.
        """
        choice = first_choice(event)
        if choice is not None:
            self.events += 1
        self.usage = reported_usage(event) or self.usage
        model = field_of(event, "model")
        if isinstance(model, str) and model:
            self.model = model
        delta = field_of(choice, "delta") or field_of(choice, "message")
        rows = field_of(delta, "tool_calls")
        if isinstance(rows, list):
            for row in rows:
                self._add_call(row)
        self.refusal += str(field_of(delta, "refusal") or "")
        finish = field_of(choice, "finish_reason")
        if finish is not None:
            self.finish = finish
        for name in ("reasoning_content", "reasoning", "thinking"):  # vLLM and DeepSeek; OpenRouter; others
            if thought := _content_text(field_of(delta, name)):
                self.reasoning += thought
                break
        content = field_of(delta, "content") or field_of(choice, "text") or ""
        piece = _content_text(content)
        if content and piece is None:
            raise ValueError("content that is not text")
        self.reasoning += _content_text(content, of_reasoning=True) or ""
        self.text += piece or ""
        return piece or ""

    def _add_call(self, row: Any) -> None:
        """Add a piece of a tool call: the first piece has id and name, further pieces have arguments."""
        index = str(field_of(row, "index"))
        call_id = str(field_of(row, "id") or "")
        position = self._at.get(index)
        # A new id begins a new call, since some servers give every call the same index.
        if position is None or call_id not in ("", self._calls[position]["id"]):
            position = len(self._calls)
            self._at[index] = position
            self._calls.append({"id": call_id, "name": "", "arguments": ""})
        call = self._calls[position]
        function = field_of(row, "function")
        call["name"] += str(field_of(function, "name") or "")
        arguments = field_of(function, "arguments") or ""
        call["arguments"] += arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls; one without an id is numbered."""
        tool_calls: list[ToolCall] = []
        for number, row in enumerate(self._calls, 1):
            arguments = valid_text(row["arguments"]) or "{}"
            tool_calls.append(ToolCall(id=row["id"] or f"call-{number}", name=row["name"], arguments=arguments))
        return tuple(tool_calls)


_REASONING_PARTS = frozenset(("thinking", "reasoning", "redacted_thinking"))


def _content_text(content: Any, of_reasoning: bool = False) -> str | None:
    """Return the text of a content, which is a string, a part or a list of parts; None: it is something else.

    Args:
        of_reasoning: return the text of the parts with reasoning in place of that of the others.
    """
    if isinstance(content, str):
        return "" if of_reasoning else content
    if isinstance(content, dict):
        is_reasoning = content.get("type") in _REASONING_PARTS
        inner = content.get("thinking" if is_reasoning else "text") or content.get("text") or content.get("content")
        if is_reasoning != of_reasoning:
            return ""
        return _content_text(inner) if isinstance(inner, str | list) else None
    if isinstance(content, list):
        texts = [_content_text(part, of_reasoning) for part in content]
        return None if None in texts else "".join(filter(None, texts))
    return None


class BodyReader:
    """Reads the body of a response, whatever its content type says: server-sent events, or one JSON value.

    Attributes:
        ended: whether the stream had its end mark, `[DONE]`.
    """

    def __init__(self, content_type: str) -> None:
        self.ended = False
        self.streamed = "event-stream" in content_type

    async def events(self, lines: AsyncIterator[str]) -> AsyncIterator[Any]:
        """Yield the JSON value of each event, or the one of the body.

        Raises:
            ValueError: not JSON, or more than `MAX_BODY_CHARACTERS` of it in one value.
        """
        data: list[str] = []
        begun = False
        async for line in lines:
            if not begun and line.strip():
                begun, self.streamed = True, bool(_EVENT_LINE.match(line))
            if not self.streamed:
                data.append(line)
            elif line.startswith("data:"):
                data.append(line.removeprefix("data:").strip())
            elif not line.strip() and data:
                value, data = "\n".join(data), []
                if value == "[DONE]":
                    self.ended = True
                    return
                yield json.loads(value)
            if sum(map(len, data)) > MAX_BODY_CHARACTERS:
                raise ValueError("too long")
        text = "\n".join(data).strip()
        if text == "[DONE]":
            self.ended = True
        elif text or not self.streamed:
            yield json.loads(text)


_EVENT_LINE = re.compile(r"(?:data|event|id|retry)?:")
MAX_BODY_CHARACTERS = 50_000_000
"""Maximum characters of a JSON value from an endpoint."""


class EndpointFault(GeneratorError):
    """A failed call to an endpoint.

    Attributes:
        status: HTTP status; None: no response.
        words: full text of the endpoint's error, from which the caller finds the rejected option.
        broken: whether the reply broke off, so that a retry may succeed.
    """

    def __init__(
        self, kind: ErrorKind, message: str, *, status: int | None = None, words: str = "", broken: bool = False
    ) -> None:
        super().__init__(kind, message)
        self.status, self.words, self.broken = status, words, broken


_PICTURE_DATA = re.compile(r"(data:image/[\w.+-]{1,40};base64,)[A-Za-z0-9+/=\s]{8,}")


def _without_pictures(words: str) -> str:
    """Return an error's text without the pictures of a request that it repeats."""
    return _PICTURE_DATA.sub(r"\1…", words)


def status_fault(status: int, body: Any, label: str, key_env: str, secret: str) -> EndpointFault:
    """Return the fault of an HTTP error status; for the arguments see `faults`."""
    complete = redact(body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=str), secret)
    complete = _without_pictures(complete)
    words = excerpt(_without_pictures(redact(_error_message(body), secret)))
    detail = f": {words}" if words else ""
    if status in (401, 403):
        # Without the endpoint's text, which may quote the key in a masked form.
        message = f"{label} does not accept the key ({status}); it is read from {key_env}"
        return EndpointFault("auth", message, status=status)
    if status == 429 and _NO_QUOTA in complete:
        return EndpointFault("rate_limited", f"{label} has no quota left (429){detail}", status=status)
    if status == 429:
        return EndpointFault("rate_limited", f"{label} is rate limited (429){detail}", status=status)
    if status in (408, 409) or status >= 500:
        return EndpointFault("unavailable", f"{label} failed ({status}){detail}", status=status, words=complete)
    if "content_filter" in complete:
        return EndpointFault("refused", f"{label} refused the prompt by its content filter{detail}", status=status)
    hint = "; is the model's name right, and does the URL end in /v1?" if status == 404 else ""
    if _TOO_LONG.search(complete):
        hint = CONTEXT_HINT
    message = f"{label} did not accept the request ({status}){detail}{hint}"
    return EndpointFault("bad_request", message, status=status, words=complete)


def inner_fault(event: Any, label: str, key_env: str, secret: str, streamed: bool) -> EndpointFault | None:
    """Return the fault of an error that came with status 200, alone or inside a stream; None if there is none.

    Args:
        streamed: whether it came inside a stream.
    """
    problem = field_of(event, "error")
    choice = first_choice(event)
    if not problem or (choice is not None and field_of(choice, "finish_reason") != "error"):
        return None
    code = field_of(problem, "code") or field_of(problem, "status")
    status = int(code) if isinstance(code, int) or str(code).isdecimal() else 0
    if 400 <= status < 500:
        return status_fault(status, event, label, key_env, secret)
    words = excerpt(_without_pictures(redact(_error_message(event), secret)))
    if _TOO_LONG.search(words):
        return status_fault(400, event, label, key_env, secret)
    failed = "failed in the middle of its reply" if streamed else f"failed{f' ({status})' if status else ''}"
    return EndpointFault("unavailable", f"{label} {failed}: {words}", broken=True)


_TOO_LONG = re.compile(
    r"context.{0,20}(?:length|window|size)|context_length|too many (?:input )?tokens"
    r"|(?:prompt|input|request).{0,20}too long"
    r"|exceed\w*.{0,60}tokens|tokens.{0,60}exceed|maximum.{0,40}tokens",
    re.IGNORECASE,
)
CONTEXT_HINT = (
    "; the prompt and its reply are longer than the model's context: lower --tokens, or give its length in the spec, "
    "?context=TOKENS"
)


def _connection_fault(error: BaseException) -> str:
    """Return why no connection was made, from the errors that caused the client's."""
    import socket
    import ssl

    import httpx2

    reasons: tuple[tuple[type[BaseException], str], ...] = (
        (ssl.SSLCertVerificationError, "its certificate is not trusted (SSL_CERT_FILE can name other authorities)"),
        (ssl.SSLError, "the encrypted connection failed (is it http:// in place of https://?)"),
        (socket.gaierror, "the host is unknown (is the name right, and the network up?)"),
        (ConnectionRefusedError, "the connection is refused (is the server running, and the port right?)"),
        (httpx2.ProxyError, "the proxy refuses (see HTTP_PROXY, HTTPS_PROXY and NO_PROXY)"),
        (httpx2.ConnectTimeout, f"no connection within {CONNECT_SECONDS:g} s (is a firewall or a proxy in the way?)"),
    )
    causes = list(_causes(error))
    for kind, reason in reasons:
        if any(isinstance(cause, kind) for cause in causes):
            return reason
    return "the connection failed"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and the errors that caused it."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                yield from _causes(inner)
        error = error.__cause__ or error.__context__


@contextmanager
def faults(label: str, key_env: str, key: str) -> Iterator[None]:
    """Convert exceptions of the openai client to faults.

    The original exception is dropped, since it has the endpoint's text, which may quote the key.

    Args:
        label: model and endpoint, for the message.
        key_env: name of the environment variable with the key.
        key: the key, which is removed from all quoted text.
    """
    import httpx2
    import openai

    try:
        yield
    except EndpointFault:
        raise
    except openai.APIStatusError as error:
        raise status_fault(error.status_code, error.body, label, key_env, key) from None
    except (openai.APIConnectionError, httpx2.TransportError) as error:
        # The client retried a failed connection, but not one that broke in the middle of a reply.
        broken = isinstance(error, httpx2.TransportError)
        problem = "broke off in the middle of its reply" if broken else f"cannot be reached: {_connection_fault(error)}"
        raise EndpointFault("unavailable", f"{label} {problem}", broken=broken) from None
    except openai.APIError as error:  # an error event inside a stream
        detail = excerpt(_without_pictures(redact(str(error.message), key)))
        raise EndpointFault(
            "unavailable", f"{label} failed in the middle of its reply: {detail}", broken=True
        ) from None
    except (openai.OpenAIError, httpx2.HTTPError, ValueError, RecursionError):
        raise EndpointFault("bad_reply", f"{label} answered with something that is not a chat completion") from None


def _error_message(body: Any) -> str:
    """Return the message in an error's body."""
    raw = ""
    for key in ("error", "message", "detail"):
        if isinstance(body, dict) and body.get(key):
            metadata = body.get("metadata")  # of OpenRouter, whose own message is "Provider returned error"
            if isinstance(metadata, dict) and metadata.get("raw"):
                raw = f" ({metadata['raw']})"
            body = body[key]
    if isinstance(body, str):
        return body + raw
    if isinstance(body, str):
        return body
    return json.dumps(body, ensure_ascii=False, default=str) if body else ""


# --- schemas ---------------------------------------------------------------------------------------------------------

MAX_ITEMS = 100
"""Maximum items of a list without `at_most`, in a model without `most_items`."""
MAX_CHARACTERS, MAX_REASON_CHARACTERS = 4000, 300
"""Maximum characters of a string without `short_text`, and of a verdict's reasons, which small models never end."""


def limit_items(items: int) -> Any:
    """Annotate a list of a reply with the maximum number of items in its schema.

    Without a bound, a small model may write items until the limit of its reply (vllm-project/vllm-ascend#13646; a
    SmolLM2 of 135M parameters did it with nearly every list). A reply with more items, from an endpoint that ignores
    schemas, is still valid.
    """
    return Field(json_schema_extra={"maxItems": items})


def limit_characters(characters: int = MAX_REASON_CHARACTERS) -> Any:
    """Annotate a string of a reply with the maximum number of characters in its schema; see `at_most`."""
    return Field(json_schema_extra={"maxLength": characters})


def strict_schema(model: type[BaseModel], bounds: bool = True) -> dict[str, Any]:
    """Return the schema of `model` with every property required, and no further ones, defaults, titles or docstrings.

    Every list has a bound: that of `at_most`, or the class attribute `most_items` of the model, or `MAX_ITEMS`. Every
    string has one: that of `short_text`, or `MAX_CHARACTERS`.

    Args:
        bounds: False: leave out all bounds, for endpoints that do not support them.

    Source: platform.openai.com/docs/guides/structured-outputs, "Supported schemas".
    """
    return dict(_strict(model.model_json_schema(), getattr(model, "most_items", MAX_ITEMS) if bounds else None))


def _strict(node: Any, max_items: int | None, names: bool = False) -> Any:
    """Make a node of a schema strict.

    Args:
        max_items: maximum items of a list without a bound; None: no bounds at all.
        names: the keys of this node are names of properties or definitions, not keywords of JSON Schema.
    """
    if isinstance(node, list):
        return [_strict(child, max_items) for child in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {key: _strict(child, max_items) for key, child in node.items()}
    strict: dict[str, Any] = {}
    for key, child in node.items():
        if key not in ("default", "title"):
            strict[key] = _strict(child, max_items, names=key in ("properties", "$defs"))
    if "properties" in strict:
        strict.pop("description", None)
    if strict.get("type") == "array":
        bound = strict.pop("maxItems", max_items)
        if max_items is not None:
            strict["maxItems"] = bound
    if strict.get("type") == "string" and "enum" not in strict and "const" not in strict:
        length = strict.pop("maxLength", MAX_CHARACTERS)
        if max_items is not None:
            strict["maxLength"] = length
    if strict.get("type") == "object" and "properties" in strict:
        strict["additionalProperties"] = False
        strict["required"] = list(strict["properties"])
    return strict
