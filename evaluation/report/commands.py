"""`turnmark report`: finished runs, shown again, and written down as Markdown or as a page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnmark.corpora.console import print_json
from turnmark.corpora.errors import ErrorCollector

if TYPE_CHECKING:
    from turnmark.evaluation.report.stored import Stored, StoredRun

_END = 2_000  # bytes at either end of a file, in which a report of ours says what it is


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs, or of `eval all`.")],
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one self-contained page.", show_default=False)
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write Markdown, a section a run.", show_default=False)
    ] = None,
    export: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FORM=FILE",
            help="Write a run in a format of others: official, submission, trec or, of several runs, inspector. "
            "May be repeated.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output, and nothing else there.")
    ] = False,
) -> None:
    """Show finished runs again: means, breakdowns, published figures; as tables, Markdown, a page or JSON."""
    from turnmark.evaluation.exporting import exports
    from turnmark.evaluation.report.markdown import MARKER as MARKDOWN_MARKER
    from turnmark.evaluation.report.page import MARKER as PAGE_MARKER
    from turnmark.evaluation.report.stored import read_run

    errors = ErrorCollector()
    folders = [errors.collect(read_run, run) for run in dict.fromkeys(runs)]
    check_target("--html", html, PAGE_MARKER, errors)
    check_target("--markdown", markdown, MARKDOWN_MARKER, errors)
    if html is not None and markdown is not None and os.path.realpath(html) == os.path.realpath(markdown):
        errors.add(f"--html and --markdown both name {str(html)!r}; name two files")
    wanted_exports = exports.exports(export or (), errors)
    stored = [folder for folder in folders if folder is not None]
    named_runs = _named(stored) if wanted_exports else []
    exports.check(wanted_exports, named_runs, errors)
    errors.raise_all()
    exported = exports.write(wanted_exports, named_runs)
    written = _write(stored, html, markdown)
    if as_json:
        print_json(
            _described(stored)
            | ({"exports": [one.model_dump(mode="json") for one in exported]} if wanted_exports else {})
        )
        return
    _show(stored)
    for path in written:
        typer.echo(f"written: {path}")
    for one in exported:
        typer.echo(f"written: {one.file} ({one.form}, {one.samples} samples)")
        for note in one.notes:
            typer.echo(f"  {note}")


def check_target(flag: str, path: Path | None, marker: str, errors: ErrorCollector) -> None:
    """A file of somebody's is not overwritten; a report of ours is."""
    if path is None:
        return
    if path.is_dir():
        errors.add(f"{flag} {str(path)!r} is a folder; name a file")
        return
    above = next((folder for folder in path.absolute().parents if folder.exists()), None)
    if above is not None and not above.is_dir():
        errors.add(f"{flag} {str(path)!r}: {str(above)!r} is a file; name another place")
    elif path.exists() or path.is_symlink():
        if not path.is_file():
            errors.add(f"{flag} {str(path)!r} is no regular file; name one")
            return
        try:
            ours = not path.stat().st_size or marker.encode() in _ends(path)
        except OSError as error:
            errors.add(f"{flag} {str(path)!r} cannot be read: {error.strerror or error}; name another file")
            return
        if not ours:
            errors.add(f"{flag} {str(path)!r} is there already and is no report of this kind; name another file")


def _ends(path: Path) -> bytes:
    """The first bytes of a file and its last."""
    with open(path, "rb") as file:
        head = file.read(_END)
        file.seek(max(len(head), path.stat().st_size - _END))
        return head + file.read(_END)


def _write(stored: Sequence[Stored], html: Path | None, markdown: Path | None) -> list[Path]:
    paths = []
    if markdown is not None:
        from turnmark.corpora.home import write_atomic
        from turnmark.evaluation.report.markdown import markdown_all
        from turnmark.evaluation.report.overview import side_by_side, warnings

        sections = ((run.summary, run.path) for folder in stored for run in folder.runs)
        write_atomic(markdown, markdown_all(sections, warnings(stored), side_by_side(stored)))
        paths.append(markdown)
    if html is not None:
        from turnmark.evaluation.report.page import write_html

        paths.append(write_html(stored, html))
    return paths


def _named(stored: Sequence[Stored]) -> list[tuple[str, StoredRun]]:
    from turnmark.evaluation.report.overview import named

    runs = [run for folder in stored for run in folder.runs]
    return list(zip((name for name, _ in named(stored)), runs, strict=True))


def _described(stored: Sequence[Stored]) -> dict[str, object]:
    runs = [{**run.summary.model_dump(mode="json"), "run": str(run.path)} for folder in stored for run in folder.runs]
    left_out = [
        {"run": str(folder.path), "benchmark": name, "skipped": reason}
        for folder in stored
        for name, reason in folder.left_out.items()
    ]
    return {"runs": runs, **({"left_out": left_out} if left_out else {})}


def _show(stored: Sequence[Stored]) -> None:
    from rich.console import Console

    from turnmark.evaluation.report.terminal import show, show_all, show_together

    console = Console()
    first = len(stored) == 1
    if not first:
        show_together(stored, console)
    for folder in stored:
        if folder.several:
            show_all(folder.entries, folder.path, console)
            first = False
        for run in folder.runs:
            if not first:
                console.print()
            show(run.summary, run.path, console)
            first = False


def register(app: typer.Typer) -> None:
    """Mount `report`."""
    app.command(
        "report",
        epilog="Examples: turnmark report runs/mtrag-0a1b2c3d4e5f   ·   "
        "turnmark report runs/all --markdown results.md --html results.html   ·   "
        "turnmark report runs/rag --export official=rag.jsonl --export trec=rag.trec",
    )(report)
