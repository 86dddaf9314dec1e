"""Ask the judges of a run for missing judgments, concurrently and within the budget, and store them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from turnmark.assistant.llm.calls.ledger import Ledger, with_cost
from turnmark.assistant.llm.calls.prices import Budget, Price, price_of
from turnmark.assistant.llm.calls.protocols import CONTEXT_TOKENS, GeneratorError, traits_of
from turnmark.assistant.llm.calls.thread_pool import (
    DEFAULT_CONCURRENCY,
    MAX_PERMANENT_FAILURES,
    PERMANENT_FAILURES,
    Scheduler,
)
from turnmark.assistant.llm.generators.response_cache import for_repeat
from turnmark.assistant.types import Usage
from turnmark.core.console import Progress
from turnmark.core.untrusted import one_line
from turnmark.corpora.types import Problem
from turnmark.evaluation.calls.cost_estimates import CountingModel, spent_on
from turnmark.evaluation.calls.judgment_store import JUDGMENTS_FILE, StoredJudgment, open_judgments
from turnmark.evaluation.judging.judges import Judge
from turnmark.evaluation.judging.rubrics import judgment_key, prompts_digest
from turnmark.evaluation.metrics.idk_conditioning import unknown_label
from turnmark.evaluation.prompts import JUDGES
from turnmark.evaluation.records import Sample
from turnmark.evaluation.storage.journal import Journal
from turnmark.evaluation.storage.run_folder import RunFolder
from turnmark.evaluation.tasks.items import Case, Item
from turnmark.evaluation.tasks.metric import try_scorer
from turnmark.evaluation.tasks.rubric import CallRecorder, Outcome, Rubric
from turnmark.evaluation.tasks.task import Task

BUDGET = "budget"
"""Kind of failure of a judgment that was not requested because it would have exceeded `--budget`."""
REPAIR_PROMPT = "verdict-repair"


@dataclass(frozen=True)
class _Job:
    """One judgment to ask for; `previous` is the failed judgment under the same key, if any."""

    sample: Sample
    case: Case
    rubric: Rubric
    judge: Judge
    key: str
    previous: StoredJudgment | None


class JudgeCalls:
    """Calls of the judges of one run, and the file of their judgments.

    Args:
        rubrics: the rubrics to grade by; rubrics that no judge grades are left out.
        tested: specs of the generators that wrote the samples, as far as known.
        concurrency: calls at once; 1 if a judge is a script of replies (`replay:`).
        prompts: folder with the user's own prompts.
        budget: the limit for samples and judgments of the run together, or None for no limit.
        elsewhere: usage of other runs on the same budget.
    """

    def __init__(
        self,
        judges: Sequence[Judge],
        rubrics: Sequence[Rubric],
        *,
        tested: Sequence[str] = (),
        concurrency: int = DEFAULT_CONCURRENCY,
        prices: Mapping[str, Price] | None = None,
        prompts: Path | None = None,
        budget: Budget | None = None,
        elsewhere: Usage | None = None,
    ) -> None:
        self.judges = tuple(judge for judge in judges if any(judge.grades(rubric.name) for rubric in rubrics))
        self.rubrics = tuple(rubric for rubric in rubrics if any(judge.grades(rubric.name) for judge in judges))
        self.seconds = 0.0
        self.hashes: dict[str, dict[str, str]] = {}
        for rubric in self.rubrics:
            names = rubric.prompts if rubric.offers is None else (*rubric.prompts, REPAIR_PROMPT)
            self.hashes[rubric.name] = JUDGES.hashes(names, prompts)
        self.tested = tuple(tested)
        self.prompts = prompts
        self._prices = prices or {}
        self._concurrency = 1 if any(judge.name.startswith("replay:") for judge in judges) else concurrency
        self._budget, self._elsewhere = budget, elsewhere or Usage()
        self._ledger = Ledger()
        self._refused: set[str] = set()
        self._file: Journal[str, StoredJudgment] | None = None
        self._stopped: dict[str, str] = {}
        self._hopeless: Counter[str] = Counter()
        self._asked: dict[str, set[tuple[str, ...]]] = {}  # rubric -> the keys of its judges, for each case

    @property
    def prompt_hashes(self) -> dict[str, str]:
        """Prompt -> hash, for the prompts of all rubrics."""
        return {name: text for hashes in self.hashes.values() for name, text in hashes.items()}

    def of(self, rubric: Rubric) -> list[Judge]:
        """Return the judges that grade a rubric; only its owners, if the rubric comes with a judge."""
        owners = [judge for judge in self.judges if any(rubric is judge_rubric for judge_rubric in judge.rubrics)]
        return owners or [judge for judge in self.judges if judge.grades(rubric.name)]

    def key(self, case: Case, rubric: Rubric, judge: Judge) -> str:
        """Return the key of a judgment in `judgements.jsonl`."""
        return judgment_key(case, rubric, self.hashes[rubric.name], judge.name)

    @property
    def _judgments(self) -> Journal[str, StoredJudgment]:
        assert self._file is not None, "ask() comes first"
        return self._file

    def stored(self, key: str) -> StoredJudgment | None:
        """Return the last judgment under a key, or None if there is no such judgment."""
        return self._judgments.get(key)

    @cached_property
    def silent(self) -> frozenset[str]:
        """The rubrics that failed on some replies and scored none with a label to condition on."""
        return frozenset(name for name, cases in self._asked.items() if self._gave_nothing(cases))

    def _gave_nothing(self, cases: Iterable[tuple[str, ...]]) -> bool:
        of_cases = [{judgment.status if (judgment := self.stored(key)) else "failed" for key in keys} for keys in cases]
        failed = ["failed" in statuses for statuses in of_cases]  # if one judge failed, the panel has failed
        return any(failed) and not any("scored" in of_cases[at] for at, each in enumerate(failed) if not each)

    def unasked(self, key: str, judge: Judge) -> Outcome:
        """Return the failed outcome of a case that a judge was not asked about."""
        if key in self._refused:
            return Outcome(status="failed", kind=BUDGET, reason=f"{BUDGET}: {self._ledger.exhausted()}")
        stopped = self._stopped.get(judge.name, "it was not asked")
        return Outcome(status="failed", kind="not_judged", reason=f"not judged: {stopped}")

    def budget_notes(self) -> list[str]:
        """Return a note for the summary on the judgments that would have exceeded the budget."""
        if not self._refused:
            return []
        n = len(self._refused)
        return [f"judging {self._ledger.exhausted()}; {n} judgments were not requested; a larger budget allows them"]

    def ask(self, run: RunFolder, task: Task, progress: Progress) -> None:
        """Ask the judges for missing and failed judgments; write each to the file as it arrives.

        Raises:
            OSError: a judgment could not be written; the earlier ones are on file.
        """
        began = time.perf_counter()
        self._file = open_judgments(run.path / JUDGMENTS_FILE)
        questions = sum(len(self.of(rubric)) for rubric in self.rubrics)
        progress.start(f"judging {one_line(run.manifest.benchmark)}", len(run.samples) * questions)
        try:
            spent = sum((judgment.usage for judgment in self._file.records()), self._elsewhere)
            if "generator" in run.manifest.specs:  # the run made its samples, so they count against the budget
                spent += spent_on(run.samples)
            self._ledger = Ledger(budget=self._budget, spent=spent)
            self._scheduler(progress).run(self._jobs(run, task, progress))
        finally:
            self._file.close()
        self.seconds = time.perf_counter() - began

    def _scheduler(self, progress: Progress) -> Scheduler[_Job, tuple[StoredJudgment, Usage]]:
        failed = 0

        def take(job: _Job, result: tuple[StoredJudgment, Usage] | BaseException) -> None:
            nonlocal failed
            if isinstance(result, BaseException):
                raise result
            judgment, usage = result
            self._judgments.append(judgment)
            self._ledger.spend({"judge": usage})
            failed += judgment.status == "failed"
            name = job.judge.name
            if judgment.kind in PERMANENT_FAILURES:
                self._hopeless[name] += 1
            else:
                self._hopeless[name] = 0
            if self._hopeless[name] >= MAX_PERMANENT_FAILURES:
                self._stopped[name] = judgment.reason
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
        """Close the file of judgments."""
        if self._file is not None:
            self._file.close()

    def _affords(self, job: _Job, running: int) -> bool:
        """Return whether the budget allows one more judgment while `running` others are made.

        Judges without a language model cost nothing.
        """
        if self._budget is None or not job.judge.has_model:
            return True
        if not self._ledger.guessed:
            with suppress(Exception):  # a rubric that cannot be estimated: its cost is known after its first call
                guess = estimate_judgment(job.rubric, job.case, self.prompts)
                self._ledger.expect(with_cost(guess, price_of(job.judge.name, self._prices)))
        return self._ledger.affords(running)

    def _jobs(self, run: RunFolder, task: Task, progress: Progress) -> Iterator[_Job]:
        keys: set[str] = set()
        ready: set[str] = set()
        for item, sample in _samples(run, task):
            case = self.case_of(task, item, sample)
            for rubric in self.rubrics:
                judges = self.of(rubric)
                if case is None or rubric.without(case):
                    progress.advance(len(judges))
                    continue
                keys_of = tuple(self.key(case, rubric, judge) for judge in judges)
                if unknown_label(case.answerability) is not None:
                    self._asked.setdefault(rubric.name, set()).add(keys_of)
                for judge, key in zip(judges, keys_of, strict=True):
                    known = key in keys or self._judgments.finished(key)
                    if known or judge.name in self._stopped:
                        progress.advance()
                        continue
                    keys.add(key)
                    if judge.name not in ready:
                        ready.add(judge.name)
                        with suppress(GeneratorError):  # reported by each call
                            traits_of(judge.generator).make_ready()
                    yield _Job(sample, case, rubric, judge, key, self.stored(key))

    def _judge(self, job: _Job) -> tuple[StoredJudgment, Usage]:
        previous = job.previous
        earlier_tries = previous.tries if previous else 0
        generator = CallRecorder(for_repeat(job.judge.generator, earlier_tries))  # each try has its own cache entry
        began = time.perf_counter()
        # An exception fails only this judgment.
        answer, failure = try_scorer(partial(job.rubric.ask, generator, job.case, self.prompts))
        outcome = answer or Outcome(status="failed", kind="error", reason=failure)
        seconds = time.perf_counter() - began
        usage = with_cost(outcome.usage, price_of(job.judge.name, self._prices))
        prompts = prompts_digest(self.hashes[job.rubric.name]) if job.judge.has_model else ""
        fields = {name: getattr(outcome, name) for name in Outcome.model_fields}
        judgment = StoredJudgment(**(fields | {
            "usage": usage + previous.usage if previous else usage, "tries": earlier_tries + 1,
            "key": job.key, "id": job.sample.id, "repeat": job.sample.repeat, "measure": job.rubric.name,
            "judge": job.judge.name, "models": tuple(generator.models), "seconds": round(seconds, 4),
            "prompts": prompts,
        }))  # fmt: skip
        return judgment, usage

    def case_of(self, task: Task, item: Item, sample: Sample) -> Case | None:
        """Return the case to judge, or None if the sample is not done, or its case cannot be made."""
        if sample.status != "done":
            return None
        # The metrics meet the same exception and report it.
        case, _ = try_scorer(partial(task.context, item, sample))
        return case


def _samples(run: RunFolder, task: Task) -> Iterator[tuple[Item, Sample]]:
    for item in task.items():
        if not isinstance(item, Problem):
            for sample in run.samples_of(item.id):
                yield item, sample


def estimate_judgment(rubric: Rubric, case: Case, prompts: Path | None) -> Usage:
    """Estimate the usage of one judgment."""
    verdict = ""
    offer = rubric.offers
    if offer is not None:
        verdict = f"{offer.name}: [[{offer.example}]]"
    return rubric.ask(CountingModel("counting", 8 * CONTEXT_TOKENS, 1024, verdict), case, prompts).usage
