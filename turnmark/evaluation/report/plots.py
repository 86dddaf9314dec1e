"""The templates of pages and plots, and the plot of a table: a dot for each value, and a line for its interval.

Every text passes one filter on its way into a template: control characters are removed, and the rest is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from turnmark.core.untrusted import ellipsize, make_printable, one_line
from turnmark.evaluation.report.tables import ReportRow, Table
from turnmark.evaluation.storage.journal import open_atomic

if TYPE_CHECKING:
    from jinja2 import Template

_MAX_LABEL_CHARACTERS = 48
_LABEL_CHARACTER_WIDTH = 7
"""Width of a character of a label in pixels; a wide character counts as two."""


class Plot:
    """A plot of a run's metrics, drawn as in its report. A notebook shows it.

    Attributes:
        svg: the drawing as SVG, which loads nothing.
    """

    def __init__(self, title: str, table: Table) -> None:
        self._title = title
        labels = [ellipsize(one_line(row.full or row.cells[0]), _MAX_LABEL_CHARACTERS) for row in table.rows]
        self.svg = page_template("plot.svg.j2").render(
            title=title,
            rows=list(zip(labels, table.rows, strict=True)),
            on=scale_of(table.rows),
            places=[place for place, column in enumerate(table.columns) if place and column.name != "n"][:2],
            left=40 + _LABEL_CHARACTER_WIDTH * max(map(cell_len, labels), default=0),
        )

    def save(self, path: str | Path) -> None:
        """Write the drawing to a file, e.g. `means.svg`."""
        with open_atomic(Path(path)) as file:
            file.write(self.svg)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Plot({self._title!r})"


def load_template(name: str, filters: Mapping[str, Callable[..., Any]], **options: Any) -> Template:
    """Load a template of this folder; the options are those of jinja2's `Environment`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    engine = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **options,
    )
    engine.filters |= filters
    return engine.get_template(name)


def page_template(name: str) -> Template:
    """Load the template of a page or a plot; its filter `line` puts a text on one line."""
    return load_template(name, {"line": one_line, "scale": scale_of}, autoescape=True, finalize=_printable_value)


def _printable_value(value: Any) -> Any:
    """Remove control characters from a value that the template writes; called before escaping."""
    from markupsafe import Markup

    return make_printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


_EDGE_PERCENT = 2.0  # percent of the width left free on each side, so that a dot at the end is complete
_SCALE_STEPS = 4  # between the numbers of a scale


@dataclass(frozen=True)
class PlotScale:
    """The horizontal scale of a table's dots, with round numbers as ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def at(self, value: float) -> str:
        """Return the position of a value, in percent of the width."""
        share = min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))
        return f"{_EDGE_PERCENT + share * (100 - 2 * _EDGE_PERCENT):.2f}%"


def round_scale(values: Iterable[float]) -> PlotScale:
    """Return a scale with round ends that contains the values."""
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if high - low < 1e-9:
        low, high = low - 0.05, high + 0.05
    smallest = (high - low) / _SCALE_STEPS
    power = 10.0 ** math.floor(math.log10(smallest))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= smallest * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return PlotScale(first * step, last * step, tuple(round(index * step, 10) for index in range(first, last + 1)))


def scale_of(rows: Sequence[ReportRow]) -> PlotScale | None:
    """Return the scale of the rows' marks, containing 0 if they are differences, or None if there are no marks."""
    marks = [row.mark for row in rows if row.mark is not None]
    if not marks:
        return None
    values: list[float] = []
    if any(mark.kind in ("better", "worse", "unsure") for mark in marks):
        values.append(0.0)
    for mark in marks:
        values.append(mark.value)
        values += mark.interval or ()
    return round_scale(values)
