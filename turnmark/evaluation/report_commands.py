"""The commands `turnmark report`, `compare` and `agreement`: show finished runs, compare them, measure agreement."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from turnmark.core.console import print_json, print_result
from turnmark.core.errors import ErrorCollector, RequestError

if TYPE_CHECKING:
    from turnmark.evaluation.report.finished_runs import RunCollection


def _output(metavar: str, text: str) -> Any:
    """Return an option that names a file or folder to write."""
    return typer.Option(metavar=metavar, help=text, show_default=False)


Html = Annotated[Path | None, _output("FILE", "Write a self-contained page, e.g. report.html")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output")]


def report_command(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs or of eval all, e.g. runs/all")
    ],
    html: Html = None,
    markdown: Annotated[Path | None, _output("FILE", "Write Markdown with a section per run, e.g. results.md")] = None,
    csv: Annotated[Path | None, _output("DIR", "Write every table as CSV into this folder, e.g. tables")] = None,
    latex: Annotated[Path | None, _output("DIR", "Write every table as LaTeX into this folder, e.g. tables")] = None,
    rate: Annotated[
        Path | None,
        _output(
            "FILE",
            "Write a page where people rate the runs' answers blind, or review a synthesized set, e.g. rate.html",
        ),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say in a sentence what each metric means")] = False,
    as_json: Json = False,
) -> None:
    """Show finished runs with means, breakdowns and published figures, as tables, Markdown, a page or JSON."""
    from turnmark.evaluation.report.finished_runs import read_run
    from turnmark.evaluation.synth.review import is_synthesis, write_review

    errors = ErrorCollector()
    if rate is not None and any(map(is_synthesis, runs)):
        if len(runs) > 1 or html or markdown or csv or latex:
            raise RequestError(
                "--rate: a set made by `synth` is reviewed alone; name only its folder, and no other output"
            )
        typer.echo(f"written: {write_review(runs[0], rate)}", err=as_json)
        if as_json:
            print_json({"written": str(rate)})
        return
    folders = [errors.collect(read_run, run) for run in dict.fromkeys(runs)]
    _check_targets(html, markdown, errors)
    for flag, folder in (("--csv", csv), ("--latex", latex)):
        if folder is not None and folder.is_file():
            errors.add(f"{flag} {str(folder)!r} is a file; name a folder")
    errors.raise_all()
    stored = [folder for folder in folders if folder is not None]
    written = _write(stored, html, markdown, csv, latex)
    if rate is not None:
        from turnmark.evaluation.report.rating_page import write_rating

        written.append(write_rating([run for folder in stored for run in folder.runs], rate))
    if as_json:
        print_json(_report_json(stored))
        return
    from rich.console import Console

    from turnmark.evaluation.report.output_formats import show_report
    from turnmark.evaluation.report.overview import MAX_METRICS_ON_SCREEN, describe

    console = Console()
    for number, document in enumerate(describe(stored, MAX_METRICS_ON_SCREEN, explain=explain)):
        if number:
            console.print()
        show_report(document, console)
    for path in written:
        typer.echo(f"written: {path}")


def _write(
    stored: Sequence[RunCollection], html: Path | None, markdown: Path | None, csv: Path | None, latex: Path | None
) -> list[Path]:
    from turnmark.core.home import write_atomic
    from turnmark.evaluation.report import output_formats, overview

    if html is not None:
        from turnmark.evaluation.report.html_page import write_html

        write_html(stored, html)
    documents = overview.describe(stored) if markdown or csv or latex else []
    if markdown is not None:
        write_atomic(markdown, output_formats.markdown(documents))
    written = [path for path in (markdown, html) if path is not None]
    if csv is not None:
        written += output_formats.write_tables(documents, csv, "csv", output_formats.as_csv)
    if latex is not None:
        written += output_formats.write_tables(documents, latex, "tex", output_formats.as_latex)
    return written


def _check_targets(html: Path | None, markdown: Path | None, errors: ErrorCollector) -> None:
    """Refuse to overwrite a file that is not a report of Turnmark."""
    from turnmark.evaluation.report.html_page import MARKER as PAGE_MARKER
    from turnmark.evaluation.report.output_formats import MARKER as MARKDOWN_MARKER

    for flag, path, marker in (("--html", html, PAGE_MARKER), ("--markdown", markdown, MARKDOWN_MARKER)):
        if path is not None and path.exists():
            content = path.read_bytes() if path.is_file() else b"a folder or a device"
            if content and marker.encode() not in content:
                errors.add(f"{flag} {str(path)!r} already exists and is not a report of this kind; name another file")


def _report_json(stored: Sequence[RunCollection]) -> dict[str, object]:
    runs = [{**run.summary.model_dump(mode="json"), "run": str(run.path)} for folder in stored for run in folder.runs]
    left_out = [
        {"run": str(folder.path), "benchmark": name, "skipped": reason}
        for folder in stored
        for name, reason in folder.left_out.items()
    ]
    return {"runs": runs, "left_out": left_out} if left_out else {"runs": runs}


def compare_command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN RUN...", help="Folders of finished runs, the baseline first, e.g. runs/bm25 runs/hybrid"
        ),
    ],
    html: Html = None,
    markdown: Annotated[Path | None, _output("FILE", "Write Markdown, e.g. comparison.md")] = None,
    missing: Annotated[
        Literal["leave-out", "zero"],
        typer.Option(help="A sample that one of two runs lacks or failed on: leave it out, or count it as 0 there"),
    ] = "leave-out",
    as_json: Json = False,
) -> None:
    """Compare runs with the first one: paired differences, intervals, tests, and the samples that changed most."""
    from turnmark.core.home import write_atomic
    from turnmark.evaluation.comparison import comparison_tables
    from turnmark.evaluation.comparison.run_comparison import compare_runs

    errors = ErrorCollector()
    _check_targets(html, markdown, errors)
    comparison = errors.collect(compare_runs, runs, missing)
    errors.raise_all()
    assert comparison is not None, "errors.raise_all() raised otherwise"
    writers = ((markdown, comparison_tables.comparison_markdown), (html, comparison_tables.comparison_page))
    targets = [(path, text) for path, text in writers if path is not None]
    for path, text in targets:
        write_atomic(path, text(comparison))
    show = partial(comparison_tables.show_comparison, comparison)
    print_result(comparison.model_dump(mode="json"), as_json, show)
    for path, _ in () if as_json else targets:
        typer.echo(f"written: {path}")


def agreement_command(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN|FILE...",
            help="Human ratings (InspectorRAGet .json), and folders of runs that scored the same answers, "
            "e.g. human_evaluations.json runs/scored",
        ),
    ],
    as_json: Json = False,
) -> None:
    """Measure how well scores agree with people: correlations, agreement among raters, and judges against labels."""
    from turnmark.evaluation.agreement.agreement_tables import describe_agreement
    from turnmark.evaluation.agreement.measurement import measure_agreement
    from turnmark.evaluation.report.output_formats import show_report

    measured = measure_agreement(sources)
    print_result(measured.model_dump(mode="json"), as_json, partial(show_report, describe_agreement(measured)))


def add_report_commands(app: typer.Typer) -> None:
    """Mount `report`, `compare` and `agreement`."""
    app.command(
        "report",
        epilog="Examples: turnmark report runs/NAME   ·   "
        "turnmark report runs/all --markdown results.md --html results.html",
    )(report_command)
    app.command(
        "compare",
        epilog="Examples: turnmark compare runs/bm25 runs/hybrid   ·   "
        "turnmark compare runs/a runs/b runs/c --html abc.html",
    )(compare_command)
    app.command(
        "agreement",
        epilog="Examples: turnmark agreement human_evaluations.json   ·   "
        "turnmark agreement human_evaluations.json runs/gpt-4o-scored",
    )(agreement_command)
