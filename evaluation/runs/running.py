"""A plan of `turnmark eval` or `score` carried out: items answered, queries searched, or answers taken over; then
everything scored, and the run written.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from turnmark.assistant.generators.base import Generator, make_ready
from turnmark.assistant.generators.replay import ReferenceGenerator
from turnmark.core.console import NoProgress, inert, shown_progress
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.benchmarks.mtrag_data import problem_notes
from turnmark.evaluation.benchmarks.task import Task
from turnmark.evaluation.judging.mounting import open_judging
from turnmark.evaluation.records import Sample, Summary
from turnmark.evaluation.report.page import write_page
from turnmark.evaluation.runs import passages
from turnmark.evaluation.runs.budget import open_ledger, spent_on_judges
from turnmark.evaluation.runs.engine import Answer, RunOutcome, SampleJob, generate
from turnmark.evaluation.runs.planning import Plan
from turnmark.evaluation.runs.request import selected
from turnmark.evaluation.runs.rundir import RunFolder, open_run
from turnmark.evaluation.scores.scoring import missing, score_run
from turnmark.retrieval.types import Retriever


def run_plan(plan: Plan) -> tuple[Summary, Path, bool]:
    """Make the samples that are not there yet, score everything, write the run.

    Returns:
        The summary, the folder it is in, and whether the work was given up because of failures.
    """
    seconds: dict[str, float] = {}
    judging, judge_notes = open_judging(plan)
    with open_run(plan.folder, plan.manifest) as folder:
        for line in folder.resumed:  # at once; the notes repeat it
            sys.stderr.write(f"turnmark: {inert(line)}\n")
        finished = len(folder.samples) - folder.samples.unfinished
        pending = plan.samples - finished
        folder.reopen(pending)
        if plan.answers is not None:
            benchmark, outcome = _take_over(plan, folder), RunOutcome()
        elif plan.task.batched:
            benchmark, outcome = plan.task, RunOutcome()
            seconds |= benchmark.search(folder, partial(_open_corpus, plan, folder)) if pending else {}
        else:
            benchmark, outcome = _answer(plan, folder, pending, seconds)
        notes = [*plan.notes, *judge_notes, *folder.resumed, *problem_notes(folder.samples.problems)]
        if outcome.stopped:
            notes.append(outcome.stopped)
        if finished and plan.answers is None:
            verb = "queries were searched" if plan.task.retrieves else "samples were answered"
            notes.append(f"{finished} of {plan.samples} {verb} by an earlier call; seconds are of this call")
        notes += plan.task.finish(folder)
        # Scoring lists takes no time that one would want to see pass.
        with nullcontext(NoProgress()) if plan.task.retrieves else shown_progress() as progress:
            progress.start(f"scoring {inert(plan.manifest.benchmark)}", plan.items)
            summary = score_run(
                folder,
                benchmark,
                selected(benchmark.items(), plan.chosen),
                notes=notes,
                seconds=seconds,
                began=plan.began,
                progress=progress,
                judging=judging,
            )
    write_page(plan.folder)
    return summary, plan.folder, outcome.gave_up


# --- answers that are written already, and searches ------------------------------------------------------------------


def _take_over(plan: Plan, folder: RunFolder) -> Task:
    """Write down the answers that are there; what has none is a failed sample, or of a retrieval an empty list."""
    assert plan.answers is not None, "a plan of `score` has answers"
    benchmark = plan.task.using(plan.assistant())
    for sample in plan.answers.samples:
        takes_part = sample.id in (plan.domain_of_id if plan.chosen is None else plan.chosen)
        if takes_part and not folder.samples.finished(sample.key):
            folder.append(sample.model_copy(update={"domain": plan.domain_of_id[sample.id]}))
    for item in selected(benchmark.items(), plan.chosen):
        for repeat in range(plan.manifest.repeat):
            if (item.id, repeat) not in folder.samples:
                empty = Sample(id=item.id, status="done", domain=item.domain)
                absent = missing(item, "the predictions have no answer to it", repeat)
                folder.append(empty if plan.task.retrieves else absent)
    return benchmark


def _open_corpus(plan: Plan, folder: RunFolder | None, name: str) -> Retriever:
    """What searches a corpus; its index is built where it is not there yet, and written down.

    Args:
        folder: None: on a worker, which writes nothing down.
    """
    spec = plan.manifest.specs["retriever"]
    retriever, index = passages.open_corpus(plan.task.corpora[name], spec, plan.request.embedder)
    if folder is not None:
        folder.update_manifest(indexes={**folder.manifest.indexes, name: index})
    return retriever


# --- answering -------------------------------------------------------------------------------------------------------


def _answer(plan: Plan, folder: RunFolder, pending: int, seconds: dict[str, float]) -> tuple[Task, RunOutcome]:
    """Answer what is not answered yet."""
    load, work = ("index", "search") if plan.task.retrieves else ("load", "generate")
    began = time.perf_counter()
    retrievers = open_retrievers(plan, folder) if pending else {}
    benchmark = plan.task.using(plan.assistant(), retrievers)
    if pending and plan.answering is None:
        warm(plan, benchmark)
    seconds[load] = time.perf_counter() - began
    began = time.perf_counter()
    outcome = _generate(plan, folder, benchmark, pending) if pending else RunOutcome()
    seconds[work] = time.perf_counter() - began
    return benchmark, outcome


def open_retrievers(plan: Plan, folder: RunFolder | None) -> Mapping[str, Retriever]:
    """What searches the corpora of a run that searches, safe for many threads.

    Args:
        folder: where the indexes are written down; None: on a worker, which writes nothing.
    """
    if not plan.task.searched:
        return {}
    names = list(plan.task.corpora)
    if folder is not None and plan.task.retrieves:
        pending = {job.item.domain for job in _jobs(plan, folder, plan.task)}
        names = [name for name in names if name in pending]
    return {name: passages.OneAtATime(_open_corpus(plan, folder, name)) for name in names}


def warm(plan: Plan, benchmark: Task) -> None:
    """Load the models before any sample's time begins: it takes longer than most samples do, and a server may have to
    be started."""
    if plan.generator is not None:
        make_ready(plan.generator)
    embeds = not (benchmark.retrieves or benchmark.measures_judges) and (
        plan.generator is None or plan.request.passages is not None
    )
    if embeds and benchmark.assistant.embed is not None:
        benchmark.assistant.embed(["load the model"])


def _generate(plan: Plan, folder: RunFolder, benchmark: Task, pending: int) -> RunOutcome:
    guess = plan.mean_sample() if plan.request.budget is not None else None
    budget = plan.request.budget if plan.generator is not None else None  # what needs no model costs nothing
    spent = spent_on_judges(folder.path)
    if plan.elsewhere is not None:
        spent += plan.elsewhere
    ledger = open_ledger(plan.request.generator, budget, folder.samples, guess, spent)
    targets = isinstance(plan.generator, ReferenceGenerator)
    in_process = nullcontext(_answering_with_targets(benchmark, plan.task.searched) if targets else benchmark.answer)
    with plan.answering(benchmark) if plan.answering else in_process as answer, shown_progress() as progress:
        name = inert(" ".join(filter(None, (plan.manifest.benchmark, plan.manifest.setting))))
        verb = "rewording and searching" if plan.task.retrieves else "answering"
        progress.start(f"{verb} {name}", pending)
        return generate(_jobs(plan, folder, benchmark), answer, plan.generator, folder, plan.limits, ledger, progress)


NO_TARGET = "the data has no reference answer"


def _answering_with_targets(benchmark: Task, searched: bool) -> Answer:
    """What gives the reference of each item, as the Reference rows of the papers' tables do; one without is skipped.

    Args:
        searched: the setting searches, so that a sample has the passages that were found; recorded ones are the
            target's own.
    """

    def answer(item: Item, generator: Generator | None) -> Sample:  # noqa: ARG001
        began = time.perf_counter()
        fields = benchmark.target(item)
        if fields is None:
            return Sample(id=item.id, status="skipped", reason=NO_TARGET, domain=item.domain)
        contexts = benchmark.answer(item, None).contexts if searched else ()
        return Sample(
            id=item.id, status="done", domain=item.domain,
            timings={"answer": round(time.perf_counter() - began, 4)}, **{"contexts": contexts, **fields},
        )  # fmt: skip

    return answer


def _jobs(plan: Plan, folder: RunFolder, benchmark: Task) -> Iterator[SampleJob]:
    """The samples that are not done yet, in the data's order, the repeats of an item one after the other."""
    items = selected(benchmark.items(), plan.chosen)
    for item in in_turns(items) if plan.request.chain or plan.request.live else items:
        for repeat in range(plan.manifest.repeat):
            if not folder.samples.finished((item.id, repeat)):
                yield SampleJob(item, repeat)


def in_turns(items: Iterable[Item]) -> list[Item]:
    """The items by how many others they come after: all first ones, then all that go on from these, and so on.

    So many of them can be answered at once, though each waits for the one that it goes on from.
    """
    depth: dict[str, int] = {}
    in_order = list(items)
    for item in in_order:
        depth[item.id] = depth.get(item.after, -1) + 1 if item.after is not None else 0
    return sorted(in_order, key=lambda item: depth[item.id])
