"""The clients of one endpoint. One is not enough: what httpx's pool of connections costs grows with their square."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from httpx import AsyncClient
    from openai import AsyncOpenAI

# The client will not start without a key, and a server that has no keys ignores it.
_NO_KEY = "no-key"

CONNECT_SECONDS = 10.0
LANE = 4
"""Requests at once through one client."""


@dataclass
class _Lane:
    client: AsyncOpenAI
    busy: int = 0


class Lanes:
    """As many clients as the requests at once need.

    Args:
        url: base URL of the endpoint.
        key: the key; empty where the endpoint needs none.
    """

    def __init__(self, url: str, key: str) -> None:
        self._url, self._key = url, key
        self._tls: ssl.SSLContext | None = None
        self._lock = threading.Lock()
        self._lanes: tuple[int, list[_Lane]] | None = None

    def first(self) -> AsyncOpenAI:
        """The first client of this process; it belongs to the loop that drives it."""
        with self._lock:
            import openai

            if self._lanes is None or self._lanes[0] != os.getpid():
                client = openai.AsyncOpenAI(
                    api_key=self._key or _NO_KEY,
                    base_url=self._url,
                    max_retries=0,
                    timeout=openai.Timeout(None, connect=CONNECT_SECONDS),
                    http_client=self._http(),
                )
                _ = client.chat.completions  # its modules are loaded on first use; that should not be in a deadline
                self._lanes = (os.getpid(), [_Lane(client)])
            return self._lanes[1][0].client

    @contextmanager
    def one(self) -> Iterator[AsyncOpenAI]:
        """The client with the fewest requests, one more client where all have enough. Only in the loop's thread."""
        first = self.first()
        assert self._lanes is not None, "opened just now"
        lanes = self._lanes[1]
        lane = min(lanes, key=lambda one: one.busy)
        if lane.busy >= LANE:
            lane = _Lane(first.with_options(http_client=self._http()))
            lanes.append(lane)
        lane.busy += 1
        try:
            yield lane.client
        finally:
            lane.busy -= 1

    def _http(self) -> AsyncClient:
        import httpx
        import openai

        from turnmark.assistant.generators.sizes import HEADERS, limited

        within: Any = {"headers": HEADERS, "event_hooks": {"response": [limited]}}
        if not _is_loopback(self._url):
            self._tls = self._tls or httpx.create_ssl_context()
            return openai.DefaultAsyncHttpxClient(verify=self._tls, **within)
        # A proxy from the environment cannot reach this machine's own loopback, and loading the list of authorities
        # (0.1 s) is no use there: without it TLS would fail, not pass unchecked.
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return openai.DefaultAsyncHttpxClient(trust_env=False, verify=tls, **within)


def _is_loopback(url: str) -> bool:
    """Plain http to this machine itself."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "http":
        return False
    return host in ("localhost", "::1") or host.startswith("127.")
