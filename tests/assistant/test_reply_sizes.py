"""Replies that have no end, against a real server on loopback: an error in words, and not held whole."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.assistant.endpoint import ASK, failure
from tests.servers import Raw, Say, ScriptedServer, Status
from turnmark.assistant.generators import Generator, GeneratorError, PromptMessage, open_generator
from turnmark.assistant.generators.client import REPLY_BYTES, TooLarge, limited
from turnmark.assistant.generators.vllm_server import serves

PIECE = b"x" * 100_000
MOST = 60_000_000
STREAMED = [None, lambda piece: None]


def opened(url: str) -> Generator:
    return open_generator(f"openai:tiny@{url}?retries=2")


@contextmanager
def endless(status: int, kind: str, before: bytes, piece: bytes) -> Iterator[tuple[str, list[int]]]:
    """An endpoint that goes on and on without a length, and how many bytes each client took."""
    sizes: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            return

        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            sent = 0
            try:
                self.wfile.write(before)
                while sent < MOST:
                    self.wfile.write(piece)
                    sent += len(piece)
            except OSError:
                pass
            sizes.append(sent)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", sizes
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("on_text", STREAMED)
@pytest.mark.parametrize(
    ("kind", "before"),
    [("application/json", b'{"choices": [{"message": {"content": "'), ("text/event-stream", b"data: ")],
)
def test_a_reply_without_an_end_is_left(on_text, kind, before):
    with endless(200, kind, before, PIECE) as (url, sent):
        error = failure(opened(url), on_text=on_text)
    assert error.kind == "bad_reply"
    assert "more than 8 MB" in str(error)
    assert len(sent) == 1
    assert sent[0] < MOST


def test_a_stream_of_too_much_text_is_left_and_its_beginning_is_no_reply():
    event = {"choices": [{"index": 0, "delta": {"content": "x" * 100_000}, "finish_reason": None}]}
    pieces: list[str] = []
    with endless(200, "text/event-stream", b"", f"data: {json.dumps(event)}\n\n".encode()) as (url, _):
        error = failure(opened(url), on_text=pieces.append)
    assert error.kind == "bad_reply"
    assert "a text of more than 8 million characters" in str(error)
    assert sum(map(len, pieces)) <= REPLY_BYTES + 100_000


def test_a_long_stream_of_little_text_is_a_reply():
    """Events hold more than their text; ten megabytes of them are nothing wrong."""
    reply = Say(" ".join(["word"] * 60))
    with ScriptedServer(lambda _: reply) as server:
        text = opened(server.url).complete(ASK, on_text=lambda _: None).text
    assert text == reply.text
    comment = b": " + b"x" * 200_000 + b"\n\n"
    choices = [{"index": 0, "delta": {"content": "Fine."}, "finish_reason": "stop"}]
    event = f"data: {json.dumps({'choices': choices})}\n\n".encode()
    content = comment * 60 + event + b"data: [DONE]\n\n"
    assert len(content) > 1.4 * REPLY_BYTES
    with ScriptedServer(Raw(content, "text/event-stream")) as server:
        assert opened(server.url).complete(ASK, on_text=lambda _: None).text == "Fine."


@pytest.mark.parametrize("on_text", STREAMED)
def test_an_error_is_one_however_long_its_words(on_text):
    with endless(400, "text/plain", b"no such thing", PIECE) as (url, sent):
        error = failure(opened(url), on_text=on_text)
    assert (error.kind, len(sent)) == ("bad_request", 1)
    assert sent[0] < MOST
    with ScriptedServer(Status(500, "x" * 10_000_000), Say("Fine.")) as server:
        assert opened(server.url).complete(ASK, on_text=on_text).text == "Fine."


def test_nothing_compressed_is_asked_for_or_read():
    with ScriptedServer(Status(200, headers={"Content-Encoding": "gzip"}, body={})) as server:
        error = failure(opened(server.url))
        assert server.seen[0].headers["accept-encoding"] == "identity"
    assert error.kind == "bad_reply"
    assert "compressed, though it was not asked to be" in str(error)


def test_whoever_listens_where_a_model_server_is_looked_for_is_not_heard_out():
    with endless(200, "application/json", b'{"data": [{"id": "tiny"}], "x": "', PIECE) as (url, sent):
        assert not serves(url, "tiny", "")
    assert sent[0] < MOST


def test_what_a_llama_index_llm_sends_is_measured():
    generator = open_generator("llama-index:llama_index.core.llms:MockLLM")
    with pytest.raises(GeneratorError, match="a text of more than 8 million characters"):
        generator.complete([PromptMessage(role="user", content="x" * REPLY_BYTES)])


def counted(pieces: list[bytes], kind: str) -> bytes:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"Content-Type": kind}, content=arriving())

    async def arriving() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def get() -> bytes:
        transport = httpx.MockTransport(answer)
        async with httpx.AsyncClient(transport=transport, event_hooks={"response": [limited]}) as client:
            return (await client.get("http://x.invalid/")).content

    return asyncio.run(get())


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_what_is_not_too_large_comes_through_as_it_is(pieces):
    for kind in ("text/plain", "text/event-stream"):
        assert counted(pieces, kind) == b"".join(pieces)


@pytest.mark.parametrize("line", [b"\n", b"\r\n", b"\r"])
def test_each_event_is_measured_alone_wherever_its_pieces_end(line):
    half = b"x" * (REPLY_BYTES // 2 + 10)
    assert len(counted([half, line, line, half, line + line, half], "text/event-stream")) > REPLY_BYTES
    with pytest.raises(TooLarge):
        counted([half, line, half, line, line], "text/event-stream")
