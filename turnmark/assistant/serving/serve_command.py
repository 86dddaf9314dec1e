"""The command `turnmark serve`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from turnmark.assistant.commands import WatchFolder
from turnmark.assistant.config import (
    EXTRACTIVE_SPEC,
    AssistantConfig,
    ConfigOfAll,
    Generators,
    split_generators,
    with_index,
)
from turnmark.assistant.serving.access_control import TOKEN_ENV, check_origin, check_port, read_token
from turnmark.core.errors import ErrorCollector
from turnmark.core.flags import Request, RequestCommand, command_from
from turnmark.core.untrusted import one_line

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8765


class ServeRequest(Request):
    """The options of `turnmark serve`."""

    assistant: ConfigOfAll = AssistantConfig()
    generator: Generators = (EXTRACTIVE_SPEC,)
    host: Annotated[
        str,
        typer.Option(metavar="HOST", help="Address to listen at; one that other machines can reach needs a token"),
    ] = DEFAULT_HOST
    port: Annotated[int, typer.Option(metavar="PORT", help="Port to listen on; 0 chooses a free one")] = DEFAULT_PORT
    token: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=f"File of mode 0600 with the API key that requests must have; or set {TOKEN_ENV}"
        ),
    ] = None
    allow_origin: Annotated[
        tuple[str, ...],
        typer.Option(metavar="ORIGIN", help="Page that may use the server, e.g. app://obsidian.md; repeatable"),
    ] = ()
    watch: WatchFolder = False


def run_serve(request: ServeRequest, errors: ErrorCollector) -> None:
    """Serve an OpenAI-compatible endpoint and a page to chat with it.

    Clients choose among the indexes, together or one by one, and among the language models.
    """
    from turnmark.assistant.serving.app import make_app
    from turnmark.assistant.serving.http_server import listen, run_server
    from turnmark.assistant.serving.served_models import open_models
    from turnmark.retrieval.index.folder_watch import Watches

    def say(line: str) -> None:
        typer.echo(one_line(line), err=True)

    errors.collect(check_port, request.port)
    secret = errors.collect(read_token, request.token, request.host)
    for origin in request.allow_origin:
        errors.collect(check_origin, origin)
    config = with_index(request.assistant, errors)
    models = open_models(config, split_generators(request.generator), errors, say, hides_details=True)
    indexes = models.indexes
    watches = [errors.collect(Watches, indexes.index(name), say) for name in indexes.names if request.watch]
    errors.raise_all()
    listening = listen(request.host, request.port)
    url_host = f"[{request.host}]" if ":" in request.host else request.host
    url = f"http://{url_host}:{listening.getsockname()[1]}"

    def on_ready() -> None:
        say(f"serving {models}: {url}/   endpoint {url}/v1   Ctrl-C ends it")

    try:
        models.warm_up()
        with ExitStack() as stack:
            for watching in filter(None, watches):
                stack.enter_context(watching)
            run_server(make_app(models, request.host, secret, on_ready, request.allow_origin), models.close, listening)
    finally:
        listening.close()


def add_serve_command(app: typer.Typer) -> None:
    """Mount `serve`."""
    example = "Example: turnmark serve --index notes   ·   then any OpenAI client: base_url=http://127.0.0.1:8765/v1"
    app.command("serve", cls=RequestCommand, epilog=example)(command_from(ServeRequest, run_serve))
