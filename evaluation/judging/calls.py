"""Asking the judges of a run what there is no judgement for yet, and keeping what they say."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from turnmark.assistant.config import Budget, Price
from turnmark.assistant.generators.base import GeneratorError, make_ready
from turnmark.assistant.types import Usage
from turnmark.corpora.console import shown
from turnmark.corpora.progress import Progress
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.base import Benchmark, Item
from turnmark.evaluation.judging.measures import Measure
from turnmark.evaluation.judging.purse import Purse
from turnmark.evaluation.judging.records import Case, Judgement, Outcome
from turnmark.evaluation.judging.seats import Seat
from turnmark.evaluation.judging.store import FILE, JudgementFile, asked_with, key_of
from turnmark.evaluation.judging.work import at_once
from turnmark.evaluation.prompts import prompt_hashes
from turnmark.evaluation.records import Sample
from turnmark.evaluation.run import RunFolder
from turnmark.evaluation.scorers import Found, Scorers, judged

AT_ONCE = 16
HOPELESS, IN_A_ROW = "auth", 3
"""A kind of failure that every further call of a judge would meet, and how often it is met before it is believed."""
REPAIR_PROMPT = "verdict-repair"

CaseOf = Callable[[Item, Sample, Any], Case]
"""Item, sample that is done, its metrics' context -> what is judged."""


@dataclass(frozen=True)
class _Job:
    sample: Sample
    case: Case
    measure: Measure
    seat: Seat
    key: str
    before: Judgement | None


class Calls:
    """What is asked of judges, and the file of what they said; for the arguments see
    `turnmark.evaluation.judging.judged`.
    """

    def __init__(
        self,
        seats: Sequence[Seat],
        measures: Sequence[Measure],
        case: CaseOf,
        *,
        at_once: int,
        prices: Mapping[str, Price],
        prompts: Path | None,
        budget: Budget | None,
        elsewhere: Usage | None,
    ) -> None:
        self.seats, self.measures = tuple(seats), tuple(measures)
        self.seconds = 0.0
        self.purse = Purse(budget, self._priced, prompts, elsewhere)
        self.hashes = {
            one.name: prompt_hashes((*one.prompts, *([REPAIR_PROMPT] * (one.offers is not None))), prompts)
            for one in self.measures
        }
        self._case, self._prices, self._prompts = case, prices, prompts
        self._at_once = 1 if any(seat.name.startswith("replay:") for seat in seats) else at_once
        self._file: JudgementFile | None = None
        self._stopped: dict[str, str] = {}
        self._hopeless: Counter[str] = Counter()

    def of(self, measure: Measure) -> list[Seat]:
        """Who is asked for a measure."""
        return [seat for seat in self.seats if seat.judges(measure.name)]

    def key(self, case: Case, measure: Measure, seat: Seat) -> str:
        """What a judgement is kept under."""
        return key_of(case, measure, self.hashes[measure.name], seat.name)

    def kept(self, key: str) -> Judgement | None:
        """The last judgement under a key."""
        assert self._file is not None, "ask() comes first"
        return self._file.get(key)

    def unasked(self, key: str, seat: Seat) -> Outcome:
        """What becomes of a case that a judge was not asked about."""
        stopped = self._stopped.get(seat.name, "it was not asked")
        other = Outcome(status="failed", kind="not_judged", reason=f"not judged: {stopped}")
        return self.purse.refused(key) or other

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
        asked = sum(len(self.of(measure)) for measure in self.measures)
        progress.start(f"judging {shown(run.manifest.benchmark)}", len(run.samples) * asked)
        try:
            failed = 0
            self.purse.open(run, self._file)
            for job, (judgement, used) in self._done(partial(self._jobs, run, benchmark, progress), scorers):
                self._file.append(judgement)
                self.purse.spend(used)
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
            may=lambda job, running: self.purse.affords(job.seat, job.measure, job.case, running),
            refused=lambda job: self.purse.refuse(job.key),
        )  # fmt: skip

    def _jobs(
        self, run: RunFolder, benchmark: Benchmark[Any], progress: Progress, seats: Collection[Seat]
    ) -> Iterator[_Job]:
        assert self._file is not None, "opened before"
        taken: set[str] = set()
        ready: set[str] = set()
        for item, sample in _samples(run, benchmark):
            case = self.case_of(benchmark, item, sample)
            for measure in self.measures:
                for seat in filter(seats.__contains__, self.of(measure)):
                    key = "" if case is None or measure.without(case) else self.key(case, measure, seat)
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
            "prompts": asked_with(self.hashes[job.measure.name]) if job.seat.has_model else "",
        }))  # fmt: skip
        return made, used

    def _priced(self, seat: Seat, used: Usage) -> Usage:
        from turnmark.assistant.config import price_of

        price = price_of(seat.name, self._prices)
        if used.cost is not None or price is None:
            return used
        return used.model_copy(update={"cost": price.cost(used.prompt_tokens, used.completion_tokens)})

    def case_of(self, benchmark: Benchmark[Any], item: Item, sample: Sample) -> Case | None:
        """What is judged of a sample; None where it is not done, or cannot be read."""
        if sample.status != "done":
            return None
        try:
            return self._case(item, sample, benchmark.context(item, sample))
        except Exception:  # told by the metrics, which meet it too
            return None


def _samples(run: RunFolder, benchmark: Benchmark[Any]) -> Iterator[tuple[Item, Sample]]:
    """The samples of a run with their items, in the data's order."""
    for item in benchmark.items():
        if isinstance(item, Problem):
            continue
        for repeat in range(run.manifest.repeat):
            sample = run.samples.get((item.id, repeat))
            if sample is not None:
                yield item, sample
