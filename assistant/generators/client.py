"""The client of an endpoint, the schemas it is sent, in the strict form that structured output asks for, and what it
answers: replies event by event, and faults. Trust none of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, Field

from turnmark.assistant.generators.base import ON_RATE_LIMIT, ErrorKind, FinishReason, GeneratorError, ToolCall
from turnmark.core.console import printable, valid_text

if TYPE_CHECKING:
    from openai import AsyncOpenAI

CONNECT_SECONDS = 10.0
_NO_KEY = "no-key"  # the client does not start without one, and a server without keys ignores it


@dataclass
class RequestTally:
    """Requests of a call so far, retries included, and the status of the last answer."""

    sent: int = 0
    status: int = 0


TALLY: ContextVar[RequestTally | None] = ContextVar("TALLY", default=None)


async def _on_request(_request: Any) -> None:
    if tally := TALLY.get():
        tally.sent += 1


async def _on_response(response: Any) -> None:
    if tally := TALLY.get():
        tally.status = response.status_code
        if response.status_code == 429 and (on_rate_limit := ON_RATE_LIMIT.get()):
            on_rate_limit()


def is_here(url: str) -> bool:
    """Whether an address is of this machine."""
    host = (urlsplit(url).hostname or "") if url else ""
    return host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.")


def client_of(url: str, key: str, retries: int) -> AsyncOpenAI:
    """The SDK's client: its retries, and no time-out but that of connecting, as the caller counts the rest.

    It sends through HTTPX2: each request and each reply makes HTTPX's pool ask every idle connection several times
    whether it has expired, which at 64 requests at once takes longer than all the rest (encode/httpcore#1035).
    """
    import httpx
    import openai

    trust_env = not is_here(url)  # no proxy of the environment reaches this machine's loopback
    http = openai.DefaultAsyncHttpx2Client(
        trust_env=trust_env,
        # HTTPX's authorities are certifi's; HTTPX2 takes the system's, and a small container has none.
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
    _ = client.chat.completions  # loads its modules now, not within the first call's deadline
    return client


# --- what is answered ------------------------------------------------------------------------------------------------

# Why a reply ended, in the words of several servers, in lower case.
_FINISH: dict[str, FinishReason] = {
    **dict.fromkeys(("stop", "end_turn", "eos", "eos_token", "stop_sequence", "complete"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_output_tokens"), "length"),
    **dict.fromkeys(("content_filter", "safety", "blocklist", "prohibited_content", "refusal"), "content_filter"),
}
QUOTED = 300
"""Characters of an endpoint's own words in a message."""


def finish_reason(word: object) -> FinishReason:
    """Why a reply ended; "other" if that is said in words we do not know, or not at all."""
    return _FINISH.get(str(word).lower(), "other")


def first_choice(reply: Any) -> Any:
    """The first choice of a completion or a chunk, else None."""
    choices = field_of(reply, "choices")
    return choices[0] if isinstance(choices, list) and choices else None


def reported_usage(reply: Any) -> dict[str, int] | None:
    """Tokens as reported, in OpenAI's or in Anthropic's form; None if either number is missing."""
    usage = field_of(reply, "usage")
    names = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
    reported = {key: field_of(usage, key) for key in names}
    if not any(isinstance(value, int) for value in reported.values()):
        reported = {key: field_of(usage, name) for key, name in names.items()}
    counts = {key: value for key, value in reported.items() if isinstance(value, int) and value >= 0}
    if len(counts) < len(reported):
        return None
    cached = field_of(field_of(usage, "prompt_tokens_details"), "cached_tokens")
    return {**counts, "cached_tokens": cached} if isinstance(cached, int) and cached > 0 else counts


def field_of(value: Any, name: str) -> Any:
    """A field of an object or of a dict; None if it is not there."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


@dataclass
class Received:
    """A reply as far as it has come."""

    text: str = ""
    refusal: str = ""
    finish: object = None
    usage: dict[str, int] | None = None
    model: str = ""
    events: int = 0
    _calls: list[dict[str, str]] = field(default_factory=list)
    _at: dict[str, int] = field(default_factory=dict)

    def add(self, event: Any) -> str:
        """Take in an event of a stream, or a reply in one piece; the text that it adds. ValueError if that is none."""
        choice = first_choice(event)
        self.events += choice is not None
        self.usage = reported_usage(event) or self.usage
        model = field_of(event, "model")
        self.model = model if isinstance(model, str) and model else self.model
        delta = field_of(choice, "delta") or field_of(choice, "message")
        rows = field_of(delta, "tool_calls")
        for row in rows if isinstance(rows, list) else []:
            self._add_call(row)
        self.refusal += str(field_of(delta, "refusal") or "")
        finish = field_of(choice, "finish_reason")
        self.finish = self.finish if finish is None else finish
        piece = field_of(delta, "content") or ""
        if not isinstance(piece, str):
            raise ValueError("content that is not text")
        self.text += piece
        return piece

    def _add_call(self, row: Any) -> None:
        """Part of a call: its first part has its id and its name, further ones more of its arguments."""
        index, id_ = str(field_of(row, "index")), str(field_of(row, "id") or "")
        position = self._at.get(index)
        # Some servers give every call the same index.
        if position is None or id_ not in ("", self._calls[position]["id"]):
            self._at[index] = position = len(self._calls)
            self._calls.append({"id": id_, "name": "", "arguments": ""})
        call, function = self._calls[position], field_of(row, "function")
        call["name"] += str(field_of(function, "name") or "")
        arguments = field_of(function, "arguments") or ""
        call["arguments"] += arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls of tools, those without an id numbered."""
        rows = enumerate(self._calls, 1)
        return tuple(
            ToolCall(id=row["id"] or f"call-{n}", name=row["name"], arguments=valid_text(row["arguments"]) or "{}")
            for n, row in rows
        )


class EndpointFault(GeneratorError):
    """A call that failed.

    Attributes:
        status: HTTP status; None if there was no answer.
        words: the endpoint's, with nothing cut, to find out what it objects to.
        broken: the reply broke off, so that another try may get it.
    """

    def __init__(
        self, kind: ErrorKind, message: str, *, status: int | None = None, words: str = "", broken: bool = False
    ) -> None:
        super().__init__(kind, message)
        self.status, self.words, self.broken = status, words, broken


def status_fault(status: int, body: Any, label: str, key_env: str, secret: str) -> EndpointFault:
    """The fault behind an HTTP status that is not a success; for the arguments see `faults`."""
    complete = blot_out(body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=str), secret)
    words = clip(blot_out(_words(body), secret))
    detail = f": {words}" if words else ""
    if status in (401, 403):
        # Not the endpoint's words: they quote the key, masked in ways that we cannot check.
        message = f"{label} does not accept the key ({status}); it is read from {key_env}"
        return EndpointFault("auth", message, status=status)
    if status == 429:
        return EndpointFault("rate_limited", f"{label} is rate limited (429){detail}", status=status)
    if status in (408, 409) or status >= 500:
        return EndpointFault("unavailable", f"{label} failed ({status}){detail}", status=status, words=complete)
    if "content_filter" in complete:
        return EndpointFault("refused", f"{label} refused the prompt by its content filter{detail}", status=status)
    hint = "; is the model's name right, and does the URL end in /v1?" if status == 404 else ""
    message = f"{label} did not accept the request ({status}){detail}{hint}"
    return EndpointFault("bad_request", message, status=status, words=complete)


@contextmanager
def faults(label: str, key_env: str, key: str) -> Iterator[None]:
    """Turn what the openai client raises inside it into faults.

    The original is dropped: its text is the endpoint's, and endpoints quote the key.

    Args:
        label: model and endpoint, for the message.
        key_env: name of the environment variable that holds the key.
        key: its value; blotted out of all that is quoted.
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
        # A lost connection was tried again by the client; one that breaks in the middle of a reply was not.
        broken = isinstance(error, httpx2.TransportError)
        raise EndpointFault("unavailable", f"{label} cannot be reached, or broke off", broken=broken) from None
    except openai.APIError as error:  # an error event inside a stream
        detail = clip(blot_out(str(error.message), key))
        raise EndpointFault(
            "unavailable", f"{label} failed in the middle of its reply: {detail}", broken=True
        ) from None
    except (openai.OpenAIError, httpx2.HTTPError, ValueError, RecursionError):
        raise EndpointFault("bad_reply", f"{label} answered with something that is not a chat completion") from None


def blot_out(text: str, secret: str) -> str:
    """The text with the secret made unreadable."""
    return text.replace(secret, "***") if secret else text


def clip(text: str) -> str:
    """An endpoint's words, safe to print: one line, of limited length."""
    text = " ".join(printable(text).split())
    return text if len(text) <= QUOTED else text[:QUOTED] + "…"


def _words(body: Any) -> str:
    """The message inside an error's body."""
    for key in ("error", "message", "detail"):
        if isinstance(body, dict) and body.get(key):
            body = body[key]
    if isinstance(body, str):
        return body
    return json.dumps(body, ensure_ascii=False, default=str) if body else ""


# --- schemas

MOST_ITEMS = 100
"""Of a list without a bound, in a model without `most_items`."""
MOST_CHARACTERS, REASON_CHARACTERS = 4000, 300
"""Of a string without a bound; of the reasons of a verdict, which small models never end."""


def at_most(items: int) -> Any:
    """Annotates a list of a reply: the schema says that it has so many items at most.

    A grammar that lets a list go on is one that a small model may never leave: it writes items until the limit of its
    reply (vllm-project/vllm-ascend#13646; a SmolLM2 of 135M parameters did it with nearly every list). A reply with
    more of them, from an endpoint that does not keep to schemas, is not wrong by this.
    """
    return Field(json_schema_extra={"maxItems": items})


def short_text(characters: int = REASON_CHARACTERS) -> Any:
    """Annotates a string of a reply: the schema says that it has so many characters at most; see `at_most`."""
    return Field(json_schema_extra={"maxLength": characters})


def strict_schema(model: type[BaseModel], bounds: bool = True) -> dict[str, Any]:
    """The schema of `model`: no further properties, every property required, no defaults, titles or docstrings.

    Every list has a bound: its own (`at_most`), or the class attribute `most_items` of the model, or `MOST_ITEMS`;
    and every string: its own (`short_text`), or `MOST_CHARACTERS`.

    Args:
        bounds: False: none has one, for endpoints that take schemas without.

    Source: platform.openai.com/docs/guides/structured-outputs, "Supported schemas".
    """
    return dict(_strict(model.model_json_schema(), getattr(model, "most_items", MOST_ITEMS) if bounds else None))


def _strict(node: Any, max_items: int | None, names: bool = False) -> Any:
    """`names`: the keys of this node are names that the model chose, not words of JSON Schema."""
    if isinstance(node, list):
        return [_strict(part, max_items) for part in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {key: _strict(part, max_items) for key, part in node.items()}
    strict = {
        key: _strict(part, max_items, names=key in ("properties", "$defs"))
        for key, part in node.items()
        if key not in ("default", "title")
    }
    if "properties" in strict:
        strict.pop("description", None)
    if strict.get("type") == "array":
        bound = strict.pop("maxItems", max_items)
        if max_items is not None:
            strict["maxItems"] = bound
    if strict.get("type") == "string" and "enum" not in strict and "const" not in strict:
        length = strict.pop("maxLength", MOST_CHARACTERS)
        if max_items is not None:
            strict["maxLength"] = length
    if strict.get("type") == "object" and "properties" in strict:
        strict["additionalProperties"] = False
        strict["required"] = list(strict["properties"])
    return strict
