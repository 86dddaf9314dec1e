"""How readers are shown a metric: digits, direction, range, rank. A metric's own record holds it (`Metric.shown`).

A scored run writes it next to each figure (`summary.json`), so that reports and comparisons know no metric by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from turnmark.core.record import Record


class MetricStyle(Record):
    """How a metric is shown; without anything said, as a fraction of which more is better."""

    digits: tuple[int, int] = Field(default=(4, 3), description="after the point: of a mean, of an interval's bounds")
    direction: Literal["higher", "lower"] | None = Field(default="higher", description="which values are better")
    fraction: bool = Field(default=True, description="whether values lie between 0 and 1")
    headline: int | None = Field(
        default=None, description="rank among the metrics that represent a run, the lowest first; None: not one of them"
    )

    def text(self, value: float | None) -> str:
        """A value in its digits."""
        return "-" if value is None else f"{value:.{self.digits[0]}f}"

    def bound(self, value: float) -> str:
        """A bound of an interval in its digits."""
        return f"{value:.{self.digits[1]}f}"


PLAIN = MetricStyle()


class Figured(Record):
    """A record of figures of one metric; JSON leaves out what is as everywhere."""

    omitted: ClassVar[tuple[str, ...]] = ()
    """Further fields that JSON leaves out if all of them are empty."""
    shown: MetricStyle = PLAIN

    @model_serializer(mode="wrap")
    def _without_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        empty = () if any(getattr(self, name) for name in self.omitted) else self.omitted
        fields = {name: value for name, value in handler(self).items() if name not in ("shown", *empty)}
        said = self.shown.model_dump(mode="json", exclude_defaults=True)
        return {**fields, "shown": said} if said else fields


How = MetricStyle | Mapping[str, MetricStyle]
"""How all metrics of a record are shown, or each by its name."""


def by_name(names: Sequence[str], how: How) -> dict[str, MetricStyle]:
    """Metric -> how it is shown, of those of which something is said."""
    if how == PLAIN:
        return {}
    return dict.fromkeys(names, how) if isinstance(how, MetricStyle) else dict(how)


def shown_as(name: str, known: Mapping[str, MetricStyle]) -> MetricStyle:
    """How a metric is shown: as its record says, or that of the metric before the bracket (`judge_score[1 of 4]`)."""
    if name in known:
        return known[name]
    return known.get(name.partition("[")[0], PLAIN).model_copy(update={"headline": None})
