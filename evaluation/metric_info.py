"""What is known of a metric by its name: digits, direction, range. The one table that reports and comparisons read.

A variant in brackets (`rouge_l.word[unicode]`, `good[Condense]`) is like the metric before them unless it stands here
itself; a name that does not stand here is a fraction of which more is better.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from turnmark.corpora.types import Record

Direction = Literal["higher", "lower"]


class MetricInfo(Record):
    """A metric as readers see it."""

    name: str
    digits: tuple[int, int] = Field(default=(4, 3), description="after the point: of a mean, of an interval's bounds")
    direction: Direction | None = Field(default="higher", description="which values are better; None: neither")
    range: tuple[float, float] | None = Field(default=(0.0, 1.0), description="of a value; None: any number")
    description: str = Field(default="", description="a line for people")

    @property
    def fraction(self) -> bool:
        """Whether values lie between 0 and 1."""
        return self.range == (0.0, 1.0)


def _count(name: str, description: str) -> MetricInfo:
    return MetricInfo(name=name, digits=(1, 1), direction=None, range=None, description=description)


def _ratio(name: str, description: str) -> MetricInfo:
    return MetricInfo(name=name, digits=(2, 2), direction=None, range=None, description=description)


METRICS: Mapping[str, MetricInfo] = {
    info.name: info
    for info in (
        _count("answer_words", "words of the answer"),
        _count("edit_distance", "words inserted, deleted, replaced"),
        _count("instruction_words", "words of the instruction"),
        _count("source_words", "words before the edit"),
        _count("target_words", "words after the edit"),
        _ratio("length_ratio", "words after over words before"),
        _ratio("edit_ratio", "edit distance over words before"),
        _ratio("turns_per_session", "turns of a session"),
        MetricInfo(name="judge_score", digits=(2, 2), range=(1.0, 10.0), description="a judge's rating, 1 to 10"),
        MetricInfo(name="idk", direction=None, description="replies that say 'I don't know', as a judge sees it"),
        MetricInfo(name="idk_rate", direction=None, description="replies whose decision is `unknown`"),
    )
}


def metric_info(name: str) -> MetricInfo:
    """What is known of a metric; of one that no table names, that it is a fraction of which more is better."""
    info = METRICS.get(name) or METRICS.get(name.partition("[")[0])
    return MetricInfo(name=name) if info is None else info
