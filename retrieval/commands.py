"""The commands `turnmark index …` and `turnmark search`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnmark.core.console import notify, print_json, shown_progress
from turnmark.core.errors import ErrorCollector, TurnmarkError
from turnmark.core.flags import AsJson, HelpAll
from turnmark.core.untrusted import one_line, valid_text

if TYPE_CHECKING:
    from turnmark.retrieval.build import BuildReport
    from turnmark.retrieval.manifest import Manifest
    from turnmark.retrieval.types import Hit

index_app = typer.Typer(no_args_is_help=True, help="Build and manage indexes of documents.")

IndexName = Annotated[str, typer.Argument(help="Name of the index", metavar="NAME")]
IndexNames = Annotated[
    list[str],
    typer.Option(
        "--index",
        metavar="NAME",
        envvar="TURNMARK_INDEX",
        show_envvar=False,
        help="Index to search, e.g. notes; repeatable to search several together",
    ),
]

Watch = Annotated[bool, typer.Option("--watch", help="Watch the folder and index changed files until Ctrl-C")]

MAX_SHOWN_PROBLEMS = 20


@index_app.command(
    "build",
    epilog="Examples: turnmark index build ~/notes --name notes   ·   "
    "turnmark index build corpus.jsonl --name c --retriever bm25",
)
def build(
    source: Annotated[Path, typer.Argument(help="Folder, single file, or BEIR corpus.jsonl")],
    name: Annotated[str, typer.Option("--name", help="Name of the index")],
    retriever: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="Retriever to build for and to search with by default, e.g. bm25 (turnmark list retrievers); default: "
            "conversational, with splade-tiny if it has been fetched",
        ),
    ] = None,
    embedder: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="Embedding model, e.g. multilingual-e5-small (turnmark list embedders); default: minilm, or "
            "multilingual-e5-small for documents in other languages than English, if it has been fetched",
            hidden=True,
        ),
    ] = None,
    include: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Index only matching paths, e.g. '*.md'; repeatable")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Leave out matching paths, e.g. 'drafts/*'; repeatable")
    ] = None,
    engine: Annotated[str, typer.Option(metavar="local|ray[://HOST]", help="Where models run", hidden=True)] = "local",
    watch: Watch = False,
    as_json: AsJson = False,
    help_all: HelpAll = False,  # noqa: ARG001
) -> None:
    """Build an index, continue an interrupted build, or bring an index up to date with its source."""
    from turnmark.corpora.readers.report import describe_left_out, describe_unread
    from turnmark.retrieval.build import build_index

    _check_build(source, name, retriever, embedder, engine, include or [], exclude or [], watch)
    with shown_progress() as progress:
        report = build_index(
            source, name, retriever=retriever, embedder=embedder, include=include or (), exclude=exclude or (),
            progress=progress, engine=engine,
        )  # fmt: skip
    err = Console(stderr=True)
    for problem in report.problems[:MAX_SHOWN_PROBLEMS]:
        err.print(Text(f"skipped  {one_line(problem)}", style="yellow"), soft_wrap=True)
    if len(report.problems) > MAX_SHOWN_PROBLEMS:
        err.print(f"… and {len(report.problems) - MAX_SHOWN_PROBLEMS} more; --json lists them all")
    for remark in report.remarks[:MAX_SHOWN_PROBLEMS]:
        err.print(Text(one_line(remark), style="yellow"), soft_wrap=True)
    if left_out := describe_left_out(report.left_out):
        err.print(Text(one_line(left_out), style="yellow"), soft_wrap=True)
    if unread := describe_unread(report.unread):
        err.print(Text(one_line(unread), style="yellow"), soft_wrap=True)
    if report.advice:
        err.print(Text(one_line(report.advice), style="yellow"), soft_wrap=True)
    _report(report, as_json)
    if watch:
        from turnmark.retrieval.stored import open_index
        from turnmark.retrieval.watch import watch_folder

        notify(f"watching {one_line(source)}; Ctrl-C ends it")
        watch_folder(open_index(name), lambda line: notify(line), engine)


def _report(report: BuildReport, as_json: bool) -> None:
    """Print the result of a build on standard output."""
    name = report.name
    if as_json:
        lists = {name: [each.model_dump() for each in getattr(report, name)] for name in ("problems", "remarks")}
        print_json({**vars(report), **lists})
        return
    counts = f"{report.documents} documents, {report.passages} passages, {len(report.problems)} skipped"
    if report.unchanged:
        typer.echo(f"{name}: nothing has changed ({counts}; {report.seconds:.1f} s)")
    else:
        work = f"{report.embedded} embedded, {report.kept} kept, {report.removed} removed"
        typer.echo(f"{name}: {counts}; {work}; {report.seconds:.1f} s")


def _check_build(
    source: Path,
    name: str,
    retriever: str | None,
    embedder: str | None,
    engine: str,
    include: list[str],
    exclude: list[str],
    watch: bool,
) -> None:
    """Check all arguments of a build and report all mistakes at once."""
    from turnmark.core.home import check_name
    from turnmark.corpora.readers import read_source
    from turnmark.corpora.readers.folder import Globs
    from turnmark.retrieval.embed import DEFAULT_EMBEDDER, EMBEDDERS
    from turnmark.retrieval.registry import build_settings, retriever_to_build
    from turnmark.retrieval.watch import check_watch
    from turnmark.retrieval.workers import check_engine

    errors = ErrorCollector()
    errors.collect(read_source, source)
    path = os.path.realpath(source)
    if path != valid_text(path):
        errors.add(f"source {path!r}: the path is not valid UTF-8; rename it")
    errors.collect(check_name, name, "index")
    embedder = embedder or DEFAULT_EMBEDDER
    errors.collect(build_settings, retriever or retriever_to_build(), embedder)
    errors.collect(EMBEDDERS.check, embedder)
    errors.collect(Globs, include, exclude)
    errors.collect(check_engine, engine)
    if watch:
        errors.collect(check_watch, source)
    errors.raise_all()


@index_app.command("list", epilog="Example: turnmark index list --all")
def list_all(
    include_internal: Annotated[bool, typer.Option("--all", help="Also list indexes kept for benchmarks")] = False,
    as_json: AsJson = False,
) -> None:
    """List the indexes."""
    from turnmark.retrieval.stored import list_indexes

    manifests = list_indexes(internal=include_internal)
    if as_json:
        print_json({"indexes": [manifest.model_dump(mode="json") for manifest in manifests]})
        return
    if not manifests:
        typer.echo("no index yet; build one: turnmark index build SOURCE --name NAME")
        return
    table = Table("name", "documents", "passages", "models", "source", box=None, pad_edge=False)
    for manifest in manifests:
        cells = (manifest.name, str(manifest.documents), str(manifest.passages), _made_by(manifest), manifest.source)
        table.add_row(*(Text(one_line(cell)) for cell in cells))
    Console().print(table)


def _made_by(manifest: Manifest) -> str:
    """Return the models that an index was built with, and the server that stores its vectors."""
    models = [info.spec for info in (manifest.embedder, manifest.splade) if info]
    location = f" on {manifest.server.url}" if manifest.server else ""
    return (", ".join(models) or "none (bm25)") + location


@index_app.command("info", epilog="Example: turnmark index info notes --json")
def info(name: IndexName, as_json: AsJson = False) -> None:
    """Show what an index contains and how it was built."""
    from turnmark.retrieval.registry import default_retriever
    from turnmark.retrieval.stored import open_index

    index = open_index(name)
    size = sum(path.stat().st_size for path in index.files.rglob("*") if path.is_file())
    fields = {**index.manifest.model_dump(mode="json"), "retriever": default_retriever(index), "bytes": size}
    if as_json:
        print_json(fields)
        return
    for key, value in fields.items():
        typer.echo(f"{key:14} {one_line(value)}")


@index_app.command("remove", epilog="Example: turnmark index remove notes")
def remove(name: IndexName) -> None:
    """Delete an index."""
    from turnmark.retrieval.components import remove_index

    remove_index(name)
    typer.echo(f"{name}: removed")


@index_app.command("verify", epilog="Example: turnmark index verify notes")
def verify(name: IndexName) -> None:
    """Check the files of an index against their checksums, and the contents of Chroma against the passages."""
    from turnmark.retrieval.components import verify_index
    from turnmark.retrieval.rebuild import rebuild_command
    from turnmark.retrieval.stored import open_index

    index = open_index(name)
    problems = verify_index(index)
    if problems:
        lines = [f"{name}: {problem}" for problem in problems]
        lines.append(f"rebuild it with: {one_line(rebuild_command(index.manifest))}")
        raise TurnmarkError("\n".join(lines))
    typer.echo(f"{name}: {index.manifest.passages} passages, everything is intact")


def search(
    query: Annotated[str, typer.Argument(help="Text to search for")],
    index_names: IndexNames,
    retriever: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Retriever, e.g. bm25; default: the one the index was built for")
    ] = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", metavar="N", min=1, max=1000, help="Number of passages")] = 10,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=GLOB", help="Filter by document, title, path, section, page or index, e.g. path=bread/*"
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show which rankings contain a passage, with rank and score")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Search one or several indexes for passages."""
    from turnmark.retrieval.index import Index
    from turnmark.retrieval.registry import build_settings, default_retriever, open_retriever
    from turnmark.retrieval.types import Query

    errors = ErrorCollector()
    if not query.strip():
        errors.add("the query is empty")
    filters = errors.collect(parse_where, where or [])
    index = errors.collect(Index.open, *index_names)
    opened = None
    if index is not None:
        opened = errors.collect(open_retriever, retriever or default_retriever(index), index)
    elif retriever is not None:
        errors.collect(build_settings, retriever)
    errors.raise_all()
    assert index is not None, "raise_all reports an index that cannot be opened"
    assert opened is not None, "raise_all reports a retriever that cannot be opened"
    hits = opened.search([Query(text=valid_text(query), where=filters or {})], top_k)[0]
    hits = [hit.model_copy(update={"passage": hit.passage.as_stored()}) for hit in hits]
    if as_json:
        print_json({"query": query, "retriever": opened.name, "hits": [hit.model_dump(mode="json") for hit in hits]})
        return
    _draw(hits, explain)
    if explain:
        for name, weight in index.manifest.weights.items():
            found = f"finds passages of this index with an MRR of {weight.mrr:.2f} (n {weight.n})"
            reason = found if weight.n else "not measured, since the index is too small"
            typer.echo(f"{name}: {weight.share:.0%} of its usual weight; {reason}")


def _draw(hits: list[Hit], explain: bool) -> None:
    """Print the hits of a search."""
    from turnmark.core.untrusted import printable

    console = Console()
    if not hits:
        console.print("nothing found")
    for rank, hit in enumerate(hits, 1):
        index = f"{hit.passage.index}: " if hit.passage.index else ""
        where_from = index + hit.passage.document + (f", page {hit.passage.page}" if hit.passage.page else "")
        console.print(Text.assemble((f"{rank:2} ", "bold"), (f"{hit.score:8.3f}  ", "cyan"), one_line(where_from)))
        if explain:
            lists = (f"{name}: rank {found.rank}, {found.score:.3f}" for name, found in hit.found.items())
            console.print(Text("             " + one_line("; ".join(lists)), style="dim"))
        text = " ".join(printable(hit.passage.text).split())
        console.print(Text(f"             {text[:240]}{'…' if len(text) > 240 else ''}", style="dim"), soft_wrap=False)


def parse_where(pairs: list[str]) -> dict[str, str]:
    """Parse `KEY=GLOB` flags into a mapping."""
    from turnmark.retrieval.store import WHERE_KEYS

    known = (*WHERE_KEYS, "index")
    filters: dict[str, str] = {}
    errors = ErrorCollector()
    for pair in map(valid_text, pairs):
        key, equals, value = pair.partition("=")
        if not equals or not key:
            errors.add(f"--where {pair!r}: write KEY=GLOB")
        elif key not in known:
            errors.add(f"--where: passages have no {key!r}; they have: {', '.join(known)}")
        elif key in filters:
            errors.add(f"--where {key} is given twice")
        filters[key] = value
    errors.raise_all()
    return filters


def add_index_commands(app: typer.Typer) -> None:
    """Mount `index` and `search`."""
    app.add_typer(index_app, name="index")
    app.command("search", epilog="Example: turnmark search 'sourdough starter' --index notes --where 'path=bread/*'")(
        search
    )
