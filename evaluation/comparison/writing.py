"""A comparison as Markdown, as one page, and on the terminal. Every text of the data stays text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from turnmark.evaluation.comparison import showing
from turnmark.evaluation.comparison.compare import Changed, Comparison, Pipeline, Pipelines, Side
from turnmark.evaluation.comparison.figures import LEVEL, Change, Compared
from turnmark.evaluation.comparison.showing import change_of
from turnmark.evaluation.metric_info import metric_info
from turnmark.evaluation.report import plots, tables
from turnmark.evaluation.report.figures import Panel, Plot, PlotRow
from turnmark.evaluation.report.page import MARKER, markup, own_file, page_template, policy

if TYPE_CHECKING:
    from rich.console import Console

_METRICS = 3
_VISIBLE, _FOLDED = 600, 4_000  # characters of a text: at once, and when it is unfolded


def show(comparison: Comparison | Pipelines, console: Console) -> None:
    """Print a comparison. Works at 80 columns."""
    from turnmark.evaluation.report.rendering import WIDE, show_document

    show_document(showing.document(comparison, 2 if console.width >= WIDE else 1), console)


def markdown(comparison: Comparison | Pipelines) -> str:
    """A whole file; ends with a line end."""
    from turnmark.evaluation.report.rendering import markdown_document

    return markdown_document(showing.document(comparison, _METRICS))


# --- the page --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """A text of a sample: what is shown at once, what is folded away, how many characters are left out."""

    head: str
    folded: str = ""
    left_out: int = 0


@dataclass(frozen=True)
class _ChangedRow:
    """A sample that changed, as the page shows it."""

    sample: Changed
    letters: tuple[str, str]
    change: str
    values: str
    question: Cut
    before: Cut
    after: Cut


def cut(text: str) -> Cut:
    """A text in two pieces of bearable length."""
    if len(text) <= _VISIBLE:
        return Cut(text)
    return Cut(text[:_VISIBLE] + "…", text[_VISIBLE:_FOLDED], max(0, len(text) - _FOLDED))


def page(comparison: Comparison | Pipelines) -> str:
    """One self-contained page that asks no network and runs no script; its style is that of a report."""
    folder = Path(__file__).parent
    css = own_file("page.css") + own_file("samples.css") + (folder / "compare.css").read_text(encoding="utf-8")
    document = showing.document(comparison, _METRICS)
    heading, counts, all_tables, metric = document.title, "", document.tables, ""
    if isinstance(comparison, Comparison):
        heading, counts = showing.headline(comparison)
        all_tables, metric = document.tables[:-1], document.tables[-1].title  # the last one has the samples
    return page_template(folder / "page.html.j2").render(
        css=markup(css),
        policy=policy(css),
        generator=markup(MARKER),
        title=document.title,
        what=heading,
        counts=counts,
        warnings=document.warnings,
        verdict=document.verdict,
        runs=_sides(comparison),
        plots=drawn(comparison) if isinstance(comparison, Comparison) else (),
        tables=all_tables,
        folded=isinstance(comparison, Comparison),
        metric=metric,
        changed=_changed_rows(comparison) if isinstance(comparison, Comparison) else (),
        notes=document.notes,
    )


def _sides(comparison: Comparison | Pipelines) -> list[tuple[Side | Pipeline, tuple[tuple[str, str], ...]]]:
    """The runs, or pipelines, and what of each is another in some other one."""
    if isinstance(comparison, Pipelines):
        return [(side, tuple(side.specs.items())) for side in comparison.pipelines]
    differing = [(name, values) for name, values in comparison.differs.items() if not name.startswith("inputs.")]
    return [
        (side, tuple((name.removeprefix("specs."), values[index]) for name, values in differing))
        for index, side in enumerate(comparison.runs)
    ]


def _changed_rows(comparison: Comparison) -> list[_ChangedRow]:
    return [
        _ChangedRow(
            sample=sample,
            letters=(comparison.runs[0].letter, sample.run),
            change=showing.signed(sample.metric, sample.difference),
            values=" to ".join(tables.figure(sample.metric, value) for value in sample.values),
            question=cut(sample.query or "-"),
            before=cut(sample.answers[0] or "-"),
            after=cut(sample.answers[1] or "-"),
        )
        for sample in comparison.changed
    ]


# --- its plots -------------------------------------------------------------------------------------------------------

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
        rows.append(PlotRow(name, "plain", plots.points(means, on), (*figures, _ranked(comparison, name))))
    columns = (*letters, "best first")
    lines = ("x > y: a corrected test tells the two apart; x ≈ y: it does not",)
    return Plot(
        "All runs", (Panel("means over the samples in common", tuple(rows), plots.axis(on), columns),), lines=lines
    )


def _ranked(comparison: Comparison, name: str) -> str:
    places = comparison.ranking[name]
    return showing.order([place.run for place in places], places)


def _differences(comparison: Comparison) -> Plot:
    names = _names(comparison)
    first, *other_runs = comparison.runs
    changes = {
        side.letter: [
            (name, change) for name in names if (change := change_of(comparison.metrics[name], side.letter)) is not None
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
            if lead in metrics and (change := change_of(metrics[lead], letter)) is not None
        }
        if changes:
            by_dimension[dimension] = changes
    return by_dimension


def _scale(changes: Iterable[Change]) -> plots.Scale:
    return plots.scale([0.0, *(end for change in changes for end in (change.difference, *change.ci95))], 3)


def _row(label: str, name: str, change: Change, on: plots.Scale, p: float | None) -> PlotRow:
    sure = p is not None and p < LEVEL
    kind = ("better" if change.difference > 0 else "worse") if sure else "faint"
    drawing = plots.interval(change.difference, change.ci95, on, kind)
    cells = (showing.signed(name, change.difference), showing.interval(name, change), showing.probability(p))
    return PlotRow(label, "plain", drawing, cells)
