"""The judging of a run: one pass asks the judges, another reads what they said.

Judging never generates: it takes the samples of a run as they are, asks what it has no judgement for yet, and keeps
what they say in `judgements.jsonl` of the run. A run that is scored again, by these judges or by more, asks only what
is new and what failed. Of several judges of one reply the median of their numbers or the majority of their labels
counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from turnmark.assistant.types import Usage
from turnmark.evaluation.benchmarks.base import Case, Item, Metric
from turnmark.evaluation.benchmarks.task import Task
from turnmark.evaluation.judging.calls import BUDGET, JudgeCalls
from turnmark.evaluation.judging.judge import Judge, is_snapshot, same_model, with_snapshots
from turnmark.evaluation.judging.rubrics import FILE, OWN_WORDS, REASON, Outcome, Rubric, prompts_digest
from turnmark.evaluation.metrics.idk import (
    ASKS_BACK,
    IDK,
    UNDERSPECIFIED,
    VERDICTS,
    accuracy,
    accuracy_of,
    conditioned,
    is_conditioned,
    mark_of,
    unjudged,
    with_underspecified,
)
from turnmark.evaluation.prompts import JUDGES, OFFICIAL, whose
from turnmark.evaluation.records import Panel, Sample, Score
from turnmark.evaluation.scores.stats import alpha_figure

ROLE = "judge"


class Judging(JudgeCalls):
    """Judges, what they are asked, and what they said of a run."""

    def __init__(self, judges: Sequence[Judge], rubrics: Sequence[Rubric], **options: Any) -> None:
        super().__init__(judges, rubrics, **options)
        self.usage = Usage()
        self._seen: dict[str, list[Mapping[str, Outcome]]] = {rubric.name: [] for rubric in self.rubrics}
        self._clusters: dict[str, list[str]] = {rubric.name: [] for rubric in self.rubrics}
        self._counted: set[str] = set()
        self._failures: Counter[str] = Counter()
        self._cut = 0
        self._models: dict[str, set[str]] = {}

    def scores(self, benchmark: Task, item: Item, sample: Sample, measured: Sequence[Score]) -> list[Score]:
        """The judged scores of one sample, and those of all its metrics that are conditioned.

        Args:
            measured: what was measured of it without a judge.
        """
        case = self.case_of(benchmark, item, sample)
        if case is None:
            return self._unjudged(sample, measured)
        scores: list[Score] = []
        verdicts: dict[str, Outcome] = {}
        about: dict[str, Any] = {"id": sample.id, "repeat": sample.repeat}
        for rubric in self.rubrics:
            if nothing := rubric.without(case):
                outcome = Outcome(status="not_applicable", reason=nothing)
            else:
                outcome = panel_outcome(rubric, self._outcomes(case, rubric))
                self._clusters[rubric.name].append(item.facts.cluster)
            scores += rubric_scores(rubric, outcome, about | {"by": self._by(rubric)})
            if rubric.name in VERDICTS:
                verdicts[rubric.name] = outcome
        lines = [*measured, *scores]
        for name, idk in verdicts.items():
            judge = self._idk_by(name)
            failed = idk.reason if idk.status == "failed" else ""
            scores.append(accuracy(case.answerability, idk.label, failed, judge, name, about))
            scores += [
                conditioned(score, case.answerability, idk.label, judge, name, idk.reason)
                for score in lines
                if is_conditioned(score.metric)
            ]
        return [*scores, *_underspecified(scores, case.answerability)]

    def _unjudged(self, sample: Sample, measured: Sequence[Score]) -> list[Score]:
        """The lines of a sample that failed, was skipped, or cannot be read; as the other metrics have them."""
        status = "not_applicable" if sample.status == "skipped" else "failed"
        reason = sample.reason or "what is judged cannot be put together"
        about: dict[str, Any] = {"id": sample.id, "repeat": sample.repeat, "status": status, "reason": reason}
        scores = [Score(metric=name, by=self._by(rubric), **about) for rubric in self.rubrics for name in rubric.names]
        lines = [*measured, *scores]
        for rubric in self.rubrics:
            if rubric.name in VERDICTS:
                scores += unjudged(lines, self._idk_by(rubric.name), rubric.name, about)
        return [*scores, *_underspecified(scores, None)]

    def _idk_by(self, verdict: str) -> str:
        return "IDK by " + next(self._by(rubric) for rubric in self.rubrics if rubric.name == verdict)

    def _outcomes(self, case: Case, rubric: Rubric) -> dict[str, Outcome]:
        """Judge -> what it made of a case."""
        outcomes: dict[str, Outcome] = {}
        for judge in self.of(rubric):
            key = self.key(case, rubric, judge)
            judgement = self.kept(key)
            if judgement is None:
                outcomes[judge.name] = self.unasked(key, judge)
                self._failures[outcomes[judge.name].kind or "error"] += 1
                continue
            outcomes[judge.name] = judgement
            if key not in self._counted:
                self._counted.add(key)
                self.usage += judgement.usage
                self._cut += bool(judgement.notes)
                self._models.setdefault(judge.name, set()).update(judgement.models)
                self._failures.update([judgement.kind or "error"] if judgement.status == "failed" else [])
        # Of each only what the agreement of the judges takes.
        kept = {"status", "value", "label", "weight"}
        self._seen[rubric.name].append(
            {name: Outcome(**outcome.model_dump(include=kept), reason=".") for name, outcome in outcomes.items()}
        )
        return outcomes

    def _by(self, rubric: Rubric) -> str:
        names = [judge.name for judge in self.of(rubric)]
        judges = names[0] if len(names) == 1 else f"{_rule(rubric)} of {', '.join(names)}"
        own_prompts = JUDGES.replaced(rubric.prompts, self.prompts)
        hashes = {name: self.hashes[rubric.name][name] for name in own_prompts}
        return f"{judges}, prompts {prompts_digest(hashes)}" if own_prompts else judges

    def variants(self, metrics: Sequence[Metric[Any]]) -> dict[str, str]:
        """Metric -> what it is, for whoever compares it with published figures.

        Args:
            metrics: those that are measured without a judge; some of them are conditioned too.
        """
        descriptions = {name: self._what(rubric) for rubric in self.rubrics for name in rubric.names}
        all_descriptions = descriptions | {name: metric.by for metric in metrics for name in metric.names}
        to_condition = {name: text for name, text in all_descriptions.items() if is_conditioned(name)}
        theirs = {
            rubric.name: whose(rubric.prompts, self.prompts) == OFFICIAL
            for rubric in self.rubrics
            if rubric.name in (*VERDICTS, ASKS_BACK)
        }
        for verdict in (name for name in VERDICTS if name in theirs):
            suffix = f" by {OFFICIAL}" if theirs[verdict] else ""
            descriptions[accuracy_of(verdict)] = f"accuracy of the IDK verdict, {all_descriptions[verdict]}"
            for name, text in to_condition.items():
                descriptions[name + mark_of(verdict)] = f"{text}, conditioned on IDK{suffix}"
        if {IDK, ASKS_BACK} <= theirs.keys():
            suffix = " by the papers' prompts" if theirs[IDK] and theirs[ASKS_BACK] else ""
            for name, text in to_condition.items():
                descriptions[name + UNDERSPECIFIED] = f"{text}, conditioned on IDK and clarification{suffix}"
        return descriptions

    def _what(self, rubric: Rubric) -> str:
        """What a rubric is, with whose prompts."""
        theirs = whose(rubric.prompts, self.prompts)
        return rubric.by.replace(OWN_WORDS, theirs) if theirs else rubric.by

    def models(self) -> dict[str, tuple[str, ...]]:
        """Judged metric -> the language models that are asked for it."""
        return {
            rubric.name: tuple(judge.name for judge in self.of(rubric) if judge.has_model) for rubric in self.rubrics
        }

    def answered(self) -> dict[str, tuple[str, ...]]:
        """Judge that is an alias -> the dated snapshots that answered, as its endpoint names them."""
        return {
            name: snapshots
            for name, models in self._models.items()
            if (snapshots := tuple(sorted(model for model in models if is_snapshot(model, name))))
        }

    def panels(self) -> dict[str, Panel]:
        """Judged metric -> who judged it, and how they agree."""
        panels = {}
        for rubric in self.rubrics:
            names = [judge.name for judge in self.of(rubric)]
            answered = {name: snapshots for name, snapshots in self.answered().items() if name in names}
            agreement = panel_agreement(rubric, names, self._seen[rubric.name], self._clusters[rubric.name])
            panels[rubric.name] = agreement.model_copy(update={"answered": answered})
        return panels

    def warnings(self) -> list[str]:
        """What has to be said before anything else: that a judge is the model under test."""
        models = [judge.name for judge in self.judges if judge.has_model]
        tested = [name for name in models if any(same_model(name, generator) for generator in self.tested)]
        return [f"the judge {name} is the model under test: it grades its own answers" for name in tested]

    def notes(self) -> list[str]:
        """What else the summary says of the judging."""
        if not self.judges:
            return ["nothing here is one of the metrics that the judges are asked for"]
        judges = ", ".join(with_snapshots(judge.name, self.answered()) for judge in self.judges)
        notes = [f"judged by {judges}; what each of them said is in {FILE}"]
        agree = {name: panel.alpha for name, panel in self.panels().items() if panel.n}
        if agree:
            alphas = ", ".join(
                f"{name} {'undefined' if alpha is None else f'{alpha:.2f}'}" for name, alpha in agree.items()
            )
            notes.append(f"agreement of the judges (Krippendorff's alpha): {alphas}")
        failures = {kind: count for kind, count in self._failures.most_common() if kind != BUDGET}
        if failures:
            kinds = ", ".join(f"{kind.replace('_', ' ')} {count}" for kind, count in failures.items())
            notes.append(f"{sum(failures.values())} judgements failed: {kinds}; a new scoring asks for them again")
        notes += self.budget_notes()
        if self._cut:
            notes.append(f"{self._cut} judgements were made of less than the full material, as their scores say")
        if not self.tested and any(judge.has_model for judge in self.judges):
            notes.append(
                "nothing says which model wrote the answers: that no judge is the model under test is not checked"
            )
        return notes


def _underspecified(scores: Sequence[Score], answerability: str | None) -> list[Score]:
    """Further lines of a benchmark whose underspecified tasks are judged by whether the reply asks back."""
    verdict = next((score for score in scores if score.metric == ASKS_BACK), None)
    return with_underspecified(scores, answerability, verdict) if verdict else []


# --- several judges --------------------------------------------------------------------------------------------------


def _rule(rubric: Rubric) -> str:
    return "majority" if rubric.values is not None else "median"


def panel_outcome(rubric: Rubric, outcomes: Mapping[str, Outcome]) -> Outcome:
    """One outcome of those of several judges, or of one.

    Numbers: the median of those that there are. Labels: the one that most judges chose; of those that equally many
    chose, the one of the judge that was named first. If some find nothing to judge, those that found something count.
    If one has failed, so has the panel: the median of fewer judges is another instrument.

    Args:
        outcomes: judge -> outcome, in the order in which the judges were named.
    """
    if failed := {name: outcome for name, outcome in outcomes.items() if outcome.status == "failed"}:
        few = f"{len(failed)} of {len(outcomes)} judges failed: " if len(outcomes) > 1 else ""
        return Outcome(status="failed", reason=few + _failures(failed, len(outcomes)))
    scored = {name: outcome for name, outcome in outcomes.items() if outcome.status == "scored"}
    if not scored:
        return next(iter(outcomes.values()))
    tail = [
        f"{name}: nothing to judge ({_brief(outcomes[name].reason, 120)})" for name in outcomes if name not in scored
    ]
    if notes := list(dict.fromkeys(note for outcome in scored.values() for note in outcome.notes)):
        tail.append(f"cut to fit the judge's context: {'; '.join(notes)}")
    label = None
    if rubric.values is not None:
        label, split = majority([outcome.label or "" for outcome in scored.values()])
        tail = [*(["split evenly; the judge named first decides"] if split else []), *tail]
        reasons = _told(scored, lambda outcome: outcome.label or "")
        value, weight = rubric.values[label], 1.0
    else:
        reasons = _told(scored, lambda outcome: f"{outcome.value:g}")
        value = median(outcome.value for outcome in scored.values() if outcome.value is not None)
        weight = median(outcome.weight for outcome in scored.values())
    found = {
        name: [more for outcome in scored.values() if (more := outcome.also.get(name)) is not None]
        for name in rubric.also
    }
    also = {name: median(values) if values else None for name, values in found.items()}
    reason = " — ".join(filter(None, [reasons, "; ".join(tail)]))
    return Outcome(status="scored", value=value, label=label, reason=reason, weight=weight, also=also)


def rubric_scores(rubric: Rubric, outcome: Outcome, about: Mapping[str, Any]) -> list[Score]:
    """The lines of a rubric: its metric, and those that came out of the same calls."""
    fields: dict[str, Any] = {"status": outcome.status, "reason": outcome.reason or None, **about}
    scores = [Score(metric=rubric.name, value=outcome.value, weight=outcome.weight, **fields)]
    absent = {"status": "not_applicable", "reason": "the judge's reply has none"}
    for name in rubric.also:
        value = outcome.also.get(name)
        none = outcome.status == "scored" and value is None
        scores.append(Score(metric=name, value=value, **(fields | absent if none else fields)))
    return scores


def majority(labels: Sequence[str]) -> tuple[str, bool]:
    """The commonest label, the one that comes first where several are; and whether several are."""
    counts = Counter(labels).most_common()
    return counts[0][0], len(counts) > 1 and counts[0][1] == counts[1][1]


def _failures(failed: Mapping[str, Outcome], judges: int) -> str:
    lines = []
    for name, outcome in failed.items():
        tail = f"; it wrote: {_brief(outcome.raw, 200)}" if outcome.raw.strip() else ""
        lines.append(f"{name}: {outcome.reason}{tail}" if judges > 1 else f"{outcome.reason}{tail}")
    return " | ".join(lines)


def _told(scored: Mapping[str, Outcome], value: Callable[[Outcome], str]) -> str:
    if len(scored) == 1:
        return _brief(next(iter(scored.values())).reason, REASON)
    share = max(80, REASON // len(scored))
    return " | ".join(f"{name}: {value(outcome)}, {_brief(outcome.reason, share)}" for name, outcome in scored.items())


def _brief(text: str, limit: int) -> str:
    """A text on one line, its end where it is too long: judges come to their verdict last."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"… {line[-limit:]}"


def panel_agreement(
    rubric: Rubric, judges: Sequence[str], cases: Iterable[Mapping[str, Outcome]], clusters: Sequence[str] = ()
) -> Panel:
    """How the judges agree over many cases.

    Args:
        cases: for each what each judge made of it.
        clusters: of each case; empty: no interval is wanted.
    """
    import numpy as np

    from turnmark.evaluation.scores.stats import intervals

    units: list[list[float | str | None]] = []
    values: dict[str, list[tuple[float, float]]] = {name: [] for name in judges}
    failed = dict.fromkeys(judges, 0)
    for case in cases:
        unit: list[float | str | None] = []
        for name in judges:
            outcome = case[name]
            failed[name] += outcome.status == "failed"
            if outcome.value is not None:
                values[name].append((outcome.value, outcome.weight))
            unit.append(outcome.label if rubric.values is not None else outcome.value)
        units.append(unit)
    alpha = alpha_figure(units, rubric.level, np.unique(clusters, return_inverse=True)[1] if clusters else None)
    means = {
        name: sum(value * weight for value, weight in pairs) / sum(weight for _, weight in pairs) if pairs else None
        for name, pairs in values.items()
    }
    return Panel(
        judges=tuple(judges),
        rule="one judge" if len(judges) == 1 else _rule(rubric),
        alpha=alpha.value if alpha else None,
        alpha_ci95=intervals([alpha], 0)[0] if clusters and alpha else None,
        level=rubric.level,
        n=sum(sum(value is not None for value in unit) > 1 for unit in units),
        means=means,
        failed=failed,
    )
