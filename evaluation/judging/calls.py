"""Ask the judges of a run what there is no judgement for yet, many at a time and within the budget, and store it."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from turnmark.assistant.config import Budget, Price
from turnmark.assistant.generators.base import ON_RATE_LIMIT, GeneratorError, make_ready
from turnmark.assistant.types import Usage
from turnmark.corpora.console import Progress, inert
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.base import Benchmark, Item
from turnmark.evaluation.judging.judge import Seat
from turnmark.evaluation.judging.judgements import FILE, Case, Judgement, JudgementFile, Outcome
from turnmark.evaluation.judging.rubrics import Measure, asked_with, key_of
from turnmark.evaluation.pace import Pace
from turnmark.evaluation.prompts import prompt_hashes
from turnmark.evaluation.records import Sample
from turnmark.evaluation.run import RunFolder
from turnmark.evaluation.scorers import Found, Scorers, judged
from turnmark.evaluation.spending import Ledger, spent_on

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
        progress.start(f"judging {inert(run.manifest.benchmark)}", len(run.samples) * asked)
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


BUDGET = "budget"
"""The kind of failure of a judgement that was not asked for, as it would have gone beyond `--budget`."""


class Purse:
    """A budget, what of it is spent, and the judgements that it did not reach to.

    Args:
        budget: the most that samples and judgements of the run may take; None: no limit.
        priced: judge, what a call took -> the same with its cost.
        prompts: folder with prompts of one's own.
        elsewhere: what other runs on the same budget have used.
    """

    def __init__(
        self,
        budget: Budget | None,
        priced: Callable[[Seat, Usage], Usage],
        prompts: Path | None,
        elsewhere: Usage | None = None,
    ) -> None:
        self._budget, self._priced, self._prompts = budget, priced, prompts
        self._elsewhere = elsewhere or Usage()
        self._ledger = Ledger()
        self._refused: set[str] = set()

    def open(self, run: RunFolder, file: JudgementFile) -> None:
        """Take in what is spent: on judgements, and on samples where they were made here and not handed in."""
        made_here = "generator" in run.manifest.specs
        spent = file.used() + (spent_on(run.samples) if made_here else Usage())
        self._ledger = Ledger(budget=self._budget, spent=spent + self._elsewhere)

    def affords(self, seat: Seat, measure: Measure, case: Case, running: int) -> bool:
        """Whether one more judgement fits beside so many that run. Judges without a language model cost nothing."""
        if self._budget is None or not seat.has_model:
            return True
        if not self._ledger.guessed:
            from turnmark.evaluation.judging.estimate import counted

            with suppress(Exception):  # a measure that cannot be counted: known once its first call has ended
                self._ledger.expect(self._priced(seat, counted(measure, case, self._prompts)))
        return self._ledger.affords(running)

    def spend(self, used: Usage) -> None:
        """Take down what a judgement took, priced."""
        self._ledger.spend({"judge": used})

    def refuse(self, key: str) -> None:
        """Take down that a judgement was not asked for."""
        self._refused.add(key)

    def refused(self, key: str) -> Outcome | None:
        """What a judgement is that was not asked for; None for any other."""
        if key not in self._refused:
            return None
        return Outcome(status="failed", kind=BUDGET, reason=f"{BUDGET}: {self._ledger.exhausted()}")

    def notes(self) -> list[str]:
        """What the summary says of it."""
        if not self._refused:
            return []
        n = len(self._refused)
        return [f"judging {self._ledger.exhausted()}; {n} judgements were not asked for, and are with a larger budget"]


J = TypeVar("J")
R = TypeVar("R")


def at_once(
    jobs: Iterator[J],
    do: Callable[[J], R],
    most: int,
    may: Callable[[J, int], bool] = lambda _, __: True,
    refused: Callable[[J], None] = lambda _: None,
) -> Iterator[tuple[J, R]]:
    """What `do` makes of each job, as it comes; one after the other in this thread where `most` is 1.

    Args:
        jobs: taken one by one, by this thread.
        most: jobs at once; fewer while an endpoint answers 429.
        may: job, how many run -> whether it may be started beside them; asked again once one of them has ended.
        refused: told of a job that may not be started though nothing else runs; it is left out.

    Raises:
        Exception: what `do` raised, once it is met; nothing more is started then.
    """
    if most == 1:
        for job in jobs:
            if may(job, 0):
                yield job, do(job)
            else:
                refused(job)
        return
    pace = Pace(most)
    asked: queue.SimpleQueue[tuple[J] | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[J, R | None, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        ON_RATE_LIMIT.set(pace.slow_down)
        while (taken := asked.get()) is not None:
            (job,) = taken
            try:
                done.put((job, do(job), None))
            except BaseException as error:
                done.put((job, None, error))

    running, threads, left = 0, 0, True
    waiting: J | None = None
    try:
        while True:
            while left and running < pace.limit:
                following = waiting if waiting is not None else next(jobs, None)
                waiting = None
                if following is None:
                    left = False
                    break
                if not may(following, running):
                    if running:
                        waiting = following
                        break
                    refused(following)
                    continue
                if threads < min(most, running + 1):
                    threading.Thread(target=work, daemon=True, name="judge").start()
                    threads += 1
                asked.put((following,))
                running += 1
            if not running:
                return
            job, result, error = done.get()
            running -= 1
            if error is not None:
                raise error
            pace.went_well()
            yield job, result  # type: ignore[misc]
    finally:
        for _ in range(threads):
            asked.put(None)
