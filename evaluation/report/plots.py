"""Where the figures of a table lie, as SVG: a dot with its interval on each row, and the numbers beneath.

Every function gives markup that stands as it is in a page whose style is fixed by hash: no style of its own, no colour
(`page.css` has those by class), no font. A row stretches with its column, so that dots keep their size on any screen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from turnmark.evaluation.report.tables import Mark, Row

_EDGE = 2.0  # per cent of the width left free at either side, so that a dot at the end is whole
_ROW = 20  # pixels, of a row
_STEPS = 4  # between the numbers of a scale


@dataclass(frozen=True)
class Scale:
    """From the lowest value that is drawn to the highest, with round numbers between."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def at(self, value: float) -> str:
        """Where a value lies, in per cent of the width."""
        share = min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))
        return f"{_EDGE + share * (100 - 2 * _EDGE):.2f}%"


def scale(values: Iterable[float]) -> Scale:
    """A scale with round ends around the values."""
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if high - low < 1e-9:
        low, high = low - 0.05, high + 0.05
    smallest = (high - low) / _STEPS
    power = 10.0 ** math.floor(math.log10(smallest))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= smallest * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return Scale(first * step, last * step, tuple(round(index * step, 10) for index in range(first, last + 1)))


def scale_of(rows: Sequence[Row]) -> Scale | None:
    """The scale of the rows that have a mark, with 0 on it where they are differences; None: none has one."""
    marks = [row.mark for row in rows if row.mark is not None]
    if not marks:
        return None
    zero = [0.0] if any(mark.kind in ("better", "worse", "unsure") for mark in marks) else []
    return scale([*zero, *(end for mark in marks for end in (mark.value, *(mark.interval or ())))])


def dot(mark: Mark, on: Scale) -> str:
    """A dot for a value and a line for its interval; the cells beside it say both in figures."""
    middle = f"{_ROW / 2:g}"
    parts = [
        f'<line class="{"zero" if on.low < 0 < on.high and not number else "grid"}" x1="{on.at(number)}" '
        f'x2="{on.at(number)}" y1="0" y2="{_ROW}"/>'
        for number in on.ticks
    ]
    if mark.interval is not None:
        low, high = map(on.at, mark.interval)
        parts.append(f'<line class="span {mark.kind}" x1="{low}" x2="{high}" y1="{middle}" y2="{middle}"/>')
    parts.append(f'<circle class="dot {mark.kind}" cx="{on.at(mark.value)}" cy="{middle}" r="4"/>')
    return _row(parts, _ROW)


def axis(on: Scale) -> str:
    """The numbers beneath the rows."""
    last = len(on.ticks) - 1
    sides = ("start" if place == 0 else "end" if place == last else "middle" for place in range(last + 1))
    texts = [
        f'<text class="{side}" x="{on.at(value)}" y="12">{value:.6g}</text>'
        for side, value in zip(sides, on.ticks, strict=True)
    ]
    return _row(texts, 16)


def _row(parts: Sequence[str], height: int) -> str:
    return f'<svg class="row" width="100%" height="{height}" aria-hidden="true">{"".join(parts)}</svg>'
