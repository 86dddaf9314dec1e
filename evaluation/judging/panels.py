"""Several judges of one reply: the median of their numbers or the majority of their labels, and how far they agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from pydantic import Field

from turnmark.corpora.types import Record
from turnmark.evaluation.judging.judgements import REASON, Outcome
from turnmark.evaluation.judging.rubrics import Rubric
from turnmark.evaluation.records import Panel, Score, ScoreStatus


class PanelOutcome(Record):
    """What a panel makes of a case."""

    status: ScoreStatus
    value: float | None = None
    label: str | None = None
    reason: str
    weight: float = 1.0
    also: dict[str, float | None] = Field(default_factory=dict)


def panel_outcome(rubric: Rubric, outcomes: Mapping[str, Outcome]) -> PanelOutcome:
    """One outcome of those of several judges, or of one.

    Numbers: the median of those that there are. Labels: the one that most judges chose; of those that equally many
    chose, the one of the judge that was named first. Judges that failed are left out and told; where all of them have,
    so has the panel. Where some find nothing to judge, those that found something count.

    Args:
        outcomes: judge -> outcome, in the order in which the judges were named.
    """
    scored = {name: outcome for name, outcome in outcomes.items() if outcome.status == "scored"}
    if not scored:
        return _without(outcomes)
    notes = list(dict.fromkeys(note for outcome in scored.values() for note in outcome.notes))
    unscored = {name: outcome for name, outcome in outcomes.items() if outcome.status != "scored"}
    tail = [
        f"{name}: {outcome.status.replace('_', ' ')} ({_brief(outcome.reason, 120)})"
        for name, outcome in unscored.items()
    ]
    if notes:
        tail.append(f"cut to fit the judge's context: {'; '.join(notes)}")
    if rubric.values is not None:
        label, split = majority([outcome.label or "" for outcome in scored.values()])
        tail = [*(["split evenly; the judge named first decides"] if split else []), *tail]
        reasons = _told(scored, lambda outcome: outcome.label or "")
        value = rubric.values[label]
        return PanelOutcome(
            status="scored", value=value, label=label, reason=_reason(reasons, tail), also=_also(rubric, scored)
        )
    value = median(outcome.value for outcome in scored.values() if outcome.value is not None)
    reasons = _told(scored, lambda outcome: f"{outcome.value:g}")
    weight = median(outcome.weight for outcome in scored.values())
    also = _also(rubric, scored)
    return PanelOutcome(status="scored", value=value, reason=_reason(reasons, tail), weight=weight, also=also)


def _also(rubric: Rubric, scored: Mapping[str, Outcome]) -> dict[str, float | None]:
    """The medians of the further metrics, over the judges that gave them a value."""
    values_by_metric = {
        name: [value for outcome in scored.values() if (value := outcome.also.get(name)) is not None]
        for name in rubric.also
    }
    return {name: median(values) if values else None for name, values in values_by_metric.items()}


def further_scores(rubric: Rubric, outcome: PanelOutcome, about: Mapping[str, Any]) -> list[Score]:
    """The lines of the metrics that came out of the same calls."""
    scores = []
    for name in rubric.also:
        value = outcome.also.get(name)
        if outcome.status != "scored" or value is not None:
            scores.append(
                Score(metric=name, status=outcome.status, value=value, reason=outcome.reason or None, **about)
            )
        else:
            scores.append(Score(metric=name, status="not_applicable", reason="the judge's reply has none", **about))
    return scores


def slim(outcome: Outcome) -> Outcome:
    """What of an outcome the agreement of judges takes."""
    return Outcome(
        status=outcome.status, value=outcome.value, label=outcome.label, reason=outcome.reason[:1] or ".",
        weight=outcome.weight,
    )  # fmt: skip


def majority(labels: Sequence[str]) -> tuple[str, bool]:
    """The commonest label, the one that comes first where several are; and whether several are."""
    counts = Counter(labels)
    highest = max(counts.values())
    leading = [label for label in dict.fromkeys(labels) if counts[label] == highest]
    return leading[0], len(leading) > 1


def _without(outcomes: Mapping[str, Outcome]) -> PanelOutcome:
    failed = {name: outcome for name, outcome in outcomes.items() if outcome.status == "failed"}
    if failed or not outcomes:
        return PanelOutcome(status="failed", reason=_failures(failed) or "no judge was asked")
    return PanelOutcome(
        status="not_applicable", reason=next(iter(outcomes.values())).reason or "there is nothing to judge"
    )


def _failures(failed: Mapping[str, Outcome]) -> str:
    lines = []
    for name, outcome in failed.items():
        raw = " ".join(outcome.raw.split())
        tail = f"; it wrote: {raw if len(raw) <= 200 else '… ' + raw[-200:]}" if raw else ""
        lines.append(f"{name}: {outcome.reason}{tail}" if len(failed) > 1 else f"{outcome.reason}{tail}")
    return " | ".join(lines)


def _told(scored: Mapping[str, Outcome], value: Callable[[Outcome], str]) -> str:
    if len(scored) == 1:
        return _brief(next(iter(scored.values())).reason, REASON)
    share = max(80, REASON // len(scored))
    return " | ".join(f"{name}: {value(outcome)}, {_brief(outcome.reason, share)}" for name, outcome in scored.items())


def _reason(reasons: str, tail: Sequence[str]) -> str:
    return " — ".join(filter(None, [reasons, "; ".join(tail)]))


def _brief(text: str, limit: int) -> str:
    """A text on one line, its end where it is too long: judges come to their verdict last."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"… {line[-limit:]}"


def agreement(rubric: Rubric, judges: Sequence[str], cases: Iterable[Mapping[str, Outcome]]) -> Panel:
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
            outcome = case.get(name)
            if outcome is not None and outcome.status == "scored" and outcome.value is not None:
                values[name].append((outcome.value, outcome.weight))
                unit.append(outcome.label if rubric.values is not None else outcome.value)
            else:
                failed[name] += outcome is not None and outcome.status == "failed"
                unit.append(None)
        units.append(unit)
    comparable = [unit for unit in units if sum(value is not None for value in unit) > 1]
    return Panel(
        judges=tuple(judges),
        rule="one judge" if len(judges) == 1 else "majority" if rubric.values is not None else "median",
        alpha=krippendorff_alpha(comparable, rubric.level),
        level=rubric.level,
        n=len(comparable),
        means={name: _weighted_mean(pairs) for name, pairs in values.items()},
        failed=failed,
    )


def _weighted_mean(pairs: Sequence[tuple[float, float]]) -> float | None:
    total = sum(weight for _, weight in pairs)
    return sum(value * weight for value, weight in pairs) / total if total else None
