"""`turnmark compare`: finished runs over the same samples, set against the first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from turnmark.corpora.console import print_json
from turnmark.corpora.errors import ErrorCollector


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN RUN...", help="Folders of finished runs, or of `eval all`; the first is the baseline."
        ),
    ],
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one self-contained page.", show_default=False)
    ] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write Markdown.", show_default=False)] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output, and nothing else there.")
    ] = False,
) -> None:
    """Compare runs with the first of them: paired differences, intervals, tests, and the samples that changed most."""
    from turnmark.corpora.home import write_atomic
    from turnmark.evaluation.comparison.pipelines import compare_all
    from turnmark.evaluation.comparison.writing import markdown as as_markdown
    from turnmark.evaluation.comparison.writing import page, show
    from turnmark.evaluation.report.commands import check_target
    from turnmark.evaluation.report.markdown import MARKER as MARKDOWN_MARKER
    from turnmark.evaluation.report.page import MARKER as PAGE_MARKER

    errors = ErrorCollector()
    check_target("--html", html, PAGE_MARKER, errors)
    check_target("--markdown", markdown, MARKDOWN_MARKER, errors)
    if html is not None and markdown is not None and os.path.realpath(html) == os.path.realpath(markdown):
        errors.add(f"--html and --markdown both name {str(html)!r}; name two files")
    comparison = errors.collect(compare_all, runs)
    errors.raise_all()
    assert comparison is not None, "errors.raise_all() raised otherwise"
    paths: list[Path] = []
    for path, text in ((markdown, as_markdown), (html, page)):
        if path is not None:
            write_atomic(path, text(comparison))
            paths.append(path)
    if as_json:
        print_json(comparison.model_dump(mode="json"))
        return
    from rich.console import Console

    show(comparison, Console())
    for path in paths:
        typer.echo(f"written: {path}")


def register(app: typer.Typer) -> None:
    """Mount `compare`."""
    app.command(
        "compare",
        epilog="Examples: turnmark compare runs/bm25 runs/hybrid   ·   "
        "turnmark compare runs/a runs/b runs/c --html abc.html   ·   turnmark compare runs/all-small runs/all-large",
    )(compare)
