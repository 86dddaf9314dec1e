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
from turnmark.evaluation.report.page import Cut, cut, markup, page_template
from turnmark.evaluation.report.tables import Table

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


def document(comparison: Comparison | Pipelines, metrics: int = _METRICS) -> Document:
    """A comparison of runs or of pipelines as it is shown.

    Args:
        metrics: how many metrics the breakdowns of runs have.
    """
    if isinstance(comparison, Pipelines):
        tables = (*pipelines.pipeline_tables(comparison), *pipelines.parts_tables(comparison))
        return Document(
            pipelines.title(comparison), pipelines.warnings(comparison), (), tables, pipelines.notes(comparison)
        )
    return Document(
        showing.title(comparison),
        comparison.warnings,
        showing.verdict(comparison),
        showing.everything(comparison, metrics),
        comparison.notes,
        showing.changed(comparison),
        [_changed_row(comparison, sample) for sample in comparison.changed],
    )


def show(comparison: Comparison | Pipelines, console: Console) -> None:
    """Print a comparison. Works at 80 columns."""
    from turnmark.evaluation.report.terminal import draw, plain

    doc = document(comparison, 2 if console.width >= _WIDE else 1)
    for line in (*doc.warnings, doc.title, *doc.verdict):
        console.print(plain(line, "bold"))
    for table in (*doc.tables, *filter(None, [doc.changed])):
        draw(table, console)
    for note in doc.notes:
        console.print(plain(f"- {note}"))


def markdown(comparison: Comparison | Pipelines) -> str:
    """A whole file; ends with a line end."""
    return "\n".join((*_markdown(document(comparison)), MARKDOWN_MARKER, ""))


def _markdown(doc: Document) -> Iterator[str]:
    for first in doc.warnings:
        yield from (f"**{escaped(first)}**", "")
    yield from (f"## {escaped(doc.title)}", "")
    for line in doc.verdict:
        yield from (f"**{escaped(line)}**", "")
    for table in (*doc.tables, *filter(None, [doc.changed])):
        yield from markdown_table(table)
    if doc.notes:
        yield from ("### Notes", "", *(f"- {escaped(note)}" for note in doc.notes), "")


def page(comparison: Comparison | Pipelines) -> str:
    """One self-contained page that asks no network and runs no script; its style is that of a report."""
    css = "".join(
        Path(folder, name).read_text(encoding="utf-8")
        for folder, name in ((_REPORT, "page.css"), (_REPORT, "samples.css"), (Path(__file__).parent, "compare.css"))
    )
    doc = document(comparison)
    heading, counts = (doc.title, "") if isinstance(comparison, Pipelines) else _headline(comparison)
    return _template().render(
        css=markup(css),
        digest=base64.b64encode(hashlib.sha256(css.encode("utf-8")).digest()).decode("ascii"),
        generator=markup(PAGE_MARKER),
        title=doc.title,
        what=heading,
        counts=counts,
        warnings=doc.warnings,
        verdict=doc.verdict,
        runs=_sides(comparison),
        plots=() if isinstance(comparison, Pipelines) else drawn(comparison),
        tables=doc.tables,
        folded=not isinstance(comparison, Pipelines),
        metric="" if doc.changed is None else doc.changed.title,
        changed=doc.samples,
        notes=doc.notes,
    )


def _headline(comparison: Comparison) -> tuple[str, str]:
    """What was run, and on what."""
    setting = ", ".join(dict.fromkeys(side.setting for side in comparison.runs if side.setting))
    unit = "queries" if comparison.task == "retrieval" else "samples"
    data = "demo data" if comparison.data.demo else comparison.data.name
    heading = f"{comparison.benchmark} {comparison.task}" + (f", {setting}" if setting else "")
    return heading, f"on {data}: {comparison.n} {unit} in common, {comparison.clusters} {showing.clusters(comparison)}"


def _sides(comparison: Comparison | Pipelines) -> list[tuple[Side | Pipeline, tuple[tuple[str, str], ...]]]:
    """The runs, or pipelines, and what to say of each."""
    if isinstance(comparison, Pipelines):
        return [(side, tuple(side.specs.items())) for side in comparison.pipelines]
    return [(side, _differing(comparison, at)) for at, side in enumerate(comparison.runs)]


def _differing(comparison: Comparison, at: int) -> tuple[tuple[str, str], ...]:
    """What of a run's system is another in some other run."""
    return tuple(
        (name.removeprefix("specs."), values[at])
        for name, values in comparison.differs.items()
        if not name.startswith("inputs.")
    )


def _changed_row(comparison: Comparison, sample: Changed) -> _Row:
    return _Row(
        id=sample.id,
        domain=sample.domain or "-",
        letters=(comparison.runs[0].letter, sample.run),
        better=sample.difference > 0,
        change=showing.signed(sample.metric, sample.difference),
        values=" to ".join(tables.figure(sample.metric, value) for value in sample.values),
        question=cut(sample.query or "-"),
        before=cut(sample.answers[0] or "-"),
        after=cut(sample.answers[1] or "-"),
    )


@cache
def _template() -> Template:
    return page_template(Path(__file__).with_name("page.html.j2"))


MOST = 8
"""Runs that have a panel of differences, and a colour."""
_ASIDE = ("[unicode]", "[-lead]")


def drawn(comparison: Comparison) -> tuple[Plot, ...]:
    """The plots that there is something for."""
    panels_drawn = (_ranking(comparison), _differences(comparison), _breakdowns(comparison))
    return tuple(plot for plot in panels_drawn if plot.panels)


def _fraction(name: str, means: Iterable[float | None]) -> bool:
    return bool(metric_info(name).direction) and all(mean is None or -1 <= mean <= 1 for mean in means)


def _names(comparison: Comparison) -> list[str]:
    """The metrics that are drawn, the most telling first."""
    names = [
        name
        for name, metric in comparison.metrics.items()
        if metric.changes and _fraction(name, metric.means) and not name.endswith(_ASIDE)
    ]
    return sorted(names, key=lambda name: comparison.lead.index(name) if name in comparison.lead else len(names))


# --- every run -------------------------------------------------------------------------------------------------------


def _ranking(comparison: Comparison) -> Plot:
    """Each metric with a dot for every run, and the order."""
    names = [name for name in _names(comparison) if name in comparison.ranking]
    if not names or len(comparison.runs) > MOST:
        return Plot("All runs")
    means_known = [mean for name in names for mean in comparison.metrics[name].means if mean is not None]
    on = plots.scale([*means_known, 0.0], 4)
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
    first, *other_runs = comparison.runs
    changes = {
        side.letter: [
            (name, change) for name in names if (change := _of(comparison.metrics[name], side.letter)) is not None
        ]
        for side in other_runs[:MOST]
    }
    on = _scale(change for named_changes in changes.values() for _, change in named_changes)
    panels = tuple(
        Panel(
            f"{letter} - {first.letter}",
            tuple(_row(name, name, change, on, change.p_holm) for name, change in named_changes),
            plots.axis(on),
            ("difference", "95% interval", "p"),
        )
        for letter, named_changes in changes.items()
        if named_changes
    )
    clusters = showing.clusters(comparison)
    lines = (
        f"difference of means with its 95% interval over {clusters}; p: permutation test, after Holm's correction",
        f"full dot: p below {LEVEL:g}; green is better than {first.letter}, red is worse",
    )
    return Plot("Differences", panels, lines=lines)


def _breakdowns(comparison: Comparison) -> Plot:
    """The first of the metrics that stand for all, by every dimension and value."""
    first, *other_runs = comparison.runs
    names = _names(comparison)
    lead = next((name for name in comparison.lead if name in names), None)
    if lead is None:
        return Plot("By what is asked")
    by_run = {side.letter: _parts(comparison.breakdowns, lead, side.letter) for side in other_runs[:MOST]}
    on = _scale(change for parts in by_run.values() for values in parts.values() for change in values.values())
    panels = []
    for letter, parts in by_run.items():
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
    by_dimension: dict[str, dict[str, Change]] = {}
    for dimension, values in breakdowns.items():
        changes = {
            value: change
            for value, metrics in values.items()
            if lead in metrics and (change := _of(metrics[lead], letter)) is not None
        }
        if changes:
            by_dimension[dimension] = changes
    return by_dimension


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
