"""The command `turnmark serve`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from turnmark.assistant.commands import WatchFolder
from turnmark.assistant.config import AssistantConfig, ConfigOverIndex, with_index
from turnmark.assistant.serving.guard import TOKEN_ENV, check_port, read_token
from turnmark.core.errors import ErrorCollector
from turnmark.core.flags import Request, RequestCommand, command_from
from turnmark.core.untrusted import one_line

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8765


class ServeRequest(Request):
    """The options of `turnmark serve`."""

    assistant: ConfigOverIndex = AssistantConfig()
    host: Annotated[
        str,
        typer.Option(metavar="HOST", help="Address to listen at; one that other machines can reach needs a token"),
    ] = DEFAULT_HOST
    port: Annotated[int, typer.Option(metavar="PORT", help="Port to listen at; 0: a free one")] = DEFAULT_PORT
    token: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=f"File of mode 0600 with the API key that requests must have; or set {TOKEN_ENV}"
        ),
    ] = None
    watch: WatchFolder = False


def run_serve(request: ServeRequest, errors: ErrorCollector) -> None:
    """Serve an OpenAI-compatible endpoint and a page to chat with it."""
    from turnmark.assistant.assistant import Assistant
    from turnmark.assistant.serving.app import make_app
    from turnmark.assistant.serving.http_server import listen, run_server
    from turnmark.assistant.serving.turns import Turns, turns_at_once, warm_up
    from turnmark.retrieval.watch import Watches

    errors.collect(check_port, request.port)
    secret = errors.collect(read_token, request.token, request.host)
    config = with_index(request.assistant, errors)
    assistant = errors.collect(Assistant.from_config, config)
    watching: AbstractContextManager[object] | None = nullcontext()
    if request.watch and assistant is not None and assistant.index is not None:
        watching = errors.collect(Watches, assistant.index, lambda line: typer.echo(one_line(line), err=True))
    errors.raise_all()
    assert assistant is not None, "a part that could not be opened has been reported"
    assert watching is not None, "a folder that cannot be watched has been reported"
    listening = listen(request.host, request.port)
    url_host = f"[{request.host}]" if ":" in request.host else request.host
    url = f"http://{url_host}:{listening.getsockname()[1]}"
    about = f"serving {config.index} ({assistant.name})"

    def on_ready() -> None:
        typer.echo(one_line(f"{about}: {url}/   endpoint {url}/v1   Ctrl-C ends it"), err=True)

    try:
        warm_up(assistant)
        turns = Turns(assistant, turns_at_once(assistant), hides_details=True)
        with watching:
            run_server(make_app(turns, request.host, secret, on_ready), turns.close, listening)
    finally:
        listening.close()


def add_serve_command(app: typer.Typer) -> None:
    """Mount `serve`."""
    example = "Example: turnmark serve --index notes   ·   then any OpenAI client: base_url=http://127.0.0.1:8765/v1"
    app.command("serve", cls=RequestCommand, epilog=example)(command_from(ServeRequest, run_serve))
