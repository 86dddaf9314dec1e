"""A comparison as Markdown, as one page, and on the terminal. Every text of the data stays text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from turnmark.evaluation import report
from turnmark.evaluation.comparison import pipelines, showing
from turnmark.evaluation.comparison.compare import Changed, Comparison, Side
from turnmark.evaluation.comparison.figures import LEVEL, Change, Compared
from turnmark.evaluation.comparison.pipelines import Pipeline, Pipelines
from turnmark.evaluation.metric_info import metric_info
from turnmark.evaluation.report import plots, tables
from turnmark.evaluation.report.figures import Panel, Plot, PlotRow
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
        [_changed_row(found, one) for one in found.changed],
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


def _changed_row(comparison: Comparison, one: Changed) -> _Row:
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


MOST = 8
"""Runs that have a panel of differences, and a colour."""
_ASIDE = ("[unicode]", "[-lead]")


def drawn(comparison: Comparison) -> tuple[Plot, ...]:
    """The plots that there is something for."""
    made = (_ranking(comparison), _differences(comparison), _breakdowns(comparison))
    return tuple(plot for plot in made if plot.panels)


def _fraction(name: str, means: Iterable[float | None]) -> bool:
    return bool(metric_info(name).direction) and all(mean is None or -1 <= mean <= 1 for mean in means)


def _names(comparison: Comparison) -> list[str]:
    """The metrics that are drawn, the most telling first."""
    there = [
        name
        for name, metric in comparison.metrics.items()
        if metric.changes and _fraction(name, metric.means) and not name.endswith(_ASIDE)
    ]
    return sorted(there, key=lambda name: comparison.lead.index(name) if name in comparison.lead else len(there))


# --- every run -------------------------------------------------------------------------------------------------------


def _ranking(comparison: Comparison) -> Plot:
    """Each metric with a dot for every run, and the order."""
    names = [name for name in _names(comparison) if name in comparison.ranking]
    if not names or len(comparison.runs) > MOST:
        return Plot("All runs")
    known = [mean for name in names for mean in comparison.metrics[name].means if mean is not None]
    on = plots.scale([*known, 0.0], 4)
    letters = [side.letter for side in comparison.runs] if len(comparison.runs) <= 4 else []
    rows = []
    for name in names:
        means = comparison.metrics[name].means
        figures = [tables.figure(name, mean) for mean in means][: len(letters)]
        rows.append(PlotRow(name, "plain", plots.points(means, on), (*figures, _order(comparison, name))))
    columns = (*letters, "best first")
    lines = ("x > y: a corrected test tells the two apart; x ≈ y: it does not",)
    return Plot(
        "All runs", (Panel("means over the samples in common", tuple(rows), plots.axis(on), columns),), lines=lines
    )


def _order(comparison: Comparison, name: str) -> str:
    signs = {None: "", True: " > ", False: " ≈ "}
    return "".join(f"{signs[place.told_apart]}{place.run}" for place in comparison.ranking[name])


# --- differences -----------------------------------------------------------------------------------------------------


def _differences(comparison: Comparison) -> Plot:
    names = _names(comparison)
    first, *others = comparison.runs
    changes = {
        side.letter: [(name, one) for name in names if (one := _of(comparison.metrics[name], side.letter)) is not None]
        for side in others[:MOST]
    }
    on = _scale(change for found in changes.values() for _, change in found)
    panels = tuple(
        Panel(f"{letter} - {first.letter}", tuple(_row(name, name, one, on, one.p_holm) for name, one in found),
              plots.axis(on), ("difference", "95% interval", "p"))
        for letter, found in changes.items() if found
    )  # fmt: skip
    clusters = showing.clusters(comparison)
    lines = (
        f"difference of means with its 95% interval over {clusters}; p: permutation test, after Holm's correction",
        f"full dot: p below {LEVEL:g}; green is better than {first.letter}, red is worse",
    )
    return Plot("Differences", panels, lines=lines)


def _breakdowns(comparison: Comparison) -> Plot:
    """The first of the metrics that stand for all, by every dimension and value."""
    first, *others = comparison.runs
    names = _names(comparison)
    lead = next((name for name in comparison.lead if name in names), None)
    if lead is None:
        return Plot("By what is asked")
    found = {side.letter: _parts(comparison.breakdowns, lead, side.letter) for side in others[:MOST]}
    on = _scale(change for parts in found.values() for values in parts.values() for change in values.values())
    panels = []
    for letter, parts in found.items():
        rows: list[PlotRow] = []
        for dimension, values in parts.items():
            rows.append(PlotRow(dimension, "group"))
            rows += [_row(value, lead, change, on, change.p) for value, change in values.items()]
        if rows:
            columns = ("difference", "95% interval", "p")
            panels.append(Panel(f"{letter} - {first.letter}", tuple(rows), plots.axis(on), columns))
    lines = (f"{lead}; p is not corrected here: of many, some are small by chance",)
    return Plot("By what is asked", tuple(panels), lines=lines)


def _parts(
    breakdowns: Mapping[str, Mapping[str, Mapping[str, Compared]]], lead: str, letter: str
) -> dict[str, dict[str, Change]]:
    """Dimension -> value -> the change of a run, where a dimension has several values."""
    made: dict[str, dict[str, Change]] = {}
    for dimension, values in breakdowns.items():
        found = {
            value: change
            for value, metrics in values.items()
            if lead in metrics and (change := _of(metrics[lead], letter)) is not None
        }
        if found:
            made[dimension] = found
    return made


def _of(metric: Compared, letter: str) -> Change | None:
    return next((change for change in metric.changes if change.run == letter), None)


def _scale(changes: Iterable[Change]) -> plots.Scale:
    return plots.scale([0.0, *_ends(changes)], 3)


def _ends(changes: Iterable[Change]) -> Iterator[float]:
    for change in changes:
        yield from (change.difference, *change.ci95)


def _row(label: str, name: str, change: Change, on: plots.Scale, p: float | None) -> PlotRow:
    sure = p is not None and p < LEVEL
    kind = ("better" if change.difference > 0 else "worse") if sure else "faint"
    drawing = plots.interval(change.difference, change.ci95, on, kind)
    return PlotRow(label, "plain", drawing, tuple(_cells(name, change, p)))


def _cells(name: str, change: Change, p: float | None) -> Sequence[str]:
    return showing.signed(name, change.difference), showing.interval(name, change), showing.probability(p)
