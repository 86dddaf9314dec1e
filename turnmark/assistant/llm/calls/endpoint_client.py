"""The client of an endpoint: HTTP with retries, a tally of the requests that a call took, and what its errors mean."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from turnmark.assistant.llm.calls.cancellation import report_wait
from turnmark.assistant.llm.calls.endpoint_replies import field_of, first_choice
from turnmark.assistant.llm.calls.protocols import ON_RATE_LIMIT, ErrorKind, GeneratorError
from turnmark.core.untrusted import excerpt, redact

if TYPE_CHECKING:
    from openai import AsyncOpenAI

CONNECT_SECONDS = 10.0
NO_QUOTA = "insufficient_quota"
"""Code of the error 429 that means that the account has no credit, not that requests come too fast."""


class EndpointFault(GeneratorError):
    """A failed call to an endpoint.

    Attributes:
        status: HTTP status, or None if there was no response.
        words: full text of the endpoint's error, from which the caller finds the rejected option.
        broken: whether the reply broke off, so that a retry may succeed.
    """

    def __init__(
        self, kind: ErrorKind, message: str, *, status: int | None = None, words: str = "", broken: bool = False
    ) -> None:
        super().__init__(kind, message)
        self.status, self.words, self.broken = status, words, broken


_PICTURE_DATA = re.compile(r"(data:image/[\w.+-]{1,40};base64,)[A-Za-z0-9+/=\s]{8,}")


def without_pictures(words: str) -> str:
    """Return an error's text without the pictures of a request that it repeats."""
    return _PICTURE_DATA.sub(r"\1…", words)


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


@dataclass(frozen=True)
class FaultReader:
    """Turns what went wrong at one endpoint into faults.

    Attributes:
        label: model and endpoint, for messages.
        key_env: name of the environment variable with the key.
        key: the key, which is removed from all quoted text.
    """

    label: str
    key_env: str
    key: str

    @contextmanager
    def converted(self) -> Iterator[None]:
        """Convert exceptions of the openai client.

        The original exception is dropped, since it has the endpoint's text, which may quote the key.
        """
        import httpx2
        import openai

        try:
            yield
        except EndpointFault:
            raise
        except openai.APIStatusError as error:
            raise self._of_status(error.status_code, error.body) from None
        except (openai.APIConnectionError, httpx2.TransportError) as error:
            # The client retried a failed connection, but not one that broke in the middle of a reply.
            broken = isinstance(error, httpx2.TransportError)
            problem = "broke off in the middle of its reply"
            if not broken:
                problem = f"cannot be reached: {_connection_fault(error)}"
            raise EndpointFault("unavailable", f"{self.label} {problem}", broken=broken) from None
        except openai.APIError as error:  # an error event inside a stream
            problem = f"failed in the middle of its reply: {self._quotable(str(error.message))}"
            raise EndpointFault("unavailable", f"{self.label} {problem}", broken=True) from None
        except (openai.OpenAIError, httpx2.HTTPError, ValueError, RecursionError):
            problem = "answered with something that is not a chat completion"
            raise EndpointFault("bad_reply", f"{self.label} {problem}") from None

    def in_reply(self, event: Any, streamed: bool) -> EndpointFault | None:
        """Return the fault of an error that came with status 200, alone or inside a stream, or None if there is none.

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
            return self._of_status(status, event)
        words = self._quotable(error_message(event))
        if _TOO_LONG.search(words):
            return self._of_status(400, event)
        failed = "failed in the middle of its reply" if streamed else f"failed{f' ({status})' if status else ''}"
        return EndpointFault("unavailable", f"{self.label} {failed}: {words}", broken=True)

    def _of_status(self, status: int, body: Any) -> EndpointFault:
        """Return the fault of an HTTP error status."""
        label = self.label
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=str)
        complete = without_pictures(redact(text, self.key))
        words = self._quotable(error_message(body))
        detail = f": {words}" if words else ""
        if status in (401, 403):
            # Without the endpoint's text, which may quote the key in a masked form.
            message = f"{label} does not accept the key ({status}); it is read from {self.key_env}"
            return EndpointFault("auth", message, status=status)
        if status == 429:
            problem = "has no quota left" if NO_QUOTA in complete else "is rate limited"
            return EndpointFault("rate_limited", f"{label} {problem} (429){detail}", status=status)
        if status in (408, 409) or status >= 500:
            return EndpointFault("unavailable", f"{label} failed ({status}){detail}", status=status, words=complete)
        if "content_filter" in complete:
            return EndpointFault("refused", f"{label} refused the prompt by its content filter{detail}", status=status)
        hint = "; is the model's name right, and does the URL end in /v1?" if status == 404 else ""
        if _TOO_LONG.search(complete):
            hint = CONTEXT_HINT
        message = f"{label} did not accept the request ({status}){detail}{hint}"
        return EndpointFault("bad_request", message, status=status, words=complete)

    def _quotable(self, words: str) -> str:
        """Return the beginning of an error's text, without pictures and the key, for a message."""
        return excerpt(without_pictures(redact(words, self.key)))


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
    found = (reason for kind, reason in reasons if any(isinstance(cause, kind) for cause in causes))
    return next(found, "the connection failed")


def is_refused(error: BaseException | None) -> bool:
    """Return whether nothing listens at the port of an endpoint."""
    return any(isinstance(cause, ConnectionRefusedError) for cause in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                yield from _causes(inner)
        error = error.__cause__ or error.__context__


def error_message(body: Any) -> str:
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
    return json.dumps(body, ensure_ascii=False, default=str) if body else ""


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


# vLLM: "At most 0 image(s) may be provided", "… is not a multimodal model". OpenAI: "image_url is only supported by
# certain models". DeepSeek: "unknown variant `image_url`, expected `text`". llama.cpp: "image input is not supported …
# you may need to provide the mmproj". Ollama: "this model is missing data required for image input". OpenRouter: "No
# endpoints found that support image input". LM Studio: "Model does not support images".
_PICTURE = re.compile(r"image|picture|vision|visual|multi-?modal|mmproj", re.IGNORECASE)
_NEGATION = re.compile(
    r"at most 0\b|\b(?:not?|never|unable|cannot|without|missing|lacks?|only|disabled)\b|n't\b|unsupported"
    r"|unknown variant|unexpected|invalid content type|extra inputs",
    re.IGNORECASE,
)
# Servers that know no parts at all. Groq: "content must be a string". Pydantic: "Input should be a valid string".
_ONLY_TEXT = re.compile(
    r"content.{0,60}(?:must|should|has to|expected to) be (?:a |of type )?(?:valid )?(?:string|text)"
    r"|should be a valid string|invalid type: sequence, expected a string|cannot unmarshal array.{0,80}string"
    r"|expected (?:a )?string.{0,40}(?:array|list|sequence)",
    re.IGNORECASE | re.DOTALL,
)
# An objection to one picture, e.g. "image exceeds 5 MB maximum" or "Could not process image".
_ONE_PICTURE = re.compile(
    r"too (?:large|big|small|long|many)|exceed|base64|corrupt|decod|could not (?:process|load|open|read)|dimension"
    r"|pixel|resolution|(?:image|file|media|mime).?(?:format|type)|format|truncated|cannot identify",
    re.IGNORECASE,
)


def refuses_pictures(words: str) -> bool:
    """Return whether an error says that a model or its server takes no pictures at all."""
    of_servers = r"at most 0\b.{0,20}image|unknown variant.{0,5}image_url|mmproj|not a multi-?modal"
    if _ONLY_TEXT.search(words) or re.search(of_servers, words, re.IGNORECASE):
        return True
    return bool(_PICTURE.search(words) and _NEGATION.search(words) and not _ONE_PICTURE.search(words))
