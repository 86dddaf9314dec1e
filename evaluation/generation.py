"""`turnmark eval` for tasks whose answers are written: a request checked as a whole, then carried out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnmark.assistant.generators.replay import ReferenceGenerator
from turnmark.corpora.console import inert, shown_progress
from turnmark.corpora.errors import ErrorCollector
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.base import Benchmark, Item
from turnmark.evaluation.benchmarks.mtrag_data import data_notes, problem_notes
from turnmark.evaluation.benchmarks.prepared import Prepared, read_through
from turnmark.evaluation.benchmarks.registry import prepare, setting_of, task_of
from turnmark.evaluation.budget import open_ledger, spent_on_judges
from turnmark.evaluation.engine import DEADLINE, Answer, Job, Limits, Outcome, generate
from turnmark.evaluation.records import RunManifest, Summary
from turnmark.evaluation.report.page import write_page
from turnmark.evaluation.request import (
    EvalRequest,
    all_alike,
    check_flags,
    failures,
    reranked_by,
    selected,
    selection_of,
    weighed,
)
from turnmark.evaluation.rundir import (
    RunFolder,
    check_folder,
    default_folder,
    open_run,
    read_folder,
    say_resumed,
    version_of,
    versions,
)
from turnmark.evaluation.scorers import Scorers
from turnmark.evaluation.scoring import now, score_run
from turnmark.evaluation.targets import answering_with_targets, check_targets

if TYPE_CHECKING:
    from turnmark.assistant.generators.base import Generator
    from turnmark.assistant.types import Usage
    from turnmark.evaluation.benchmarks.turns import Parts
    from turnmark.retrieval.types import Retriever

Answering = Callable[[Benchmark[Any]], AbstractContextManager[Answer]]


@dataclass(frozen=True)
class Plan:
    """A request that was found to be in order: what will be done, and where it will be written down."""

    request: EvalRequest
    prepared: Prepared
    manifest: RunManifest
    folder: Path
    notes: tuple[str, ...]
    chosen: frozenset[str] | None  # None: every item
    items: int
    generator: Generator | None
    limits: Limits
    began: float
    elsewhere: Usage | None = None  # what other runs on the same budget have used
    answering: Answering | None = None  # who answers, where it is not the benchmark in this process
    scorers: Scorers | None = None  # who computes scores, where it is not this process

    @property
    def samples(self) -> int:
        """Samples of the run: items, times repeats."""
        return self.items * self.request.repeat

    def describe(self) -> dict[str, Any]:
        """What `--dry-run` says: samples, calls and estimated tokens a role."""
        return {
            "dry_run": True,
            "benchmark": self.manifest.benchmark,
            "task": self.manifest.task,
            "setting": self.manifest.setting,
            "data": self.manifest.data.model_dump(),
            "specs": self.manifest.specs,
            "domains": list(self.manifest.domains),
            "n": self.samples,
            "estimated": self.estimate(),
            "run": str(self.folder),
            "notes": list(self.notes),
        }

    def estimate(self) -> dict[str, Any]:
        """Calls and tokens by role, from prompts that are rendered with passages as long as those of the data."""
        if self.generator is None or isinstance(self.generator, ReferenceGenerator):
            return {}
        from turnmark.evaluation.benchmarks.turns import Parts
        from turnmark.evaluation.budget import estimate
        from turnmark.evaluation.passages import FirstPassages

        retrievers: dict[str, Retriever] = {name: FirstPassages(path) for name, path in self.prepared.corpora.items()}
        benchmark = self.prepared.build(Parts(prompts=self.request.prompts), retrievers)
        items = selected(benchmark.items(), self.chosen)
        once = estimate(items, self.items, benchmark.answer, self.generator)
        return {role: {key: value * self.request.repeat for key, value in used.items()} for role, used in once.items()}

    def mean_sample(self) -> Usage:
        """What one sample takes by the estimate."""
        from turnmark.assistant.types import Usage

        used = self.estimate().values()
        prompt, completion = (sum(usage[key] for usage in used) for key in ("prompt_tokens", "completion_tokens"))
        n = max(1, self.samples)
        return Usage(prompt_tokens=prompt // n, completion_tokens=completion // n)


def plan(request: EvalRequest) -> Plan:
    """Check a request.

    Raises:
        RequestError: everything that is wrong with it, at once.
    """
    began = time.perf_counter()
    errors = ErrorCollector()
    setting = setting_of(request.benchmark, request.setting, errors, request.task)
    generator, prompts, specs = check_flags(request, errors)
    check_targets(request, errors)
    prepared = prepare(request, setting, errors)
    ids: list[str] = []
    problems: list[Problem] = []
    if prepared is not None:
        from turnmark.evaluation.benchmarks.turns import Parts

        domain_of_id, problems = read_through(prepared.build(Parts(), {}))
        ids = list(domain_of_id)
        if not ids:
            subject = " ".join(filter(None, (request.benchmark, setting)))
            errors.add(f"{subject}: there is nothing to answer in the data{_first(problems)}")
    stratum = prepared.stratum if prepared is not None else all_alike
    chosen_ids = selection_of(request).of(ids, errors if prepared is not None else ErrorCollector(), stratum)
    most_failures = failures(request, len(chosen_ids) * request.repeat, ErrorCollector())
    if request.out is not None:
        errors.collect(read_folder, request.out)
    errors.raise_all()
    assert prepared is not None, "errors.raise_all() raised otherwise"
    manifest = _manifest(request, setting, prepared, specs, prompts)
    folder = request.out or default_folder(manifest)
    check_folder(folder, manifest)
    notes = (*data_notes(prepared.data, problems), *prepared.notes)
    return Plan(
        request=request,
        prepared=prepared,
        manifest=manifest,
        folder=folder,
        notes=notes,
        chosen=frozenset(chosen_ids) if len(chosen_ids) < len(ids) else None,
        items=len(chosen_ids),
        generator=generator,
        limits=Limits(request.concurrency, DEADLINE if request.deadline is None else request.deadline, most_failures),
        began=began,
    )


def _first(problems: Sequence[Problem]) -> str:
    return f"; the first mistake in it: {problems[0]}" if problems else ""


def _manifest(
    request: EvalRequest,
    setting: str | None,
    prepared: Prepared,
    specs: tuple[str, str],
    prompts: dict[str, str],
) -> RunManifest:
    from turnmark.assistant.generators import GENERATORS

    specs_of_run = {"generator": str(GENERATORS.check(request.generator))}
    if prepared.searched:
        specs_of_run |= {"retriever": specs[0], **weighed(specs[0])}
    if prepared.query:
        specs_of_run |= {"query": prepared.query}
    if prepared.found_by:
        specs_of_run |= {"passages": prepared.found_by}
    from turnmark.corpora.specs import parse_spec

    specs_of_run |= {"embedder": specs[1] or str(parse_spec(request.embedder))}
    if request.protocol != "turn":
        specs_of_run |= {"protocol": request.protocol}
    if request.types:
        specs_of_run |= {"types": ", ".join(sorted(set(request.types)))}
    if request.chain:
        specs_of_run |= {"chain": "our own answers"}
    if request.steps:
        specs_of_run |= {"steps": ", ".join(sorted(set(request.steps)))}
    packages = ("sentence-transformers", "torch", *(("bm25s", "PyStemmer", "chromadb") if prepared.searched else ()))
    return RunManifest(
        benchmark=request.benchmark,
        task=task_of(request.benchmark, request.task),
        setting=setting,
        specs=specs_of_run,
        prompts=prompts,
        inputs={**prepared.inputs, **(reranked_by(specs[0]) if prepared.searched else {})},
        data=prepared.data,
        domains=prepared.domains,
        corpora=dict(prepared.corpora_used),
        limit=request.limit,
        sample=request.sample,
        repeat=request.repeat,
        counterfactual=request.counterfactual,
        only=tuple(sorted(set(request.only))),
        seed=request.seed,
        version=version_of("turnmark"),
        versions=versions(["rapidfuzz", "numpy", *packages]),
        command=request.command,
        started=now(),
    )


def run(plan: Plan) -> tuple[Summary, Path, bool]:
    """Answer what is not answered yet, score everything, write the run.

    Returns:
        The summary, the folder it is in, and whether the work was given up because of failures.

    Raises:
        RequestError: the folder holds another run, or finished samples come from another index.
        TurnmarkError: the folder is in use.
    """
    seconds: dict[str, float] = {}
    with open_run(plan.folder, plan.manifest) as folder:
        say_resumed(folder)
        answered = len(folder.samples) - folder.samples.unfinished
        pending = plan.samples - answered
        folder.reopen(pending)
        began = time.perf_counter()
        parts = parts_of(plan)
        benchmark = plan.prepared.build(parts, open_retrievers(plan, folder.searches) if pending else {})
        if pending and plan.answering is None:
            warm(plan, benchmark, parts)
        seconds["load"] = time.perf_counter() - began
        began = time.perf_counter()
        outcome = _generate(plan, folder, benchmark, pending) if pending else Outcome()
        seconds["generate"] = time.perf_counter() - began
        notes = [*plan.notes, *folder.resumed, *problem_notes(folder.samples.problems)]
        if outcome.stopped:
            notes.append(outcome.stopped)
        if answered:
            notes.append(
                f"{answered} of {plan.samples} samples were answered by an earlier call; seconds are of this call"
            )
        with shown_progress() as progress:
            progress.start(f"scoring {inert(plan.manifest.benchmark)}", plan.items)
            summary = score_run(
                folder,
                benchmark,
                selected(benchmark.items(), plan.chosen),
                notes=notes,
                seconds=seconds,
                began=plan.began,
                progress=progress,
                scorers=plan.scorers,
            )
    write_page(plan.folder)
    return summary, plan.folder, outcome.gave_up


def open_retrievers(plan: Plan, note: Callable[[str, str], None]) -> dict[str, Retriever]:
    """What searches the corpora of a run that searches. Indexes are built where they are not there yet.

    Args:
        note: told the identity of each corpus's index before it is searched.
    """
    if not plan.prepared.searched:
        return {}
    from turnmark.evaluation.benchmarks.mtrag_retrieval import open_corpus
    from turnmark.evaluation.passages import OneAtATime

    retrievers: dict[str, Retriever] = {}
    for name, path in plan.prepared.corpora.items():
        retriever, index = open_corpus(path, plan.manifest.specs["retriever"], plan.request.embedder)
        note(name, index)
        retrievers[name] = OneAtATime(retriever)
    return retrievers


def parts_of(plan: Plan) -> Parts:
    """What answers, searching aside."""
    from turnmark.evaluation.benchmarks.turns import Parts
    from turnmark.evaluation.embedding import shared_embedder

    embed = shared_embedder(plan.manifest.specs["embedder"])
    return Parts(embed=embed, prompts=plan.request.prompts, forms=plan.request.steps)


def warm(plan: Plan, benchmark: Benchmark[Any], parts: Parts) -> None:
    """Load the model before any sample's time begins: it takes longer than most samples do."""
    embeds = plan.generator is None or plan.request.passages is not None
    embeds &= getattr(benchmark, "embeds", True)
    if embeds and parts.embed is not None:
        parts.embed(["load the model"])


def _generate(plan: Plan, folder: RunFolder, benchmark: Benchmark[Any], pending: int) -> Outcome:
    guess = plan.mean_sample() if plan.request.budget is not None else None
    if plan.generator is not None and plan.answering is None:
        from turnmark.assistant.generators.base import make_ready

        make_ready(plan.generator)  # before any sample's time begins: a server may have to be started
    budget = plan.request.budget if plan.generator is not None else None  # what needs no model costs nothing
    spent = spent_on_judges(folder.path)
    if plan.elsewhere is not None:
        spent += plan.elsewhere
    ledger = open_ledger(plan.request.generator, budget, folder.samples, guess, spent)
    targets = isinstance(plan.generator, ReferenceGenerator)
    in_process = nullcontext(answering_with_targets(benchmark, plan.prepared.searched) if targets else benchmark.answer)
    with plan.answering(benchmark) if plan.answering else in_process as answer, shown_progress() as progress:
        name = inert(" ".join(filter(None, (plan.manifest.benchmark, plan.manifest.setting))))
        progress.start(f"answering {name}", pending)
        return generate(_jobs(plan, folder, benchmark), answer, plan.generator, folder, plan.limits, ledger, progress)


def _jobs(plan: Plan, folder: RunFolder, benchmark: Benchmark[Any]) -> Iterator[Job]:
    """The samples that are not done yet, in the data's order, the repeats of an item one after the other."""
    items = selected(benchmark.items(), plan.chosen)
    for item in in_turns(items) if plan.request.chain else items:
        for job in _repeats(item, plan.request.repeat):
            if not folder.samples.finished(job.key):
                yield job


def in_turns(items: Iterable[Item]) -> list[Item]:
    """The items by how many others they come after: all first ones, then all that go on from these, and so on.

    So many of them can be answered at once, though each waits for the one that it goes on from.
    """
    depth: dict[str, int] = {}
    in_order = list(items)
    for item in in_order:
        depth[item.id] = depth.get(item.after, -1) + 1 if item.after is not None else 0
    return sorted(in_order, key=lambda item: depth[item.id])


def _repeats(item: Item, times: int) -> Iterator[Job]:
    return (Job(item, repeat) for repeat in range(times))
