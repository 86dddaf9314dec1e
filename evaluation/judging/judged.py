"""The judging of a run: one pass asks the judges, another reads what they said.

Judging never generates: it takes the samples of a run as they are, asks what it has no judgement for yet, and keeps
what it is told in `judgements.jsonl` of the run. A run that is scored again, by these judges or by more, asks only what
is new and what failed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from assistant.config import Budget, Price
from assistant.generators.base import GeneratorError, make_ready
from assistant.types import Usage
from corpora.console import shown
from corpora.progress import Progress
from corpora.types import Problem
from evaluation.benchmarks.base import Benchmark, Item, Metric
from evaluation.judging.conditioning import (
    VERDICTS,
    accuracy,
    accuracy_of,
    is_conditioned,
    mark_of,
    unjudged,
    with_conditioned,
)
from evaluation.judging.derived import Derived, derived
from evaluation.judging.measures import Measure
from evaluation.judging.panels import Joint, agreement, further, joint, slim
from evaluation.judging.purse import BUDGET, Purse
from evaluation.judging.records import Case, Judgement, Outcome
from evaluation.judging.seats import Seat, same_model
from evaluation.judging.store import FILE, JudgementFile, asked_with, key_of
from evaluation.judging.work import at_once
from evaluation.prompts import prompt_hashes
from evaluation.records import Panel, Sample, Score
from evaluation.run import RunFolder
from evaluation.scorers import Found, Scorers, judged

AT_ONCE = 16
HOPELESS, IN_A_ROW = "auth", 3
"""A kind of failure that every further call of a judge would meet, and how often it is met before it is believed."""
REPAIR_PROMPT = "verdict-repair"
ROLE = "judge"


@dataclass(frozen=True)
class _Job:
    sample: Sample
    case: Case
    measure: Measure
    seat: Seat
    key: str
    before: Judgement | None


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
        case: Callable[[Item, Sample, Any], Case],
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
        self.seconds = 0.0
        self.usage = Usage()
        self._case, self._tested, self._prices, self._prompts = case, tuple(tested), prices or {}, prompts
        self._purse = Purse(budget, self._priced, prompts, elsewhere)
        self._at_once = 1 if any(seat.name.startswith("replay:") for seat in seats) else at_once
        self._hashes = {
            one.name: prompt_hashes((*one.prompts, *([REPAIR_PROMPT] * (one.offers is not None))), prompts)
            for one in self.measures
        }
        self._file: JudgementFile | None = None
        self._stopped: dict[str, str] = {}
        self._hopeless: Counter[str] = Counter()
        self._seen: dict[str, list[Mapping[str, Outcome]]] = {one.name: [] for one in self.measures}
        self._counted: set[str] = set()
        self._failures: Counter[str] = Counter()
        self._cut = 0

    @property
    def prompt_hashes(self) -> dict[str, str]:
        """Prompt -> hash, of all that are asked with."""
        return {name: value for hashes in self._hashes.values() for name, value in hashes.items()}

    def _of(self, measure: Measure) -> list[Seat]:
        return [seat for seat in self.seats if seat.judges(measure.name)]

    def _derived(self) -> list[Derived]:
        return [one for measure in self.measures for one in measure.derived]

    # --- asking ------------------------------------------------------------------------------------------------------

    def ask(
        self, run: RunFolder, benchmark: Benchmark[Any], progress: Progress, scorers: Scorers | None = None
    ) -> None:
        """Ask the judges what there is no judgement for yet, and write each down as it comes.

        Args:
            scorers: who answers for judges without a language model; None: this process.

        Raises:
            OSError: a judgement could not be written; those before it are on file.
        """
        began = time.perf_counter()
        self._file = JudgementFile(run.path / FILE)
        asked = sum(len(self._of(measure)) for measure in self.measures)
        progress.start(f"judging {shown(run.manifest.benchmark)}", len(run.samples) * asked)
        try:
            failed = 0
            self._purse.open(run, self._file)
            for job, (judgement, used) in self._done(partial(self._jobs, run, benchmark, progress), scorers):
                self._file.append(judgement)
                self._purse.spend(used)
                failed += judgement.status == "failed"
                self._hopeless[job.seat.name] = self._hopeless[job.seat.name] + 1 if judgement.kind == HOPELESS else 0
                if self._hopeless[job.seat.name] >= IN_A_ROW:
                    self._stopped[job.seat.name] = judgement.reason
                if failed:
                    progress.tell(f"{failed} failed")
                progress.advance()
        finally:
            self._file.close()
        self.seconds = time.perf_counter() - began

    def close(self) -> None:
        """Close the file; nothing is read after this."""
        if self._file is not None:
            self._file.close()

    def _done(
        self, jobs: Callable[[Collection[Seat]], Iterator[_Job]], scorers: Scorers | None
    ) -> Iterator[tuple[_Job, tuple[Judgement, Usage]]]:
        """Each job with what came of it; calls of language models are made by this process, whoever does the rest."""
        here, there = list(self.seats), list[Seat]()
        if scorers is not None:
            here, there = [seat for seat in here if seat.has_model], [seat for seat in here if not seat.has_model]
        if scorers is not None and there:
            asked = ((job, (job.measure.name, job.seat.name, job.case)) for job in jobs(there))
            for job, found in scorers.judged(asked):
                yield job, self._written(job, found)
        if not here:
            return
        yield from at_once(
            jobs(here), self._judge, self._at_once,
            may=lambda job, running: self._purse.affords(job.seat, job.measure, job.case, running),
            refused=lambda job: self._purse.refuse(job.key),
        )  # fmt: skip

    def _jobs(
        self, run: RunFolder, benchmark: Benchmark[Any], progress: Progress, seats: Collection[Seat]
    ) -> Iterator[_Job]:
        assert self._file is not None, "opened before"
        taken: set[str] = set()
        ready: set[str] = set()
        for item, sample in _samples(run, benchmark):
            case = self._case_of(benchmark, item, sample)
            for measure in self.measures:
                for seat in filter(seats.__contains__, self._of(measure)):
                    key = "" if case is None or measure.without(case) else self._key(case, measure, seat)
                    if case is None or not key or key in taken or self._file.settled(key) or seat.name in self._stopped:
                        progress.advance()
                        continue
                    taken.add(key)
                    if seat.name not in ready:
                        ready.add(seat.name)
                        with suppress(GeneratorError):  # told by each call
                            make_ready(seat.generator)
                    yield _Job(sample, case, measure, seat, key, self._file.get(key))

    def _judge(self, job: _Job) -> tuple[Judgement, Usage]:
        """The judgement, and what it took this time."""
        generator = job.seat.asked(job.before.tries if job.before else 0)
        return self._written(job, judged(job.measure, generator, job.case, self._prompts))

    def _written(self, job: _Job, found: Found) -> tuple[Judgement, Usage]:
        outcome, seconds = found
        used = self._priced(job.seat, outcome.usage)
        before = job.before
        fields = {name: getattr(outcome, name) for name in Outcome.model_fields}
        made = Judgement(**(fields | {
            "usage": used + before.usage if before else used, "tries": 1 + (before.tries if before else 0),
            "key": job.key, "id": job.sample.id, "repeat": job.sample.repeat, "measure": job.measure.name,
            "judge": job.seat.name, "seconds": round(seconds, 4),
            "prompts": asked_with(self._hashes[job.measure.name]) if job.seat.has_model else "",
        }))  # fmt: skip
        return made, used

    def _priced(self, seat: Seat, used: Usage) -> Usage:
        from assistant.config import price_of

        price = price_of(seat.name, self._prices)
        if used.cost is not None or price is None:
            return used
        return used.model_copy(update={"cost": price.cost(used.prompt_tokens, used.completion_tokens)})

    def _key(self, case: Case, measure: Measure, seat: Seat) -> str:
        return key_of(case, measure, self._hashes[measure.name], seat.name)

    def _case_of(self, benchmark: Benchmark[Any], item: Item, sample: Sample) -> Case | None:
        if sample.status != "done":
            return None
        try:
            return self._case(item, sample, benchmark.context(item, sample))
        except Exception:  # told by the metrics, which meet it too
            return None

    # --- reading -----------------------------------------------------------------------------------------------------

    def scores(self, benchmark: Benchmark[Any], item: Item, sample: Sample, others: Sequence[Score]) -> list[Score]:
        """The judged scores of one sample, and those of all its metrics that are conditioned.

        Args:
            others: what was measured of it without a judge.
        """
        case = self._case_of(benchmark, item, sample)
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
                Score(metric=measure.name, status=found.status, value=found.value, reason=found.reason or None, **own)
            )
            made += further(measure, found, own)
        made += derived(self._derived(), made)
        lines = [*others, *made]
        for name, idk in verdicts.items():
            by = self._idk_by(name)
            failed = idk.reason if idk.status == "failed" else ""
            made.append(accuracy(case.answerability, idk.label, failed, by, name, about))
            made += with_conditioned(lines, case.answerability, idk.label, by, idk.reason, name)
        return made

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
        return made

    def _verdicts(self) -> list[str]:
        return [measure.name for measure in self.measures if measure.name in VERDICTS]

    def _idk_by(self, verdict: str) -> str:
        return "IDK by " + next(self._by(measure) for measure in self.measures if measure.name == verdict)

    def _joint(self, case: Case, measure: Measure) -> Joint:
        assert self._file is not None, "ask() comes first"
        why = measure.without(case)
        if why:
            return Joint(status="not_applicable", reason=why)
        outcomes: dict[str, Outcome] = {}
        for seat in self._of(measure):
            key = self._key(case, measure, seat)
            kept = self._file.get(key)
            if kept is None:
                outcomes[seat.name] = self._unasked(key, seat)
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

    def _unasked(self, key: str, seat: Seat) -> Outcome:
        """What becomes of a case that a judge was not asked about."""
        stopped = self._stopped.get(seat.name, "it was not asked")
        other = Outcome(status="failed", kind="not_judged", reason=f"not judged: {stopped}")
        return self._purse.refused(key) or other

    def _by(self, measure: Measure) -> str:
        names = [seat.name for seat in self.seats if seat.judges(measure.name)]
        if len(names) == 1:
            return names[0]
        return f"{'majority' if measure.values is not None else 'median'} of {', '.join(names)}"

    # --- summing up --------------------------------------------------------------------------------------------------

    def variants(self, metrics: Sequence[Metric[Any]]) -> dict[str, str]:
        """Metric -> what it is, for whoever sets it beside published figures.

        Args:
            metrics: those that are measured without a judge; some of them are conditioned too.
        """
        found = {name: measure.by for measure in self.measures for name in (measure.name, *measure.also)}
        found |= {one.name: one.by for one in self._derived()}
        named = found | {name: metric.by for metric in metrics for name in metric.names}
        for verdict in self._verdicts():
            found[accuracy_of(verdict)] = f"accuracy of the IDK verdict, {named[verdict]}"
            found |= {
                name + mark_of(verdict): f"{by}, conditioned on IDK"
                for name, by in named.items()
                if is_conditioned(name)
            }
        return found

    def panels(self) -> dict[str, Panel]:
        """Judged metric -> who judged it, and how they agree."""
        return {
            measure.name: agreement(measure, [seat.name for seat in self._of(measure)], self._seen[measure.name])
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
        notes += self._purse.notes()
        if self._cut:
            notes.append(f"{self._cut} judgements were made of less than the whole material, which their scores say")
        if not self._tested and any(seat.has_model for seat in self.seats):
            notes.append(
                "nothing says which model wrote the answers: that no judge is the model under test is not checked"
            )
        return notes


def _samples(run: RunFolder, benchmark: Benchmark[Any]) -> Iterator[tuple[Item, Sample]]:
    """The samples of a run with their items, in the data's order."""
    for item in benchmark.items():
        if isinstance(item, Problem):
            continue
        for repeat in range(run.manifest.repeat):
            sample = run.samples.get((item.id, repeat))
            if sample is not None:
                yield item, sample
