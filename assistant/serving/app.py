"""The server: chat completions, models, health and the page; listening, and an orderly end."""

from __future__ import annotations

import signal
import socket
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from turnmark.assistant.serving.guard import Guard
from turnmark.assistant.serving.reply import ReplyForm, error, event_bytes, json_response, refuse
from turnmark.assistant.serving.request import ChatRequest, Refusal, parse_request
from turnmark.assistant.serving.turns import Turns
from turnmark.assistant.types import Reply
from turnmark.corpora.console import inert
from turnmark.corpora.errors import TurnmarkError

if TYPE_CHECKING:
    from turnmark.assistant.open import Opened

PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
BODY = 1_000_000
"""Bytes of a request."""


def make_app(
    opened: Opened,
    at_once: int,
    seconds: float,
    names: frozenset[str] | None,
    token: str | None,
    footnotes: bool,
    on_ready: Callable[[], None] = lambda: None,
) -> Any:
    """The server as an ASGI application.

    Args:
        at_once, seconds: see `turnmark.assistant.serving.turns.Turns`.
        footnotes: sources are footnotes if a request does not say; else marks [n] alone.
        names, token: see `turnmark.assistant.serving.guard.Guard`.
        on_ready: called when it takes requests.
    """
    model = opened.index.manifest.name
    turns = Turns(opened.assistant, at_once, seconds)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        on_ready()
        try:
            yield
        finally:
            turns.close()

    # Its pages of documentation would load scripts from elsewhere.
    app = FastAPI(title="Turnmark", lifespan=life, docs_url=None, redoc_url=None, openapi_url=None)
    _say_errors(app)

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> Response:
        asked = parse_request(await _body(request), model, footnotes)
        form = ReplyForm(f"chatcmpl-{uuid.uuid4().hex}", int(time.time()), model, asked)
        if asked.stream:
            headers = {"X-Accel-Buffering": "no"}
            return StreamingResponse(_events(turns, asked, form), media_type="text/event-stream", headers=headers)
        return await _whole(turns, asked, form, request)

    @app.get("/v1/models")
    async def models() -> Response:
        return json_response({"object": "list", "data": [_model(opened)]})

    @app.get("/v1/models/{name:path}")
    async def one_model(name: str) -> Response:
        if name != model:
            message = f"The model does not exist; the model served here is {model!r}"
            raise Refusal(message, "model", 404, "model_not_found")
        return json_response(_model(opened))

    @app.get("/healthz")
    async def health() -> Response:
        return json_response({"status": "ok", "turns": turns.counts})

    for path, (file, kind) in PAGE.items():
        app.add_route(path, _page(file, kind))
    return Guard(app, names, token)


def _page(file: str, kind: str) -> Callable[[Request], Any]:
    content = files("turnmark.assistant.serving").joinpath("page", file).read_bytes()

    async def page(_: Request) -> Response:
        return Response(content, media_type=kind)

    return page


def _model(opened: Opened) -> dict[str, Any]:
    """The one model there is, in OpenAI's form, and what it is made of."""
    manifest = opened.index.manifest
    try:
        created = int(datetime.fromisoformat(manifest.created).timestamp())
    except ValueError:
        created = 0
    about = {
        "documents": manifest.documents, "passages": manifest.passages, "generator": opened.assistant.name,
        "retriever": opened.assistant.retriever.name if opened.assistant.retriever else None,
    }  # fmt: skip
    return {"id": manifest.name, "object": "model", "created": created, "owned_by": "turnmark", "turnmark": about}


async def _body(request: Request) -> bytes:
    """What a request holds, which says that it is JSON.

    A form or plain text is not read: a page of another site could send these without being asked for leave.

    Raises:
        Refusal: it is too large, or says something else.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal("Content-Type: application/json was expected", status=415)
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > BODY:
                raise Refusal(f"the request is larger than {BODY} bytes", status=413)
    except ClientDisconnect:
        raise Refusal("the client closed the connection in the middle of its request") from None
    return bytes(body)


async def _whole(turns: Turns, asked: ChatRequest, form: ReplyForm, request: Request) -> Response:
    """A reply in one piece; if the client leaves, the turn ends."""
    async with aclosing(turns.events(asked)) as events:
        async for event in events:
            if isinstance(event, Reply):
                return json_response(form.completion(event))
            if isinstance(event, Refusal):
                return refuse(event)
            if await request.is_disconnected():
                break
    return refuse(Refusal("the client closed the connection", status=503))


async def _events(turns: Turns, asked: ChatRequest, form: ReplyForm) -> AsyncIterator[bytes]:
    """A reply as server-sent events; sending is cancelled when the client leaves, and the turn ends with it."""
    yield event_bytes(form.begin())
    async with aclosing(turns.events(asked)) as events:
        async for event in events:
            if isinstance(event, Refusal):
                yield event_bytes(error(event))
            elif isinstance(event, Reply):
                for chunk in form.end(event):
                    yield event_bytes(chunk)
                yield b"data: [DONE]\n\n"
            elif event is None:
                yield b": still working\n\n"
            else:
                for chunk in form.event(event):
                    yield event_bytes(chunk)


def _say_errors(app: FastAPI) -> None:
    """Every error in OpenAI's form."""

    async def wrong(_: Request, raised: Exception) -> Response:
        assert isinstance(raised, Refusal)
        return refuse(raised)

    async def http(request: Request, raised: Exception) -> Response:
        assert isinstance(raised, HTTPException)
        messages = {404: "no such address", 405: f"{request.method} is not served here"}
        return refuse(Refusal(messages.get(raised.status_code, str(raised.detail)), status=raised.status_code))

    async def unexpected(_: Request, raised: Exception) -> Response:
        return refuse(Refusal(f"the request failed unexpectedly ({type(raised).__name__})", status=500))

    app.add_exception_handler(Refusal, wrong)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)


CONNECTIONS = 512
"""At once; what comes then gets 503."""
HEAD_BYTES, KEEP_ALIVE = 16_384, 20
"""Of a request's head; seconds until a connection without a request is closed."""
GRACE = 10
"""Seconds that turns at work have to finish when the server is ended."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise TurnmarkError(f"--host {inert(host)}: no address of this machine ({error.strerror or error})") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        reason = error.strerror or error
        raise TurnmarkError(
            f"cannot listen at {inert(host)}, port {port} ({reason}); choose another --port, or 0 for a free one"
        ) from error
    return listening


def run_server(app: Any, listening: socket.socket) -> None:
    """Serve until the process shall end. SIGTERM ends it with code 0, Ctrl-C as a KeyboardInterrupt."""
    config = uvicorn.Config(
        app, lifespan="on", ws="none", http="h11", log_config=None, log_level="error", access_log=False,
        server_header=False, timeout_graceful_shutdown=GRACE, timeout_keep_alive=KEEP_ALIVE,
        limit_concurrency=CONNECTIONS, h11_max_incomplete_event_size=HEAD_BYTES,
    )  # fmt: skip
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)  # uvicorn raises the signal again once it has ended
    uvicorn.Server(config).run(sockets=[listening])


def _terminated(*_: object) -> None:
    raise SystemExit(0)
