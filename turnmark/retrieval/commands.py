"""The commands `turnmark index …` and `turnmark search`."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BeforeValidator, Field
from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnmark.core.command_line import CommandGroup
from turnmark.core.console import Progress, notify, print_json, shown_progress, stdin_is_terminal
from turnmark.core.errors import ErrorCollector, TurnmarkError
from turnmark.core.flags import AsJson, FlagMark, Request, RequestCommand, command_from
from turnmark.core.untrusted import one_line, valid_text
from turnmark.retrieval.storage.filters import WHERE_HELP, Where, parse_where

if TYPE_CHECKING:
    from turnmark.retrieval.index.build import BuildReport
    from turnmark.retrieval.index.index_api import Index
    from turnmark.retrieval.storage.manifest import Manifest
    from turnmark.retrieval.types import Hit

    CarryOut = Callable[[Callable[[Progress], BuildReport]], BuildReport | None]

index_app = CommandGroup(help="Build and manage indexes of documents.")

IndexName = Annotated[str, typer.Argument(help="Name of the index", metavar="NAME")]
NameOrOnly = Annotated[
    str | None,
    typer.Argument(help="Name of the index; default: the only index", metavar="[NAME]", show_default=False),
]

IndexNames = Annotated[
    str,
    BeforeValidator(",".join),
    FlagMark.REPEATABLE,
    typer.Option(
        metavar="NAME",
        envvar="TURNMARK_INDEX",
        show_envvar=False,
        show_default="the only index",
        help="Index to search, e.g. notes; repeatable to search several together",
    ),
]

DESCRIBE_NEEDS_FOLDER = "--describe needs a FOLDER to index"
DescribeSpec = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help="Model that describes the pictures in the documents, e.g. openai:gpt-4o-mini; none: no longer; default: "
        "the one that the index was built with",
    ),
]

MAX_SHOWN_PROBLEMS = 20
MIN_PASSAGE_TOKENS = 32
"""Minimum size of a passage, of which title and section may take half."""
EMBEDDING_SECONDS = 30.0
"""Time that `ask` and `search` embed passages of a large folder before they answer; the next one goes on."""


class BuildRequest(Request):
    """The options of `turnmark index build`."""

    source: Annotated[Path, typer.Argument(help="Folder, single file, or BEIR corpus.jsonl")]
    name: Annotated[str, FlagMark.REQUIRED, typer.Option("--name", metavar="NAME", help="Name of the index")] = ""
    retriever: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="Retriever to build for and to search with by default, e.g. bm25 (turnmark list retrievers); default: "
            "conversational, with splade-tiny if it has been fetched",
        ),
    ] = None
    embedder: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="Embedding model, e.g. multilingual-e5-small (turnmark list embedders); default: minilm, or "
            "multilingual-e5-small for documents in other languages than English, if it has been fetched",
            hidden=True,
        ),
    ] = None
    passage_tokens: Annotated[
        int | None,
        Field(ge=MIN_PASSAGE_TOKENS),
        typer.Option(
            metavar="N",
            help="Maximum tokens of a passage (chunk size), e.g. 128; default: those that the index was built with, or "
            "256",
            hidden=True,
        ),
    ] = None
    include: Annotated[
        tuple[str, ...], typer.Option(metavar="GLOB", help="Index only matching paths, e.g. '*.md'; repeatable")
    ] = ()
    exclude: Annotated[
        tuple[str, ...], typer.Option(metavar="GLOB", help="Leave out matching paths, e.g. 'drafts/*'; repeatable")
    ] = ()
    engine: Annotated[str, typer.Option(metavar="local|ray[://HOST]", help="Where models run", hidden=True)] = "local"
    describe: DescribeSpec = None
    budget: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="Limit of what describing may spend: tokens (200k) or money ($5)"),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how many pictures there are and what describing them would cost")
    ] = False
    verify: Annotated[
        bool, typer.Option("--verify", help="Read all files, also those whose size and times have not changed")
    ] = False
    watch: Annotated[bool, typer.Option("--watch", help="Watch the folder and index changed files until Ctrl-C")] = (
        False
    )
    as_json: AsJson = False


def run_build(request: BuildRequest, errors: ErrorCollector) -> None:
    """Build an index, continue an interrupted build, or bring an index up to date with its source."""
    _check_build(request, errors)
    _build(request)
    if request.watch:
        from turnmark.retrieval.index.folder_watch import watch_folder
        from turnmark.retrieval.search.opened_index import open_index

        notify(f"watching {one_line(request.source)}; Ctrl-C ends it")
        watch_folder(open_index(request.name), lambda line: notify(line), request.engine)


index_app.command(
    "build",
    cls=RequestCommand,
    epilog="Examples: turnmark index build ~/notes --name notes   ·   "
    "turnmark index build corpus.jsonl --name c --retriever bm25",
)(command_from(BuildRequest, run_build))


def build_with_bar(build: Callable[[Progress], BuildReport]) -> BuildReport:
    """Carry out a build with a progress bar."""
    with shown_progress() as progress:
        return build(progress)


def index_folder(
    folder: Path,
    names: str,
    retriever: str | None,
    errors: ErrorCollector,
    err: bool = False,
    carry_out: CarryOut = build_with_bar,
    describe: str | None = None,
    text: str = "",
) -> str:
    """Build the index of a folder, or bring it up to date, and return its name together with the other names.

    Nothing is built if the request has a mistake.

    Args:
        names: names of the indexes to search as the user typed them, separated by commas. The first one is the
            index of the folder. If `names` is empty, that index is named after the folder.
        retriever: spec of the retriever to build for, or None for the default.
        errors: mistakes are added to it.
        err: report on standard error, since the answer goes to standard output.
        carry_out: carries out the build, which reports to the progress that it is called with. It returns None if
            the build goes on in the background.
        describe: spec of the model that describes pictures, or None for the one that the index was built with.
        text: the argument before the folder, with which it may have been swapped.
    """
    from turnmark.retrieval.search.opened_index import list_indexes, split_names

    source = folder.expanduser().resolve()
    default = re.sub(r"[^A-Za-z0-9_-]+", "-", source.name).strip("-") or "documents"
    searched = split_names(names or default)
    sources = {manifest.name: manifest.source for manifest in list_indexes()}
    if not source.exists():
        swapped = text if text and Path(text).expanduser().exists() else f"--index {text}" if text in sources else ""
        if str(folder) in sources:
            errors.add(f"{folder}: no such file or folder; for the index of that name, write --index {folder}")
            errors.raise_all()
        elif swapped:
            errors.add(f"the arguments are swapped; write {shlex.quote(str(folder))} {swapped}")
            errors.raise_all()
        elif text and " " in str(folder) and " " not in text:
            errors.add(f"the question comes first, then the folder, but there is no folder or index {text!r}")
            errors.raise_all()
    if Path(sources.get(searched[0], source)).resolve() != source:
        errors.add(f"the index {searched[0]!r} is of {sources[searched[0]]!r}; choose another name with --index")
    request = BuildRequest(source=source, name=searched[0], retriever=retriever, describe=describe)
    _check_build(request, errors)
    _build(request, err, carry_out)
    return ",".join(searched)


def _build(
    request: BuildRequest,
    err: bool = False,
    carry_out: CarryOut = build_with_bar,
) -> None:
    """Carry out a checked build and report it."""
    from turnmark.retrieval.index.build import build_index

    report = carry_out(
        lambda progress: build_index(
            request.source, request.name, retriever=request.retriever, embedder=request.embedder,
            passage_tokens=request.passage_tokens, include=request.include, exclude=request.exclude, progress=progress,
            engine=request.engine, describe=request.describe, budget=request.budget, dry_run=request.dry_run,
            verify=request.verify,
            embedding_seconds=EMBEDDING_SECONDS if err else None,
        )
    )  # fmt: skip
    if report is None:
        return
    if request.dry_run:
        _report_plan(report, request.as_json)
        return
    screen = Console(stderr=True)
    for note in build_notes(report):
        screen.print(Text(note, style="yellow"), soft_wrap=True)
    _report(report, request.as_json, err)


def build_notes(report: BuildReport) -> Iterator[str]:
    """Yield a line for each thing that a build skipped, left out or advises."""
    from turnmark.corpora.readers import NOT_DESCRIBED, describe_left_out, describe_unread

    yield from (f"skipped  {one_line(problem)}" for problem in report.problems[:MAX_SHOWN_PROBLEMS])
    if len(report.problems) > MAX_SHOWN_PROBLEMS:
        yield f"… and {len(report.problems) - MAX_SHOWN_PROBLEMS} more; --json lists them all"
    left_out = {reason: count for reason, count in report.left_out.items() if reason != NOT_DESCRIBED}
    pictures = report.left_out[NOT_DESCRIBED]
    are = "1 picture is" if pictures == 1 else f"{pictures:,} pictures are"
    undescribed = f"{are} not described (--describe SPEC)" if pictures else ""
    remarks = map(str, report.remarks[:MAX_SHOWN_PROBLEMS])
    notes = (*remarks, undescribed, describe_left_out(left_out), describe_unread(report.unread), report.advice)
    yield from map(one_line, filter(None, notes))


def build_counts(report: BuildReport) -> str:
    """Return a line that says what an index contains after a build."""
    counts = f"{report.documents} documents, {report.passages} passages, {len(report.problems)} skipped"
    if report.unchanged:
        return f"{report.name}: nothing has changed ({counts}; {report.seconds:.1f} s)"
    work = f"{report.embedded} embedded, {report.kept} kept, {report.removed} removed"
    return f"{report.name}: {counts}; {work}; {report.seconds:.1f} s"


def _report_plan(report: BuildReport, as_json: bool) -> None:
    """Print what describing the pictures of a build would take."""
    plan = report.plan
    if as_json:
        print_json({"name": report.name, "plan": plan.model_dump() if plan else None})
    else:
        typer.echo(f"{report.name}: {plan.in_words() if plan else 'pictures are not described (--describe)'}")


def _report(report: BuildReport, as_json: bool, err: bool) -> None:
    """Print the result of a build on standard output, or with `err` on standard error."""
    name = report.name
    if as_json:
        lists = {name: [each.model_dump() for each in getattr(report, name)] for name in ("problems", "remarks")}
        print_json({**vars(report), **lists, "plan": report.plan.model_dump() if report.plan else None})
        return
    if report.plan is not None and report.plan.pictures:
        spent = f" ({report.spent})" if report.spent else ""
        known = f"{report.plan.cached:,} described before" if report.plan.cached else ""
        now = f"{report.described:,} described now{spent}" if report.plan.missing else ""
        typer.echo(f"{name}: {report.plan.pictures:,} pictures: {', '.join(filter(None, (now, known)))}", err=err)
    typer.echo(build_counts(report), err=err)


def _check_build(request: BuildRequest, errors: ErrorCollector) -> None:
    """Check all arguments of a build and report all mistakes at once."""
    from turnmark.core.engines import check_engine
    from turnmark.core.home import check_name
    from turnmark.corpora.readers import Globs, read_source
    from turnmark.retrieval.embedding.embedders import DEFAULT_EMBEDDER, EMBEDDERS
    from turnmark.retrieval.index.folder_watch import check_watch
    from turnmark.retrieval.index.picture_descriptions import NO_DESCRIBER, open_describer
    from turnmark.retrieval.search.retriever_factory import build_settings, retriever_to_build

    errors.collect(read_source, request.source)
    path = os.path.realpath(request.source)
    if path != valid_text(path):
        errors.add(f"source {path!r}: the path is not valid UTF-8; rename it")
    if request.name:  # a missing name has been reported
        errors.collect(check_name, request.name, "index")
    embedder = request.embedder or DEFAULT_EMBEDDER
    errors.collect(build_settings, request.retriever or retriever_to_build(), embedder)
    errors.collect(EMBEDDERS.check, embedder)
    errors.collect(Globs, request.include, request.exclude)
    errors.collect(check_engine, request.engine)
    if request.describe not in (None, NO_DESCRIBER):
        errors.collect(open_describer, request.describe, request.budget)
    if request.dry_run and request.watch:
        errors.add("--dry-run and --watch exclude each other")
    if request.watch:
        errors.collect(check_watch, request.source)
    errors.raise_all()


@index_app.command("list", epilog="Example: turnmark index list --all")
def list_all(
    include_internal: Annotated[bool, typer.Option("--all", help="Also list indexes kept for benchmarks")] = False,
    as_json: AsJson = False,
) -> None:
    """List the indexes."""
    from turnmark.retrieval.search.opened_index import list_indexes

    manifests = list_indexes(internal=include_internal)
    if as_json:
        print_json({"indexes": [manifest.model_dump(mode="json", exclude={"unread_files"}) for manifest in manifests]})
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
def info(name: NameOrOnly = None, as_json: AsJson = False) -> None:
    """Show what an index contains and how it was built."""
    from turnmark.retrieval.search.opened_index import only_index, open_index
    from turnmark.retrieval.search.retriever_factory import default_retriever
    from turnmark.retrieval.search.tuned_search import describe_tuned
    from turnmark.retrieval.search.tuned_settings import describe_tuned_settings

    index = open_index(name or only_index("NAME"))
    size = sum(path.stat().st_size for path in index.files.rglob("*") if path.is_file())
    fields = {
        **index.manifest.model_dump(mode="json", exclude={"unread_files"}),
        "retriever": default_retriever(index),
        "tuned": describe_tuned(index),
        "settings": describe_tuned_settings(index),
        "bytes": size,
    }
    if as_json:
        print_json(fields)
        return
    for key, value in fields.items():
        if key not in _DIGESTS and (words := _field_in_words(value)):
            typer.echo(f"{key:14} {one_line(words)}")


_DIGESTS = ("digest", "tables", "tables_version")
"""Fields of a manifest that say nothing to a person; `--json` has them."""


def _field_in_words(value: Any) -> str:
    """Return a field of a manifest for a person; empty if it says nothing."""
    if isinstance(value, dict):
        if "spec" in value:
            return str(value["spec"])
        pairs = ((key, each["share"] if isinstance(each, dict) else each) for key, each in value.items())
        return ", ".join(f"{key or 'no suffix'} {each}" for key, each in pairs)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value in (None, "", False) else str(value)


@index_app.command("remove", epilog="Example: turnmark index remove notes")
def remove(
    name: IndexName, yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation")] = False
) -> None:
    """Delete an index. A terminal asks for confirmation."""
    from turnmark.core.home import check_name
    from turnmark.retrieval.index.components import remove_index
    from turnmark.retrieval.search.opened_index import indexes_folder

    if not yes and stdin_is_terminal() and (indexes_folder() / check_name(name, "index")).is_dir():
        typer.confirm(f"Delete the index {name}?", abort=True, err=True)
    remove_index(name)
    typer.echo(f"{name}: removed")


@index_app.command("compact", epilog="Example: turnmark index compact notes")
def compact(name: NameOrOnly = None) -> None:
    """Bring an index up to date, and write its files again without what is gone."""
    from turnmark.retrieval.index.build import build_again
    from turnmark.retrieval.search.opened_index import only_index, open_index

    manifest = open_index(name or only_index("NAME")).manifest
    report = build_with_bar(lambda progress: build_again(manifest, progress, compact=True))
    typer.echo(f"{report.name}: {report.passages} passages; {report.seconds:.1f} s")


@index_app.command("verify", epilog="Example: turnmark index verify notes")
def verify(name: NameOrOnly = None) -> None:
    """Check the files of an index against their checksums, and the contents of Chroma against the passages."""
    from turnmark.retrieval.index.components import verify_index
    from turnmark.retrieval.search.opened_index import only_index, open_index
    from turnmark.retrieval.search.rebuild_commands import rebuild_command

    name = name or only_index("NAME")
    index = open_index(name)
    problems = verify_index(index)
    if problems:
        lines = [f"{name}: {problem}" for problem in problems]
        lines.append(f"rebuild it with: {one_line(rebuild_command(index.manifest))}")
        raise TurnmarkError("\n".join(lines))
    typer.echo(f"{name}: {index.manifest.passages} passages, everything is intact")


class SearchRequest(Request):
    """The options of `turnmark search`."""

    query: Annotated[str, FlagMark.REQUIRED, typer.Argument(metavar="QUERY", help="Text to search for")] = ""
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="Documents to index first, or to bring up to date")
    ] = None
    index: IndexNames = ""
    retriever: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Retriever, e.g. bm25; default: the one the index was built for")
    ] = None
    top_k: Annotated[
        int, Field(ge=1, le=1000), typer.Option("--top-k", "-k", metavar="N", help="Number of passages")
    ] = 10
    where: Annotated[tuple[str, ...], typer.Option(metavar="KEY=GLOB", help=WHERE_HELP)] = ()
    explain: Annotated[
        bool, typer.Option("--explain", help="Show which rankings contain a passage, with rank and score")
    ] = False
    as_json: AsJson = False


def run_search(request: SearchRequest, errors: ErrorCollector) -> None:
    """Search one or several indexes for passages."""
    from turnmark.retrieval.index.index_api import Index
    from turnmark.retrieval.search.opened_index import only_index
    from turnmark.retrieval.search.retriever_factory import build_settings, default_retriever, open_retriever
    from turnmark.retrieval.types import Query

    if request.query and not request.query.strip():
        errors.add("the query is empty")
    where = parse_where(request.where, errors)
    if request.folder is not None:
        typed = request.index if "index" in request.typed else ""
        names: str | None = index_folder(request.folder, typed, request.retriever, errors, err=True, text=request.query)
    else:
        names = request.index or errors.collect(only_index)
    index = errors.collect(Index.open, names) if names else None
    retriever = None
    if index is not None:
        retriever = errors.collect(open_retriever, request.retriever or default_retriever(index), index)
        errors.collect(index.check_where, where)
    elif request.retriever is not None:
        errors.collect(build_settings, request.retriever)
    errors.raise_all()
    assert index is not None, "raise_all reports an index that cannot be opened"
    assert retriever is not None, "raise_all reports a retriever that cannot be opened"
    query = retriever.respell(valid_text(request.query))
    hits = retriever.search([Query(text=query, where=where)], request.top_k)[0]
    hits = [hit.model_copy(update={"passage": hit.passage.as_stored()}) for hit in hits]
    if request.as_json:
        found = [hit.model_dump(mode="json") for hit in hits]
        printed = {"query": request.query, "searched": query, "retriever": retriever.name, "hits": found}
        print_json(printed | ({"note": index.describe_filtered(where)} if where and not hits else {}))
        return
    if query != valid_text(request.query):
        typer.echo(f"searched for: {one_line(query)}", err=True)
    _draw(hits, request.explain)
    if not hits and where:
        typer.echo(index.describe_filtered(where))
    if request.explain:
        for name, weight in index.manifest.weights.items():
            described = f"finds passages of this index with an MRR of {weight.mrr:.2f} (n {weight.n})"
            reason = described if weight.n else "not measured, since the index is too small"
            typer.echo(f"{name}: {weight.share:.0%} of its usual weight; {reason}")


def _draw(hits: list[Hit], explain: bool) -> None:
    """Print the hits of a search."""
    from turnmark.core.untrusted import make_printable

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
        text = " ".join(make_printable(hit.passage.text).split())
        console.print(Text(f"             {text[:240]}{'…' if len(text) > 240 else ''}", style="dim"), soft_wrap=False)


class DocumentsRequest(Request):
    """The options of `turnmark documents`."""

    named: Annotated[
        str,
        typer.Argument(metavar="[INDEX]", help="Index to list; default: --index, or the only index"),
    ] = ""
    index: IndexNames = ""
    why: Annotated[
        str | None, typer.Option(metavar="FILE", help="Say what became of a file, and if it was not read, why")
    ] = None
    question: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="With --why: the rank of its best passage, and why an answer has it or not"),
    ] = None
    where: Annotated[tuple[str, ...], typer.Option(metavar="KEY=GLOB", help=WHERE_HELP)] = ()
    as_json: AsJson = False


def run_documents(request: DocumentsRequest, errors: ErrorCollector) -> None:
    """List the documents of an index: title, path, date, number of passages and language."""
    from turnmark.retrieval.index.document_list import document_table
    from turnmark.retrieval.index.index_api import Index
    from turnmark.retrieval.search.opened_index import only_index

    if request.named and "index" in request.typed and request.named != request.index:
        errors.add(f"INDEX {request.named!r} and --index {request.index!r}: name one of them")
    if request.question is not None and request.why is None:
        errors.add("--question needs --why FILE")
    where = parse_where(request.where, errors)
    names = request.named or request.index or errors.collect(only_index)
    index = errors.collect(Index.open, names) if names else None
    if index is not None:
        errors.collect(index.check_where, where)
    errors.raise_all()
    assert index is not None, "raise_all reports an index that cannot be opened"
    if request.why is not None:
        _explain_file(index, request, where)
        return
    documents = index.documents(where=where)
    if request.as_json:
        listed = [each.model_dump(mode="json", exclude={"matches"}) for each in documents]
        print_json({"index": index.name, "documents": listed})
        return
    Console().print(document_table(documents))


def _explain_file(index: Index, request: DocumentsRequest, where: Where) -> None:
    """Print what became of a file, in the index that has read it, or else in each."""
    from turnmark.retrieval.file_account import account_for, account_lines, ask_about

    accounts = [account_for(part, valid_text(request.why or "")) for part in index.parts]
    accounts = [each for each in accounts if each.read] or accounts
    if request.question is not None:
        question = valid_text(request.question)
        accounts = [ask_about(index, each, question, where) if each.read else each for each in accounts]
    if request.as_json:
        print_json({"files": [each.model_dump(mode="json") for each in accounts]})
        return
    for line in (line for each in accounts for line in account_lines(each)):
        typer.echo(line)


def add_index_commands(app: typer.Typer) -> None:
    """Mount `index` and `search`."""
    app.add_typer(index_app, name="index")
    app.command(
        "search",
        cls=RequestCommand,
        epilog="Examples: turnmark search 'sourdough starter' --index notes --where 'path=bread/*'   ·   "
        "turnmark search 'sourdough starter' ~/notes",
    )(command_from(SearchRequest, run_search))
    app.command(
        "documents",
        cls=RequestCommand,
        epilog="Examples: turnmark documents notes --json   ·   turnmark documents notes --why bread/rye.md",
    )(command_from(DocumentsRequest, run_documents))
