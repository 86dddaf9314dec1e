"""`turnmark eval` for tasks whose answers are written: a request checked as a whole, then carried out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
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
from turnmark.evaluation.engine import Answer, Job, Limits, Outcome, generate
from turnmark.evaluation.flags import check_flags, failures, selection_of
from turnmark.evaluation.records import RunManifest, Summary
from turnmark.evaluation.report.page import write_page
from turnmark.evaluation.requests import GenerationRequest
from turnmark.evaluation.run import RunFolder, check_folder, default_folder, open_run, read_folder, say_resumed
from turnmark.evaluation.scorers import Scorers
from turnmark.evaluation.scoring import now, score_run
from turnmark.evaluation.selection import all_alike, selected
from turnmark.evaluation.spending import open_ledger, spent_on_judges
from turnmark.evaluation.targets import answering_with_targets, check_targets
from turnmark.evaluation.versions import version_of, versions

if TYPE_CHECKING:
    from turnmark.assistant.generators.base import Generator
    from turnmark.assistant.types import Usage
    from turnmark.evaluation.benchmarks.turns import Parts
    from turnmark.retrieval.types import Retriever

Answering = Callable[[Benchmark[Any]], AbstractContextManager[Answer]]


@dataclass(frozen=True)
class Plan:
    """A request that was found to be in order: what will be done, and where it will be written down."""

    request: GenerationRequest
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
        from turnmark.evaluation.estimate import estimate
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
        prompt, completion = (sum(one[key] for one in used) for key in ("prompt_tokens", "completion_tokens"))
        n = max(1, self.samples)
        return Usage(prompt_tokens=prompt // n, completion_tokens=completion // n)


def plan(request: GenerationRequest) -> Plan:
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

        there, problems = read_through(prepared.build(Parts(), {}))
        ids = list(there)
        if not ids:
            named = " ".join(filter(None, (request.benchmark, setting)))
            errors.add(f"{named}: there is nothing to answer in the data{_first(problems)}")
    stratum = prepared.stratum if prepared is not None else all_alike
    chosen = selection_of(request).of(ids, errors if prepared is not None else ErrorCollector(), stratum)
    most_failures = failures(request, len(chosen) * request.repeat, ErrorCollector())
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
        chosen=frozenset(chosen) if len(chosen) < len(ids) else None,
        items=len(chosen),
        generator=generator,
        limits=Limits(request.concurrency, request.deadline, most_failures),
        began=began,
    )


def _first(problems: Sequence[Problem]) -> str:
    return f"; the first mistake in it: {problems[0]}" if problems else ""


def _manifest(
    request: GenerationRequest,
    setting: str | None,
    prepared: Prepared,
    specs: tuple[str, str],
    prompts: dict[str, str],
) -> RunManifest:
    from turnmark.assistant.generators import GENERATORS
    from turnmark.evaluation.benchmarks.mtrag_plan import reranked_by, weighed

    named = {"generator": str(GENERATORS.check(request.generator))}
    if prepared.searched:
        named |= {"retriever": specs[0], **weighed(specs[0])}
    if prepared.query:
        named |= {"query": prepared.query}
    if prepared.found_by:
        named |= {"passages": prepared.found_by}
    from turnmark.corpora.specs import parse_spec

    named |= {"embedder": specs[1] or str(parse_spec(request.embedder))}
    if request.protocol != "turn":
        named |= {"protocol": request.protocol}
    if request.types:
        named |= {"types": ", ".join(sorted(set(request.types)))}
    if request.chain:
        named |= {"chain": "our own answers"}
    if request.steps:
        named |= {"steps": ", ".join(sorted(set(request.steps)))}
    packages = ("sentence-transformers", "torch", *(("bm25s", "PyStemmer", "chromadb") if prepared.searched else ()))
    return RunManifest(
        benchmark=request.benchmark,
        task=task_of(request.benchmark, request.task),
        setting=setting,
        specs=named,
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


def run(made: Plan) -> tuple[Summary, Path, bool]:
    """Answer what is not answered yet, score everything, write the run.

    Returns:
        The summary, the folder it is in, and whether the work was given up because of failures.

    Raises:
        RequestError: the folder holds another run, or finished samples come from another index.
        TurnmarkError: the folder is in use.
    """
    seconds: dict[str, float] = {}
    with open_run(made.folder, made.manifest) as folder:
        say_resumed(folder)
        before = len(folder.samples) - folder.samples.unfinished
        pending = made.samples - before
        folder.reopen(pending)
        began = time.perf_counter()
        parts = parts_of(made)
        benchmark = made.prepared.build(parts, open_retrievers(made, folder.searches) if pending else {})
        if pending and made.answering is None:
            warm(made, benchmark, parts)
        seconds["load"] = time.perf_counter() - began
        began = time.perf_counter()
        outcome = _generate(made, folder, benchmark, pending) if pending else Outcome()
        seconds["generate"] = time.perf_counter() - began
        notes = [*made.notes, *folder.resumed, *problem_notes(folder.samples.problems)]
        if outcome.stopped:
            notes.append(outcome.stopped)
        if before:
            notes.append(
                f"{before} of {made.samples} samples were answered by an earlier call; seconds are of this call"
            )
        with shown_progress() as progress:
            progress.start(f"scoring {inert(made.manifest.benchmark)}", made.items)
            summary = score_run(
                folder,
                benchmark,
                selected(benchmark.items(), made.chosen),
                notes=notes,
                seconds=seconds,
                began=made.began,
                progress=progress,
                scorers=made.scorers,
            )
    write_page(made.folder)
    return summary, made.folder, outcome.gave_up


def open_retrievers(made: Plan, note: Callable[[str, str], None]) -> dict[str, Retriever]:
    """What searches the corpora of a run that searches. Indexes are built where they are not there yet.

    Args:
        note: told the identity of each corpus's index before it is searched.
    """
    if not made.prepared.searched:
        return {}
    from turnmark.evaluation.benchmarks.mtrag_retrieval import open_corpus
    from turnmark.evaluation.passages import OneAtATime

    retrievers: dict[str, Retriever] = {}
    for name, path in made.prepared.corpora.items():
        retriever, index = open_corpus(path, made.manifest.specs["retriever"], made.request.embedder)
        note(name, index)
        retrievers[name] = OneAtATime(retriever)
    return retrievers


def parts_of(made: Plan) -> Parts:
    """What answers, searching aside."""
    from turnmark.evaluation.benchmarks.turns import Parts
    from turnmark.evaluation.embedding import shared_embedder

    embed = shared_embedder(made.manifest.specs["embedder"])
    return Parts(embed=embed, prompts=made.request.prompts, forms=made.request.steps)


def warm(made: Plan, benchmark: Benchmark[Any], parts: Parts) -> None:
    """Load the model before any sample's time begins: it takes longer than most samples do."""
    embeds = made.generator is None or made.request.passages is not None
    embeds &= getattr(benchmark, "embeds", True)
    if embeds and parts.embed is not None:
        parts.embed(["load the model"])


def _generate(made: Plan, folder: RunFolder, benchmark: Benchmark[Any], pending: int) -> Outcome:
    guess = made.mean_sample() if made.request.budget is not None else None
    if made.generator is not None and made.answering is None:
        from turnmark.assistant.generators.base import make_ready

        make_ready(made.generator)  # before any sample's time begins: a server may have to be started
    budget = made.request.budget if made.generator is not None else None  # what needs no model costs nothing
    others = spent_on_judges(folder.path)
    if made.elsewhere is not None:
        others += made.elsewhere
    ledger = open_ledger(made.request.generator, budget, folder.samples, guess, others)
    targets = isinstance(made.generator, ReferenceGenerator)
    here = nullcontext(answering_with_targets(benchmark, made.prepared.searched) if targets else benchmark.answer)
    with made.answering(benchmark) if made.answering else here as answer, shown_progress() as progress:
        name = inert(" ".join(filter(None, (made.manifest.benchmark, made.manifest.setting))))
        progress.start(f"answering {name}", pending)
        return generate(_jobs(made, folder, benchmark), answer, made.generator, folder, made.limits, ledger, progress)


def _jobs(made: Plan, folder: RunFolder, benchmark: Benchmark[Any]) -> Iterator[Job]:
    """The samples that are not done yet, in the data's order, the repeats of an item one after the other."""
    items = selected(benchmark.items(), made.chosen)
    for item in in_turns(items) if made.request.chain else items:
        for job in _repeats(item, made.request.repeat):
            if not folder.samples.finished(job.key):
                yield job


def in_turns(items: Iterable[Item]) -> list[Item]:
    """The items by how many others they come after: all first ones, then all that go on from these, and so on.

    So many of them can be answered at once, though each waits for the one that it goes on from.
    """
    depth: dict[str, int] = {}
    every = list(items)
    for item in every:
        depth[item.id] = depth.get(item.after, -1) + 1 if item.after is not None else 0
    return sorted(every, key=lambda item: depth[item.id])


def _repeats(item: Item, times: int) -> Iterator[Job]:
    return (Job(item, repeat) for repeat in range(times))


def moved(made: Plan, folder: Path) -> Plan:
    """The same plan, written to another folder.

    Raises:
        RequestError: the folder holds another run.
    """
    check_folder(folder, made.manifest)
    return replace(made, folder=folder)
