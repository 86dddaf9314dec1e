"""What a comparison looks like: every run's figures on one scale, and differences with their intervals.

A full dot, green or red, is a difference that a corrected test tells from nothing; a ring is none. Metrics of which
more is neither better nor worse, those that are no fractions, and variants that say little more are in the tables only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from turnmark.evaluation.comparing import showing
from turnmark.evaluation.comparing.compare import Comparison
from turnmark.evaluation.comparing.figures import LEVEL, NO_BETTER, Change, Compared
from turnmark.evaluation.report import plots, tables
from turnmark.evaluation.report.figures import Panel, Plot, PlotRow

MOST = 8
"""Runs that have a panel of differences, and a colour."""
_ASIDE = ("[unicode]", "[-lead]")


def drawn(comparison: Comparison) -> tuple[Plot, ...]:
    """The plots that there is something for."""
    made = (_ranking(comparison), _differences(comparison), _breakdowns(comparison))
    return tuple(plot for plot in made if plot.panels)


def _fraction(name: str, means: Iterable[float | None]) -> bool:
    return not NO_BETTER & {name, name.partition("[")[0]} and all(mean is None or -1 <= mean <= 1 for mean in means)


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
