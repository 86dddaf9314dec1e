"""Metrics that are made of other metrics of the same sample, once these are there: how far two judged ones differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from turnmark.evaluation.records import Score


@dataclass(frozen=True)
class Derived:
    """A metric made of the scores of others.

    Attributes:
        name: of the metric.
        by: what it is, for whoever sets it beside a published one.
        of: names of the metrics that it is made of.
        make: their values, in that order -> its value.
    """

    name: str
    by: str
    of: tuple[str, ...]
    make: Callable[[Sequence[float]], float]


def derived(metrics: Iterable[Derived], scores: Sequence[Score]) -> list[Score]:
    """The scores of one sample that are made of those it has.

    A metric of which a part was not asked for is left out. Where a part failed it has failed, and where one does not
    apply it does not apply, each with that part's reason.
    """
    there: Mapping[str, Score] = {score.metric: score for score in scores}
    return [_made(one, [there[name] for name in one.of]) for one in metrics if all(name in there for name in one.of)]


def _made(metric: Derived, parts: Sequence[Score]) -> Score:
    by = "; ".join(dict.fromkeys(part.by for part in parts))
    about = {"id": parts[0].id, "repeat": parts[0].repeat, "metric": metric.name, "by": by}
    for status in ("failed", "not_applicable"):
        for part in parts:
            if part.status == status:
                return Score(
                    status=part.status, reason=f"{part.metric}: {part.reason or 'no reason was given'}", **about
                )
    values = [part.value for part in parts if part.value is not None]
    said = ", ".join(f"{part.metric} {part.value:g}" for part in parts)
    return Score(status="scored", value=metric.make(values), reason=said, **about)
