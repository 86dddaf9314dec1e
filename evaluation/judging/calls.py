"""Ask the judges of a run what there is no judgement for yet, many at a time and within the budget, and store it."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from turnmark.assistant.generators.base import CONTEXT_TOKENS, ON_RATE_LIMIT, GeneratorError, PromptMessage, make_ready
from turnmark.assistant.settings import Budget, Price, price_of
from turnmark.assistant.types import Usage
from turnmark.corpora.console import Progress, inert
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.base import Benchmark, Case, Item, attempted
from turnmark.evaluation.budget import OBJECT_TOKENS, Counting, Ledger, filled, spent_on, with_cost
from turnmark.evaluation.judging.judge import Judge
from turnmark.evaluation.judging.judgements import FILE, Judgement, JudgementJournal, Outcome
from turnmark.evaluation.judging.rubrics import Rubric, judgement_key, prompts_digest
from turnmark.evaluation.judging.verdicts import Offer, Scale
from turnmark.evaluation.limits import AdaptiveConcurrency
from turnmark.evaluation.prompts import JUDGES
from turnmark.evaluation.records import Sample
from turnmark.evaluation.rundir import RunFolder

AT_ONCE = 16
HOPELESS, IN_A_ROW = "auth", 3
"""A kind of failure that every further call of a judge would meet, and how often it is met before it is believed."""
BUDGET = "budget"
"""The kind of failure of a judgement that was not asked for, as it would have gone beyond `--budget`."""
REPAIR_PROMPT = "verdict-repair"


@dataclass(frozen=True)
class _Job:
    sample: Sample
    case: Case
    rubric: Rubric
    judge: Judge
    key: str
    previous: Judgement | None


class JudgeCalls:
    """What is asked of judges, and the file of what they said.

    Args:
        judges: in the order in which they were named.
        rubrics: what they are asked; those that no judge is there for are left out.
        tested: specs of the generators that wrote the samples, where that is known.
        at_once: calls at a time; a script is asked one thing after the other.
        prices: of models, by name or spec.
        prompts: folder with prompts of one's own.
        budget: the most that samples and judgements of the run may take; None: no limit.
        elsewhere: what other runs on the same budget have used.
    """

    def __init__(
        self,
        judges: Sequence[Judge],
        rubrics: Sequence[Rubric],
        *,
        tested: Sequence[str] = (),
        at_once: int = AT_ONCE,
        prices: Mapping[str, Price] | None = None,
        prompts: Path | None = None,
        budget: Budget | None = None,
        elsewhere: Usage | None = None,
    ) -> None:
        self.judges = tuple(judge for judge in judges if any(judge.grades(rubric.name) for rubric in rubrics))
        self.rubrics = tuple(rubric for rubric in rubrics if any(judge.grades(rubric.name) for judge in judges))
        self.seconds = 0.0
        self.hashes = {
            rubric.name: JUDGES.hashes((*rubric.prompts, *([REPAIR_PROMPT] * (rubric.offers is not None))), prompts)
            for rubric in self.rubrics
        }
        self.tested = tuple(tested)
        self.prompts = prompts
        self._prices = prices or {}
        self._at_once = 1 if any(judge.name.startswith("replay:") for judge in judges) else at_once
        self._budget, self._elsewhere = budget, elsewhere or Usage()
        self._ledger = Ledger()
        self._refused: set[str] = set()
        self._file: JudgementJournal | None = None
        self._stopped: dict[str, str] = {}
        self._hopeless: Counter[str] = Counter()

    @property
    def prompt_hashes(self) -> dict[str, str]:
        """Prompt -> hash, of all that are asked with."""
        return {name: value for hashes in self.hashes.values() for name, value in hashes.items()}

    def of(self, rubric: Rubric) -> list[Judge]:
        """Who is asked for a rubric: of one that judges bring with them, these alone."""
        owners = [judge for judge in self.judges if any(rubric is own for own in judge.rubrics)]
        return owners or [judge for judge in self.judges if judge.grades(rubric.name)]

    def key(self, case: Case, rubric: Rubric, judge: Judge) -> str:
        """What a judgement is kept under."""
        return judgement_key(case, rubric, self.hashes[rubric.name], judge.name)

    def kept(self, key: str) -> Judgement | None:
        """The last judgement under a key."""
        assert self._file is not None, "ask() comes first"
        return self._file.get(key)

    def unasked(self, key: str, judge: Judge) -> Outcome:
        """What becomes of a case that a judge was not asked about."""
        if key in self._refused:
            return Outcome(status="failed", kind=BUDGET, reason=f"{BUDGET}: {self._ledger.exhausted()}")
        stopped = self._stopped.get(judge.name, "it was not asked")
        return Outcome(status="failed", kind="not_judged", reason=f"not judged: {stopped}")

    def budget_notes(self) -> list[str]:
        """What the summary says of the judgements that the budget did not reach to."""
        if not self._refused:
            return []
        n = len(self._refused)
        return [f"judging {self._ledger.exhausted()}; {n} judgements were not asked for, and are with a larger budget"]

    def ask(self, run: RunFolder, benchmark: Benchmark[Any], progress: Progress) -> None:
        """Ask the judges what there is no judgement for yet, and write each down as it comes.

        Raises:
            OSError: a judgement could not be written; those before it are on file.
        """
        began = time.perf_counter()
        self._file = JudgementJournal(run.path / FILE)
        questions = sum(len(self.of(rubric)) for rubric in self.rubrics)
        progress.start(f"judging {inert(run.manifest.benchmark)}", len(run.samples) * questions)
        try:
            failed = 0
            # Samples count where they were made here and not handed in.
            spent = self._file.used() + (spent_on(run.samples) if "generator" in run.manifest.specs else Usage())
            self._ledger = Ledger(budget=self._budget, spent=spent + self._elsewhere)
            jobs = self._jobs(run, benchmark, progress)
            for job, (judgement, used) in run_jobs(
                jobs, self._judge, self._at_once, may=self._affords, refused=lambda job: self._refused.add(job.key)
            ):
                self._file.append(judgement)
                self._ledger.spend({"judge": used})
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

    def _affords(self, job: _Job, running: int) -> bool:
        """Whether one more judgement fits beside so many that run. Judges without a language model cost nothing."""
        if self._budget is None or not job.judge.has_model:
            return True
        if not self._ledger.guessed:
            with suppress(Exception):  # a rubric that cannot be counted: known once its first call has ended
                self._ledger.expect(self._priced(job.judge, counted(job.rubric, job.case, self.prompts)))
        return self._ledger.affords(running)

    def _jobs(self, run: RunFolder, benchmark: Benchmark[Any], progress: Progress) -> Iterator[_Job]:
        assert self._file is not None, "opened before"
        keys: set[str] = set()
        ready: set[str] = set()
        for item, sample in _samples(run, benchmark):
            case = self.case_of(benchmark, item, sample)
            for rubric in self.rubrics:
                for judge in self.of(rubric):
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
        began = time.perf_counter()
        # What it brings about fails its verdict, and nothing else.
        answer, failure = attempted(partial(job.rubric.ask, generator, job.case, self.prompts))
        outcome = answer or Outcome(status="failed", kind="error", reason=failure)
        seconds = time.perf_counter() - began
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
        return with_cost(used, price_of(judge.name, self._prices))

    def case_of(self, benchmark: Benchmark[Any], item: Item, sample: Sample) -> Case | None:
        """What is judged of a sample; None where it is not done, or cannot be read."""
        # What it throws is reported by the metrics, which meet it too.
        return attempted(partial(benchmark.context, item, sample))[0] if sample.status == "done" else None


def _samples(run: RunFolder, benchmark: Benchmark[Any]) -> Iterator[tuple[Item, Sample]]:
    """The samples of a run with their items, in the data's order."""
    for item in benchmark.items():
        if isinstance(item, Problem):
            continue
        for repeat in range(run.manifest.repeat):
            sample = run.samples.get((item.id, repeat))
            if sample is not None:
                yield item, sample


J = TypeVar("J")
R = TypeVar("R")


class _Threads(Generic[J, R]):
    """Threads that do jobs. They are daemons, so that an interrupted command does not wait for their calls."""

    def __init__(self, do: Callable[[J], R], limit: int, slow_down: Callable[[], None]) -> None:
        self._do, self._limit, self._slow_down = do, limit, slow_down
        self._waiting: queue.SimpleQueue[tuple[J] | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[tuple[J, R] | BaseException] = queue.SimpleQueue()
        self._threads = self.running = 0

    def start(self, job: J) -> None:
        """Do a job beside those that run."""
        if self._threads < min(self._limit, self.running + 1):
            threading.Thread(target=self._work, daemon=True, name="judge").start()
            self._threads += 1
        self._waiting.put((job,))
        self.running += 1

    def ended(self) -> tuple[J, R]:
        """The next job that ends, and what came of it; raises what it raised."""
        ended = self._ended.get()
        self.running -= 1
        if isinstance(ended, BaseException):
            raise ended
        return ended

    def close(self) -> None:
        """Let the threads end with what they do."""
        for _ in range(self._threads):
            self._waiting.put(None)

    def _work(self) -> None:
        ON_RATE_LIMIT.set(self._slow_down)
        while (entry := self._waiting.get()) is not None:
            try:
                self._ended.put((entry[0], self._do(entry[0])))
            except BaseException as error:
                self._ended.put(error)


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
    threads = _Threads(do, limit, pace.slow_down)
    held: J | None = None  # until one of those that run has ended
    try:
        while True:
            while threads.running < pace.limit:
                following = held if held is not None else next(jobs, None)
                held = None
                if following is None:
                    break
                if may(following, threads.running):
                    threads.start(following)
                elif threads.running:
                    held = following
                    break
                else:
                    refused(following)
            if not threads.running:
                return
            ended = threads.ended()
            pace.went_well()
            yield ended
    finally:
        threads.close()


# --- what a call would take ------------------------------------------------------------------------------------------

REASONS_TOKENS = 150
CLAIMS = 5
"""Claims that a reply is taken to make, where one is only counted."""


class _CountingJudge(Counting):
    """A judge that counts the tokens of what it is asked, gives verdicts of the right form, and asks nobody."""

    def __init__(self, offer: Offer | None) -> None:
        super().__init__("counting", 8 * CONTEXT_TOKENS, 1024)
        self._verdict = "" if offer is None else _verdict(offer)

    def written(self, messages: Sequence[PromptMessage], schema: type[BaseModel] | None) -> tuple[str, int]:  # noqa: ARG002
        """See `Counting.written`."""
        return (_objects(schema), OBJECT_TOKENS * 2) if schema else (self._verdict, REASONS_TOKENS)


def _objects(schema: type[BaseModel]) -> str:
    verdicts = [{"claim": n, "reason": "", "supported": True} for n in range(1, CLAIMS + 1)]
    examples: dict[str, Any] = {
        "claims": ["a claim of some words"] * CLAIMS, "verdicts": verdicts, "questions": ["why"], "evasive": True,
        "completion": 50,
    }  # fmt: skip
    defaults = filled(schema.model_json_schema())
    return json.dumps({name: examples.get(name, defaults[name]) for name in schema.model_fields})


def _verdict(offer: Offer) -> str:
    label = f"{offer.low:g}" if isinstance(offer, Scale) else offer.offered[-1]
    return f"{offer.name}: [[{label}]]"


def counted(rubric: Rubric, case: Case, prompts: Path | None) -> Usage:
    """What asking a judge about one case would take."""
    return rubric.ask(_CountingJudge(rubric.offers), case, prompts).usage
