"""Figures of benchmark data beside those that its paper prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from turnmark.corpora.types import Problem, Record

NOT_RECOVERABLE = "not recoverable"
"""The note of a figure that the paper has in a picture only, so that its text does not say it."""


class Line(Record):
    """One figure, here and published."""

    what: str
    here: int | float | None = Field(description="None: cannot be told from the files that are here")
    paper: int | float | None = Field(default=None, description="None: not published, or not as a number")
    note: str = ""


class Sheet(Record):
    """A table of figures."""

    title: str
    source: str = Field(default="", description="where the published figures stand")
    lines: tuple[Line, ...]
    note: str = Field(default="", description="what to know before the columns are compared")


class Checked(Record):
    """What a folder holds of one benchmark."""

    benchmark: str
    root: Path
    demo: bool = Field(description="True: the split that ships with Turnmark")
    sheets: tuple[Sheet, ...]
    missing: tuple[str, ...] = Field(default=(), description="what a complete copy has besides")
    problems: tuple[Problem, ...] = Field(default=(), description="rows and files that cannot be read")


def mean(values: Iterable[int]) -> float | None:
    """The mean; None of nothing."""
    found = list(values)
    return sum(found) / len(found) if found else None


def length(text: str) -> int:
    """Words of a text: what white space divides. The papers do not say how they count; this is near MTRAG's Table 8."""
    return len(text.split())


def counted(
    labels: Iterable[str],
    order: Sequence[str] = (),
    paper: Mapping[str, int] | None = None,
    note: str = "",
    before: str = "",
) -> list[Line]:
    """A line for each label with how often it is there, those of `order` first, the rest by their number.

    Args:
        paper: the published numbers, where there are any.
        note: said of each line without one.
        before: put before each label.
    """
    found, published = Counter(labels), paper or {}
    names = [*(name for name in order if name in found or name in published)]
    names += [name for name, _ in sorted(found.items(), key=lambda item: (-item[1], item[0])) if name not in names]
    return [
        Line(
            what=f"{before}{name}",
            here=found[name],
            paper=published.get(name),
            note="" if name in published else note,
        )
        for name in names
    ]


def lengths(what: str, texts: Iterable[str]) -> list[Line]:
    """Mean and largest number of words."""
    found = [length(text) for text in texts]
    return [
        Line(what=f"{what}: words, mean", here=mean(found)),
        Line(what=f"{what}: words, most", here=max(found, default=None)),
    ]
