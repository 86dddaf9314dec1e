"""A comparison as Markdown, as one page, and on the terminal. Every text of the data stays text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation import report
from evaluation.comparing import showing
from evaluation.comparing.compare import Changed, Comparison
from evaluation.report import tables
from evaluation.report.markdown import MARKER as MARKDOWN_MARKER
from evaluation.report.markdown import escaped
from evaluation.report.markdown import table_lines as markdown_table
from evaluation.report.page import MARKER as PAGE_MARKER
from evaluation.report.page import Cut, cut
from evaluation.report.template import markup, page_template

if TYPE_CHECKING:
    from jinja2 import Template
    from rich.console import Console

_WIDE = 110
_METRICS = 3


@dataclass(frozen=True)
class _Row:
    """A sample as a row of the page."""

    id: str
    domain: str
    runs: str
    metric: str
    change: str
    values: str
    question: Cut
    before: Cut
    after: Cut


def show(comparison: Comparison, console: Console) -> None:
    """Print a comparison. Works at 80 columns."""
    from evaluation.report.terminal import draw, plain

    for first in comparison.warnings:
        console.print(plain(first, "bold"))
    console.print(plain(showing.title(comparison), "bold"))
    for line in showing.verdict(comparison):
        console.print(plain(line, "bold"))
    most = 2 if console.width >= _WIDE else 1
    for table in (*showing.everything(comparison, most), showing.changed(comparison)):
        draw(table, console)
    for note in comparison.notes:
        console.print(plain(f"- {note}"))


def markdown(comparison: Comparison) -> str:
    """A whole file; ends with a line end."""
    return "\n".join((*_markdown(comparison), MARKDOWN_MARKER, ""))


def _markdown(comparison: Comparison) -> Iterator[str]:
    for first in comparison.warnings:
        yield from (f"**{escaped(first)}**", "")
    yield from (f"## {escaped(showing.title(comparison))}", "")
    for line in showing.verdict(comparison):
        yield from (f"**{escaped(line)}**", "")
    for table in (*showing.everything(comparison, _METRICS), showing.changed(comparison)):
        yield from markdown_table(table)
    if comparison.notes:
        yield from ("### Notes", "", *(f"- {escaped(note)}" for note in comparison.notes), "")


def page(comparison: Comparison) -> str:
    """One self-contained page that asks no network and runs no script; its style is that of a report."""
    css = Path(report.__path__[0], "page.css").read_text(encoding="utf-8")
    return _template().render(
        css=markup(css),
        digest=base64.b64encode(hashlib.sha256(css.encode("utf-8")).digest()).decode("ascii"),
        generator=markup(PAGE_MARKER),
        title=showing.title(comparison),
        warnings=comparison.warnings,
        verdict=showing.verdict(comparison),
        tables=showing.everything(comparison, _METRICS),
        changed=[_row(comparison, one) for one in comparison.changed],
        notes=comparison.notes,
    )


def _row(comparison: Comparison, one: Changed) -> _Row:
    return _Row(
        id=one.id,
        domain=one.domain or "-",
        runs=f"{comparison.runs[0].letter} to {one.run}",
        metric=one.metric,
        change=showing.signed(one.metric, one.difference),
        values=" to ".join(tables.figure(one.metric, value) for value in one.values),
        question=cut(one.query or "-"),
        before=cut(one.answers[0] or "-"),
        after=cut(one.answers[1] or "-"),
    )


@cache
def _template() -> Template:
    return page_template(Path(__file__).with_name("page.html.j2"))
