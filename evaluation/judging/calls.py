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
from turnmark.evaluation.benchmarks.base import Benchmark, Item, attempted
from turnmark.evaluation.budget import Ledger, spent_on
from turnmark.evaluation.judging.judge import Judge
from turnmark.evaluation.judging.judgements import FILE, Case, Judgement, JudgementJournal, Outcome
from turnmark.evaluation.judging.rubrics import Rubric, judgement_key, prompts_digest
from turnmark.evaluation.limits import AdaptiveConcurrency
from turnmark.evaluation.prompts import prompt_hashes
from turnmark.evaluation.records import Sample
from turnmark.evaluation.rundir import RunFolder
from turnmark.evaluation.scorers import Scorers, TimedOutcome, judged_here

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
    rubric: Rubric
    judge: Judge
    key: str
    previous: Judgement | None


class JudgeCalls:
    """What is asked of judges, and the file of what they said; for the arguments see
    `turnmark.evaluation.judging.judged`.
    """

    def __init__(
        self,
        judges: Sequence[Judge],
        rubrics: Sequence[Rubric],
        case: CaseOf,
        *,
        at_once: int,
        prices: Mapping[str, Price],
        prompts: Path | None,
        budget: Budget | None,
        elsewhere: Usage | None,
    ) -> None:
        self.judges, self.rubrics = tuple(judges), tuple(rubrics)
        self.seconds = 0.0
        self.budget_left = JudgeBudget(budget, self._priced, prompts, elsewhere)
        self.hashes = {
            rubric.name: prompt_hashes((*rubric.prompts, *([REPAIR_PROMPT] * (rubric.offers is not None))), prompts)
            for rubric in self.rubrics
        }
        self._case, self._prices, self._prompts = case, prices, prompts
        self._at_once = 1 if any(judge.name.startswith("replay:") for judge in judges) else at_once
        self._file: JudgementJournal | None = None
        self._stopped: dict[str, str] = {}
        self._hopeless: Counter[str] = Counter()

    def of(self, rubric: Rubric) -> list[Judge]:
        """Who is asked for a rubric."""
        return [judge for judge in self.judges if judge.grades(rubric.name)]

    def key(self, case: Case, rubric: Rubric, judge: Judge) -> str:
        """What a judgement is kept under."""
        return judgement_key(case, rubric, self.hashes[rubric.name], judge.name)

    def kept(self, key: str) -> Judgement | None:
        """The last judgement under a key."""
        assert self._file is not None, "ask() comes first"
        return self._file.get(key)

    def unasked(self, key: str, judge: Judge) -> Outcome:
        """What becomes of a case that a judge was not asked about."""
        stopped = self._stopped.get(judge.name, "it was not asked")
        outcome = Outcome(status="failed", kind="not_judged", reason=f"not judged: {stopped}")
        return self.budget_left.refused(key) or outcome

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
        self._file = JudgementJournal(run.path / FILE)
        questions = sum(len(self.of(rubric)) for rubric in self.rubrics)
        progress.start(f"judging {inert(run.manifest.benchmark)}", len(run.samples) * questions)
        try:
            failed = 0
            self.budget_left.open(run, self._file)
            for job, (judgement, used) in self._done(partial(self._jobs, run, benchmark, progress), scorers):
                self._file.append(judgement)
                self.budget_left.spend(used)
                failed += judgement.status == "failed"
                self._hopeless[job.judge.name] = self._hopeless[job.judge.name] + 1 if judgement.kind == HOPELESS else 0
                if self._hopeless[job.judge.name] >= IN_A_ROW:
                    self._stopped[job.judge.name] = judgement.reason
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
        self, jobs: Callable[[Collection[Judge]], Iterator[_Job]], scorers: Scorers | None
    ) -> Iterator[tuple[_Job, tuple[Judgement, Usage]]]:
        """Each job with what came of it; calls of language models are made by this process, whoever does the rest."""
        remote = [judge for judge in self.judges if scorers is not None and not judge.has_model]
        local = [judge for judge in self.judges if judge not in remote]
        if scorers is not None and remote:
            calls = ((job, (job.rubric.name, job.judge.name, job.case)) for job in jobs(remote))
            for job, verdict in scorers.judged(calls):
                yield job, self._written(job, verdict)
        if not local:
            return
        yield from run_jobs(
            jobs(local), self._judge, self._at_once,
            may=lambda job, running: self.budget_left.affords(job.judge, job.rubric, job.case, running),
            refused=lambda job: self.budget_left.refuse(job.key),
        )  # fmt: skip

    def _jobs(
        self, run: RunFolder, benchmark: Benchmark[Any], progress: Progress, judges: Collection[Judge]
    ) -> Iterator[_Job]:
        assert self._file is not None, "opened before"
        keys: set[str] = set()
        ready: set[str] = set()
        for item, sample in _samples(run, benchmark):
            case = self.case_of(benchmark, item, sample)
            for rubric in self.rubrics:
                for judge in filter(judges.__contains__, self.of(rubric)):
                    key = "" if case is None or rubric.without(case) else self.key(case, rubric, judge)
                    if case is None or not key or key in keys or self._file.settled(key) or judge.name in self._stopped:
                        progress.advance()
                        continue
                    keys.add(key)
                    if judge.name not in ready:
                        ready.add(judge.name)
                        with suppress(GeneratorError):  # told by each call
                            make_ready(judge.generator)
                    yield _Job(sample, case, rubric, judge, key, self._file.get(key))

    def _judge(self, job: _Job) -> tuple[Judgement, Usage]:
        """The judgement, and what it took this time."""
        generator = job.judge.for_try(job.previous.tries if job.previous else 0)
        return self._written(job, judged_here(job.rubric, generator, job.case, self._prompts))

    def _written(self, job: _Job, verdict: TimedOutcome) -> tuple[Judgement, Usage]:
        outcome, seconds = verdict
        used = self._priced(job.judge, outcome.usage)
        previous = job.previous
        fields = {name: getattr(outcome, name) for name in Outcome.model_fields}
        judgement = Judgement(**(fields | {
            "usage": used + previous.usage if previous else used, "tries": 1 + (previous.tries if previous else 0),
            "key": job.key, "id": job.sample.id, "repeat": job.sample.repeat, "measure": job.rubric.name,
            "judge": job.judge.name, "seconds": round(seconds, 4),
            "prompts": prompts_digest(self.hashes[job.rubric.name]) if job.judge.has_model else "",
        }))  # fmt: skip
        return judgement, used

    def _priced(self, judge: Judge, used: Usage) -> Usage:
        from turnmark.assistant.config import price_of

        price = price_of(judge.name, self._prices)
        if used.cost is not None or price is None:
            return used
        return used.model_copy(update={"cost": price.cost(used.prompt_tokens, used.completion_tokens)})

    def case_of(self, benchmark: Benchmark[Any], item: Item, sample: Sample) -> Case | None:
        """What is judged of a sample; None where it is not done, or cannot be read."""
        if sample.status != "done":
            return None
        # What it throws is reported by the metrics, which meet it too.
        return attempted(lambda: self._case(item, sample, benchmark.context(item, sample)))[0]


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


class JudgeBudget:
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
        priced: Callable[[Judge, Usage], Usage],
        prompts: Path | None,
        elsewhere: Usage | None = None,
    ) -> None:
        self._budget, self._priced, self._prompts = budget, priced, prompts
        self._elsewhere = elsewhere or Usage()
        self._ledger = Ledger()
        self._refused: set[str] = set()

    def open(self, run: RunFolder, file: JudgementJournal) -> None:
        """Take in what is spent: on judgements, and on samples where they were made here and not handed in."""
        made_here = "generator" in run.manifest.specs
        spent = file.used() + (spent_on(run.samples) if made_here else Usage())
        self._ledger = Ledger(budget=self._budget, spent=spent + self._elsewhere)

    def affords(self, judge: Judge, rubric: Rubric, case: Case, running: int) -> bool:
        """Whether one more judgement fits beside so many that run. Judges without a language model cost nothing."""
        if self._budget is None or not judge.has_model:
            return True
        if not self._ledger.guessed:
            from turnmark.evaluation.judging.estimate import counted

            with suppress(Exception):  # a rubric that cannot be counted: known once its first call has ended
                self._ledger.expect(self._priced(judge, counted(rubric, case, self._prompts)))
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


def run_jobs(
    jobs: Iterator[J],
    do: Callable[[J], R],
    limit: int,
    may: Callable[[J, int], bool] = lambda _, __: True,
    refused: Callable[[J], None] = lambda _: None,
) -> Iterator[tuple[J, R]]:
    """What `do` makes of each job, as it comes; one after the other in this thread where `limit` is 1.

    Args:
        jobs: taken one by one, by this thread.
        limit: jobs at once; fewer while an endpoint answers 429.
        may: job, how many run -> whether it may be started beside them; asked again once one of them has ended.
        refused: told of a job that may not be started though nothing else runs; it is left out.

    Raises:
        Exception: what `do` raised, once it is met; nothing more is started then.
    """
    if limit == 1:
        for job in jobs:
            if may(job, 0):
                yield job, do(job)
            else:
                refused(job)
        return
    pace = AdaptiveConcurrency(limit)
    waiting_jobs: queue.SimpleQueue[tuple[J] | None] = queue.SimpleQueue()
    results: queue.SimpleQueue[tuple[J, R | None, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        ON_RATE_LIMIT.set(pace.slow_down)
        while (entry := waiting_jobs.get()) is not None:
            (job,) = entry
            try:
                results.put((job, do(job), None))
            except BaseException as error:
                results.put((job, None, error))

    running, threads, more_jobs = 0, 0, True
    waiting: J | None = None
    try:
        while True:
            while more_jobs and running < pace.limit:
                following = waiting if waiting is not None else next(jobs, None)
                waiting = None
                if following is None:
                    more_jobs = False
                    break
                if not may(following, running):
                    if running:
                        waiting = following
                        break
                    refused(following)
                    continue
                if threads < min(limit, running + 1):
                    threading.Thread(target=work, daemon=True, name="judge").start()
                    threads += 1
                waiting_jobs.put((following,))
                running += 1
            if not running:
                return
            job, result, error = results.get()
            running -= 1
            if error is not None:
                raise error
            pace.went_well()
            yield job, result  # type: ignore[misc]
    finally:
        for _ in range(threads):
            waiting_jobs.put(None)
