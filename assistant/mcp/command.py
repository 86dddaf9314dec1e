"""`turnmark mcp`."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnmark.assistant.commands import Generator, Prompts, Retriever, Step, Tokens, TopK
from turnmark.assistant.config import TOKENS, AssistantConfig
from turnmark.assistant.serving.guard import TOKEN_ENV, check_port, read_token
from turnmark.core.console import notify
from turnmark.core.errors import ErrorCollector, MissingExtra, TurnmarkError
from turnmark.core.flags import HelpAll

if TYPE_CHECKING:
    from turnmark.assistant.assistant import Assistant
    from turnmark.assistant.mcp.collection import ServedIndexes
    from turnmark.assistant.mcp.transports import StandardStreams
    from turnmark.assistant.serving.turns import Turns

HOST, PORT = "127.0.0.1", 8766


def mcp(
    index: Annotated[
        list[str],
        typer.Option(
            "--index", metavar="NAME", envvar="TURNMARK_INDEX", show_envvar=False, help="an index to serve; repeatable"
        ),
    ],
    http: Annotated[bool, typer.Option("--http", help="serve streamable HTTP, not standard input and output")] = False,
    host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help=f"with --http; default {HOST}; others than this machine's need a token"),
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="PORT", help=f"with --http; default {PORT}; 0: a free one")
    ] = None,
    token: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=f"with --http: a file of mode 0600 with the token to ask for; or set {TOKEN_ENV}"
        ),
    ] = None,
    generator: Generator = "extractive",
    retriever: Retriever = None,
    step: Step = None,
    prompts: Prompts = None,
    top_k: TopK = None,
    tokens: Tokens = TOKENS,
    help_all: HelpAll = False,  # noqa: ARG001
) -> None:
    """Serve indexes to other assistants over the Model Context Protocol (MCP)."""
    if find_spec("mcp") is None:
        raise MissingExtra("turnmark mcp", "mcp")
    from turnmark.assistant.mcp.transports import StandardStreams
    from turnmark.retrieval.joint import names_of

    errors = ErrorCollector()
    if not http:
        given = [flag for flag, value in (("--host", host), ("--port", port), ("--token", token)) if value is not None]
        errors.problems += [f"{flag}: only with --http" for flag in given]
    if port is not None:
        errors.collect(check_port, port)
    secret = errors.collect(read_token, token, host or HOST) if http else None
    config = AssistantConfig(
        generator=generator, retriever=retriever, passages=top_k, tokens=tokens, prompts=prompts,
        steps=tuple(step or ()),
    )  # fmt: skip
    names = names_of(",".join(index))
    if http:
        _serve_http(_opened(names, config, errors), host or HOST, PORT if port is None else port, secret)
        return
    with StandardStreams() as streams:
        _serve_stdio(_opened(names, config, errors), streams)


def _serve_stdio(served: ServedIndexes, streams: StandardStreams) -> None:
    """Serve one client. It is answered at once: models are loaded meanwhile."""
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
    from turnmark.assistant.mcp.transports import PATH, http_app
    from turnmark.assistant.serving.listening import listen, run_server

    turns = _turns(served)
    listening = listen(host, port)
    url = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}{PATH}"
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
    from turnmark.assistant.serving.turns import warm

    for assistant in served.assistants.values():
        warm(assistant)


def _try_warm(served: ServedIndexes) -> None:
    """The same; what cannot work is told here, and to the client by each tool that needs it."""
    try:
        _warm(served)
    except Exception as error:
        notify(str(error) if isinstance(error, TurnmarkError) else f"a model was not loaded ({type(error).__name__})")


def _end(turns: dict[str, Turns]) -> None:
    for each in turns.values():
        each.close()


def _opened(names: list[str], config: AssistantConfig, errors: ErrorCollector) -> ServedIndexes:
    """An assistant over each index, and one over all of them if they can be searched together; they share one language
    model. Raises all mistakes, those of before included.
    """
    from turnmark.assistant.mcp.collection import ServedIndexes
    from turnmark.assistant.open import open_assistant
    from turnmark.retrieval.joint import join_indexes

    assistants: dict[str, Assistant] = {}
    for name in names:
        first = next(iter(assistants.values()), None)
        assistant = errors.collect(
            open_assistant,
            config.model_copy(update={"index": name}),
            generator=first.generator if first is not None else None,
        )
        if assistant is not None:
            assistants[name] = assistant
    errors.raise_all()
    joint: Assistant | None = None
    if len(assistants) > 1:
        try:
            index = join_indexes([assistant.index for assistant in assistants.values() if assistant.index is not None])
            joint = open_assistant(
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
    app.command("mcp", epilog=example)(mcp)
