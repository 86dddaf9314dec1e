"""Carry out a plan of `turnmark eval` or `score`: answer items, search, or copy existing answers; then score the
run."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

from turnmark.assistant.llm.calls.protocols import Generator, make_ready
from turnmark.assistant.llm.generators.replay import ReferenceGenerator
from turnmark.core.console import NoProgress, shown_progress
from turnmark.core.untrusted import one_line
from turnmark.evaluation.calls.cost_estimates import open_ledger, spent_on_judges
from turnmark.evaluation.records import Sample, Summary
from turnmark.evaluation.report.html_page import write_page
from turnmark.evaluation.runs.judge_setup import open_judging
from turnmark.evaluation.runs.plan import Plan
from turnmark.evaluation.runs.sample_scheduler import AnswerItem, RunOutcome, SampleJob, generate
from turnmark.evaluation.runs.scoring import missing_sample, score_run
from turnmark.evaluation.storage import corpus_passages
from turnmark.evaluation.storage.run_folder import RunFolder, open_run
from turnmark.evaluation.tasks.data_notes import problem_notes
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.request import select_items
from turnmark.evaluation.tasks.task import Task
from turnmark.retrieval.types import Retriever


def run_plan(plan: Plan) -> tuple[Summary, Path, bool]:
    """Make the missing samples, score all samples, and write the run.

    Returns:
        The summary, the run folder, and whether failures stopped the run.
    """
    seconds: dict[str, float] = {}
    judging, judge_notes = open_judging(plan)
    with open_run(plan.folder, plan.manifest) as folder:
        for line in folder.resumed:  # shown before the work begins, and repeated in the notes
            sys.stderr.write(f"turnmark: {one_line(line)}\n")
        finished = len(folder.samples) - folder.samples.unfinished
        pending = plan.samples - finished
        folder.reopen(pending)
        if plan.answers is not None:
            benchmark, outcome = _take_over(plan, folder), RunOutcome()
        elif plan.task.batched:
            benchmark, outcome = plan.task, RunOutcome()
            if pending:
                seconds |= benchmark.search(folder, partial(_open_corpus, plan, folder))
        else:
            benchmark, outcome = _answer(plan, folder, pending, seconds)
        notes = [*plan.notes, *judge_notes, *folder.resumed, *problem_notes(folder.samples.problems)]
        if outcome.stopped:
            notes.append(outcome.stopped)
        if finished and plan.answers is None:
            verb = "queries were searched" if plan.task.retrieves else "samples were answered"
            notes.append(f"{finished} of {plan.samples} {verb} by an earlier call; the seconds are for this call only")
        notes += plan.task.finish(folder)
        # Scoring ranked lists is too fast for a progress bar.
        shown = nullcontext(NoProgress()) if plan.task.retrieves else shown_progress()
        with shown as progress:
            progress.start(f"scoring {one_line(plan.manifest.benchmark)}", plan.items)
            summary = score_run(
                folder,
                benchmark,
                select_items(benchmark.items(), plan.chosen),
                notes=notes,
                seconds=seconds,
                began=plan.began,
                progress=progress,
                judging=judging,
            )
    write_page(plan.folder)
    return summary, plan.folder, outcome.gave_up


# --- existing answers, and searches ----------------------------------------------------------------------------------


def _take_over(plan: Plan, folder: RunFolder) -> Task:
    """Write the existing answers to the run; an item without one gets a failed sample or an empty ranked list."""
    assert plan.answers is not None, "a plan of `score` has answers"
    benchmark = plan.task.using(plan.assistant())
    selected_ids = plan.domain_of_id if plan.chosen is None else plan.chosen
    for sample in plan.answers.samples:
        if sample.id in selected_ids and not folder.samples.finished(sample.key):
            folder.append(sample.model_copy(update={"domain": plan.domain_of_id[sample.id]}))
    for item in select_items(benchmark.items(), plan.chosen):
        for repeat in range(plan.manifest.repeat):
            if (item.id, repeat) in folder.samples:
                continue
            if plan.task.retrieves:
                folder.append(Sample(id=item.id, status="done", domain=item.domain))
            else:
                folder.append(missing_sample(item, "the predictions do not contain an answer to it", repeat))
    return benchmark


def _open_corpus(plan: Plan, folder: RunFolder | None, name: str) -> Retriever:
    """Open the retriever of a corpus, and build its index if it is missing; record the index in the manifest.

    Args:
        folder: the run; None: a worker, which records nothing.
    """
    if plan.open_corpus is not None:
        retriever, index = plan.open_corpus(name)
    else:
        spec = plan.manifest.specs["retriever"]
        retriever, index = corpus_passages.open_corpus(plan.task.corpora[name], spec, plan.request.embedder)
    if folder is not None:
        folder.update_manifest(indexes={**folder.manifest.indexes, name: index})
    return retriever


# --- answering -------------------------------------------------------------------------------------------------------


def _answer(plan: Plan, folder: RunFolder, pending: int, seconds: dict[str, float]) -> tuple[Task, RunOutcome]:
    """Answer the items without a finished sample.

    Args:
        seconds: dictionary to which the seconds of each phase are added.
    """
    load, work = ("index", "search") if plan.task.retrieves else ("load", "generate")
    began = time.perf_counter()
    retrievers = open_retrievers(plan, folder) if pending else {}
    benchmark = plan.task.using(plan.assistant(), retrievers)
    if pending and plan.answering is None:
        load_models(plan, benchmark)
    seconds[load] = time.perf_counter() - began
    began = time.perf_counter()
    outcome = _generate(plan, folder, benchmark, pending) if pending else RunOutcome()
    seconds[work] = time.perf_counter() - began
    return benchmark, outcome


def open_retrievers(plan: Plan, folder: RunFolder | None) -> Mapping[str, Retriever]:
    """Open the retrievers of a run: corpus -> retriever, safe for many threads; empty if the run does not search.

    Args:
        folder: the run, whose manifest records the indexes; None: a worker, which records nothing.
    """
    if not plan.task.searched:
        return {}
    names = list(plan.task.corpora)
    if folder is not None and plan.task.retrieves:
        pending = {job.item.domain for job in _jobs(plan, folder, plan.task)}
        names = [name for name in names if name in pending]
    return {name: corpus_passages.SerializedRetriever(_open_corpus(plan, folder, name)) for name in names}


def load_models(plan: Plan, benchmark: Task) -> None:
    """Load the models before the deadline of the first sample begins: loading is slow, and may start a server."""
    if plan.generator is not None:
        make_ready(plan.generator)
    if benchmark.retrieves or benchmark.measures_judges:
        return
    embeds = plan.generator is None or benchmark.recorded
    if embeds and benchmark.assistant.embed is not None:
        benchmark.assistant.embed(["load the model"])


def _generate(plan: Plan, folder: RunFolder, benchmark: Task, pending: int) -> RunOutcome:
    guess = plan.mean_sample() if plan.request.budget is not None else None
    budget = plan.request.budget if plan.generator is not None else None  # without a model, samples cost nothing
    spent = spent_on_judges(folder.path)
    if plan.elsewhere is not None:
        spent += plan.elsewhere
    ledger = open_ledger(plan.request.assistant.generator, budget, folder.samples, guess, spent)
    answering: AbstractContextManager[AnswerItem]
    if plan.answering:
        answering = plan.answering(benchmark)
    elif isinstance(plan.generator, ReferenceGenerator):
        answering = nullcontext(_answering_with_targets(benchmark))
    else:
        answering = nullcontext(benchmark.answer)
    with answering as answer, shown_progress() as progress:
        name = one_line(" ".join(filter(None, (plan.manifest.benchmark, plan.manifest.setting))))
        verb = "rewording and searching" if plan.task.retrieves else "answering"
        progress.start(f"{verb} {name}", pending)
        return generate(_jobs(plan, folder, benchmark), answer, plan.generator, folder, plan.limits, ledger, progress)


NO_TARGET = "the data has no reference answer"


def _answering_with_targets(benchmark: Task) -> AnswerItem:
    """Return an `AnswerItem` that returns each item's reference, for the Reference rows of the papers' tables.

    Items without a reference are skipped, and items for which the setting finds no passages fail as they do with a
    model.
    """

    def answer(item: Item, generator: Generator | None) -> Sample:  # noqa: ARG001
        began = time.perf_counter()
        fields = benchmark.target(item)
        if fields is None:
            return Sample(id=item.id, status="skipped", reason=NO_TARGET, domain=item.domain)
        found = benchmark.found(item)
        if found.status != "done":
            return found
        return Sample(
            id=item.id, status="done", domain=item.domain,
            timings={"answer": round(time.perf_counter() - began, 4)}, **{"contexts": found.contexts, **fields},
        )  # fmt: skip

    return answer


def _jobs(plan: Plan, folder: RunFolder, benchmark: Task) -> Iterator[SampleJob]:
    """Yield the unfinished samples in the order of the data, the repeats of an item one after the other."""
    items: Iterable[Item] = select_items(benchmark.items(), plan.chosen)
    if benchmark.sequential:
        items = by_depth(items)
    for item in items:
        for repeat in range(plan.manifest.repeat):
            if not folder.samples.finished((item.id, repeat)):
                yield SampleJob(item, repeat)


def by_depth(items: Iterable[Item]) -> list[Item]:
    """Sort items by the number of items that come before them in their conversation: all first turns come first.

    This way many items can be answered at once, although each one waits for the previous turn.
    """
    depth: dict[str, int] = {}
    in_order = list(items)
    for item in in_order:
        depth[item.id] = 0 if item.after is None else depth.get(item.after, -1) + 1
    return sorted(in_order, key=lambda item: depth[item.id])
