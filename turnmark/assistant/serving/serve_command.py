"""The command `turnmark serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnmark.assistant.commands import Folder, WatchFolder
from turnmark.assistant.config import (
    EXTRACTIVE_SPEC,
    AssistantConfig,
    ConfigOfAll,
    Generators,
    split_generators,
)
from turnmark.assistant.serving.access_control import TOKEN_ENV, check_origin, check_port, read_token
from turnmark.core.errors import ErrorCollector
from turnmark.core.flags import Request, RequestCommand, command_from
from turnmark.core.untrusted import one_line
from turnmark.retrieval.commands import DESCRIBE_NEEDS_FOLDER, DescribeSpec

if TYPE_CHECKING:
    from turnmark.assistant.serving.served_builds import BuildOrder

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8765


class ServeRequest(Request):
    """The options of `turnmark serve`."""

    folder: Folder = None
    describe: DescribeSpec = None
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
    """Serve an OpenAI-compatible endpoint and a page to chat with it. Without FOLDER or --index, all indexes are taken.

    Clients choose among the indexes, together or one by one, and among the language models.
    """
    from turnmark.assistant.serving.added_files import AddedFiles
    from turnmark.assistant.serving.app import make_app
    from turnmark.assistant.serving.http_server import listen, run_server
    from turnmark.assistant.serving.served_builds import ServedBuilds
    from turnmark.assistant.serving.served_models import open_models
    from turnmark.retrieval.index.folder_watch import check_watch
    from turnmark.retrieval.search.opened_index import list_indexes

    def say(line: str) -> None:
        typer.echo(one_line(line), err=True)

    errors.collect(check_port, request.port)
    secret = errors.collect(read_token, request.token, request.host)
    for origin in request.allow_origin:
        errors.collect(check_origin, origin)
    ordered: list[BuildOrder] = []
    names = _indexes_to_serve(request, errors, ordered)
    finished = {manifest.name for manifest in list_indexes()}
    opened = [name for name in names if name in finished or name != names[0] or not ordered]
    config = request.assistant.model_copy(update={"index": ",".join(opened)})
    models = open_models(config, split_generators(request.generator), errors, say, hides_details=True)
    for part in models.indexes.parts() if request.watch else ():
        errors.collect(check_watch, Path(part.manifest.source))
    errors.raise_all()
    builds = ServedBuilds(models, say, request.watch)
    for build in ordered:
        builds.order(names[0], build)
    listening = listen(request.host, request.port)
    url_host = f"[{request.host}]" if ":" in request.host else request.host
    url = f"http://{url_host}:{listening.getsockname()[1]}"

    def on_ready() -> None:
        served = f"serving {models}" if models.models else "serving the page, with no index yet"
        say(f"{served}: {url}/   endpoint {url}/v1   Ctrl-C ends it")
        builds.start()

    try:
        models.warm_up()
        both = builds, AddedFiles(names, request.assistant.retriever)
        app = make_app(models, request.host, secret, on_ready, request.allow_origin, both)
        run_server(app, models.close, listening)
    finally:
        builds.close()
        listening.close()


def _indexes_to_serve(request: ServeRequest, errors: ErrorCollector, builds: list[BuildOrder]) -> list[str]:
    """Return the names of the indexes to serve, and add the build of the folder to `builds`."""
    from turnmark.assistant.serving.added_files import with_added_index
    from turnmark.retrieval.commands import index_folder
    from turnmark.retrieval.search.opened_index import list_indexes, split_names

    named = request.assistant.index
    if request.folder is not None:
        typed = named if "index" in request.typed else ""
        folder, retriever = request.folder, request.assistant.retriever
        named = index_folder(folder, typed, retriever, errors, carry_out=builds.append, describe=request.describe)
    elif request.describe is not None:
        errors.add(DESCRIBE_NEEDS_FOLDER)
    names = split_names(named) if named else [manifest.name for manifest in list_indexes()]
    return with_added_index(names)


def add_serve_command(app: typer.Typer) -> None:
    """Mount `serve`."""
    example = "Example: turnmark serve ~/notes   ·   turnmark serve --index notes   ·   then any OpenAI client: base_url=http://127.0.0.1:8765/v1"
    app.command("serve", cls=RequestCommand, epilog=example)(command_from(ServeRequest, run_serve))
