"""Judge a run: one pass asks the judges, and the next one turns their judgments into scores.

Judging makes no samples: it asks for missing judgments of a run's samples and stores them in the run's
`judgements.jsonl`. Scoring the run again, with the same or more judges, asks only for new and failed judgments. If
several judges grade a reply, the median of their numbers or the majority of their labels counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from turnmark.assistant.types import Usage
from turnmark.evaluation.calls.judgment_store import JUDGMENTS_FILE
from turnmark.evaluation.judging.judge_calls import BUDGET, JudgeCalls
from turnmark.evaluation.judging.judges import Judge
from turnmark.evaluation.judging.rubrics import MAX_REASON_CHARACTERS, OWN_WORDS, prompts_digest
from turnmark.evaluation.metrics.idk_conditioning import (
    ASKS_BACK,
    IDK,
    UNDERSPECIFIED_SUFFIX,
    VERDICTS,
    accuracy,
    accuracy_of,
    condition_score,
    is_conditioned,
    make_unjudged_scores,
    mark_of,
    with_underspecified,
)
from turnmark.evaluation.model_names import is_snapshot, same_model, with_snapshots
from turnmark.evaluation.prompts import JUDGES, OFFICIAL, find_origin
from turnmark.evaluation.records import Panel, Sample, Score
from turnmark.evaluation.scores.cluster_statistics import alpha_statistic, intervals
from turnmark.evaluation.tasks.items import Case, Item
from turnmark.evaluation.tasks.metric import Metric
from turnmark.evaluation.tasks.rubric import Outcome, Rubric
from turnmark.evaluation.tasks.task import Task

ROLE = "judge"
MIN_JUDGED = 10
"""Minimum number of replies from which a judge that never varies is reported."""


class Judging(JudgeCalls):
    """The judges and rubrics of a run; makes scores, panels and notes from the judgments."""

    def __init__(self, judges: Sequence[Judge], rubrics: Sequence[Rubric], **options: Any) -> None:
        super().__init__(judges, rubrics, **options)
        self.usage = Usage()
        self._seen: dict[str, list[Mapping[str, Outcome]]] = {rubric.name: [] for rubric in self.rubrics}
        self._clusters: dict[str, list[str]] = {rubric.name: [] for rubric in self.rubrics}
        self._counted: set[str] = set()
        self._failures: Counter[str] = Counter()
        self._cut = 0
        self._by_models = self._from_cache = 0
        self._models: dict[str, set[str]] = {}

    def scores(self, task: Task, item: Item, sample: Sample, measured: Sequence[Score]) -> list[Score]:
        """Return the judged scores of one sample, and the scores of all its metrics conditioned on the IDK verdict.

        Args:
            measured: the scores of the sample's metrics without a judge.
        """
        case = self.case_of(task, item, sample)
        if case is None:
            return self._unjudged(sample, measured)
        scores: list[Score] = []
        verdicts: dict[str, Outcome] = {}
        about: dict[str, Any] = {"id": sample.id, "repeat": sample.repeat}
        for rubric in self.rubrics:
            not_applicable = rubric.without(case)
            if not_applicable:
                outcome = Outcome(status="not_applicable", reason=not_applicable)
            else:
                outcome = panel_outcome(rubric, self._outcomes(case, rubric))
                self._clusters[rubric.name].append(item.facts.cluster)
            scores += rubric_scores(rubric, outcome, about | {"by": self._by(rubric)})
            if rubric.name in VERDICTS:
                verdicts[rubric.name] = outcome
        to_condition = [score for score in (*measured, *scores) if is_conditioned(score.metric)]
        for name, idk in verdicts.items():
            judge = self._idk_by(name)
            failure = idk.reason if idk.status == "failed" else ""
            scores.append(accuracy(case.answerability, idk.label, failure, judge, name, about))
            for score in to_condition:
                silent = score.metric in self.silent
                scores.append(condition_score(score, case.answerability, idk.label, judge, name, idk.reason, silent))
        return [*scores, *self._underspecified(scores, case.answerability)]

    def _underspecified(self, scores: Sequence[Score], answerability: str | None) -> list[Score]:
        """Return further scores of a benchmark that grades whether replies to underspecified tasks ask back."""
        verdict = next((score for score in scores if score.metric == ASKS_BACK), None)
        return with_underspecified(scores, answerability, verdict, self.silent) if verdict else []

    def _unjudged(self, sample: Sample, measured: Sequence[Score]) -> list[Score]:
        """Return the scores of a sample without a case: not applicable if it was skipped, otherwise failed."""
        status = "not_applicable" if sample.status == "skipped" else "failed"
        reason = sample.reason or "the material to judge cannot be assembled"
        about: dict[str, Any] = {"id": sample.id, "repeat": sample.repeat, "status": status, "reason": reason}
        scores = [Score(metric=name, by=self._by(rubric), **about) for rubric in self.rubrics for name in rubric.names]
        lines = [*measured, *scores]
        for rubric in self.rubrics:
            if rubric.name in VERDICTS:
                scores += make_unjudged_scores(lines, self._idk_by(rubric.name), rubric.name, about)
        return [*scores, *self._underspecified(scores, None)]

    def _idk_by(self, verdict: str) -> str:
        """Return the instrument of the IDK verdict, for scores that are conditioned on it."""
        return "IDK by " + next(self._by(rubric) for rubric in self.rubrics if rubric.name == verdict)

    def _outcomes(self, case: Case, rubric: Rubric) -> dict[str, Outcome]:
        outcomes: dict[str, Outcome] = {}
        for judge in self.of(rubric):
            key = self.key(case, rubric, judge)
            judgment = self.stored(key)
            if judgment is None:
                outcomes[judge.name] = self.unasked(key, judge)
                self._failures[outcomes[judge.name].kind or "error"] += 1
                continue
            outcomes[judge.name] = judgment
            if key not in self._counted:
                self._counted.add(key)
                self.usage += judgment.usage
                self._cut += bool(judgment.notes)
                self._by_models += judge.has_model
                self._from_cache += judge.has_model and judgment.status == "scored" and not judgment.usage.calls
                self._models.setdefault(judge.name, set()).update(judgment.models)
                if judgment.status == "failed":
                    self._failures[judgment.kind or "error"] += 1
        # Only these fields are needed for the agreement of the judges.
        fields = {"status", "value", "label", "weight"}
        self._seen[rubric.name].append(
            {name: Outcome(**outcome.model_dump(include=fields), reason=".") for name, outcome in outcomes.items()}
        )
        return outcomes

    def _by(self, rubric: Rubric) -> str:
        """Return the instrument: the judges, their rule, and a hash of prompts that are not the built-in ones."""
        names = [judge.name for judge in self.of(rubric)]
        judges = names[0] if len(names) == 1 else f"{_rule(rubric)} of {', '.join(names)}"
        own_prompts = JUDGES.replaced(rubric.prompts, self.prompts)
        hashes = {name: self.hashes[rubric.name][name] for name in own_prompts}
        return f"{judges}, prompts {prompts_digest(hashes)}" if own_prompts else judges

    def variants(self, metrics: Sequence[Metric[Any]]) -> dict[str, str]:
        """Return metric -> a description of its instrument, for the comparison with published values.

        Args:
            metrics: the metrics without a judge; some of them are conditioned too.
        """
        descriptions = {name: self._description(rubric) for rubric in self.rubrics for name in rubric.names}
        all_descriptions = descriptions | {name: metric.by for metric in metrics for name in metric.names}
        to_condition = {name: text for name, text in all_descriptions.items() if is_conditioned(name)}
        is_official = {
            rubric.name: find_origin(rubric.prompts, self.prompts) == OFFICIAL
            for rubric in self.rubrics
            if rubric.name in (*VERDICTS, ASKS_BACK)
        }
        for verdict in VERDICTS:
            if verdict not in is_official:
                continue
            suffix = f" by {OFFICIAL}" if is_official[verdict] else ""
            descriptions[accuracy_of(verdict)] = f"accuracy of the IDK verdict, {all_descriptions[verdict]}"
            for name, text in to_condition.items():
                descriptions[name + mark_of(verdict)] = f"{text}, conditioned on IDK{suffix}"
        if {IDK, ASKS_BACK} <= is_official.keys():
            suffix = " by the papers' prompts" if is_official[IDK] and is_official[ASKS_BACK] else ""
            for name, text in to_condition.items():
                descriptions[name + UNDERSPECIFIED_SUFFIX] = f"{text}, conditioned on IDK and clarification{suffix}"
        return descriptions

    def _description(self, rubric: Rubric) -> str:
        origin = find_origin(rubric.prompts, self.prompts)
        return rubric.by.replace(OWN_WORDS, origin) if origin else rubric.by

    def models(self) -> dict[str, tuple[str, ...]]:
        """Return judged metric -> the language models that grade it."""
        return {
            rubric.name: tuple(judge.name for judge in self.of(rubric) if judge.has_model) for rubric in self.rubrics
        }

    def answered(self) -> dict[str, tuple[str, ...]]:
        """Return, for each judge whose model is an alias, the dated snapshots that answered, as the endpoint names
        them."""
        snapshots_of = {
            name: tuple(sorted(model for model in models if is_snapshot(model, name)))
            for name, models in self._models.items()
        }
        return {name: snapshots for name, snapshots in snapshots_of.items() if snapshots}

    def panels(self) -> dict[str, Panel]:
        """Return judged metric -> its judges and their agreement."""
        panels = {}
        for rubric in self.rubrics:
            names = [judge.name for judge in self.of(rubric)]
            answered = {name: snapshots for name, snapshots in self.answered().items() if name in names}
            agreement = panel_agreement(rubric, names, self._seen[rubric.name], self._clusters[rubric.name])
            panels[rubric.name] = agreement.model_copy(update={"answered": answered})
        return panels

    def warnings(self) -> list[str]:
        """Return warnings for the top of the report about judges that are the model under test."""
        models = [judge.name for judge in self.judges if judge.has_model]
        tested = [name for name in models if any(same_model(name, generator) for generator in self.tested)]
        return [f"the judge {name} is the model under test: it grades its own answers" for name in tested]

    def _unvarying(self) -> Iterator[str]:
        """Yield a note for each judge of several replies that rates all of them alike."""
        for rubric in (rubric for rubric in self.rubrics if rubric.values is None):
            for judge in self.of(rubric):
                outcomes = [case[judge.name] for case in self._seen[rubric.name] if judge.name in case]
                values = [outcome.value for outcome in outcomes if outcome.value is not None]
                if judge.has_model and len(values) >= MIN_JUDGED and len(set(values)) == 1:
                    verdict = f"gives {values[0]:g} to all {len(values)} replies and tells nothing apart"
                    yield f"{rubric.name}: the judge {judge.name} {verdict}"

    def notes(self) -> list[str]:
        """Return notes for the summary: the judges, their agreement, and the failed or missing judgments."""
        if not self.judges:
            return ["the judges grade none of the metrics of this task"]
        judges = ", ".join(with_snapshots(judge.name, self.answered()) for judge in self.judges)
        notes = [f"judged by {judges}; their verdicts are in {JUDGMENTS_FILE}"]
        panels = {name: panel for name, panel in self.panels().items() if panel.n}
        alphas = [f"{name} {'undefined' if one.alpha is None else f'{one.alpha:.2f}'}" for name, one in panels.items()]
        if alphas:
            notes.append(f"agreement of the judges (Krippendorff's alpha): {', '.join(alphas)}")
        failures = {kind: count for kind, count in self._failures.most_common() if kind != BUDGET}
        if failures:
            kinds = ", ".join(f"{kind.replace('_', ' ')} {count}" for kind, count in failures.items())
            notes.append(f"{sum(failures.values())} judgments failed: {kinds}; scoring the run again retries them")
        notes += [*self._unvarying(), *self.budget_notes()]
        if self._from_cache:
            cached = f"{self._from_cache} of {self._by_models} verdicts come from the response cache (cache=1)"
            notes.append(f"{cached}; they are not independent of the run that asked for them")
        if self._cut:
            notes.append(f"{self._cut} judgments are based on truncated material; their scores say which")
        if not self.tested and any(judge.has_model for judge in self.judges):
            notes.append("the model that wrote the answers is unknown, so a judge may be the model under test")
        return notes


# --- several judges --------------------------------------------------------------------------------------------------


def _rule(rubric: Rubric) -> str:
    return "majority" if rubric.values is not None else "median"


def panel_outcome(rubric: Rubric, outcomes: Mapping[str, Outcome]) -> Outcome:
    """Combine the outcomes of one or several judges.

    Numbers: the median. Labels: the majority; in a tie, the label of the judge named first among them. Judges that find
    nothing to judge do not count. If one judge has failed, the panel has failed, because the median of fewer judges is
    a different instrument.

    Args:
        outcomes: judge -> outcome, in the order in which the judges were named.
    """
    failed = {name: outcome for name, outcome in outcomes.items() if outcome.status == "failed"}
    if failed:
        counts = f"{len(failed)} of {len(outcomes)} judges failed: " if len(outcomes) > 1 else ""
        return Outcome(status="failed", reason=counts + _failures(failed, len(outcomes)))
    scored = {name: outcome for name, outcome in outcomes.items() if outcome.status == "scored"}
    if not scored:
        return next(iter(outcomes.values()))
    unscored = {name: outcome for name, outcome in outcomes.items() if name not in scored}
    remarks = [f"{name}: nothing to judge ({_shorten(one.reason, 120)})" for name, one in unscored.items()]
    notes = dict.fromkeys(note for outcome in scored.values() for note in outcome.notes)
    if notes:
        remarks.append(f"cut to fit the judge's context: {'; '.join(notes)}")
    label = None
    if rubric.values is not None:
        label, is_tie = majority([outcome.label or "" for outcome in scored.values()])
        if is_tie:
            remarks.insert(0, "split evenly; the judge named first decides")
        reasons = _reasons(scored, lambda outcome: outcome.label or "")
        value, weight = rubric.values[label], 1.0
    else:
        reasons = _reasons(scored, lambda outcome: f"{outcome.value:g}")
        value = median(outcome.value for outcome in scored.values() if outcome.value is not None)
        weight = median(outcome.weight for outcome in scored.values())
    also: dict[str, float | None] = {}
    for name in rubric.also:
        values = [outcome.also.get(name) for outcome in scored.values()]
        numbers = [number for number in values if number is not None]
        also[name] = median(numbers) if numbers else None
    reason = " — ".join(filter(None, [reasons, "; ".join(remarks)]))
    return Outcome(status="scored", value=value, label=label, reason=reason, weight=weight, also=also)


def rubric_scores(rubric: Rubric, outcome: Outcome, about: Mapping[str, Any]) -> Iterator[Score]:
    """Yield the scores of a rubric: its metric, and the further metrics of the same call."""
    fields: dict[str, Any] = {"status": outcome.status, "reason": outcome.reason or None, **about}
    yield Score(metric=rubric.name, value=outcome.value, weight=outcome.weight, **fields)
    absent_fields = fields | {"status": "not_applicable", "reason": "the judge's reply has none"}
    for name in rubric.also:
        value = outcome.also.get(name)
        is_absent = outcome.status == "scored" and value is None
        yield Score(metric=name, value=value, **(absent_fields if is_absent else fields))


def majority(labels: Sequence[str]) -> tuple[str, bool]:
    """Return the most common label (the first one in a tie), and whether there is a tie."""
    counts = Counter(labels).most_common()
    label, count = counts[0]
    is_tie = len(counts) > 1 and counts[1][1] == count
    return label, is_tie


def _failures(failed: Mapping[str, Outcome], judges: int) -> str:
    lines = []
    for name, outcome in failed.items():
        line = f"{name}: {outcome.reason}" if judges > 1 else outcome.reason
        if outcome.raw.strip():
            line += f"; it wrote: {_shorten(outcome.raw, 200)}"
        lines.append(line)
    return " | ".join(lines)


def _reasons(scored: Mapping[str, Outcome], value: Callable[[Outcome], str]) -> str:
    """Return the shortened reasons of the judges, each with its value if there are several judges."""
    if len(scored) == 1:
        return _shorten(next(iter(scored.values())).reason, MAX_REASON_CHARACTERS)
    share = max(80, MAX_REASON_CHARACTERS // len(scored))
    return " | ".join(
        f"{name}: {value(outcome)}, {_shorten(outcome.reason, share)}" for name, outcome in scored.items()
    )


def _shorten(text: str, limit: int) -> str:
    """Return a text on one line. If it is too long, return only its end, because judges write their verdict last."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"… {line[-limit:]}"


def panel_agreement(
    rubric: Rubric, judges: Sequence[str], cases: Sequence[Mapping[str, Outcome]], clusters: Sequence[str] = ()
) -> Panel:
    """Return the agreement of the judges over many cases, their means and failures.

    Args:
        cases: judge -> outcome, for each case.
        clusters: the bootstrap cluster of each case; if it is empty, no confidence interval is computed.
    """
    outcomes = {name: [case[name] for case in cases] for name in judges}
    values = {
        name: [(each.value, each.weight) for each in given if each.value is not None]
        for name, given in outcomes.items()
    }
    rated = [[each.value if rubric.values is None else each.label for each in given] for given in outcomes.values()]
    units = list(zip(*rated, strict=True))
    cluster_numbers = np.unique(clusters, return_inverse=True)[1] if clusters else None
    alpha = alpha_statistic(units, rubric.level, cluster_numbers)
    means = {
        name: sum(value * weight for value, weight in pairs) / sum(weight for _, weight in pairs) if pairs else None
        for name, pairs in values.items()
    }
    rated_by_several = [unit for unit in units if sum(value is not None for value in unit) > 1]
    return Panel(
        judges=tuple(judges),
        rule="one judge" if len(judges) == 1 else _rule(rubric),
        alpha=alpha.value if alpha else None,
        alpha_ci95=intervals([alpha], 0)[0] if clusters and alpha else None,
        level=rubric.level,
        n=len(rated_by_several),
        means=means,
        judged={name: len(pairs) for name, pairs in values.items()},
        failed={name: sum(each.status == "failed" for each in given) for name, given in outcomes.items()},
    )
