"""`turnmark synth`: a request checked as a whole, then carried out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from turnmark.assistant.prompts import check_prompts
from turnmark.assistant.settings import load_prices, price_of
from turnmark.assistant.types import Usage
from turnmark.corpora.console import Progress, shown_progress
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.budget import Ledger, open_ledger, usage_json
from turnmark.evaluation.engine import Limits, RunOutcome, SampleJob, generate
from turnmark.evaluation.records import Sample
from turnmark.evaluation.request import allowed_failures, command_line
from turnmark.evaluation.rundir import check_folder, default_folder, package_versions, version_of
from turnmark.evaluation.scoring import now
from turnmark.evaluation.synth.attempt import (
    PROMPTS,
    Attempt,
    Rejected,
    Seed,
    Synthesis,
    Tools,
    estimated,
)
from turnmark.evaluation.synth.folder import Duplicates, SynthFolder, SynthManifest, open_synthesis_folder
from turnmark.evaluation.synth.outputs import Report, own_judge, usage_of, write_outputs
from turnmark.evaluation.synth.request import SynthRequest
from turnmark.evaluation.synth.source import Source

if TYPE_CHECKING:
    from turnmark.assistant.generators.base import Generator
    from turnmark.evaluation.judging.rubrics import Rubric

EMBEDDER = "minilm"
TRIES, SPARE = 5, 5
"""Attempts for each item that is wanted, and beside that for those who want few: filters that reject nearly all are
costly."""
MOST = f"{TRIES} times as many attempts as it would take if every filter were passed, and {SPARE} more"


@dataclass(frozen=True)
class Plan:
    """A request that was found to be in order."""

    request: SynthRequest
    synthesis: Synthesis
    tools: Tools
    generator: Generator
    manifest: SynthManifest
    folder: Path
    seeds: Sequence[Seed]
    limits: Limits
    began: float

    def estimate(self, attempts: int) -> dict[str, Usage]:
        """What so many attempts take by role, if every filter is passed."""
        return estimated(self.synthesis, self.seeds, attempts, self.tools, self.generator)

    def describe(self) -> dict[str, Any]:
        """What `--dry-run` says."""
        n = self.request.n
        attempts = min(len(self.seeds), -(-n // self.synthesis.each))
        return {
            "dry_run": True,
            "kind": self.synthesis.name,
            "wanted": n,
            "attempts": attempts,
            "seeds": len(self.seeds),
            "specs": self.manifest.specs,
            "corpus": self.manifest.corpus.model_dump(),
            "estimated": usage_json(self.estimate(attempts)),
            "out": str(self.folder),
            "notes": [*own_judge(self.manifest), f"a rejected attempt is made up for by another; {MOST}"],
        }


def plan(request: SynthRequest, synthesis: Synthesis, errors: ErrorCollector) -> Plan:
    """Check a request.

    Args:
        errors: those that were found before.

    Raises:
        RequestError: everything that is wrong with it, at once.
    """
    from turnmark.evaluation.embedding import shared_embedder

    began, name = time.perf_counter(), synthesis.name
    generator = _writer(request, errors)
    judge_name, judge = _judge(request, synthesis, errors)
    errors.collect(check_prompts, request.prompts, PROMPTS)
    hashes = {} if errors.problems else PROMPTS.hashes(synthesis.prompts, request.prompts)
    opened = errors.collect(_source, request, name)
    if request.budget is not None:
        errors.collect(open_ledger, request.generator or "extractive", request.budget)
    errors.raise_all()
    assert generator is not None, "errors.raise_all() raised otherwise"
    assert opened is not None, "errors.raise_all() raised otherwise"
    retriever, source = opened
    writer_judges = judge is None and "faithfulness" not in synthesis.measures
    tools = Tools(
        source=source, seed=request.seed, embed=shared_embedder(EMBEDDER), judge=generator if writer_judges else judge,
        same=writer_judges, prompts=request.prompts, judge_price=price_of(judge_name, load_prices()),
        deadline=request.deadline,
    )  # fmt: skip
    tools = replace(tools, measures=_measures(synthesis, tools))
    seeds = synthesis.seeds(source, request.seed)
    if not seeds:
        raise RequestError(f"synth {name}: there is nothing to start from: no document holds enough text")
    specs = {
        "generator": generator.name,
        "judge": generator.name if writer_judges else judge_name,
        "embedder": EMBEDDER,
    }
    manifest = SynthManifest(
        kind=name,
        specs=specs | {"retriever": retriever},
        prompts=hashes | _judge_prompts(tools.measures),
        corpus=source.corpus(),
        options=dict(synthesis.options),
        seed=request.seed,
        wanted=request.n,
        version=version_of("turnmark"),
        versions=package_versions(["sentence-transformers", "torch", "numpy"]),
        command=command_line(),
        started=now(),
    )
    folder = request.out or default_folder(manifest)
    check_folder(folder, manifest)
    limits = Limits(request.concurrency, request.deadline, allowed_failures(request.max_failures, request.n))
    return Plan(request, synthesis, tools, generator, manifest, folder, seeds, limits, began)


def _writer(request: SynthRequest, errors: ErrorCollector) -> Generator | None:
    """The model that writes, with the response cache in front of it: a resumed attempt pays for nothing twice."""
    from turnmark.assistant.generators import open_generator
    from turnmark.assistant.generators.cache import with_cache

    if not request.generator:
        errors.add("--generator: name the model that is to write, such as openai:MODEL@URL; there is no default")
        return None
    if request.generator.partition("?")[0] in ("extractive", "embedded"):
        errors.add(f"--generator {request.generator}: the embedded forms write no questions; name a language model")
        return None
    generator = errors.collect(open_generator, request.generator)
    if generator is None or request.generator.startswith("replay:"):  # each line of a script is used once
        return generator
    return errors.collect(with_cache, generator)


def _judge(request: SynthRequest, synthesis: Synthesis, errors: ErrorCollector) -> tuple[str, Generator | None]:
    """The judge's spec in normal form, and its model; None: the embedded one, or the writer itself."""
    from turnmark.evaluation.judging.judge import open_judges
    from turnmark.evaluation.judging.rubrics import EMBEDDED

    if request.judge is None or request.judge == EMBEDDED:
        if request.judge == EMBEDDED and "faithfulness" not in synthesis.measures:
            errors.add(f"--judge embedded: the filters of {synthesis.name} need a language model")
        return EMBEDDED, None
    judges = errors.collect(open_judges, [request.judge]) or ()
    if len(judges) > 1:
        errors.add(f"--judge {request.judge}: expected one judge, not a panel")
    return (judges[0].name, judges[0].generator) if judges else ("", None)


def _source(request: SynthRequest, name: str) -> tuple[str, Source]:
    """The retriever's spec, and the index that it searches."""
    from turnmark.retrieval.index import open_index
    from turnmark.retrieval.registry import default_retriever, open_retriever

    if request.index is None:
        raise RequestError(f"synth {name}: --index names the documents to make data from (turnmark index list)")
    index = open_index(request.index)
    spec = request.retriever or default_retriever(index)
    return spec, Source(index, open_retriever(spec, index))


def _measures(synthesis: Synthesis, tools: Tools) -> dict[str, Rubric]:
    """What judges answers: the judge's model, or the embedded judge."""
    if not synthesis.measures:
        return {}
    from turnmark.evaluation.judging import extractive
    from turnmark.evaluation.judging.mtrag import IDK_JUDGE, RL_F

    if tools.judge is not None:
        return {"faithfulness": RL_F, "idk": IDK_JUDGE}
    measures = {measure.name: measure for measure in extractive.extractive_rubrics(tools.embed, EMBEDDER)}
    return {"faithfulness": measures[extractive.FAITHFULNESS], "idk": measures[extractive.IDK]}


def _judge_prompts(measures: Mapping[str, Rubric]) -> dict[str, str]:
    from turnmark.evaluation.prompts import JUDGES

    return JUDGES.hashes([name for measure in measures.values() for name in measure.prompts])


# --- the work --------------------------------------------------------------------------------------------------------


def run(plan: Plan) -> tuple[Report, bool]:
    """Make what is not made yet, and write the files.

    Returns:
        The report, and whether the work was given up because of failures.

    Raises:
        RequestError: the folder holds something else.
        TurnmarkError: the folder is in use.
    """
    n = plan.request.n
    with open_synthesis_folder(plan.folder, plan.manifest) as folder:
        enough = folder.kept >= n
        outcome, ledger = (RunOutcome(), _ledger(plan, folder)) if enough else _work(plan, folder)
        notes = [outcome.stopped] if outcome.stopped else []
        if folder.kept < n and not outcome.stopped:
            notes.append(_too_few(folder, n))
        folder.update_manifest(ended=now())
        report = write_outputs(
            plan.synthesis, folder, plan.tools.source, notes=notes, seconds=time.perf_counter() - plan.began,
            usage=usage_of(folder, ledger),
        )  # fmt: skip
    return report, outcome.gave_up


def _too_few(folder: SynthFolder, goal: int) -> str:
    if failed := folder.samples.unfinished:
        count = "1 attempt" if failed == 1 else f"{failed} attempts"
        return f"{folder.kept} of {goal} items: {count} failed; the same command tries again"
    return f"{folder.kept} of {goal} items: every seed was tried, or {MOST}"


def _ledger(plan: Plan, folder: SynthFolder, guess: Usage | None = None) -> Ledger:
    return open_ledger(plan.request.generator or "", plan.request.budget, folder.samples, guess)


def _work(plan: Plan, folder: SynthFolder) -> tuple[RunOutcome, Ledger]:
    from turnmark.assistant.generators.base import make_ready

    guess = sum(plan.estimate(1).values(), Usage()) if plan.request.budget is not None else None
    ledger = _ledger(plan, folder, guess)
    make_ready(plan.generator)
    plan.tools.embed(["load the model"])
    folder.duplicates = Duplicates(plan.tools.embed, folder.items())

    def answer(item: Item, generator: Generator | None) -> Sample:
        assert generator is not None, "a synthesis has a model"
        attempt = Attempt(cast(Seed, item.task), plan.tools, generator)
        try:
            plan.synthesis.make(attempt)
        except Rejected as error:
            attempt.reject(error, start=str(attempt.seed.start)[:200])
        folder.stash(item.id, attempt.items, attempt.rejects)
        return Sample(id=item.id, status="done", query=None, usage=attempt.usage)

    with shown_progress() as progress:
        progress_of_items = _ItemProgress(progress, folder)
        progress_of_items.start(f"making {plan.synthesis.name}", plan.request.n)
        jobs = _jobs(plan, folder)
        return generate(jobs, answer, plan.generator, folder, plan.limits, ledger, progress_of_items), ledger


def _jobs(plan: Plan, folder: SynthFolder) -> Iterator[SampleJob | None]:
    """Seeds while more items are wanted than there are and than the running and failed attempts can give.

    So the attempts of a call are the same few first seeds whatever runs at once. None: nothing for now, until one of
    those that run has been rejected.
    """
    each, wanted = plan.synthesis.each, plan.request.n
    limit = TRIES * -(-wanted // each) + SPARE
    started, finished_before = 0, folder.finished
    for seed in plan.seeds[:limit]:
        if folder.samples.finished((seed.id, 0)):
            continue
        while folder.kept + each * (started - (folder.finished - finished_before)) >= wanted:
            yield None
        started += 1
        yield SampleJob(Item(id=seed.id, task=seed, domain=seed.domain or None))


class _ItemProgress:
    """Progress in items, where the engine counts attempts."""

    def __init__(self, progress: Progress, folder: SynthFolder) -> None:
        self._progress, self._folder, self._shown = progress, folder, folder.kept

    def start(self, what: str, total: int | None) -> None:
        """See `Progress.start`."""
        self._progress.start(what, total)
        self._progress.advance(self._shown)

    def advance(self, n: int = 1) -> None:  # noqa: ARG002
        """See `Progress.advance`."""
        self._progress.advance(self._folder.kept - self._shown)
        self._shown = self._folder.kept

    def tell(self, text: str) -> None:
        """See `Progress.tell`."""
        rejected = self._folder.rejected
        self._progress.tell(", ".join(filter(None, [f"{rejected} rejected" if rejected else "", text])))
