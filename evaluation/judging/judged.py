"""The judging of a run: one pass asks the judges, another reads what they said.

Judging never generates: it takes the samples of a run as they are, asks what it has no judgement for yet, and keeps
what it is told in `judgements.jsonl` of the run. A run that is scored again, by these judges or by more, asks only what
is new and what failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from turnmark.assistant.config import Budget, Price
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.types import Usage
from turnmark.corpora.console import Progress
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.base import Benchmark, Item, Metric
from turnmark.evaluation.judging.calls import AT_ONCE, BUDGET, Calls, CaseOf
from turnmark.evaluation.judging.conditioning import (
    ASKS_BACK,
    IDK,
    UNDERSPECIFIED,
    VERDICTS,
    accuracy,
    accuracy_of,
    is_conditioned,
    mark_of,
    unjudged,
    with_conditioned,
    with_underspecified,
)
from turnmark.evaluation.judging.judge import Seat, same_model
from turnmark.evaluation.judging.judgements import FILE, Case, Outcome
from turnmark.evaluation.judging.panels import Joint, agreement, further, joint, slim
from turnmark.evaluation.judging.prompting import OFFICIAL, whose
from turnmark.evaluation.judging.rubrics import OWN_WORDS, Derived, Measure, asked_with, derived
from turnmark.evaluation.prompts import own_names
from turnmark.evaluation.records import Panel, Sample, Score
from turnmark.evaluation.run import RunFolder
from turnmark.evaluation.scorers import Scorers
from turnmark.evaluation.summary import Facts, Ranked

ROLE = "judge"


class Judging:
    """Judges, what they are asked, and what they said of a run.

    Args:
        seats: in the order in which they were named.
        measures: what they are asked; those that no judge is there for are left out.
        case: item, sample that is done, its metrics' context -> what is judged.
        tested: specs of the generators that wrote the samples, where that is known.
        at_once: calls at a time; a script is asked one thing after the other.
        prices: of models, by name or spec.
        prompts: folder with prompts of one's own.
        budget: the most that samples and judgements of the run may take; None: no limit.
        elsewhere: what other runs on the same budget have used.
    """

    def __init__(
        self,
        seats: Sequence[Seat],
        measures: Sequence[Measure],
        case: CaseOf,
        *,
        tested: Sequence[str] = (),
        at_once: int = AT_ONCE,
        prices: Mapping[str, Price] | None = None,
        prompts: Path | None = None,
        budget: Budget | None = None,
        elsewhere: Usage | None = None,
    ) -> None:
        self.seats = tuple(seat for seat in seats if any(seat.judges(one.name) for one in measures))
        self.measures = tuple(one for one in measures if any(seat.judges(one.name) for seat in seats))
        self.usage = Usage()
        self._tested, self._prompts = tuple(tested), prompts
        self._calls = Calls(
            self.seats, self.measures, case,
            at_once=at_once, prices=prices or {}, prompts=prompts, budget=budget, elsewhere=elsewhere,
        )  # fmt: skip
        self._seen: dict[str, list[Mapping[str, Outcome]]] = {one.name: [] for one in self.measures}
        self._counted: set[str] = set()
        self._failures: Counter[str] = Counter()
        self._cut = 0

    @property
    def prompt_hashes(self) -> dict[str, str]:
        """Prompt -> hash, of all that are asked with."""
        return {name: value for hashes in self._calls.hashes.values() for name, value in hashes.items()}

    @property
    def seconds(self) -> float:
        """How long the judges were asked."""
        return self._calls.seconds

    def ask(
        self, run: RunFolder, benchmark: Benchmark[Any], progress: Progress, scorers: Scorers | None = None
    ) -> None:
        """Ask the judges what there is no judgement for yet; see `turnmark.evaluation.judging.calls`.

        Raises:
            OSError: a judgement could not be written; those before it are on file.
        """
        self._calls.ask(run, benchmark, progress, scorers)

    def close(self) -> None:
        """Close the file; nothing is read after this."""
        self._calls.close()

    def _derived(self) -> list[Derived]:
        return [one for measure in self.measures for one in measure.derived]

    # --- reading -----------------------------------------------------------------------------------------------------

    def scores(self, benchmark: Benchmark[Any], item: Item, sample: Sample, others: Sequence[Score]) -> list[Score]:
        """The judged scores of one sample, and those of all its metrics that are conditioned.

        Args:
            others: what was measured of it without a judge.
        """
        case = self._calls.case_of(benchmark, item, sample)
        if case is None:
            return self._unjudged(sample, others)
        made: list[Score] = []
        verdicts: dict[str, Joint] = {}
        about: dict[str, Any] = {"id": sample.id, "repeat": sample.repeat}
        for measure in self.measures:
            found = self._joint(case, measure)
            if measure.name in VERDICTS:
                verdicts[measure.name] = found
            own = about | {"by": self._by(measure)}
            made.append(
                Score(
                    metric=measure.name, status=found.status, value=found.value, weight=found.weight,
                    reason=found.reason or None, **own,
                )
            )  # fmt: skip
            made += further(measure, found, own)
        made += derived(self._derived(), made)
        lines = [*others, *made]
        for name, idk in verdicts.items():
            by = self._idk_by(name)
            failed = idk.reason if idk.status == "failed" else ""
            made.append(accuracy(case.answerability, idk.label, failed, by, name, about))
            made += with_conditioned(lines, case.answerability, idk.label, by, idk.reason, name)
        return [*made, *self._underspecified(made, case.answerability)]

    def _underspecified(self, scores: Sequence[Score], answerability: str | None) -> list[Score]:
        """Further lines of a benchmark whose underspecified tasks are judged by whether the reply asks back."""
        verdict = next((score for score in scores if score.metric == ASKS_BACK), None)
        return with_underspecified(scores, answerability, verdict) if verdict else []

    def _unjudged(self, sample: Sample, others: Sequence[Score]) -> list[Score]:
        """The lines of a sample that failed, was skipped, or cannot be read; as the other metrics have them."""
        status = "not_applicable" if sample.status == "skipped" else "failed"
        reason = sample.reason or "what is judged cannot be put together"
        about: dict[str, Any] = {"id": sample.id, "repeat": sample.repeat, "status": status, "reason": reason}
        made = [
            Score(metric=name, by=self._by(measure), **about)
            for measure in self.measures
            for name in (measure.name, *measure.also)
        ]
        made += derived(self._derived(), made)
        lines = [*others, *made]
        for name in self._verdicts():
            made += unjudged(lines, self._idk_by(name), name, about)
        return [*made, *self._underspecified(made, None)]

    def _verdicts(self) -> list[str]:
        return [measure.name for measure in self.measures if measure.name in VERDICTS]

    def _idk_by(self, verdict: str) -> str:
        return "IDK by " + next(self._by(measure) for measure in self.measures if measure.name == verdict)

    def _joint(self, case: Case, measure: Measure) -> Joint:
        why = measure.without(case)
        if why:
            return Joint(status="not_applicable", reason=why)
        outcomes: dict[str, Outcome] = {}
        for seat in self._calls.of(measure):
            key = self._calls.key(case, measure, seat)
            kept = self._calls.kept(key)
            if kept is None:
                outcomes[seat.name] = self._calls.unasked(key, seat)
                self._failures[outcomes[seat.name].kind or "error"] += 1
                continue
            outcomes[seat.name] = kept
            if key not in self._counted:
                self._counted.add(key)
                self.usage += kept.usage
                self._cut += bool(kept.notes)
                self._failures.update([kept.kind or "error"] if kept.status == "failed" else [])
        self._seen[measure.name].append({name: slim(one) for name, one in outcomes.items()})
        return joint(measure, outcomes)

    def _by(self, measure: Measure) -> str:
        names = [seat.name for seat in self.seats if seat.judges(measure.name)]
        rule = "majority" if measure.values is not None else "median"
        who = names[0] if len(names) == 1 else f"{rule} of {', '.join(names)}"
        own = own_names(measure.prompts, self._prompts)
        hashes = {name: self._calls.hashes[measure.name][name] for name in own}
        return f"{who}, prompts {asked_with(hashes)}" if own else who

    # --- summing up --------------------------------------------------------------------------------------------------

    def variants(self, metrics: Sequence[Metric[Any]]) -> dict[str, str]:
        """Metric -> what it is, for whoever sets it beside published figures.

        Args:
            metrics: those that are measured without a judge; some of them are conditioned too.
        """
        found = {name: self._what(measure) for measure in self.measures for name in (measure.name, *measure.also)}
        found |= {one.name: one.by for one in self._derived()}
        named = found | {name: metric.by for metric in metrics for name in metric.names}
        for measure in self.measures:
            if measure.name not in VERDICTS:
                continue
            by = f" by {OFFICIAL}" if whose(measure.prompts, self._prompts) == OFFICIAL else ""
            found[accuracy_of(measure.name)] = f"accuracy of the IDK verdict, {named[measure.name]}"
            found |= {
                name + mark_of(measure.name): f"{what}, conditioned on IDK{by}"
                for name, what in named.items()
                if is_conditioned(name)
            }
        return found | self._underspecified_variants(named)

    def _underspecified_variants(self, named: Mapping[str, str]) -> dict[str, str]:
        verdicts = [measure for measure in self.measures if measure.name in (IDK, ASKS_BACK)]
        if len(verdicts) < 2:
            return {}
        papers = all(whose(measure.prompts, self._prompts) == OFFICIAL for measure in verdicts)
        by = " by the papers' prompts" if papers else ""
        return {
            name + UNDERSPECIFIED: f"{what}, conditioned on IDK and clarification{by}"
            for name, what in named.items()
            if is_conditioned(name)
        }

    def _what(self, measure: Measure) -> str:
        """What a measure is, with whose prompts."""
        theirs = whose(measure.prompts, self._prompts)
        return measure.by.replace(OWN_WORDS, theirs) if theirs else measure.by

    def panels(self) -> dict[str, Panel]:
        """Judged metric -> who judged it, and how they agree."""
        return {
            measure.name: agreement(measure, [seat.name for seat in self._calls.of(measure)], self._seen[measure.name])
            for measure in self.measures
        }

    def warnings(self) -> list[str]:
        """What has to be said before anything else: that a judge is the model under test."""
        models = [seat.name for seat in self.seats if seat.has_model]
        same = [name for name in models if any(same_model(name, other) for other in self._tested)]
        return [f"the judge {name} is the model under test: it grades its own answers" for name in same]

    def notes(self) -> list[str]:
        """What else the summary says of the judging."""
        if not self.seats:
            return ["nothing here is one of the metrics that the judges are asked for"]
        notes = [f"judged by {', '.join(seat.name for seat in self.seats)}; what each of them said is in {FILE}"]
        agree = {name: panel.alpha for name, panel in self.panels().items() if panel.n}
        if agree:
            told = ", ".join(
                f"{name} {'undefined' if alpha is None else f'{alpha:.2f}'}" for name, alpha in agree.items()
            )
            notes.append(f"agreement of the judges (Krippendorff's alpha): {told}")
        failures = {kind: count for kind, count in self._failures.most_common() if kind != BUDGET}
        if failures:
            kinds = ", ".join(f"{kind.replace('_', ' ')} {count}" for kind, count in failures.items())
            notes.append(f"{sum(failures.values())} judgements failed: {kinds}; a new scoring asks for them again")
        notes += self._calls.purse.notes()
        if self._cut:
            notes.append(f"{self._cut} judgements were made of less than the whole material, which their scores say")
        if not self._tested and any(seat.has_model for seat in self.seats):
            notes.append(
                "nothing says which model wrote the answers: that no judge is the model under test is not checked"
            )
        return notes


class Judged:
    """A benchmark as it is, with judges; see `turnmark.evaluation.benchmarks.base.Benchmark`."""

    def __init__(self, benchmark: Benchmark[Any], judging: Judging) -> None:
        self._benchmark, self.judging = benchmark, judging

    @property
    def metrics(self) -> Sequence[Metric[Any]]:
        """See `Benchmark.metrics`: those without a judge."""
        return self._benchmark.metrics

    def items(self) -> Iterator[Item | Problem]:
        """See `Benchmark.items`."""
        return self._benchmark.items()

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """See `Benchmark.answer`."""
        return self._benchmark.answer(item, generator)

    def context(self, item: Item, sample: Sample) -> Any:
        """See `Benchmark.context`."""
        return self._benchmark.context(item, sample)

    def facts(self, item: Item) -> Facts:
        """See `Benchmark.facts`."""
        return self._benchmark.facts(item)

    def rankings(self, item: Item, sample: Sample) -> Mapping[str, Ranked]:
        """See `Benchmark.rankings`."""
        return self._benchmark.rankings(item, sample)
