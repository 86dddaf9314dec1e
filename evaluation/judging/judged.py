"""The judging of a run: one pass asks the judges, another reads what they said.

Judging never generates: it takes the samples of a run as they are, asks what it has no judgement for yet, and keeps
what they say in `judgements.jsonl` of the run. A run that is scored again, by these judges or by more, asks only what
is new and what failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from turnmark.assistant.types import Usage
from turnmark.evaluation.benchmarks.base import Case, Item, Metric
from turnmark.evaluation.benchmarks.task import Task
from turnmark.evaluation.judging.calls import BUDGET, JudgeCalls
from turnmark.evaluation.judging.idk import (
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
from turnmark.evaluation.judging.judge import Judge, is_snapshot, same_model, with_snapshots
from turnmark.evaluation.judging.judgements import FILE, Outcome
from turnmark.evaluation.judging.rubrics import (
    OWN_WORDS,
    Rubric,
    panel_agreement,
    panel_outcome,
    prompts_digest,
    rubric_scores,
    slim,
    too_few,
)
from turnmark.evaluation.prompts import JUDGES, OFFICIAL, whose
from turnmark.evaluation.records import Panel, Sample, Score

ROLE = "judge"


def _nothing(rubric: Rubric, case: Case) -> Outcome:
    return Outcome(status="not_applicable", reason=rubric.without(case) or "there is nothing to judge")


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
        self._short: dict[str, Counter[str]] = {}
        self._answered: dict[str, dict[str, None]] = {}

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
            outcomes = self._outcomes(case, rubric)
            if outcomes:
                self._clusters[rubric.name].append(item.facts.cluster)
            outcome = panel_outcome(rubric, outcomes) if outcomes else _nothing(rubric, case)
            fields = about | {"by": self._by(rubric)}
            if short := too_few(outcomes):
                self._short.setdefault(rubric.name, Counter())[short] += 1
                who = ", ".join(name for name, mine in outcomes.items() if mine.status != "failed")
                scores += rubric_scores(rubric, outcome, about | {"by": f"{who}, {short} judges"}, f"[{short}]")
                reason = f"{short} judges gave a verdict, which is {rubric.name}[{short}]; {outcome.reason}"
                outcome = Outcome(status="failed", reason=reason)
            scores += rubric_scores(rubric, outcome, fields)
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
        return [*scores, *self._underspecified(scores, case.answerability)]

    def _underspecified(self, scores: Sequence[Score], answerability: str | None) -> list[Score]:
        """Further lines of a benchmark whose underspecified tasks are judged by whether the reply asks back."""
        verdict = next((score for score in scores if score.metric == ASKS_BACK), None)
        return with_underspecified(scores, answerability, verdict) if verdict else []

    def _unjudged(self, sample: Sample, measured: Sequence[Score]) -> list[Score]:
        """The lines of a sample that failed, was skipped, or cannot be read; as the other metrics have them."""
        status = "not_applicable" if sample.status == "skipped" else "failed"
        reason = sample.reason or "what is judged cannot be put together"
        about: dict[str, Any] = {"id": sample.id, "repeat": sample.repeat, "status": status, "reason": reason}
        scores = [
            Score(metric=name, by=self._by(rubric), **about)
            for rubric in self.rubrics
            for name in (rubric.name, *rubric.also)
        ]
        lines = [*measured, *scores]
        for name in self._verdicts():
            scores += unjudged(lines, self._idk_by(name), name, about)
        return [*scores, *self._underspecified(scores, None)]

    def _verdicts(self) -> list[str]:
        return [rubric.name for rubric in self.rubrics if rubric.name in VERDICTS]

    def _idk_by(self, verdict: str) -> str:
        return "IDK by " + next(self._by(rubric) for rubric in self.rubrics if rubric.name == verdict)

    def _outcomes(self, case: Case, rubric: Rubric) -> dict[str, Outcome]:
        """Judge -> what it made of a case; empty if there is nothing to judge."""
        if rubric.without(case):
            return {}
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
                self._answered.setdefault(judge.name, {}).update(dict.fromkeys(judgement.models))
                self._failures.update([judgement.kind or "error"] if judgement.status == "failed" else [])
        self._seen[rubric.name].append({name: slim(outcome) for name, outcome in outcomes.items()})
        return outcomes

    def _by(self, rubric: Rubric) -> str:
        names = [judge.name for judge in self.of(rubric)]
        rule = "majority" if rubric.values is not None else "median"
        judges = names[0] if len(names) == 1 else f"{rule} of {', '.join(names)}"
        own_prompts = JUDGES.replaced(rubric.prompts, self.prompts)
        hashes = {name: self.hashes[rubric.name][name] for name in own_prompts}
        return f"{judges}, prompts {prompts_digest(hashes)}" if own_prompts else judges

    def variants(self, metrics: Sequence[Metric[Any]]) -> dict[str, str]:
        """Metric -> what it is, for whoever compares it with published figures.

        Args:
            metrics: those that are measured without a judge; some of them are conditioned too.
        """
        descriptions = {name: self._what(rubric) for rubric in self.rubrics for name in (rubric.name, *rubric.also)}
        all_descriptions = descriptions | {name: metric.by for metric in metrics for name in metric.names}
        for rubric in self.rubrics:
            if rubric.name not in VERDICTS:
                continue
            suffix = f" by {OFFICIAL}" if whose(rubric.prompts, self.prompts) == OFFICIAL else ""
            descriptions[accuracy_of(rubric.name)] = f"accuracy of the IDK verdict, {all_descriptions[rubric.name]}"
            descriptions |= {
                name + mark_of(rubric.name): f"{description}, conditioned on IDK{suffix}"
                for name, description in all_descriptions.items()
                if is_conditioned(name)
            }
        return descriptions | self._underspecified_variants(all_descriptions)

    def _underspecified_variants(self, descriptions: Mapping[str, str]) -> dict[str, str]:
        verdicts = [rubric for rubric in self.rubrics if rubric.name in (IDK, ASKS_BACK)]
        if len(verdicts) < 2:
            return {}
        papers = all(whose(rubric.prompts, self.prompts) == OFFICIAL for rubric in verdicts)
        suffix = " by the papers' prompts" if papers else ""
        return {
            name + UNDERSPECIFIED: f"{description}, conditioned on IDK and clarification{suffix}"
            for name, description in descriptions.items()
            if is_conditioned(name)
        }

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
            for name, models in self._answered.items()
            if (snapshots := tuple(sorted(model for model in models if is_snapshot(model, name))))
        }

    def panels(self) -> dict[str, Panel]:
        """Judged metric -> who judged it, and how they agree."""
        return {
            rubric.name: panel_agreement(
                rubric, [judge.name for judge in self.of(rubric)], self._seen[rubric.name], self._clusters[rubric.name]
            ).model_copy(update={"answered": self._answered_by(rubric)})
            for rubric in self.rubrics
        }

    def _answered_by(self, rubric: Rubric) -> dict[str, tuple[str, ...]]:
        names = {judge.name for judge in self.of(rubric)}
        return {name: snapshots for name, snapshots in self.answered().items() if name in names}

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
        for name, counts in self._short.items():
            shares = ", ".join(f"{short} judges: {count}" for short, count in counts.most_common())
            notes.append(
                f"{name}: of {counts.total()} samples fewer judges than were asked gave a verdict ({shares}); these "
                f"figures are {', '.join(f'{name}[{short}]' for short in counts)} and none of {name}"
            )
        notes += self.budget_notes()
        if self._cut:
            notes.append(f"{self._cut} judgements were made of less than the full material, as their scores say")
        if not self.tested and any(judge.has_model for judge in self.judges):
            notes.append(
                "nothing says which model wrote the answers: that no judge is the model under test is not checked"
            )
        return notes
