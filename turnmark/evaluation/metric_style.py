"""The display style of a metric: digits, direction, range, rank. Each metric's record has one (`Metric.shown`).

A scored run writes the style next to each mean (`summary.json`), so that reports and comparisons need no list of
metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from turnmark.core.record import Record

LEAD_SUFFIX, LEAD_MARGIN_SUFFIX = "[lead]", "[-lead]"
"""Suffixes of the lead baseline (the first sentences of the passages, with the length of the answer) and of the
answer's advantage over it."""


class MetricStyle(Record):
    """The display style of a metric. The default is the style of a fraction where higher is better."""

    digits: tuple[int, int] = Field(default=(4, 3), description="decimal places of a mean and of an interval's bounds")
    direction: Literal["higher", "lower"] | None = Field(default="higher", description="which values are better")
    fraction: bool = Field(default=True, description="whether values lie between 0 and 1")
    headline: int | None = Field(
        default=None, description="rank among the headline metrics, the lowest first, or None for other metrics"
    )

    def text(self, value: float | None) -> str:
        """Format a value; `-` for None."""
        return "-" if value is None else f"{value:.{self.digits[0]}f}"

    def bound(self, value: float) -> str:
        """Format a bound of an interval."""
        return f"{value:.{self.digits[1]}f}"


DEFAULT_STYLE = MetricStyle()


class StyledRecord(Record):
    """A record with values of one metric; its JSON leaves out the default style."""

    omitted: ClassVar[tuple[str, ...]] = ()
    """Further fields that JSON leaves out if all of them are empty."""
    shown: MetricStyle = DEFAULT_STYLE

    @model_serializer(mode="wrap")
    def _without_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        fields.pop("shown", None)
        if not any(getattr(self, name) for name in self.omitted):
            for name in self.omitted:
                fields.pop(name, None)
        style = self.shown.model_dump(mode="json", exclude_defaults=True)
        if style:
            fields["shown"] = style
        return fields


MetricStyles = MetricStyle | Mapping[str, MetricStyle]
"""One style for all metrics of a record, or metric -> style."""


def styles_by_name(names: Sequence[str], how: MetricStyles) -> dict[str, MetricStyle]:
    """Return metric -> style, for styles other than the default."""
    if how == DEFAULT_STYLE:
        return {}
    return dict.fromkeys(names, how) if isinstance(how, MetricStyle) else dict(how)


def find_style(name: str, known: Mapping[str, MetricStyle]) -> MetricStyle:
    """Return the style of a metric. A variant such as `judge_score[1 of 4]` has its metric's style, without rank."""
    if name in known:
        return known[name]
    return known.get(name.partition("[")[0], DEFAULT_STYLE).model_copy(update={"headline": None})
