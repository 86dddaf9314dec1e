"""The server: chat completions, models, health and the page; turns in threads; listening, and an orderly end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
import time
import traceback
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from turnmark.assistant.generators.base import GeneratorError
from turnmark.assistant.generators.stopping import Stop, Stopped, stoppable
from turnmark.assistant.serving.guard import Guard
from turnmark.assistant.serving.pictures import cited_page_picture, parse_picture_request
from turnmark.assistant.serving.reply import ReplyForm, error, json_bytes, json_response, refuse
from turnmark.assistant.serving.request import ChatRequest, Refusal, parse_request
from turnmark.assistant.types import Event, Reply
from turnmark.core.console import inert
from turnmark.core.errors import RequestError, TurnmarkError

if TYPE_CHECKING:
    from turnmark.assistant.assistant import Assistant

PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
BODY = 1_000_000
"""Bytes of a request."""
IDLE = 1.0
"""Seconds without news after which whoever listens looks whether its client is still there."""
CONNECTIONS, HEAD_BYTES, KEEP_ALIVE = 512, 16_384, 20
"""At once, beyond which they get 503; bytes of a request's head; seconds until an idle connection is closed."""
GRACE, LAST_WORDS = 10, 5
"""Seconds that turns at work have to finish when the server is ended; that clients of the others have for the news."""


# --- turns -----------------------------------------------------------------------------------------------------------

_ENDED = Refusal("the server was ended before the turn was done", status=503, code="stopped")


class Turns:
    """Runs turns of an assistant, `at_once` in threads and the others waiting for a place.

    A turn has no time of its own: its calls of models and stores end by their own deadlines, which alone know whether
    something still comes.
    """

    def __init__(self, assistant: Assistant, at_once: int) -> None:
        self.assistant = assistant
        self._pool = ThreadPoolExecutor(at_once, "turnmark-turn")
        self._stops: set[Stop] = set()
        self._closed = False

    def close(self) -> None:
        """End every turn."""
        self._closed = True
        for stop in self._stops:
            stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def events(self, asked: ChatRequest) -> AsyncGenerator[Event | Reply | Refusal | None, None]:
        """A turn's events as they come, then its reply or what to answer instead; None after `IDLE` seconds without.

        Leaving the loop ends the turn.
        """
        loop, news, stop = asyncio.get_running_loop(), asyncio.Queue[Event | Reply | Refusal](), Stop()

        def on_event(event: Event) -> None:
            stop.check()
            loop.call_soon_threadsafe(news.put_nowait, event)

        def work() -> None:
            loop.call_soon_threadsafe(news.put_nowait, self._outcome(asked, stop, on_event))

        self._stops.add(stop)
        future = self._pool.submit(work)
        try:
            item: Event | Reply | Refusal | None = None
            while item is None or isinstance(item, Event):
                try:
                    item = await asyncio.wait_for(news.get(), IDLE)
                except TimeoutError:  # what had no place yet, or hangs, cannot say that it was ended
                    item = _ENDED if self._closed else None
                yield item
        finally:
            stop.set()
            future.cancel()
            self._stops.discard(stop)

    def _outcome(self, asked: ChatRequest, stop: Stop, on_event: Callable[[Event], None]) -> Reply | Refusal:
        try:
            with stoppable(stop):
                stop.check()
                return self.assistant.reply(asked.history, asked.message, on_event)
        except Stopped:
            return _ENDED
        except GeneratorError as error:
            return Refusal(str(error), status=504 if error.kind == "timeout" else 502, code=error.kind)
        except RequestError as error:
            return Refusal(error.problems)
        except TurnmarkError as error:
            return Refusal(str(error), status=500)
        except Exception as error:  # a fault of ours or of a part from outside must not end the server
            # Where it was, not what it says: that may quote a document or a key.
            frames = "".join(traceback.format_tb(error.__traceback__))
            logging.getLogger("turnmark").error("a turn failed unexpectedly (%s):\n%s", type(error).__name__, frames)
            return Refusal(f"the turn failed unexpectedly ({type(error).__name__})", status=500)


# --- the application -------------------------------------------------------------------------------------------------


def make_app(turns: Turns, host: str, token: str | None, on_ready: Callable[[], None]) -> Any:
    """The server as an ASGI application, which calls `on_ready` when it takes requests."""
    assistant = turns.assistant
    model = assistant.config.index

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        on_ready()
        yield

    # Its pages of documentation would load scripts from elsewhere.
    app = FastAPI(title="Turnmark", lifespan=life, docs_url=None, redoc_url=None, openapi_url=None)
    _say_errors(app)

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> Response:
        asked = parse_request(await _body(request), model)
        form = ReplyForm(f"chatcmpl-{uuid.uuid4().hex}", int(time.time()), model, asked)
        if asked.stream:
            headers = {"X-Accel-Buffering": "no"}
            return StreamingResponse(_events(turns, asked, form), media_type="text/event-stream", headers=headers)
        return await _complete(turns, asked, form, request)

    @app.get("/v1/models")
    async def models() -> Response:
        return json_response({"object": "list", "data": [_model(assistant)]})

    @app.get("/v1/models/{name:path}")
    async def one_model(name: str) -> Response:
        if name != model:
            message = f"The model does not exist; the model served here is {model!r}"
            raise Refusal(message, "model", 404, "model_not_found")
        return json_response(_model(assistant))

    @app.get("/v1/picture")
    async def picture(request: Request) -> Response:
        asked = parse_picture_request(request.query_params)
        assert assistant.index is not None, "a server is opened over an index"
        return Response(await run_in_threadpool(cited_page_picture, assistant.index, asked), media_type="image/png")

    @app.get("/healthz")
    async def health() -> Response:
        return json_response({"status": "ok"})

    for path, (file, kind) in PAGE.items():
        app.add_route(path, _page(file, kind))
    return Guard(app, host, token)


def _page(file: str, kind: str) -> Callable[[Request], Any]:
    content = files("turnmark.assistant.serving").joinpath("page", file).read_bytes()

    async def page(_: Request) -> Response:
        return Response(content, media_type=kind)

    return page


def _model(assistant: Assistant) -> dict[str, Any]:
    """The one model there is, in OpenAI's form, and what it is made of."""
    assert assistant.index is not None, "a server is opened over an index"
    manifest, retriever = assistant.index.manifest, assistant.retriever
    about = {
        "documents": manifest.documents, "passages": manifest.passages, "generator": assistant.name,
        "retriever": retriever.name if retriever else None, "config": assistant.config.shown(),
    }  # fmt: skip
    created = int(datetime.fromisoformat(manifest.created).timestamp())
    return {"id": manifest.name, "object": "model", "created": created, "owned_by": "turnmark", "turnmark": about}


async def _body(request: Request) -> bytes:
    """What a request holds, which says that it is JSON.

    A form or plain text is not read: a page of another site could send these without being asked for leave.
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


async def _complete(turns: Turns, asked: ChatRequest, form: ReplyForm, request: Request) -> Response:
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
    yield _sent(form.begin())
    async with aclosing(turns.events(asked)) as events:
        async for event in events:
            if event is None:
                yield b": still working\n\n"
            elif isinstance(event, Refusal):
                yield _sent(error(event))
            else:
                for chunk in form.end(event) if isinstance(event, Reply) else form.event(event):
                    yield _sent(chunk)
            if isinstance(event, Reply):
                yield b"data: [DONE]\n\n"


def _sent(value: Any) -> bytes:
    return b"data: " + json_bytes(value) + b"\n\n"


def _say_errors(app: FastAPI) -> None:
    """Every error in OpenAI's form."""

    async def respond(request: Request, raised: Exception) -> Response:
        if isinstance(raised, Refusal):
            return refuse(raised)
        if isinstance(raised, HTTPException):
            messages = {404: "no such address", 405: f"{request.method} is not served here"}
            return refuse(Refusal(messages.get(raised.status_code, str(raised.detail)), status=raised.status_code))
        return refuse(Refusal(f"the request failed unexpectedly ({type(raised).__name__})", status=500))

    for kind in (Refusal, HTTPException, Exception):
        app.add_exception_handler(kind, respond)


# --- listening -------------------------------------------------------------------------------------------------------


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound there."""
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


class _Server(uvicorn.Server):
    """Ends turns that outlast `GRACE` itself, so that their clients hear of it; uvicorn cuts off what is left then."""

    def __init__(self, config: uvicorn.Config, turns: Turns) -> None:
        super().__init__(config)
        self._turns = turns

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server.shutdown`."""
        asyncio.get_running_loop().call_later(GRACE, self._turns.close)
        await super().shutdown(sockets)


def run_server(app: Any, turns: Turns, listening: socket.socket) -> None:
    """Serve until the process shall end. SIGTERM ends it with code 0, Ctrl-C as a KeyboardInterrupt."""
    config = uvicorn.Config(
        app, lifespan="on", ws="none", http="h11", log_config=None, log_level="error", access_log=False,
        server_header=False, timeout_graceful_shutdown=GRACE + LAST_WORDS, timeout_keep_alive=KEEP_ALIVE,
        limit_concurrency=CONNECTIONS, h11_max_incomplete_event_size=HEAD_BYTES,
    )  # fmt: skip
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)  # uvicorn raises the signal again once it has ended
    try:
        _Server(config, turns).run(sockets=[listening])
    finally:
        turns.close()


def _terminated(*_: object) -> None:
    raise SystemExit(0)
