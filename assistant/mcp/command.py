"""`turnmark mcp`."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnmark.assistant.config import AssistantConfig, ConfigOverIndex, with_index
from turnmark.assistant.serving.guard import TOKEN_ENV, check_port, read_token
from turnmark.core.console import notify
from turnmark.core.errors import ErrorCollector, TurnmarkError
from turnmark.core.flags import Request, RequestCommand, command_from

if TYPE_CHECKING:
    from turnmark.assistant.assistant import Assistant
    from turnmark.assistant.mcp.collection import ServedIndexes
    from turnmark.assistant.mcp.transports import StandardStreams
    from turnmark.assistant.serving.turns import Turns

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8766


class McpRequest(Request):
    """The options of `turnmark mcp`."""

    assistant: ConfigOverIndex = AssistantConfig()
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
            help="With --http, the port to listen at; 0: a free one",
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
    from turnmark.retrieval.stored import split_names

    host, port = request.host or DEFAULT_HOST, DEFAULT_PORT if request.port is None else request.port
    secret = None
    errors.collect(check_port, port)
    if request.http:
        secret = errors.collect(read_token, request.token, host)
    else:
        given = {"--host": request.host, "--port": request.port, "--token": request.token}
        errors.problems += [f"{flag}: only with --http" for flag, value in given.items() if value is not None]
    config = with_index(request.assistant, errors)
    names = split_names(config.index)
    if request.http:
        _serve_http(_open_served(names, config, errors), host, port, secret)
        return
    with StandardStreams() as streams:
        _serve_stdio(_open_served(names, config, errors), streams)


def _serve_stdio(served: ServedIndexes, streams: StandardStreams) -> None:
    """Serve one client. It is answered immediately, while models load in the background."""
    from turnmark.assistant.mcp.server import IndexServer

    turns = _turns(served)
    notify(f"{_about(served)} over standard input and output; Ctrl-C ends it")
    with ThreadPoolExecutor(1, "turnmark-warm") as pool:
        try:
            streams.serve(IndexServer(served, turns, pool.submit(_try_warm, served)).make())
        finally:
            _end(turns)


def _serve_http(served: ServedIndexes, host: str, port: int, token: str | None) -> None:
    """Serve clients over HTTP, once models are loaded."""
    from turnmark.assistant.mcp.server import IndexServer
    from turnmark.assistant.mcp.transports import MCP_PATH, http_app
    from turnmark.assistant.serving.http_server import listen, run_server

    turns = _turns(served)
    listening = listen(host, port)
    url = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}{MCP_PATH}"
    try:
        _warm(served)
        warmed: Future[None] = Future()
        warmed.set_result(None)
        server = IndexServer(served, turns, warmed).make()
        app = http_app(server, host, token, lambda: notify(f"{_about(served)}: {url}   Ctrl-C ends it"))
        run_server(app, lambda: _end(turns), listening)
    finally:
        listening.close()


def _turns(served: ServedIndexes) -> dict[str, Turns]:
    from turnmark.assistant.serving.turns import Turns, turns_at_once

    return {name: Turns(assistant, turns_at_once(assistant)) for name, assistant in served.assistants.items()}


def _about(served: ServedIndexes) -> str:
    return f"serving {', '.join(served.names)} ({served.assistants[served.names[0]].name})"


def _warm(served: ServedIndexes) -> None:
    from turnmark.assistant.serving.turns import warm_up

    for assistant in served.assistants.values():
        warm_up(assistant)


def _try_warm(served: ServedIndexes) -> None:
    """Load the models. A failure is printed here, and reported to the client by each tool that needs the model."""
    try:
        _warm(served)
    except Exception as error:
        notify(str(error) if isinstance(error, TurnmarkError) else f"a model was not loaded ({type(error).__name__})")


def _end(turns: dict[str, Turns]) -> None:
    for each in turns.values():
        each.close()


def _open_served(names: list[str], config: AssistantConfig, errors: ErrorCollector) -> ServedIndexes:
    """Open an assistant over each index, and one over all of them if they can be searched together.

    The assistants share one language model. Raise all problems, including those in `errors`.
    """
    from turnmark.assistant.assistant import Assistant
    from turnmark.assistant.mcp.collection import ServedIndexes
    from turnmark.retrieval.index import Index

    assistants: dict[str, Assistant] = {}
    for name in names:
        first = next(iter(assistants.values()), None)
        assistant = errors.collect(
            Assistant.from_config,
            config.model_copy(update={"index": name}),
            generator=first.generator if first is not None else None,
        )
        if assistant is not None:
            assistants[name] = assistant
    errors.raise_all()
    joint: Assistant | None = None
    if len(assistants) > 1:
        try:
            index = Index.join([assistant.index for assistant in assistants.values() if assistant.index is not None])
            joint = Assistant.from_config(
                config.model_copy(update={"index": index.manifest.name}),
                index=index,
                generator=next(iter(assistants.values())).generator,
            )
        except TurnmarkError as error:
            notify(f"{error}\nevery call must name its index")
    return ServedIndexes(assistants, joint)


def add_mcp_command(app: typer.Typer) -> None:
    """Mount `mcp`."""
    example = "Examples: turnmark mcp --index notes --index work   ·   turnmark mcp --index notes --http --port 8766"
    app.command("mcp", cls=RequestCommand, epilog=example)(command_from(McpRequest, run_mcp))
