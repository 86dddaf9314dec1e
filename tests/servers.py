"""A scripted OpenAI-compatible server on real sockets, for tests of everything that calls a language model.

    with ScriptedServer(Status(429, headers={"Retry-After": "1"}), Say("Hello.")) as server:
        open_generator(f"openai:tiny@{server.url}")

Replies are sent in order, and the last one is repeated. A reply may also be a function from the JSON body of the
request to one of the replies below.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


@dataclass
class Say:
    """A chat completion, or a stream of server-sent events with one word each if the request asks for a stream.

    Args:
        usage: whether tokens are reported; in a stream, only if the request asks for them.
        pause: seconds before each word of a stream, and before a reply that is not a stream.
        stall: seconds of silence after the first word of a stream.
        cut: number of words after which the connection closes without an end of the stream.
        calls: tool calls (name, arguments), each sent in two pieces of a stream.
        model: model that the reply names; empty: the requested model with `-served`.
    """

    text: str | None
    finish_reason: str | None = "stop"
    usage: bool = True
    refusal: str | None = None
    pause: float = 0.0
    stall: float = 0.0
    cut: int | None = None
    calls: Sequence[tuple[str, str]] = ()
    model: str = ""

    @property
    def words(self) -> list[str]:
        """The pieces in which the text is streamed."""
        return re.findall(r"\s*\S+|\s+$", self.text or "")


@dataclass
class Status:
    """An HTTP error or any other status, with a JSON body or a plain text."""

    code: int
    message: str = "scripted"
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None


@dataclass
class Raw:
    """Bytes of a content type with status 200, e.g. garbage or truncated JSON."""

    content: bytes
    content_type: str = "application/json"


@dataclass
class Hang:
    """No answer at all for this many seconds."""

    seconds: float = 30.0


@dataclass
class Reset:
    """A reset of the connection."""


Scripted = Say | Status | Raw | Hang | Reset
Script = Scripted | Callable[[dict[str, Any]], Scripted]


@dataclass
class Seen:
    """A received request: its time of arrival, its headers with names in lower case, and its JSON body."""

    arrived: float
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class _Listening(ThreadingHTTPServer):
    request_queue_size = 128  # with the default of 5, some of many connections at once are reset


class ScriptedServer:
    """The scripted server, in threads of this process.

    Args:
        replies: replies to POST /v1/chat/completions.
        models: rows of GET /v1/models; None: 404.
        port: port to listen on; 0: a free one.
    """

    def __init__(self, *replies: Script, models: list[dict[str, Any]] | None = None, port: int = 0) -> None:
        self.replies, self.models = list(replies), models
        self.seen: list[Seen] = []
        self.models_asked = 0
        self.disconnected = threading.Event()
        self.closing = threading.Event()
        self._lock = threading.Lock()
        owner = self

        class Handler(_Handler):
            server_owner = owner

        self._http = _Listening(("127.0.0.1", port), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> ScriptedServer:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The JSON bodies of all chat requests so far."""
        return [request.body for request in self.seen]

    def take(self, request: Seen) -> Scripted:
        """Note a request and choose its reply."""
        with self._lock:
            self.seen.append(request)
            reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return reply if isinstance(reply, Say | Status | Raw | Hang | Reset) else reply(request.body)


def _call(n: int, name: str, arguments: str) -> dict[str, Any]:
    return {"index": n, "id": f"c{n}", "type": "function", "function": {"name": name, "arguments": arguments}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Otherwise a body sent after its header waits 40 ms for the acknowledgment of the other side.
    disable_nagle_algorithm = True
    server_owner: ScriptedServer

    def log_message(self, format: str, *args: object) -> None:
        return

    def handle(self) -> None:
        try:
            super().handle()
        except (BrokenPipeError, ConnectionResetError):
            self.server_owner.disconnected.set()

    def do_GET(self) -> None:
        owner = self.server_owner
        if self.path == "/health":
            return self._whole(200, b"", "text/plain")
        owner.models_asked += 1
        if owner.models is None or not self.path.endswith("/models"):
            return self._whole(404, json.dumps({"error": {"message": "not here"}}).encode())
        return self._whole(200, json.dumps({"object": "list", "data": owner.models}).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server_owner.take(Seen(time.monotonic(), self.path, headers, body))
        if isinstance(reply, Status):
            content = {"error": {"message": reply.message}} if reply.body is None else reply.body
            self._whole(reply.code, json.dumps(content).encode(), headers=reply.headers)
        elif isinstance(reply, Raw):
            self._whole(200, reply.content, reply.content_type)
        elif isinstance(reply, Hang):
            self.server_owner.closing.wait(reply.seconds)
            self.close_connection = True
        elif isinstance(reply, Reset):
            # With a linger time of 0, closing sends a reset instead of an orderly end.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
        elif body.get("stream"):
            self._stream(reply, body)
        else:
            self._say(reply, body)

    def _whole(self, code: int, content: bytes, kind: str = "application/json", headers: Any = None) -> None:
        self.send_response(code)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _say(self, reply: Say, body: dict[str, Any]) -> None:
        message = {"role": "assistant", "content": reply.text, "refusal": reply.refusal}
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
        if reply.calls:
            message["tool_calls"] = [_call(n, name, arguments) for n, (name, arguments) in enumerate(reply.calls)]
        answer: dict[str, Any] = {
            "id": "x", "object": "chat.completion", "created": 0, "model": reply.model or f"{body['model']}-served",
            "choices": [choice],
        }  # fmt: skip
        if reply.usage:
            answer["usage"] = USAGE
        content = json.dumps(answer).encode()
        self.server_owner.closing.wait(reply.pause)
        self._whole(200, content)

    def _stream(self, reply: Say, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        wait = self.server_owner.closing.wait

        def event(choices: list[dict[str, Any]], **more: Any) -> None:
            name = reply.model or f"{body['model']}-served"
            chunk = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": name}
            self.wfile.write(f"data: {json.dumps({**chunk, 'choices': choices, **more})}\n\n".encode())
            self.wfile.flush()

        for position, word in enumerate(reply.words):
            if position == reply.cut:
                return
            wait(reply.pause)
            event([{"index": 0, "delta": {"content": word}, "finish_reason": None}])
            if position == 0 and reply.stall:
                # A client that has left is noticed only when something can no longer be sent to it.
                ends = time.monotonic() + reply.stall
                while time.monotonic() < ends and not wait(0.02):
                    self.wfile.write(b": still here\n\n")
                    self.wfile.flush()
        for n, (name, arguments) in enumerate(reply.calls):
            middle = len(arguments) // 2
            more = {"index": n, "function": {"arguments": arguments[middle:]}}
            for row in (_call(n, name, arguments[:middle]), more):
                event([{"index": 0, "delta": {"tool_calls": [row]}, "finish_reason": None}])
        if reply.refusal:
            event([{"index": 0, "delta": {"refusal": reply.refusal}, "finish_reason": None}])
        event([{"index": 0, "delta": {}, "finish_reason": reply.finish_reason}])
        if reply.usage and (body.get("stream_options") or {}).get("include_usage"):
            event([], usage=USAGE)
        self.wfile.write(b"data: [DONE]\n\n")
        self.wfile.flush()
