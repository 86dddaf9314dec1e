"""Answers that `eval` makes: by the assistant under test, item by item, or by batches of searches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

from turnmark.assistant.llm.calls.protocols import Generator, traits_of
from turnmark.assistant.llm.calls.tracing import tracing_by_environment
from turnmark.assistant.llm.generators.replay import ReferenceGenerator
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.turn.components import AssistantParts
from turnmark.assistant.types import Usage
from turnmark.core.console import shown_progress
from turnmark.core.untrusted import one_line
from turnmark.evaluation.calls.cost_estimates import open_ledger, spent_on_judges
from turnmark.evaluation.records import Sample
from turnmark.evaluation.runs.estimates import mean_sample
from turnmark.evaluation.runs.plan import CollectedAnswers, Plan
from turnmark.evaluation.runs.sample_scheduler import AnswerItem, Limits, RunOutcome, SampleJob, generate
from turnmark.evaluation.storage import corpus_passages
from turnmark.evaluation.storage.run_folder import RunFolder
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.task import Task
from turnmark.retrieval.embedding.embedders import shared_embedder
from turnmark.retrieval.types import Retriever

AnswererOpener = Callable[[Task], AbstractContextManager[AnswerItem]]
NO_TARGET = "the data has no reference answer"


@dataclass(frozen=True)
class BatchSearch:
    """Ranked lists of a task that searches for all its queries at once. See `AnswerSource`."""

    def collect(self, plan: Plan, folder: RunFolder, pending: int) -> CollectedAnswers:
        """See `AnswerSource.collect`."""
        seconds = plan.task.search(folder, partial(_open_corpus, plan, folder)) if pending else {}
        return CollectedAnswers(plan.task, seconds)


@dataclass(frozen=True)
class LiveAnswers:
    """Answers of the assistant under test, or queries that it words and searches. See `AnswerSource`.

    Attributes:
        limits: limits of concurrency, time and failures.
        open_answerer: opens another way to answer than the task in this process, such as Ray workers.
    """

    limits: Limits
    open_answerer: AnswererOpener | None = None

    def collect(self, plan: Plan, folder: RunFolder, pending: int) -> CollectedAnswers:
        """See `AnswerSource.collect`."""
        load, work = ("index", "search") if plan.task.retrieves else ("load", "generate")
        began = time.perf_counter()
        task = plan.task.using(open_assistant(plan), open_retrievers(plan, folder) if pending else {})
        if pending and self.open_answerer is None:
            load_models(plan, task)
        loaded = time.perf_counter()
        outcome = self._generate(plan, folder, task, pending) if pending else RunOutcome()
        seconds = {load: loaded - began, work: time.perf_counter() - loaded}
        return CollectedAnswers(task, seconds, outcome.stopped, outcome.gave_up)

    def _generate(self, plan: Plan, folder: RunFolder, task: Task, pending: int) -> RunOutcome:
        guess = mean_sample(plan) if plan.request.budget is not None else None
        budget = plan.request.budget if plan.generator is not None else None  # without a model, samples cost nothing
        spent = spent_on_judges(folder.path) + (plan.elsewhere or Usage())
        ledger = open_ledger(plan.request.assistant.generator, budget, folder.samples, guess, spent)
        own = _answer_with_targets(task) if isinstance(plan.generator, ReferenceGenerator) else task.answer
        answering = self.open_answerer(task) if self.open_answerer else nullcontext(own)
        with answering as answer, shown_progress() as progress:
            name = one_line(" ".join(filter(None, (plan.manifest.benchmark, plan.manifest.setting))))
            verb = "rewording and searching" if task.retrieves else "answering"
            progress.start(f"{verb} {name}", pending)
            jobs = _jobs(plan, folder, task)
            return generate(jobs, answer, plan.generator, folder, self.limits, ledger, progress)


def open_assistant(plan: Plan) -> Assistant:
    """Return the assistant under test, without a retriever."""
    embed = shared_embedder(plan.manifest.specs["embedder"])
    parts = AssistantParts(generator=plan.generator, embed=embed, tracing=tracing_by_environment())
    return Assistant.from_parts(plan.request.config(), parts)


def open_retrievers(plan: Plan, folder: RunFolder | None) -> Mapping[str, Retriever]:
    """Open the retrievers of a run: corpus -> retriever, safe for many threads; empty if the run does not search.

    Args:
        folder: the run, whose manifest records the indexes, or None for a worker, which records nothing.
    """
    if not plan.task.searched:
        return {}
    names = list(plan.task.corpora)
    if folder is not None and plan.task.retrieves:
        pending = {job.item.domain for job in _jobs(plan, folder, plan.task)}
        names = [name for name in names if name in pending]
    return {name: corpus_passages.SerializedRetriever(_open_corpus(plan, folder, name)) for name in names}


def _open_corpus(plan: Plan, folder: RunFolder | None, name: str) -> Retriever:
    """Open the retriever of a corpus, and build its index if it is missing; record the index in the manifest.

    Args:
        folder: the run, or None for a worker, which records nothing.
    """
    if plan.open_corpus is not None:
        retriever, index = plan.open_corpus(name)
    else:
        spec = plan.manifest.specs["retriever"]
        retriever, index = corpus_passages.open_corpus(plan.task.corpora[name], spec, plan.request.embedder)
    if folder is not None:
        folder.update_manifest(indexes={**folder.manifest.indexes, name: index})
    return retriever


def load_models(plan: Plan, task: Task) -> None:
    """Load the models before the deadline of the first sample begins: loading is slow, and may start a server."""
    if plan.generator is not None:
        traits_of(plan.generator).make_ready()
    if task.retrieves or task.measures_judges:
        return
    embeds = plan.generator is None or task.recorded
    if embeds and task.embed is not None:
        task.embed(["load the model"])


def _answer_with_targets(task: Task) -> AnswerItem:
    """Return an `AnswerItem` that returns each item's reference, for the Reference rows of the papers' tables.

    Items without a reference are skipped, and items for which the setting finds no passages fail as they do with a
    model.
    """

    def answer(item: Item, generator: Generator | None) -> Sample:  # noqa: ARG001
        began = time.perf_counter()
        fields = task.target(item)
        if fields is None:
            return Sample(id=item.id, status="skipped", reason=NO_TARGET, domain=item.domain)
        found = task.found(item)
        if found.status != "done":
            return found
        return Sample(
            id=item.id, status="done", domain=item.domain,
            timings={"answer": round(time.perf_counter() - began, 4)}, **{"contexts": found.contexts, **fields},
        )  # fmt: skip

    return answer


def _jobs(plan: Plan, folder: RunFolder, task: Task) -> Iterator[SampleJob]:
    """Yield the unfinished samples in the order of the data, the repeats of an item one after the other."""
    items: Iterable[Item] = plan.selected(task)
    if task.sequential:
        items = _by_depth(items)
    for item in items:
        for repeat in range(plan.manifest.repeat):
            if not folder.samples.finished((item.id, repeat)):
                yield SampleJob(item, repeat)


def _by_depth(items: Iterable[Item]) -> list[Item]:
    """Sort items by the number of items that come before them in their conversation: all first turns come first.

    This way many items can be answered at once, although each one waits for the previous turn.
    """
    depth: dict[str, int] = {}
    in_order = list(items)
    for item in in_order:
        depth[item.id] = 0 if item.after is None else depth.get(item.after, -1) + 1
    return sorted(in_order, key=lambda item: depth[item.id])
