"""A comparison as Markdown, as one page, and on the terminal. Every text of the data stays text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from turnmark.evaluation import report
from turnmark.evaluation.comparing import pipelines, showing
from turnmark.evaluation.comparing.compare import Changed, Comparison, Side
from turnmark.evaluation.comparing.drawing import drawn
from turnmark.evaluation.comparing.pipelines import Pipeline, Pipelines
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.markdown import MARKER as MARKDOWN_MARKER
from turnmark.evaluation.report.markdown import escaped
from turnmark.evaluation.report.markdown import table_lines as markdown_table
from turnmark.evaluation.report.page import MARKER as PAGE_MARKER
from turnmark.evaluation.report.page import Cut, cut
from turnmark.evaluation.report.tables import Table
from turnmark.evaluation.report.template import markup, page_template

if TYPE_CHECKING:
    from jinja2 import Template
    from rich.console import Console

_REPORT = Path(report.__path__[0])
_WIDE = 110
_METRICS = 3


@dataclass(frozen=True)
class _Row:
    """A sample that changed, as the page shows it."""

    id: str
    domain: str
    letters: tuple[str, str]
    change: str
    better: bool
    values: str
    question: Cut
    before: Cut
    after: Cut


@dataclass(frozen=True)
class Document:
    """What is written down, whether of runs or of whole pipelines."""

    title: str
    warnings: Sequence[str]
    verdict: Sequence[str]
    tables: Sequence[Table]
    notes: Sequence[str]
    changed: Table | None = None
    samples: Sequence[_Row] = ()


def document(found: Comparison | Pipelines, metrics: int = _METRICS) -> Document:
    """A comparison of runs or of pipelines as it is shown.

    Args:
        metrics: how many metrics the breakdowns of runs have.
    """
    if isinstance(found, Pipelines):
        tables = (*pipelines.pipeline_tables(found), *pipelines.parts_tables(found))
        return Document(pipelines.title(found), pipelines.warnings(found), (), tables, pipelines.notes(found))
    return Document(
        showing.title(found),
        found.warnings,
        showing.verdict(found),
        showing.everything(found, metrics),
        found.notes,
        showing.changed(found),
        [_row(found, one) for one in found.changed],
    )


def show(found: Comparison | Pipelines, console: Console) -> None:
    """Print a comparison. Works at 80 columns."""
    from turnmark.evaluation.report.terminal import draw, plain

    made = document(found, 2 if console.width >= _WIDE else 1)
    for line in (*made.warnings, made.title, *made.verdict):
        console.print(plain(line, "bold"))
    for table in (*made.tables, *filter(None, [made.changed])):
        draw(table, console)
    for note in made.notes:
        console.print(plain(f"- {note}"))


def markdown(found: Comparison | Pipelines) -> str:
    """A whole file; ends with a line end."""
    return "\n".join((*_markdown(document(found)), MARKDOWN_MARKER, ""))


def _markdown(made: Document) -> Iterator[str]:
    for first in made.warnings:
        yield from (f"**{escaped(first)}**", "")
    yield from (f"## {escaped(made.title)}", "")
    for line in made.verdict:
        yield from (f"**{escaped(line)}**", "")
    for table in (*made.tables, *filter(None, [made.changed])):
        yield from markdown_table(table)
    if made.notes:
        yield from ("### Notes", "", *(f"- {escaped(note)}" for note in made.notes), "")


def page(found: Comparison | Pipelines) -> str:
    """One self-contained page that asks no network and runs no script; its style is that of a report."""
    css = "".join(
        Path(folder, name).read_text(encoding="utf-8")
        for folder, name in ((_REPORT, "page.css"), (_REPORT, "samples.css"), (Path(__file__).parent, "compare.css"))
    )
    made = document(found)
    what, counts = (made.title, "") if isinstance(found, Pipelines) else _headline(found)
    return _template().render(
        css=markup(css),
        digest=base64.b64encode(hashlib.sha256(css.encode("utf-8")).digest()).decode("ascii"),
        generator=markup(PAGE_MARKER),
        title=made.title,
        what=what,
        counts=counts,
        warnings=made.warnings,
        verdict=made.verdict,
        runs=_sides(found),
        plots=() if isinstance(found, Pipelines) else drawn(found),
        tables=made.tables,
        folded=not isinstance(found, Pipelines),
        metric="" if made.changed is None else made.changed.title,
        changed=made.samples,
        notes=made.notes,
    )


def _headline(comparison: Comparison) -> tuple[str, str]:
    """What was run, and on what."""
    setting = ", ".join(dict.fromkeys(side.setting for side in comparison.runs if side.setting))
    unit = "queries" if comparison.task == "retrieval" else "samples"
    where = "demo data" if comparison.data.demo else comparison.data.name
    what = f"{comparison.benchmark} {comparison.task}" + (f", {setting}" if setting else "")
    return what, f"on {where}: {comparison.n} {unit} in common, {comparison.clusters} {showing.clusters(comparison)}"


def _sides(found: Comparison | Pipelines) -> list[tuple[Side | Pipeline, tuple[tuple[str, str], ...]]]:
    """The runs, or pipelines, and what to say of each."""
    if isinstance(found, Pipelines):
        return [(side, tuple(side.specs.items())) for side in found.pipelines]
    return [(side, _differing(found, at)) for at, side in enumerate(found.runs)]


def _differing(comparison: Comparison, at: int) -> tuple[tuple[str, str], ...]:
    """What of a run's system is another in some other run."""
    return tuple(
        (name.removeprefix("specs."), values[at])
        for name, values in comparison.differs.items()
        if not name.startswith("inputs.")
    )


def _row(comparison: Comparison, one: Changed) -> _Row:
    return _Row(
        id=one.id,
        domain=one.domain or "-",
        letters=(comparison.runs[0].letter, one.run),
        better=one.difference > 0,
        change=showing.signed(one.metric, one.difference),
        values=" to ".join(tables.figure(one.metric, value) for value in one.values),
        question=cut(one.query or "-"),
        before=cut(one.answers[0] or "-"),
        after=cut(one.answers[1] or "-"),
    )


@cache
def _template() -> Template:
    return page_template(Path(__file__).with_name("page.html.j2"))
