"""`turnmark mcp`."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnmark.assistant.config import (
    EXTRACTIVE_SPEC,
    AssistantConfig,
    ConfigOfAll,
    Generators,
    split_generators,
    with_index,
)
from turnmark.assistant.serving.access_control import TOKEN_ENV, check_port, read_token
from turnmark.core.console import notify
from turnmark.core.errors import ErrorCollector, TurnmarkError
from turnmark.core.flags import Request, RequestCommand, command_from

if TYPE_CHECKING:
    from turnmark.assistant.mcp.transports import StandardStreams
    from turnmark.assistant.serving.served_models import ServedModels

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8766


class McpRequest(Request):
    """The options of `turnmark mcp`."""

    assistant: ConfigOfAll = AssistantConfig()
    generator: Generators = (EXTRACTIVE_SPEC,)
    http: Annotated[bool, typer.Option("--http", help="Serve streamable HTTP, not standard input and output")] = False
    host: Annotated[
        str | None,
        typer.Option(
            metavar="HOST",
            show_default=DEFAULT_HOST,
            help="With --http, the address to listen at; one that other machines can reach needs a token",
        ),
    ] = None
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            show_default=str(DEFAULT_PORT),
            help="With --http, the port to listen on; 0 chooses a free one",
        ),
    ] = None
    token: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=f"With --http, a file of mode 0600 with the token to ask for; or set {TOKEN_ENV}"
        ),
    ] = None


def run_mcp(request: McpRequest, errors: ErrorCollector) -> None:
    """Serve indexes to other assistants over the Model Context Protocol (MCP)."""
    from turnmark.assistant.mcp.transports import StandardStreams
    from turnmark.assistant.serving.served_models import open_models

    host, port = request.host or DEFAULT_HOST, DEFAULT_PORT if request.port is None else request.port
    secret = None
    errors.collect(check_port, port)
    if request.http:
        secret = errors.collect(read_token, request.token, host)
    else:
        given = {"--host": request.host, "--port": request.port, "--token": request.token}
        errors.problems += [f"{flag}: only with --http" for flag, value in given.items() if value is not None]
    config = with_index(request.assistant, errors, every=True)
    open_all = partial(open_models, config, split_generators(request.generator), errors, notify)
    if request.http:
        _serve_http(open_all(), host, port, secret)
        return
    with StandardStreams() as streams:
        _serve_stdio(open_all(), streams)


def _serve_stdio(models: ServedModels, streams: StandardStreams) -> None:
    """Serve one client. It is answered immediately, while models load in the background."""
    from turnmark.assistant.mcp.mcp_server import IndexServer

    notify(f"serving {models} over standard input and output; Ctrl-C ends it")
    with ThreadPoolExecutor(1, "turnmark-warm") as pool:
        try:
            streams.serve(IndexServer(models, pool.submit(_try_warm, models)).make())
        finally:
            models.close()


def _serve_http(models: ServedModels, host: str, port: int, token: str | None) -> None:
    """Serve clients over HTTP, once models are loaded."""
    from turnmark.assistant.mcp.mcp_server import IndexServer
    from turnmark.assistant.mcp.transports import MCP_PATH, http_app
    from turnmark.assistant.serving.http_server import listen, run_server

    listening = listen(host, port)
    url = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}{MCP_PATH}"
    try:
        models.warm_up()
        warmed: Future[None] = Future()
        warmed.set_result(None)
        server = IndexServer(models, warmed).make()
        app = http_app(server, host, token, lambda: notify(f"serving {models}: {url}   Ctrl-C ends it"))
        run_server(app, models.close, listening)
    finally:
        listening.close()


def _try_warm(models: ServedModels) -> None:
    """Load the models. A failure is printed here, and reported to the client by each tool that needs the model."""
    try:
        models.warm_up()
    except Exception as error:
        notify(str(error) if isinstance(error, TurnmarkError) else f"a model was not loaded ({type(error).__name__})")


def add_mcp_command(app: typer.Typer) -> None:
    """Mount `mcp`."""
    example = "Examples: turnmark mcp --index notes --index work   ·   turnmark mcp --index notes --http --port 8766"
    app.command("mcp", cls=RequestCommand, epilog=example)(command_from(McpRequest, run_mcp))
