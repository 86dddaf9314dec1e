"""Who may talk to the server: names, origins, tokens."""

from __future__ import annotations

import hmac
import ipaddress
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from turnmark.assistant.serving.request import Refusal
from turnmark.core.console import inert
from turnmark.core.errors import RequestError

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_ENV = "TURNMARK_TOKEN"
SHORTEST_TOKEN = 16
_LONGEST_TOKEN = 4096


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(path: Path | None, host: str = "localhost") -> str | None:
    """The token that every request must bring: from a file, else from `TURNMARK_TOKEN`.

    None where neither is there, which is a mistake if others can reach the host.
    """
    source = f"--token {inert(path)}" if path else TOKEN_ENV
    text = _private(path, source) if path else os.environ.get(TOKEN_ENV, "").strip()
    if not path and not text:
        if is_loopback(host):
            return None
        raise RequestError(
            f"--host {inert(host)}: others can reach this address, so a token is needed: --token FILE or {TOKEN_ENV}"
        )
    if not SHORTEST_TOKEN <= len(text) <= _LONGEST_TOKEN or not all("!" <= letter <= "~" for letter in text):
        raise RequestError(
            f"{source}: a token of at least {SHORTEST_TOKEN} letters, digits and signs without spaces was expected; "
            "make one: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return text


def _private(path: Path, source: str) -> str:
    """The text of a file that nobody else may read."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_LONGEST_TOKEN + 1).decode("utf-8", "replace").strip()
    except OSError as error:
        raise RequestError(
            f"{source}: cannot be read ({error.strerror or error}); name a file that holds the token, "
            f"never the token itself"
        ) from error
    if not stat.S_ISREG(mode):
        raise RequestError(f"{source}: is not a file; name a file that holds the token")
    if os.name == "posix" and mode & 0o077:
        raise RequestError(f"{source}: others may read it (mode {mode & 0o777:04o}); chmod 600 {inert(path)}")
    return text


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Guard:
    """Turns away what should not get in, and puts the headers of safety on every reply.

    A page on the internet can make its own name lead to this machine (DNS rebinding). Its requests then carry that
    name: a server without a token answers to its own names alone.

    Args:
        host: where it listens.
        token: what every request below `protects` must bring; None: nothing, as only this machine can reach it.
    """

    def __init__(self, app: ASGIApp, host: str, token: str | None, protects: str = "/v1/") -> None:
        self._app, self._names = app, ("localhost", "127.0.0.1", "::1", host.lower())
        self._protects = protects
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the class; a request in ASGI."""
        from starlette.datastructures import Headers

        from turnmark.assistant.serving.reply import refuse

        async def safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        if scope["type"] == "http" and (refusal := self._wrong(scope["path"], Headers(scope=scope))):
            await refuse(refusal)(scope, receive, safe)
        else:
            await self._app(scope, receive, safe)

    def _wrong(self, path: str, headers: Headers) -> Refusal | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if self._token is None and _host(host) not in self._names:
            return Refusal("not served under this name (Host header)", status=403, code="host")
        if origin and urlsplit(origin).netloc.lower() != host.lower():
            return Refusal("a page of another site may not ask here (Origin header)", status=403, code="origin")
        if self._token is None or not path.startswith(self._protects):
            return None
        kind, _, credentials = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(credentials.strip().encode(), self._token):
            message = "a token is needed: Authorization: Bearer TOKEN"
            return Refusal(message, status=401, code="invalid_api_key")
        return None


def _host(header: str) -> str:
    """The name in a Host header, without its port and an address's brackets."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""
