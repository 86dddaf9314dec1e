"""Access control of the server: host names, origins and tokens."""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from turnmark.assistant.serving.request_bodies import RejectedRequest
from turnmark.core.errors import RequestError
from turnmark.core.untrusted import one_line

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_ENV = "TURNMARK_TOKEN"
MIN_TOKEN_CHARS = 16
_MAX_TOKEN_CHARS = 4096


def is_loopback(host: str) -> bool:
    """Return whether a server that listens at this host can be reached only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(path: Path | None, host: str = "localhost") -> str | None:
    """Read the token of all requests from a file or from `TURNMARK_TOKEN`, or return None if both are missing.

    Raises:
        RequestError: the token is unfit or readable by others, or missing although other machines can reach the host.
    """
    source = f"--token {one_line(path)}" if path else TOKEN_ENV
    text = _read_private_file(path, source) if path else os.environ.get(TOKEN_ENV, "").strip()
    if not path and not text:
        if is_loopback(host):
            return None
        raise RequestError(
            f"--host {one_line(host)}: other machines can reach it; set a token with --token FILE or {TOKEN_ENV}"
        )
    if not MIN_TOKEN_CHARS <= len(text) <= _MAX_TOKEN_CHARS or not all("!" <= letter <= "~" for letter in text):
        raise RequestError(
            f"{source}: expected a token of at least {MIN_TOKEN_CHARS} letters, digits and signs, without spaces; "
            "make one: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return text


def _read_private_file(path: Path, source: str) -> str:
    """Read a file that only its owner may read."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_MAX_TOKEN_CHARS + 1).decode("utf-8", "replace").strip()
    except OSError as error:
        raise RequestError(
            f"{source}: cannot be read ({error.strerror or error}); give the path of a file that contains the token, "
            "not the token itself"
        ) from error
    if not stat.S_ISREG(mode):
        raise RequestError(f"{source}: is not a file; give the path of a file that contains the token")
    if os.name == "posix" and mode & 0o077:
        raise RequestError(
            f"{source}: other users can read it (mode {mode & 0o777:04o}); run: chmod 600 {one_line(path)}"
        )
    return text


MAX_PORT = 65_535


def check_port(port: int) -> None:
    """Raise RequestError unless the port is valid; 0 stands for any free port."""
    if not 0 <= port <= MAX_PORT:
        raise RequestError(f"--port {port}: expected a number from 0 to {MAX_PORT}")


CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types dompurify"
)
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Guard:
    """ASGI middleware that refuses unauthorized requests, and adds security headers to every response.

    A page on the internet can make its domain resolve to this machine (DNS rebinding). Its requests then have that
    domain in the Host header, so a server without a token accepts only its own host names.

    Args:
        host: host that the server listens at.
        token: token that every request must have, or None if only this machine can reach the server.
        protects: beginning of the paths that need the token.
        origins: pages of other sites that may use the server, such as those of a browser extension.
    """

    def __init__(
        self, app: ASGIApp, host: str, token: str | None, protects: str = "/v1/", origins: Sequence[str] = ()
    ) -> None:
        self._origins = frozenset(origin.lower() for origin in origins)
        self._app, self._names = app, ("localhost", "127.0.0.1", "::1", host.lower())
        self._protects = protects
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI request."""
        from starlette.datastructures import Headers
        from starlette.responses import Response

        from turnmark.assistant.serving.completions_api import rejection_response

        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        origin = headers.get("origin", "")
        is_allowed = origin.lower() in self._origins

        async def safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                granted = _grant(origin) if is_allowed else ()
                message["headers"] = [*message.get("headers", ()), *SECURITY_HEADERS, *granted]
            await send(message)

        refusal = self._refusal(scope["path"], headers) if scope["type"] == "http" else None
        if is_allowed and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await Response(status_code=204)(scope, receive, safe)  # asked without the token
        elif refusal is not None:
            await rejection_response(refusal)(scope, receive, safe)
        else:
            await self._app(scope, receive, safe)

    def _refusal(self, path: str, headers: Headers) -> RejectedRequest | None:
        """Return why a request is refused, or None."""
        host = headers.get("host", "")
        origin = headers.get("origin")
        if self._token is None and _host_name(host) not in self._names:
            return RejectedRequest(
                "this server does not answer under this name (Host header); use localhost", status=403, code="host"
            )
        if origin and _origin_host(origin) != host.lower() and origin.lower() not in self._origins:
            message = "pages of other sites may not use this server (Origin header), unless --allow-origin names them"
            return RejectedRequest(message, status=403, code="origin")
        if self._token is None or not path.startswith(self._protects):
            return None
        kind, _, credentials = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(credentials.strip().encode(), self._token):
            message = "a token is missing or wrong; send the header Authorization: Bearer TOKEN"
            return RejectedRequest(message, status=401, code="invalid_api_key")
        return None


def _grant(origin: str) -> list[tuple[bytes, bytes]]:
    """Return the headers that let a page of another site read a response (https://fetch.spec.whatwg.org)."""
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
        (b"access-control-allow-headers", b"authorization, content-type, *"),
        (b"vary", b"Origin"),
    ]


def check_origin(origin: str) -> str:
    """Return an origin that `--allow-origin` names; raise RequestError if it is none."""
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s*?#]+", origin.lower()):
        raise RequestError(f"--allow-origin {one_line(origin)}: expected an origin, e.g. app://obsidian.md")
    return origin


def _origin_host(origin: str) -> str:
    """Return host and port of an origin; empty if it is malformed."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _host_name(header: str) -> str:
    """Return the name in a Host header, without port and brackets."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""
