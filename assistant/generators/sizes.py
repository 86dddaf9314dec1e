"""How large a reply may be: what an endpoint sends is counted as it comes, and never held whole to be measured."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx

REPLY_BYTES = 8_000_000
"""Of a whole reply, of the text of a stream, and of one of its events.

A reply of 128,000 tokens is half a megabyte of text. With logprobs a token takes some 100 bytes: 80,000 tokens.
"""
STREAM_BYTES = 16 * REPLY_BYTES
"""Of a stream: a few letters of text come in an event of several hundred bytes, of which nothing else is kept."""
ERROR_BYTES = 100_000
"""Of an error's words; the rest is not read, since an error is one without them."""
HEADERS = {"Accept-Encoding": "identity"}
"""What is compressed could become any number of bytes before they are counted."""

_BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r")


class TooLarge(Exception):
    """A reply is larger than a reply may be, or cannot be measured; the message says which."""


def check_text(characters: int) -> None:
    """Raises: TooLarge: so many characters are more than a reply's text may have."""
    if characters > REPLY_BYTES:
        raise TooLarge(f"a text of more than {REPLY_BYTES / 1e6:g} million characters")


async def limited(response: httpx.Response) -> None:
    """Have a reply counted while it is read; for httpx's hook `response`.

    Raises:
        TooLarge: it is announced as too large, or compressed. While it is read: it has become too large.
    """
    _limit(response)


def limited_here(response: httpx.Response) -> None:
    """The same for a client that blocks."""
    _limit(response)


def _limit(response: httpx.Response) -> None:
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise TooLarge("a reply that is compressed, though it was not asked to be")
    cut = response.status_code >= 400
    streamed = "event-stream" in response.headers.get("content-type", "")
    announced = response.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > REPLY_BYTES and not cut and not streamed:
        raise _too_large()
    response.stream = _Counted(response.stream, streamed, cut)


def _too_large() -> TooLarge:
    return TooLarge(f"a reply of more than {REPLY_BYTES / 1e6:g} MB")


class _Counted(httpx.AsyncByteStream, httpx.SyncByteStream):
    """A reply's bytes as far as they may go.

    Args:
        streamed: server-sent events, of which each is held alone.
        cut: beyond `ERROR_BYTES` it is at its end.
    """

    def __init__(self, stream: Any, streamed: bool, cut: bool) -> None:
        self._stream, self._streamed, self._cut = stream, streamed, cut
        self._read = self._event = 0
        self._tail = b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield self._counted(piece)
            if self._ended:
                return

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._stream:
            yield self._counted(piece)
            if self._ended:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()

    def close(self) -> None:
        self._stream.close()

    @property
    def _ended(self) -> bool:
        return self._cut and self._read > ERROR_BYTES

    def _counted(self, piece: bytes) -> bytes:
        self._read += len(piece)
        self._event += len(piece)
        if self._cut:
            return piece
        if self._streamed:
            seen = self._tail + piece
            ends = max(seen.rfind(line) + len(line) if line in seen else -1 for line in _BLANK_LINES)
            if ends >= 0:
                self._event = len(seen) - ends
            self._tail = seen[-3:]
        if self._event > REPLY_BYTES or self._read > STREAM_BYTES:
            raise _too_large()
        return piece
