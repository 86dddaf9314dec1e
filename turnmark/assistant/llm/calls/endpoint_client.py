"""The client of an endpoint: HTTP with retries, and a tally of the requests that a call took."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from turnmark.assistant.llm.calls.cancellation import report_wait
from turnmark.assistant.llm.calls.endpoint_faults import (
    CONNECT_SECONDS,
    NO_QUOTA,
    error_message,
    is_refused,
    without_pictures,
)
from turnmark.assistant.llm.calls.protocols import ON_RATE_LIMIT
from turnmark.core.untrusted import excerpt

if TYPE_CHECKING:
    from openai import AsyncOpenAI

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
    said = without_pictures(error_message(_json_or_text(body)))
    tally.problem = f"{response.status_code}: {excerpt(said)}".rstrip(": ")
    words = body.decode("utf-8", "replace")
    if response.status_code == 500 and (objects_to_system(words) or _PICTURE_OBJECTION.search(words)):
        response.headers["x-should-retry"] = "false"
    if response.status_code != 429:
        return
    if NO_QUOTA.encode() in body:
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

    reached: list[bool] = []

    async def note_reached(_: Any) -> None:
        reached[:] = [True]

    trust_env = not is_local_url(url)  # a proxy from the environment cannot reach this machine's loopback
    http = openai.DefaultAsyncHttpx2Client(
        trust_env=trust_env,
        # HTTPX uses certifi's certificate authorities; HTTPX2 uses the system's, which a small container lacks.
        verify=httpx.create_ssl_context(trust_env=trust_env),
        event_hooks={"request": [_on_request], "response": [_on_response, note_reached]},
    )
    client = openai.AsyncOpenAI(
        api_key=key or _NO_KEY,
        base_url=url,
        max_retries=retries,
        timeout=openai.Timeout(None, connect=CONNECT_SECONDS),
        http_client=http,
    )
    _report_retries(client, reached)
    _ = client.chat.completions  # loads its modules now, not within the first call's deadline
    return client


def _report_retries(client: Any, reached: Sequence[bool]) -> None:
    """Let a client report how long it waits before it retries a request.

    A connection that is refused is not retried unless the endpoint was reached before: nothing listens there.
    """
    import openai

    wait_before_retry = client._calculate_retry_timeout

    def reported(*args: Any, **options: Any) -> float:
        error = sys.exception()
        if not reached and is_refused(error):
            raise openai.APIConnectionError(request=getattr(error, "request", None)) from error  # type: ignore[arg-type]
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
