"""Several judges of one reply: the median of their numbers or the majority of their labels, and how far they agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from pydantic import Field

from turnmark.corpora.types import Record
from turnmark.evaluation.judging.judgements import REASON, Outcome
from turnmark.evaluation.judging.rubrics import Measure
from turnmark.evaluation.records import Panel, Score, ScoreStatus


class Joint(Record):
    """What a panel makes of a case."""

    status: ScoreStatus
    value: float | None = None
    label: str | None = None
    reason: str
    weight: float = 1.0
    also: dict[str, float | None] = Field(default_factory=dict)


def joint(measure: Measure, outcomes: Mapping[str, Outcome]) -> Joint:
    """One outcome of those of several judges, or of one.

    Numbers: the median of those that there are. Labels: the one that most judges chose; of those that equally many
    chose, the one of the judge that was named first. Judges that failed are left out and told; where all of them have,
    so has the panel. Where some find nothing to judge, those that found something count.

    Args:
        outcomes: judge -> outcome, in the order in which the judges were named.
    """
    scored = {name: one for name, one in outcomes.items() if one.status == "scored"}
    if not scored:
        return _without(outcomes)
    notes = list(dict.fromkeys(note for one in scored.values() for note in one.notes))
    others = {name: one for name, one in outcomes.items() if one.status != "scored"}
    tail = [f"{name}: {one.status.replace('_', ' ')} ({_brief(one.reason, 120)})" for name, one in others.items()]
    if notes:
        tail.append(f"cut to fit the judge's context: {'; '.join(notes)}")
    if measure.values is not None:
        label, split = majority([one.label or "" for one in scored.values()])
        tail = [*(["split evenly; the judge named first decides"] if split else []), *tail]
        said = _told(scored, lambda one: one.label or "")
        value = measure.values[label]
        return Joint(status="scored", value=value, label=label, reason=_reason(said, tail), also=_also(measure, scored))
    value = median(one.value for one in scored.values() if one.value is not None)
    said = _told(scored, lambda one: f"{one.value:g}")
    weight = median(one.weight for one in scored.values())
    also = _also(measure, scored)
    return Joint(status="scored", value=value, reason=_reason(said, tail), weight=weight, also=also)


def _also(measure: Measure, scored: Mapping[str, Outcome]) -> dict[str, float | None]:
    """The medians of the further metrics, over the judges that gave them a value."""
    given = {
        name: [value for one in scored.values() if (value := one.also.get(name)) is not None] for name in measure.also
    }
    return {name: median(values) if values else None for name, values in given.items()}


def further(measure: Measure, found: Joint, about: Mapping[str, Any]) -> list[Score]:
    """The lines of the metrics that came out of the same calls."""
    made = []
    for name in measure.also:
        value = found.also.get(name)
        if found.status != "scored" or value is not None:
            made.append(Score(metric=name, status=found.status, value=value, reason=found.reason or None, **about))
        else:
            made.append(Score(metric=name, status="not_applicable", reason="the judge's reply has none", **about))
    return made


def slim(outcome: Outcome) -> Outcome:
    """What of an outcome the agreement of judges takes."""
    return Outcome(
        status=outcome.status, value=outcome.value, label=outcome.label, reason=outcome.reason[:1] or ".",
        weight=outcome.weight,
    )  # fmt: skip


def majority(labels: Sequence[str]) -> tuple[str, bool]:
    """The commonest label, the one that comes first where several are; and whether several are."""
    counts = Counter(labels)
    most = max(counts.values())
    leading = [label for label in dict.fromkeys(labels) if counts[label] == most]
    return leading[0], len(leading) > 1


def _without(outcomes: Mapping[str, Outcome]) -> Joint:
    failed = {name: one for name, one in outcomes.items() if one.status == "failed"}
    if failed or not outcomes:
        return Joint(status="failed", reason=_failures(failed) or "no judge was asked")
    return Joint(status="not_applicable", reason=next(iter(outcomes.values())).reason or "there is nothing to judge")


def _failures(failed: Mapping[str, Outcome]) -> str:
    said = []
    for name, one in failed.items():
        raw = " ".join(one.raw.split())
        tail = f"; it wrote: {raw if len(raw) <= 200 else '… ' + raw[-200:]}" if raw else ""
        said.append(f"{name}: {one.reason}{tail}" if len(failed) > 1 else f"{one.reason}{tail}")
    return " | ".join(said)


def _told(scored: Mapping[str, Outcome], value: Callable[[Outcome], str]) -> str:
    if len(scored) == 1:
        return _brief(next(iter(scored.values())).reason, REASON)
    share = max(80, REASON // len(scored))
    return " | ".join(f"{name}: {value(one)}, {_brief(one.reason, share)}" for name, one in scored.items())


def _reason(said: str, tail: Sequence[str]) -> str:
    return " — ".join(filter(None, [said, "; ".join(tail)]))


def _brief(text: str, most: int) -> str:
    """A text on one line, its end where it is too long: judges come to their verdict last."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"… {line[-most:]}"


def agreement(measure: Measure, judges: Sequence[str], cases: Iterable[Mapping[str, Outcome]]) -> Panel:
    """How the judges agree over many cases.

    Args:
        cases: for each what each judge made of it.
    """
    from turnmark.evaluation.metrics.agreement import krippendorff_alpha

    units: list[list[float | str | None]] = []
    values: dict[str, list[tuple[float, float]]] = {name: [] for name in judges}
    failed = dict.fromkeys(judges, 0)
    for case in cases:
        unit: list[float | str | None] = []
        for name in judges:
            one = case.get(name)
            if one is not None and one.status == "scored" and one.value is not None:
                values[name].append((one.value, one.weight))
                unit.append(one.label if measure.values is not None else one.value)
            else:
                failed[name] += one is not None and one.status == "failed"
                unit.append(None)
        units.append(unit)
    several = [unit for unit in units if sum(value is not None for value in unit) > 1]
    return Panel(
        judges=tuple(judges),
        rule="one judge" if len(judges) == 1 else "majority" if measure.values is not None else "median",
        alpha=krippendorff_alpha(several, measure.level),
        level=measure.level,
        n=len(several),
        means={name: _weighted_mean(pairs) for name, pairs in values.items()},
        failed=failed,
    )


def _weighted_mean(pairs: Sequence[tuple[float, float]]) -> float | None:
    total = sum(weight for _, weight in pairs)
    return sum(value * weight for value, weight in pairs) / total if total else None
