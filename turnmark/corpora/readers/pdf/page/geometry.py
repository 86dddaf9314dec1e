"""Turns positions on a page, for text that does not run from left to right.

The direction of a text is the angle, in degrees counterclockwise, by which its lines rise: 90 is upwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

MAX_SNAP_DEGREES = 0.2  # from a multiple of 90; the rest is rounding
MAX_SLANT_DEGREES = 5.0  # between text that is read together
_MIN_EXTENT_DIFFERENCE = 0.2  # of squared cosine and sine; nearer to 45 degrees a box does not tell width and height


class Box(NamedTuple):
    """A box with horizontal and vertical edges."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.top - self.bottom

    @property
    def area(self) -> float:
        """The area; 0 if the edges are in the wrong order."""
        return max(0.0, self.width) * max(0.0, self.height)

    @property
    def middle(self) -> tuple[float, float]:
        return (self.left + self.right) / 2, (self.bottom + self.top) / 2

    @property
    def corners(self) -> list[tuple[float, float]]:
        return [(x, y) for x in (self.left, self.right) for y in (self.bottom, self.top)]

    def contains(self, point: tuple[float, float]) -> bool:
        """Return whether a point is in the box or on its edge."""
        return self.left <= point[0] <= self.right and self.bottom <= point[1] <= self.top

    def share_of(self, bounds: Box) -> float:
        """Return the share of another box that this one covers."""
        return self.within(bounds).area / max(bounds.area, 1.0)

    def turned(self, degrees: float) -> Box:
        """Return the box around this box, placed as `turn_point` places its corners."""
        return box_around([turn_point(x, y, degrees) for x, y in self.corners])

    def moved(self, across: float, up: float) -> Box:
        """Return the box at another place."""
        return Box(self.left + across, self.bottom + up, self.right + across, self.top + up)

    def grown(self, margin: float) -> Box:
        """Return the box with a margin around it."""
        return Box(self.left - margin, self.bottom - margin, self.right + margin, self.top + margin)

    def within(self, bounds: Box) -> Box:
        """Return the part of the box inside another one; its edges are in the wrong order if there is none."""
        return Box(
            max(self.left, bounds.left),
            max(self.bottom, bounds.bottom),
            min(self.right, bounds.right),
            min(self.top, bounds.top),
        )


def box_around(points: Iterable[tuple[float, float]]) -> Box:
    """Return the smallest box that contains all points."""
    xs, ys = zip(*points, strict=True)
    return Box(min(xs), min(ys), max(xs), max(ys))


def direction_of(a: float, b: float) -> float:
    """Return the direction, from 0 to 360, of text drawn with a matrix that begins with `a` and `b`."""
    degrees = math.degrees(math.atan2(b, a)) % 360
    return quadrant(degrees) if abs(slant(degrees)) <= MAX_SNAP_DEGREES else degrees


def quadrant(degrees: float) -> int:
    """Return the nearest of 0, 90, 180 and 270."""
    return round(degrees / 90) * 90 % 360


def slant(degrees: float) -> float:
    """Return the difference from the nearest multiple of 90, from -45 to 45."""
    return degrees - round(degrees / 90) * 90


def angle_between(degrees: float, other: float) -> float:
    """Return how far the first direction is beyond the other, from -180 to 180."""
    return (degrees - other + 180) % 360 - 180


@lru_cache(maxsize=4096)
def _cos_sin(degrees: float) -> tuple[float, float]:
    if degrees % 90 == 0:
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[int(degrees // 90) % 4]
    return math.cos(math.radians(degrees)), math.sin(math.radians(degrees))


def turn_point(x: float, y: float, degrees: float) -> tuple[float, float]:
    """Return where a point is after text of this direction has been turned to run from left to right."""
    cos, sin = _cos_sin(degrees)
    return x * cos + y * sin, y * cos - x * sin


def letter_box(around: Box, degrees: float, size: float) -> Box:
    """Return the box of a letter in the coordinates of its direction, given the upright box around it."""
    cos, sin = (abs(part) for part in _cos_sin(degrees))
    wide, high = around.width, around.height
    difference = cos * cos - sin * sin
    if abs(difference) >= _MIN_EXTENT_DIFFERENCE:
        width, height = (wide * cos - high * sin) / difference, (high * cos - wide * sin) / difference
    else:
        width, height = max(wide / cos - size, 0.3 * size), size
    x, y = turn_point(*around.middle, degrees)
    return Box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)
