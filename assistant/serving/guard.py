"""What stands before every request: whose name it was sent to, where it comes from, and whether it may."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from turnmark.assistant.serving.reply import error, json_bytes
from turnmark.assistant.serving.request import Refusal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
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

    Args:
        names: hosts under which the server may be spoken to; None: any.
        token: what every request below /v1 must bring; None: nothing.
    """

    def __init__(self, app: ASGIApp, names: frozenset[str] | None, token: str | None) -> None:
        self._app, self._names = app, names
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the class; a request in ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        if refusal := self._wrong(scope):
            await refuse(safe, refusal)
        else:
            await self._app(scope, receive, safe)

    def _wrong(self, scope: Scope) -> Refusal | None:
        headers = _Headers(scope["headers"])
        host = headers.one("host")
        if self._names is not None and _host(host) not in self._names:
            return Refusal("not served under this name (Host header); see --allow-host", status=403, code="host")
        origin = headers.one("origin")
        if origin and urlsplit(origin).netloc.lower() != host.lower():
            return Refusal("a page of another site may not ask here (Origin header)", status=403, code="origin")
        if self._token is None or not scope["path"].startswith("/v1/"):
            return None
        kind, _, credentials = headers.one("authorization").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(credentials.strip().encode(), self._token):
            message = "a token is needed: Authorization: Bearer TOKEN (as an OpenAI client sends its API key)"
            return Refusal(message, status=401, code="invalid_api_key")
        return None


class _Headers:
    """A request's headers; one that is there twice is none, since nobody can say which of the two counts."""

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self._pairs = list(pairs)

    def one(self, name: str) -> str:
        values = [value for key, value in self._pairs if key.lower() == name.encode()]
        return values[0].decode("latin-1") if len(values) == 1 else ""


def _host(header: str) -> str:
    """The name in a Host header, without its port and an address's brackets."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""


async def refuse(send: Send, refusal: Refusal) -> None:
    """Answer with an error."""
    body = json_bytes(error(refusal))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
