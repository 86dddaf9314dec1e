"""The command `turnmark serve`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from turnmark.assistant.commands import Generator, Prompts, Retriever, Step, Tokens, TopK
from turnmark.assistant.config import TOKENS, AssistantConfig
from turnmark.assistant.serving.guard import TOKEN_ENV, check_port, read_token
from turnmark.core.console import inert
from turnmark.core.errors import ErrorCollector, MissingExtra
from turnmark.core.flags import HelpAll
from turnmark.retrieval.commands import IndexNames, Watch

HOST, PORT = "127.0.0.1", 8765


def serve(
    index: IndexNames,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="address to listen at; others than this machine's need a token")
    ] = HOST,
    port: Annotated[int, typer.Option(metavar="PORT", help="0: a free one")] = PORT,
    token: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=f"a file of mode 0600 with the API key that requests must bring; or set {TOKEN_ENV}"
        ),
    ] = None,
    generator: Generator = "extractive",
    retriever: Retriever = None,
    step: Step = None,
    prompts: Prompts = None,
    top_k: TopK = None,
    tokens: Tokens = TOKENS,
    watch: Watch = False,
    help_all: HelpAll = False,  # noqa: ARG001
) -> None:
    """Serve an OpenAI-compatible endpoint and a page to chat with it."""
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise MissingExtra("turnmark serve", "serve")
    from turnmark.assistant.open import open_assistant
    from turnmark.assistant.serving.app import make_app
    from turnmark.assistant.serving.listening import listen, run_server
    from turnmark.assistant.serving.turns import Turns, turns_at_once, warm
    from turnmark.retrieval.watch import Watches

    errors = ErrorCollector()
    errors.collect(check_port, port)
    secret = errors.collect(read_token, token, host)
    config = AssistantConfig(
        index=",".join(index), generator=generator, retriever=retriever, passages=top_k, tokens=tokens, prompts=prompts,
        steps=tuple(step or ()),
    )  # fmt: skip
    assistant = errors.collect(open_assistant, config)
    watching: AbstractContextManager[object] | None = nullcontext()
    if watch and assistant is not None and assistant.index is not None:
        watching = errors.collect(Watches, assistant.index, lambda line: typer.echo(inert(line), err=True))
    errors.raise_all()
    assert assistant is not None, "what could not be opened is a mistake"
    assert watching is not None, "so is a folder that cannot be watched"
    listening = listen(host, port)
    url_host = f"[{host}]" if ":" in host else host
    url = f"http://{url_host}:{listening.getsockname()[1]}"
    about = f"serving {config.index} ({assistant.name})"

    def on_ready() -> None:
        typer.echo(inert(f"{about}: {url}/   endpoint {url}/v1   Ctrl-C ends it"), err=True)

    try:
        warm(assistant)
        turns = Turns(assistant, turns_at_once(assistant))
        with watching:
            run_server(make_app(turns, host, secret, on_ready), turns.close, listening)
    finally:
        listening.close()


def add_serve_command(app: typer.Typer) -> None:
    """Mount `serve`."""
    example = "Example: turnmark serve --index notes   ·   then any OpenAI client: base_url=http://127.0.0.1:8765/v1"
    app.command("serve", epilog=example)(serve)
