"""What is known of a metric by its name: digits, direction, range. The one table that reports and comparisons read.

A variant in brackets (`rouge_l.word[unicode]`, `good[Condense]`) is like the metric before them unless it stands here
itself; a name that does not stand here is a fraction of which more is better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Direction = Literal["higher", "lower"]


@dataclass(frozen=True)
class MetricInfo:
    """A metric as readers see it.

    Attributes:
        digits: after the point: of a mean, of an interval's bounds.
        direction: which values are better; None: neither.
        fraction: whether values lie between 0 and 1.
    """

    digits: tuple[int, int] = (4, 3)
    direction: Direction | None = "higher"
    fraction: bool = True


_WORDS = MetricInfo((1, 1), None, False)
_RATIO = MetricInfo((2, 2), None, False)
METRICS: Mapping[str, MetricInfo] = {
    **dict.fromkeys(("answer_words", "edit_distance", "instruction_words", "source_words", "target_words"), _WORDS),
    **dict.fromkeys(("length_ratio", "edit_ratio", "turns_per_session"), _RATIO),
    "judge_score": MetricInfo((2, 2), fraction=False),  # a judge's rating, 1 to 10
    "idk": MetricInfo(direction=None),
    "idk_rate": MetricInfo(direction=None),
}


def metric_info(name: str) -> MetricInfo:
    """What is known of a metric; of one that no table names, that it is a fraction of which more is better."""
    return METRICS.get(name) or METRICS.get(name.partition("[")[0]) or MetricInfo()
