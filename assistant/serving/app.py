"""The endpoints: chat completions, models, health, and the page."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from turnmark.assistant.serving.guard import Guard, Limits
from turnmark.assistant.serving.reply import ReplyForm, error, event_bytes, json_bytes
from turnmark.assistant.serving.request import Refusal, Streaming, parse_body, parse_request
from turnmark.assistant.serving.turns import QueuedTurn, TurnPool
from turnmark.corpora.types import Record

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from turnmark.assistant.open import Opened

PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
IDLE = 10.0
"""Seconds without news after which a stream is kept alive by a comment."""


class ReplyDefaults(Record):
    """How replies are given where a request does not say."""

    footnotes: bool = True
    streaming: Streaming = "final"


def make_app(
    opened: Opened,
    limits: Limits,
    names: frozenset[str] | None,
    token: str | None,
    manner: ReplyDefaults,
    on_ready: Callable[[], None] = lambda: None,
) -> Any:
    """The server as an ASGI application.

    Args:
        names, token: see `turnmark.assistant.serving.guard.Guard`.
        on_ready: called when it takes requests.
    """
    model = opened.index.manifest.name
    desk: list[TurnPool] = []

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        desk.append(TurnPool(opened.assistant, limits))
        on_ready()
        try:
            yield
        finally:
            desk[0].close()

    # Its pages of documentation would load scripts from elsewhere.
    app = FastAPI(title="Turnmark", lifespan=life, docs_url=None, redoc_url=None, openapi_url=None)
    _say_errors(app)

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> Response:
        body = await _body(request, limits)
        chat_request = parse_request(body, model, limits.messages, manner.footnotes, manner.streaming)
        try:
            work = desk[0].take(chat_request)
        except Refusal as refusal:
            return _refused(refusal, {"Retry-After": str(desk[0].retry_after())})
        form = ReplyForm(f"chatcmpl-{uuid.uuid4().hex}", int(time.time()), model, chat_request)
        return Streamed(work, form) if chat_request.stream else await _whole(work, form, request)

    @app.get("/v1/models")
    async def models() -> Response:
        return _json({"object": "list", "data": [_model(opened)]})

    @app.get("/v1/models/{name:path}")
    async def one_model(name: str) -> Response:
        if name != model:
            message = f"The model does not exist; the model served here is {model!r}"
            raise Refusal(message, "model", 404, "model_not_found")
        return _json(_model(opened))

    @app.get("/healthz")
    async def health() -> Response:
        return _json({"status": "ok", "turns": {"at_work": desk[0].at_work, "waiting": desk[0].waiting}})

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


async def _body(request: Request, limits: Limits) -> dict[str, Any]:
    """The request's JSON object.

    A form or plain text is not read: a page of another site could send these without being asked for leave.

    Raises:
        Refusal: it is too large, comes too slowly, or is none.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal("Content-Type: application/json was expected", status=415)
    limit = limits.body
    large = Refusal(f"the request is larger than {limit} bytes", status=413)
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise large
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for piece in request.stream():
                body += piece
                if len(body) > limit:
                    raise large
    except ClientDisconnect:
        raise Refusal("the client left in the middle of its request") from None
    except TimeoutError:
        raise Refusal("the request came too slowly", status=408) from None
    return parse_body(bytes(body))


async def _whole(work: QueuedTurn, form: ReplyForm, request: Request) -> Response:
    """A reply in one piece; where the client leaves, the turn ends."""
    outcome = asyncio.ensure_future(work.outcome())
    gone = asyncio.ensure_future(_until_gone(request))
    try:
        await asyncio.wait((outcome, gone), return_when=asyncio.FIRST_COMPLETED)
        if not outcome.done():
            work.leave()
        result = await outcome
    finally:
        work.leave()
        gone.cancel()
        outcome.cancel()
    if isinstance(result, Refusal):
        return _refused(result)
    return _json(form.completion(result))


async def _until_gone(request: Request) -> None:
    """Until the client has left; the request has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Streamed(StreamingResponse):
    """A reply as server-sent events. When the client leaves, sending is cancelled, and the turn ends with it."""

    def __init__(self, work: QueuedTurn, form: ReplyForm) -> None:
        self._work, self._form = work, form
        super().__init__(self._events(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See `StreamingResponse`."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._work.leave()

    async def _events(self) -> AsyncIterator[bytes]:
        yield event_bytes(self._form.begin())
        async for event in self._work.events(IDLE):
            if event is None:
                yield b": still at it\n\n"
                continue
            for chunk in self._form.event(event):
                yield event_bytes(chunk)
        result = await self._work.outcome()
        if isinstance(result, Refusal):
            yield event_bytes(error(result))
            return
        for chunk in self._form.end(result):
            yield event_bytes(chunk)
        yield b"data: [DONE]\n\n"


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(json_bytes(value), status, headers, "application/json")


def _refused(refusal: Refusal, headers: dict[str, str] | None = None) -> Response:
    """An error. A turn that failed is not worth trying again by itself, as OpenAI's client would."""
    retry_headers = {"x-should-retry": "false"} if refusal.status >= 500 else {}
    return _json(error(refusal), refusal.status, {**retry_headers, **(headers or {})})


def _say_errors(app: FastAPI) -> None:
    """Every error in OpenAI's form."""

    async def wrong(_: Request, raised: Exception) -> Response:
        assert isinstance(raised, Refusal)
        return _refused(raised)

    async def http(request: Request, raised: Exception) -> Response:
        assert isinstance(raised, HTTPException)
        messages = {404: "there is nothing here", 405: f"{request.method} is not served here"}
        return _refused(Refusal(messages.get(raised.status_code, str(raised.detail)), status=raised.status_code))

    async def unexpected(_: Request, raised: Exception) -> Response:
        return _refused(Refusal(f"the request failed unexpectedly ({type(raised).__name__})", status=500))

    app.add_exception_handler(Refusal, wrong)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)
