"""`report.html`: one file that holds everything it shows, asks no network and runs no script but its own.

First what was run, its figures beside published ones, and plots; then the samples, which `page.js` lets a reader
filter, sort and search. Every text of the data goes through one gate on its way into the page: control characters go,
and what is left is text, never markup. Of the samples no more is held than the page shows of them.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnmark.corpora.console import inert
from turnmark.corpora.text import printable
from turnmark.evaluation.journal import written_whole
from turnmark.evaluation.records import Summary
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.figures import Headline, Plot, figures, headlines
from turnmark.evaluation.report.overview import named, side_by_side, warnings
from turnmark.evaluation.report.page_samples import samples_json
from turnmark.evaluation.report.paper_tables import paper_tables
from turnmark.evaluation.report.stored import Stored, StoredRun, read_run, tally
from turnmark.evaluation.report.tables import Table

if TYPE_CHECKING:
    from jinja2 import Template

MARKER = '<meta name="generator" content="turnmark report">'
"""Stands among the first lines of every page."""

BYTES = 1_950_000
"""What a page fits into: the texts of its samples are cut until it does."""
_OPENING = '<script type="application/json" id="data">'
_BREAKDOWN_METRICS = 6


@dataclass(frozen=True)
class Section:
    """A run as the page shows it, apart from its samples."""

    heading: str
    data: str
    counts: tuple[str, ...]
    about: tuple[tuple[str, str], ...]
    reasons: tuple[str, ...]
    tiles: tuple[Headline, ...]
    paper: Table | None
    plots: tuple[Plot, ...]
    folded: tuple[tuple[str, tuple[Table, ...]], ...]
    notes: tuple[str, ...]
    run: str


def write_page(run: Path) -> Path:
    """Write `report.html` into the folder of a run, or of `eval all`; a page that was there is replaced.

    Raises:
        RequestError: the folder holds no finished run.
    """
    return write_html([read_run(run)], run / "report.html")


def write_html(stored: Sequence[Stored], path: Path) -> Path:
    """Write one page about the runs of these folders, a section each. Readers see the old page or the new one."""
    css, script = own_file("page.css") + own_file("samples.css"), own_file("page.js")
    runs = [run for folder in stored for run in folder.runs]
    names = [name for name, _ in named(stored)]
    page = page_template(Path(__file__).with_name("page.html.j2")).render(
        css=markup(css),
        script=markup(script),
        policy=policy(css, script),
        generator=markup(MARKER),
        title=tables.headline(runs[0].summary) if len(runs) == 1 else f"{len(runs)} runs",
        warnings=warnings(stored),
        overview=side_by_side(stored),
        sections=map(_section, runs),
        samples=any((run.path / "predictions.jsonl").is_file() for run in runs),
        opening=markup(_OPENING),
    )
    # No text of the data can look like this: there, "<" is escaped.
    head, tail = page.split(_OPENING)
    limit = BYTES - len(page.encode("utf-8"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as file:
        file.writelines((head, _OPENING, samples_json(list(zip(names, runs, strict=True)), limit=limit), tail))
    return path


def policy(css: str, script: str = "") -> str:
    """The page's Content-Security-Policy: this style, this script if any, and nothing from anywhere."""
    sources = {"style-src": css, **({"script-src": script} if script else {})}
    hashes = [
        f"{name} 'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'; "
        for name, text in sources.items()
    ]
    return f"default-src 'none'; {''.join(hashes)}base-uri 'none'; form-action 'none'"


def own_file(name: str) -> str:
    """A text file beside this one."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


# --- what the page shows ---------------------------------------------------------------------------------------------


def _section(run: StoredRun) -> Section:
    summary = run.summary
    setting = f", {summary.setting}" if summary.setting else ""
    counts = [tables.noun(summary, summary.n), f"{summary.failed} failed" if summary.failed else "none failed"]
    counts += [f"{summary.skipped} skipped"] if summary.skipped else []
    first, *more_paper = paper_tables([("this run", summary)]) or (None,)
    return Section(
        heading=f"{summary.benchmark} {summary.task}{setting}",
        data=tables.data_name(summary),
        counts=tuple(counts),
        about=tuple((role, spec) for role, spec in summary.specs.items() if spec),
        reasons=tuple(tables.reasons(tally(run.path))),
        tiles=headlines(summary),
        paper=first,
        plots=figures(run),
        folded=tuple(_folded(summary, [table for table in more_paper if table])),
        notes=tables.notes(summary),
        run=str(run.path),
    )


def _folded(summary: Summary, paper: Sequence[Table]) -> Iterator[tuple[str, tuple[Table, ...]]]:
    """Every figure, for who wants to look one up."""
    yield "All means", (tables.means(summary),)
    breakdowns = tables.breakdowns(summary, tables.chosen(summary.metrics, _BREAKDOWN_METRICS))
    if breakdowns.rows:
        yield "All breakdowns", (breakdowns,)
    if paper:
        yield "More of the paper's tables, with this run in them", tuple(paper)
    if summary.judging:
        yield "Judges", (tables.judges(summary),)
    spent = tables.usage(summary)
    if spent.rows or spent.lines:
        yield "Calls, tokens and seconds", (spent,)


# --- the gate that pages are written through: everything is escaped, and control characters go first ------------------


def markup(text: str) -> Any:
    """A text of ours that is written as it stands."""
    from markupsafe import Markup

    return Markup(text)


@cache
def page_template(path: Path) -> Template:
    """The template in a file. It has the macros of `macros.html.j2`.

    Its filters: `line`, a text on one line; `name`, one that may be broken before a bracket; `markup`.
    """
    from jinja2 import Environment, StrictUndefined

    engine = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_inert,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    engine.filters["line"] = inert
    engine.filters["name"] = _name
    engine.filters["markup"] = markup
    return engine.from_string(own_file("macros.html.j2") + path.read_text(encoding="utf-8"))


def _name(value: object) -> Any:
    from markupsafe import Markup, escape

    return Markup("<wbr>[").join(escape(part) for part in inert(value).split("["))


def _inert(value: Any) -> Any:
    """Whatever a template writes out comes through here, before it is escaped."""
    from markupsafe import Markup

    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
