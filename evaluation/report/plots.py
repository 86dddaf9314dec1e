"""Plots as SVG, made of plain numbers: figures with their intervals, lines over k, how values spread.

Every function gives markup that stands as it is in a page whose style and script are fixed by hash: no style of its
own, no colour (`samples.css` has those by class), no font, nothing that is fetched. Texts are escaped here. A plot of
one row stretches with its column, so that its letters and dots keep their size on any screen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from turnmark.corpora.console import inert

_EDGE = 2.0  # per cent of the width left free at either side, so that a dot at the end is whole
_ROW = 20  # pixels, of a row
_WIDTH, _HEIGHT = 480, 220  # of a plot with two axes
_LEFT_EDGE, _RIGHT_EDGE, _TOP, _BOTTOM = 34, 96, 12, 24


@dataclass(frozen=True)
class Scale:
    """From the lowest value that is drawn to the highest, with round numbers between."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def share(self, value: float) -> float:
        """Where a value lies, 0..1."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


@dataclass(frozen=True)
class Line:
    """A line over the same places as all others of its plot."""

    name: str
    values: tuple[float | None, ...]
    intervals: tuple[tuple[float, float] | None, ...] = ()
    kind: str = "ours"


def scale(values: Iterable[float], steps: int = 5, zero: bool = False) -> Scale:
    """A scale with round ends around the values, and at most so many steps between.

    Args:
        zero: it begins at 0, as that of bars must.
    """
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    low = min(0.0, low) if zero else low
    if high - low < 1e-9:
        low, high = (low - 0.05, high + 0.05) if not zero or low else (0.0, high if high > 1e-9 else 1.0)
    step = _step((high - low) / steps)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return Scale(first * step, last * step, tuple(round(index * step, 10) for index in range(first, last + 1)))


def _step(smallest: float) -> float:
    """The least of 1, 2, 2.5 and 5 times a power of ten that is no less."""
    power = 10.0 ** math.floor(math.log10(smallest))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= smallest * (1 - 1e-9))


def tick(value: float) -> str:
    """A number at an axis: as short as it can be."""
    if abs(value) >= 10_000:
        return f"{value / 1_000:g}k"
    return f"{value:.6g}"


# --- rows ------------------------------------------------------------------------------------------------------------


def interval(value: float | None, bounds: tuple[float, float] | None, on: Scale, kind: str = "plain") -> str:
    """A dot for a value and a line for its interval, on one row.

    Args:
        kind: class of the marks: `ours`, `plain`, `faint` (a ring: not comparable, or told apart by no test), `better`,
            `worse`.
    """
    marks = _grid_of(on)
    if bounds is not None:
        ends = f'x1="{_at(on, bounds[0])}" x2="{_at(on, bounds[1])}" y1="{_ROW / 2:g}" y2="{_ROW / 2:g}"'
        marks.append(f'<line class="span {kind}" {ends}/>')
    if value is not None:
        marks.append(f'<circle class="dot {kind}" cx="{_at(on, value)}" cy="{_ROW / 2:g}" r="4"/>')
    return _row(marks)


def points(values: Sequence[float | None], on: Scale) -> str:
    """A dot for each of several systems on one row, of class `run-0`, `run-1` and so on; the first lies on top."""
    marks = _grid_of(on)
    dots = [
        f'<circle class="dot run-{index}" cx="{_at(on, value)}" cy="{_ROW / 2:g}" r="5"/>'
        for index, value in enumerate(values)
        if value is not None
    ]
    return _row([*marks, *reversed(dots)])


def bar(value: float, on: Scale, kind: str = "plain") -> str:
    """A bar from 0."""
    width = on.share(value) * (100 - 2 * _EDGE)
    return _row([f'<rect class="bar {kind}" x="{_EDGE:g}%" y="5" width="{width:.2f}%" height="{_ROW - 10}" rx="1.5"/>'])


def _grid_of(on: Scale) -> list[str]:
    """A line at each number of the axis; that at 0 stands out where there are numbers on both sides of it."""
    sides = on.low < 0 < on.high
    return [
        f'<line class="{"zero" if sides and not number else "grid"}" x1="{_at(on, number)}" x2="{_at(on, number)}" '
        f'y1="0" y2="{_ROW}"/>'
        for number in on.ticks
    ]


def axis(on: Scale) -> str:
    """The numbers beneath rows."""
    last = len(on.ticks) - 1
    texts = [
        f'<text class="{"start" if place == 0 else "end" if place == last else "middle"}" x="{_at(on, value)}" y="12">'
        f"{tick(value)}</text>"
        for place, value in enumerate(on.ticks)
    ]
    return _row(texts, 16)


def _at(on: Scale, value: float) -> str:
    return f"{_EDGE + on.share(value) * (100 - 2 * _EDGE):.2f}%"


def _row(marks: Sequence[str], height: int = _ROW) -> str:
    # What it shows is in the cells beside it, in figures.
    return f'<svg class="row" width="100%" height="{height}" aria-hidden="true">{"".join(marks)}</svg>'


# --- two axes --------------------------------------------------------------------------------------------------------


def lines(plot_lines: Sequence[Line], places: Sequence[str], description: str) -> str:
    """Lines over places that are evenly apart, each with its name at its end.

    Args:
        description: what the plot shows, for those who do not see it.
    """
    values = [value for line in plot_lines for value in line.values if value is not None]
    bounds = [bound for line in plot_lines for pair in line.intervals if pair for bound in pair]
    on = scale([*values, *bounds], 4)
    marks = [*_grid(on), *_places(places)]
    # Ours last, so that it lies above the others.
    for line in sorted(plot_lines, key=lambda line: line.kind == "ours"):
        marks += _line(line, on, len(places))
    for line, y in _apart([(line, _y(on, end)) for line in plot_lines if (end := _last(line)) is not None]):
        x = _WIDTH - _RIGHT_EDGE + 8
        marks.append(f'<text class="name {line.kind}" x="{x}" y="{y + 4:.1f}">{_escaped(line.name)}</text>')
    return _plot(marks, description)


def _grid(on: Scale) -> Iterator[str]:
    for value in on.ticks:
        y = f"{_y(on, value):.1f}"
        yield f'<line class="grid" x1="{_LEFT_EDGE}" x2="{_WIDTH - _RIGHT_EDGE}" y1="{y}" y2="{y}"/>'
        yield f'<text class="end" x="{_LEFT_EDGE - 6}" y="{_y(on, value) + 4:.1f}">{tick(value)}</text>'


def _places(places: Sequence[str]) -> Iterator[str]:
    for index, place in enumerate(places):
        yield f'<text class="middle" x="{_x(index, len(places)):.1f}" y="{_HEIGHT - 6}">{_escaped(place)}</text>'


def _line(line: Line, on: Scale, n: int) -> Iterator[str]:
    with_interval = [(index, pair) for index, pair in enumerate(line.intervals) if pair]
    if len(with_interval) > 1:
        over = [f"{_x(index, n):.1f},{_y(on, pair[1]):.1f}" for index, pair in with_interval]
        under = [f"{_x(index, n):.1f},{_y(on, pair[0]):.1f}" for index, pair in reversed(with_interval)]
        yield f'<polygon class="band {line.kind}" points="{" ".join((*over, *under))}"/>'
    dots = [(_x(index, n), _y(on, value)) for index, value in enumerate(line.values) if value is not None]
    yield f'<polyline class="line {line.kind}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in dots)}"/>'
    yield from (f'<circle class="dot {line.kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in dots)


def _last(line: Line) -> float | None:
    return next((value for value in reversed(line.values) if value is not None), None)


def _apart(placed: Sequence[tuple[Line, float]], distance: float = 14) -> Iterator[tuple[Line, float]]:
    """Names at the ends of their lines, moved down where two would lie over each other."""
    lowest = -math.inf
    for line, y in sorted(placed, key=lambda pair: pair[1]):
        lowest = max(y, lowest + distance)
        yield line, lowest


def _x(index: int, n: int) -> float:
    inner = _WIDTH - _LEFT_EDGE - _RIGHT_EDGE
    return _LEFT_EDGE + inner * (0.5 if n == 1 else 0.04 + 0.92 * index / (n - 1))


def _y(on: Scale, value: float) -> float:
    return _HEIGHT - _BOTTOM - on.share(value) * (_HEIGHT - _TOP - _BOTTOM)


# --- how values spread -----------------------------------------------------------------------------------------------


def histogram(values: Sequence[float], unit: str, description: str, bins: int = 24) -> str:
    """How often values lie in which range; those above the 99th percentile are counted in the last one."""
    ordered = sorted(values)
    on = scale([0.0, quantile(ordered, 0.99)], 5, zero=True)
    counts = [0] * bins
    for value in ordered:
        counts[min(bins - 1, int(on.share(value) * bins))] += 1
    height, base, margin = 120, 96, 2
    width = (_WIDTH - 2 * margin) / bins
    marks = [f'<line class="base" x1="{margin}" x2="{_WIDTH - margin}" y1="{base}.5" y2="{base}.5"/>']
    for index, count in enumerate(counts):
        tall = max(1.5, count / max(counts) * (base - 8)) if count else 0
        if tall:
            place = f'x="{margin + index * width + 0.75:.1f}" y="{base - tall:.1f}"'
            box = f'{place} width="{width - 1.5:.1f}" height="{tall:.1f}"'
            marks.append(f'<rect class="bar plain" {box} rx="1"/>')
    for index, value in enumerate(on.ticks):
        side = "start" if index == 0 else "end" if index == len(on.ticks) - 1 else "middle"
        x = margin + on.share(value) * (_WIDTH - 2 * margin)
        marks.append(f'<text class="{side}" x="{x:.1f}" y="{height - 6}">{tick(value)} {_escaped(unit)}</text>')
    return _plot(marks, description, height)


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which this share lies, of values in their order: the nearest rank. 0 where there are none."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def _plot(marks: Iterable[str], description: str, height: int = _HEIGHT) -> str:
    box = f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{_escaped(description)}"'
    return f'<svg class="plot" {box}>{"".join(marks)}</svg>'


def _escaped(text: str) -> str:
    return escape(inert(text))
