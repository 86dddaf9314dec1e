"""Convert the errors of endpoints and of the openai client to faults with a message for the user.

Everything that an endpoint sends is untrusted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from turnmark.assistant.llm.calls.endpoint_replies import field_of, first_choice
from turnmark.assistant.llm.calls.protocols import ErrorKind, GeneratorError
from turnmark.core.untrusted import excerpt, redact

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


def _quotable(words: str, secret: str) -> str:
    """Return the beginning of an error's text, without pictures and the secret, for a message."""
    return excerpt(without_pictures(redact(words, secret)))


def status_fault(status: int, body: Any, label: str, key_env: str, secret: str) -> EndpointFault:
    """Return the fault of an HTTP error status; for the arguments see `faults`."""
    complete = redact(body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=str), secret)
    complete = without_pictures(complete)
    words = _quotable(error_message(body), secret)
    detail = f": {words}" if words else ""
    if status in (401, 403):
        # Without the endpoint's text, which may quote the key in a masked form.
        message = f"{label} does not accept the key ({status}); it is read from {key_env}"
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


def inner_fault(event: Any, label: str, key_env: str, secret: str, streamed: bool) -> EndpointFault | None:
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
        return status_fault(status, event, label, key_env, secret)
    words = _quotable(error_message(event), secret)
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
        problem = f"failed in the middle of its reply: {_quotable(str(error.message), key)}"
        raise EndpointFault("unavailable", f"{label} {problem}", broken=True) from None
    except (openai.OpenAIError, httpx2.HTTPError, ValueError, RecursionError):
        raise EndpointFault("bad_reply", f"{label} answered with something that is not a chat completion") from None


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
