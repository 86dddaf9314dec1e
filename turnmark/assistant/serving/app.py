"""The routes of the server: completions, responses, models, documents, pictures, rows, ratings, health and the page."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from functools import partial
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from turnmark.assistant.serving.access_control import Guard
from turnmark.assistant.serving.added_files import MAX_FILE_BYTES, AddedFiles
from turnmark.assistant.serving.citation_pictures import PictureRequest, cited_picture
from turnmark.assistant.serving.completions_api import ReplyForm, json_bytes, json_response, rejection_response
from turnmark.assistant.serving.document_views import describe_documents, explain_file, read_document
from turnmark.assistant.serving.latest_answers import RatedAnswers, RatingRequest
from turnmark.assistant.serving.request_bodies import (
    ChatRequest,
    RejectedRequest,
    parse,
    parse_request,
    parse_response_request,
)
from turnmark.assistant.serving.responses_api import ResponseForm
from turnmark.assistant.serving.served_builds import ServedBuilds, WatchRequest
from turnmark.assistant.serving.served_models import ServedModel, ServedModels
from turnmark.assistant.sessions.export import list_rows
from turnmark.assistant.types import Reply
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.corpora.readers import readers
from turnmark.retrieval.index.build import build_again
from turnmark.retrieval.index.index_api import Index

PAGE_SCRIPTS = (
    "vendor/markdown-it.umd.min.js",
    "vendor/purify.min.js",
    "dom.js",
    "markdown.js",
    "basis.js",
    "turn.js",
    "models.js",
    "conversations.js",
    "documents.js",
    "reading.js",
    "builds.js",
    "asking.js",
    "page.js",
)
PAGE_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    **{f"/{script}": (script, "text/javascript; charset=utf-8") for script in PAGE_SCRIPTS},
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
MAX_BODY_BYTES = 4_000_000
"""Maximum bytes of a request body."""


def make_app(
    models: ServedModels,
    host: str,
    token: str | None,
    on_ready: Callable[[], None],
    origins: Sequence[str] = (),
    builds: tuple[ServedBuilds, AddedFiles] | None = None,
) -> Any:
    """Make the ASGI application, which calls `on_ready` when it accepts requests; `origins` as in `Guard`."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        on_ready()
        yield

    # FastAPI's documentation pages would load scripts from other hosts.
    app = FastAPI(title="Turnmark", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    _convert_errors(app)

    rated = RatedAnswers()

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> Response:
        chat_request = parse_request(await _read_body(request))
        model = models.find(chat_request.model)
        identity = f"chatcmpl-{uuid.uuid4().hex}"
        form = ReplyForm(identity, int(time.time()), model.name, chat_request)

        def on_reply(reply: Reply) -> None:
            rated.remember(identity, model.assistant().config, chat_request.message, reply)

        return await _send_reply(model, chat_request, form, request, on_reply)

    @app.post("/v1/responses")
    async def respond(request: Request) -> Response:
        chat_request = parse_response_request(await _read_body(request))
        model = models.find(chat_request.model)
        return await _send_reply(model, chat_request, ResponseForm(model.name, chat_request), request)

    @app.get("/v1/models")
    async def list_models() -> Response:
        data = await run_in_threadpool(lambda: [_model_object(model) for model in models.models])
        return json_response({"object": "list", "data": data})

    @app.get("/v1/models/{name:path}")
    async def one_model(name: str) -> Response:
        return json_response(await run_in_threadpool(_model_object, models.find(name)))

    @app.get("/healthz")
    async def health() -> Response:
        return json_response({"status": "ok"})

    _add_page_routes(app, models, rated)
    if builds is not None:
        _add_build_routes(app, models, *builds)
    return Guard(app, host, token, origins=origins)


def _add_page_routes(app: FastAPI, models: ServedModels, rated: RatedAnswers) -> None:
    """Add the files of the page, and its routes for documents, pictures, rows of tables and ratings."""

    def index(request: Request) -> Index:
        return models.indexes.index(models.find(request.query_params.get("model", "")).index)

    def add_view(path: str, view: Callable[[Index, Mapping[str, str]], dict[str, Any]]) -> None:
        @app.get(path)
        async def show(request: Request) -> Response:
            try:
                return json_response(await run_in_threadpool(view, index(request), request.query_params))
            except RequestError as error:
                raise RejectedRequest(error.problems) from error

    add_view("/v1/documents", describe_documents)
    add_view("/v1/document", read_document)
    add_view("/v1/why", explain_file)

    @app.get("/v1/picture")
    async def picture(request: Request) -> Response:
        parameters = {name: value for name, value in request.query_params.items() if name != "model"}
        picture_request = parse(PictureRequest.model_validate_strings, parameters)
        content, media_type = await run_in_threadpool(cited_picture, index(request), picture_request)
        return Response(content, media_type=media_type)

    @app.get("/v1/rows")
    async def rows(request: Request) -> Response:
        tables, statement = index(request).tables, request.query_params.get("statement", "")
        if tables is None:
            raise RejectedRequest("the index has no tables", status=404, code="no_tables")
        try:
            listed = await run_in_threadpool(list_rows, statement, tables)
        except RequestError as error:
            raise RejectedRequest(error.problems, "statement") from error
        return Response(listed, media_type="text/csv")

    @app.post("/v1/ratings")
    async def rate(request: Request) -> Response:
        rating = parse(RatingRequest.model_validate_json, await _read_body(request))
        try:
            return json_response({"object": "rating", "session": await run_in_threadpool(rated.rate, rating)})
        except TurnmarkError as error:
            raise RejectedRequest(str(error), status=500) from error

    for path, (file, kind) in PAGE_FILES.items():
        app.add_route(path, _page_endpoint(file, kind))


def _add_build_routes(app: FastAPI, models: ServedModels, builds: ServedBuilds, added: AddedFiles) -> None:
    """Add the routes by which files are added and removed and indexes are brought up to date."""

    @app.get("/v1/build")
    async def state() -> Response:
        files, watching = await run_in_threadpool(lambda: (added.names(), builds.is_watching))
        about = {"index": added.index, "files": files, "suffixes": sorted(readers()), "max_bytes": MAX_FILE_BYTES}
        return json_response({"object": "build", **builds.state().model_dump(), "watching": watching, "added": about})

    @app.post("/v1/build")
    async def update(request: Request) -> Response:
        await _read_body(request)
        for part in models.indexes.parts():
            builds.order(part.name, partial(build_again, part.manifest))
        return json_response({"object": "build", **builds.state().model_dump()})

    @app.post("/v1/watch")
    async def watch(request: Request) -> Response:
        wanted = parse(WatchRequest.model_validate_json, await _read_body(request))
        await run_in_threadpool(builds.watch, wanted.watching)
        return json_response({"object": "watch", "watching": await run_in_threadpool(lambda: builds.is_watching)})

    @app.post("/v1/files")
    async def add(request: Request) -> Response:
        _check_kind(request, "application/octet-stream")
        name = await added.add(request.query_params.get("name", ""), _pieces(request))
        builds.order(added.index, added.build)
        return json_response({"object": "file", "name": name, "index": added.index}, 201)

    @app.delete("/v1/files")
    async def remove(request: Request) -> Response:
        added.remove(request.query_params.get("name", ""))
        builds.order(added.index, added.build if added.names() else None)
        return json_response({"object": "file", "deleted": True})


def _page_endpoint(file: str, kind: str) -> Callable[[Request], Any]:
    content = files("turnmark.assistant.serving").joinpath("page", file).read_bytes()

    async def page(_: Request) -> Response:
        return Response(content, media_type=kind)

    return page


def _model_object(model: ServedModel) -> dict[str, Any]:
    """Return a served model as OpenAI's model object, with its configuration."""
    assistant = model.assistant()
    assert assistant.index is not None, "a server is opened over an index"
    manifest, retriever = assistant.index.manifest, assistant.retriever
    about = {
        "documents": manifest.documents, "passages": manifest.passages, "index": model.index,
        "generator": model.generator, "retriever": retriever.name if retriever else None,
        # Without the address of the language model, which concerns only the person who runs the server.
        "config": {**assistant.config.shown(), "generator": model.generator},
    }  # fmt: skip
    created = int(datetime.fromisoformat(manifest.created).timestamp())
    return {"id": model.name, "object": "model", "created": created, "owned_by": "turnmark", "turnmark": about}


async def _read_body(request: Request) -> bytes:
    """Read a JSON request body."""
    _check_kind(request, "application/json")
    body = bytearray()
    async for piece in _pieces(request):
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise RejectedRequest(f"the request is larger than {MAX_BODY_BYTES} bytes", status=413)
    return bytes(body)


def _check_kind(request: Request, expected: str) -> None:
    """Refuse a body of another type: a page of another site could send a form or text without a CORS preflight."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != expected:
        raise RejectedRequest(f"expected Content-Type: {expected}", status=415)


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect:
        raise RejectedRequest("the client closed the connection before its request was complete") from None


async def _send_reply(
    model: ServedModel,
    chat_request: ChatRequest,
    form: ReplyForm | ResponseForm,
    request: Request,
    on_reply: Callable[[Reply], None] = lambda _: None,
) -> Response:
    """Send a reply, complete or streamed; `on_reply` gets it first."""
    if not chat_request.stream:
        return await _send_complete(model, chat_request, form, request, on_reply)
    headers = {"X-Accel-Buffering": "no"}
    chunks = _stream_reply(model, chat_request, form, on_reply)
    return StreamingResponse(chunks, media_type="text/event-stream", headers=headers)


async def _send_complete(
    model: ServedModel,
    chat_request: ChatRequest,
    form: ReplyForm | ResponseForm,
    request: Request,
    on_reply: Callable[[Reply], None],
) -> Response:
    """Send a complete reply; stop the turn if the client disconnects."""
    async with aclosing(model.events(chat_request)) as events:
        async for event in events:
            if isinstance(event, Reply):
                on_reply(event)
                return json_response(form.completion(event))
            if isinstance(event, RejectedRequest):
                return rejection_response(event)
            if await request.is_disconnected():
                break
    return rejection_response(RejectedRequest("the client closed the connection", status=503))


async def _stream_reply(
    model: ServedModel, chat_request: ChatRequest, form: ReplyForm | ResponseForm, on_reply: Callable[[Reply], None]
) -> AsyncIterator[bytes]:
    """Send a reply as server-sent events; stop the turn if the client disconnects."""
    for chunk in form.begin():
        yield _encode_event(chunk)
    async with aclosing(model.events(chat_request)) as events:
        async for event in events:
            if event is None:
                yield b": still working\n\n"
                continue
            if isinstance(event, RejectedRequest):
                chunks = form.failed(event)
            else:
                if isinstance(event, Reply):
                    on_reply(event)
                chunks = form.end(event) if isinstance(event, Reply) else form.event(event)
            for chunk in chunks:
                yield _encode_event(chunk)
            if isinstance(event, Reply) and isinstance(form, ReplyForm):
                yield b"data: [DONE]\n\n"


def _encode_event(value: dict[str, Any]) -> bytes:
    """Encode a server-sent event; the type of an event is also its name, as OpenAI's clients expect."""
    name = f"event: {value['type']}\n".encode() if "type" in value else b""
    return name + b"data: " + json_bytes(value) + b"\n\n"


def _convert_errors(app: FastAPI) -> None:
    """Convert every error to OpenAI's error object."""

    async def respond(request: Request, raised: Exception) -> Response:
        if isinstance(raised, RejectedRequest):
            return rejection_response(raised)
        if isinstance(raised, HTTPException):
            messages = {404: "this address does not exist", 405: f"this address does not accept {request.method}"}
            return rejection_response(
                RejectedRequest(messages.get(raised.status_code, str(raised.detail)), status=raised.status_code)
            )
        return rejection_response(
            RejectedRequest(f"the request failed unexpectedly ({type(raised).__name__})", status=500)
        )

    for kind in (RejectedRequest, HTTPException, Exception):
        app.add_exception_handler(kind, respond)
