"""Ask the judges of a run what there is no judgement for yet, many at a time and within the budget, and store it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from turnmark.assistant.generators.base import CONTEXT_TOKENS, GeneratorError, make_ready
from turnmark.assistant.settings import Budget, Price, price_of
from turnmark.assistant.types import Usage
from turnmark.core.console import Progress, inert
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.base import Case, Item, attempted
from turnmark.evaluation.benchmarks.task import Task
from turnmark.evaluation.judging.judge import Judge
from turnmark.evaluation.judging.rubrics import (
    FILE,
    Judgement,
    Outcome,
    Rubric,
    judgement_key,
    open_judgements,
    prompts_digest,
)
from turnmark.evaluation.judging.verdicts import RatingScale
from turnmark.evaluation.prompts import JUDGES
from turnmark.evaluation.records import Sample
from turnmark.evaluation.runs.budget import CountingModel, Ledger, spent_on, with_cost
from turnmark.evaluation.runs.journal import Journal
from turnmark.evaluation.runs.limits import ModelNoting
from turnmark.evaluation.runs.rundir import RunFolder
from turnmark.evaluation.runs.scheduler import CONCURRENCY, HOPELESS, IN_A_ROW, Scheduler

BUDGET = "budget"
"""The kind of failure of a judgement that was not asked for, because it would have exceeded `--budget`."""
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
    """What is asked of judges, and the file of their judgements.

    Args:
        rubrics: what they are asked; those without a judge are left out.
        tested: specs of the generators that wrote the samples, as far as known.
        concurrency: calls at once; a script is asked one thing after the other.
        prompts: folder with the user's prompts.
        budget: the most that samples and judgements of the run may take; None: no limit.
        elsewhere: what other runs on the same budget have used.
    """

    def __init__(
        self,
        judges: Sequence[Judge],
        rubrics: Sequence[Rubric],
        *,
        tested: Sequence[str] = (),
        concurrency: int = CONCURRENCY,
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
        self._concurrency = 1 if any(judge.name.startswith("replay:") for judge in judges) else concurrency
        self._budget, self._elsewhere = budget, elsewhere or Usage()
        self._ledger = Ledger()
        self._refused: set[str] = set()
        self._file: Journal[str, Judgement] | None = None
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

    @property
    def _judgements(self) -> Journal[str, Judgement]:
        assert self._file is not None, "ask() comes first"
        return self._file

    def kept(self, key: str) -> Judgement | None:
        """The last judgement under a key."""
        return self._judgements.get(key)

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

    def ask(self, run: RunFolder, benchmark: Task, progress: Progress) -> None:
        """Ask the judges what there is no judgement for yet, and write each down as it comes.

        Raises:
            OSError: a judgement could not be written; those before it are on file.
        """
        began = time.perf_counter()
        self._file = open_judgements(run.path / FILE)
        questions = sum(len(self.of(rubric)) for rubric in self.rubrics)
        progress.start(f"judging {inert(run.manifest.benchmark)}", len(run.samples) * questions)
        try:
            spent = sum((judgement.usage for judgement in self._file.records()), self._elsewhere)
            if "generator" in run.manifest.specs:  # samples that were made here and not handed in
                spent += spent_on(run.samples)
            self._ledger = Ledger(budget=self._budget, spent=spent)
            self._scheduler(progress).run(self._jobs(run, benchmark, progress))
        finally:
            self._file.close()
        self.seconds = time.perf_counter() - began

    def _scheduler(self, progress: Progress) -> Scheduler[_Job, tuple[Judgement, Usage]]:
        failed = 0

        def take(job: _Job, result: tuple[Judgement, Usage] | BaseException) -> None:
            nonlocal failed
            if isinstance(result, BaseException):
                raise result
            judgement, used = result
            self._judgements.append(judgement)
            self._ledger.spend({"judge": used})
            failed += judgement.status == "failed"
            name = job.judge.name
            self._hopeless[name] = self._hopeless[name] + 1 if judgement.kind in HOPELESS else 0
            if self._hopeless[name] >= IN_A_ROW:
                self._stopped[name] = judgement.reason
            if failed:
                progress.tell(f"{failed} failed")
            progress.advance()

        return Scheduler(
            begin=lambda job: partial(self._judge, job),
            take=take,
            admit=lambda job, running: self._affords(job, len(running)),
            refuse=lambda job: self._refused.add(job.key),
            concurrency=self._concurrency,
        )

    def close(self) -> None:
        """Close the file; nothing is read after this."""
        if self._file is not None:
            self._file.close()

    def _affords(self, job: _Job, running: int) -> bool:
        """Whether one more judgement fits next to so many that run. Judges without a language model cost nothing."""
        if self._budget is None or not job.judge.has_model:
            return True
        if not self._ledger.guessed:
            with suppress(Exception):  # a rubric that cannot be counted: known once its first call has ended
                guess = estimate_judgement(job.rubric, job.case, self.prompts)
                self._ledger.expect(with_cost(guess, price_of(job.judge.name, self._prices)))
        return self._ledger.affords(running)

    def _jobs(self, run: RunFolder, benchmark: Task, progress: Progress) -> Iterator[_Job]:
        keys: set[str] = set()
        ready: set[str] = set()
        for item, sample in _samples(run, benchmark):
            case = self.case_of(benchmark, item, sample)
            for rubric in self.rubrics:
                for judge in self.of(rubric):
                    key = "" if case is None or rubric.without(case) else self.key(case, rubric, judge)
                    known = not key or key in keys or self._judgements.finished(key)
                    if case is None or known or judge.name in self._stopped:
                        progress.advance()
                        continue
                    keys.add(key)
                    if judge.name not in ready:
                        ready.add(judge.name)
                        with suppress(GeneratorError):  # reported by each call
                            make_ready(judge.generator)
                    yield _Job(sample, case, rubric, judge, key, self.kept(key))

    def _judge(self, job: _Job) -> tuple[Judgement, Usage]:
        """The judgement, and what it took this time."""
        generator = ModelNoting(job.judge.for_try(job.previous.tries if job.previous else 0))
        began = time.perf_counter()
        # What it brings about fails its verdict, and nothing else.
        answer, failure = attempted(partial(job.rubric.ask, generator, job.case, self.prompts))
        outcome = answer or Outcome(status="failed", kind="error", reason=failure)
        seconds = time.perf_counter() - began
        used = with_cost(outcome.usage, price_of(job.judge.name, self._prices))
        previous = job.previous
        fields = {name: getattr(outcome, name) for name in Outcome.model_fields}
        judgement = Judgement(**(fields | {
            "usage": used + previous.usage if previous else used, "tries": 1 + (previous.tries if previous else 0),
            "key": job.key, "id": job.sample.id, "repeat": job.sample.repeat, "measure": job.rubric.name,
            "judge": job.judge.name, "models": tuple(generator.models), "seconds": round(seconds, 4),
            "prompts": prompts_digest(self.hashes[job.rubric.name]) if job.judge.has_model else "",
        }))  # fmt: skip
        return judgement, used

    def case_of(self, benchmark: Task, item: Item, sample: Sample) -> Case | None:
        """What is judged of a sample; None where it is not done, or cannot be read."""
        # What it throws is reported by the metrics, which meet it too.
        return attempted(partial(benchmark.context, item, sample))[0] if sample.status == "done" else None


def _samples(run: RunFolder, benchmark: Task) -> Iterator[tuple[Item, Sample]]:
    """The samples of a run with their items, in the data's order."""
    for item in benchmark.items():
        if isinstance(item, Problem):
            continue
        for repeat in range(run.manifest.repeat):
            sample = run.samples.get((item.id, repeat))
            if sample is not None:
                yield item, sample


def estimate_judgement(rubric: Rubric, case: Case, prompts: Path | None) -> Usage:
    """What asking a judge about one case would take."""
    verdict = ""
    if (offer := rubric.offers) is not None:
        verdict = f"{offer.name}: [[{f'{offer.low:g}' if isinstance(offer, RatingScale) else offer.offered[-1]}]]"
    return rubric.ask(CountingModel("counting", 8 * CONTEXT_TOKENS, 1024, verdict), case, prompts).usage
