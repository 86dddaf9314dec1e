"""`turnmark synth`: checks a request, makes what is not made yet, and writes the benchmark's files."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from turnmark.assistant.generators.base import Generator, make_ready
from turnmark.assistant.prompts import check_prompts
from turnmark.assistant.settings import load_prices, price_of
from turnmark.assistant.types import Usage
from turnmark.corpora.console import NoProgress, Progress, shown_progress
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.types import Record
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.budget import CountingModel, Ledger, add_usage, estimate_items, open_ledger, usage_json
from turnmark.evaluation.engine import Limits, RunOutcome, SampleJob, generate
from turnmark.evaluation.records import Sample
from turnmark.evaluation.request import allowed_failures, command_line
from turnmark.evaluation.rundir import check_folder, default_folder, package_versions, version_of
from turnmark.evaluation.scoring import now
from turnmark.evaluation.synth.attempt import JUDGE, PROMPTS, WRITER, Attempt, Rejected, Seed, Synthesis, Tools
from turnmark.evaluation.synth.folder import (
    ITEMS,
    REJECTS,
    Duplicates,
    SynthFolder,
    SynthItem,
    SynthManifest,
    open_synthesis_folder,
)
from turnmark.evaluation.synth.source import IndexSource

if TYPE_CHECKING:
    from turnmark.evaluation.judging.rubrics import Rubric
    from turnmark.evaluation.synth.request import SynthRequest

EMBEDDER = "minilm"
TRIES, SPARE = 5, 5
"""Attempts for each item that is wanted, and a few more for those who want few: filters that reject nearly all cost."""
MOST = f"{TRIES} times as many attempts as it would take if every filter were passed, and {SPARE} more"
SAMPLED = 5
"""Attempts that an estimate looks at."""


# --- the request -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SynthPlan:
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
        """What so many attempts take by role, if every filter is passed; nothing is sent."""
        name, reply_tokens = self.generator.name, self.generator.reply_tokens
        model = CountingModel(name, reply_tokens=reply_tokens, verdict="Verdict: [[no]]")
        tools = replace(self.tools, dry=True, judge=model if self.tools.judge is not None else None)

        def usage(seed: Seed) -> Mapping[str, Usage]:
            attempt = Attempt(seed, tools, model)
            with suppress(Rejected):  # a prompt that does not fit costs nothing
                self.synthesis.make(attempt)
            return attempt.usage

        return estimate_items(self.seeds[:attempts], attempts, usage, SAMPLED)

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
            "notes": [*_judge_notes(self.manifest), f"a rejected attempt is made up for by another; {MOST}"],
        }


def plan_synthesis(request: SynthRequest, synthesis: Synthesis, errors: ErrorCollector) -> SynthPlan:
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
    opened = errors.collect(_source, request, name)
    if request.budget is not None:
        errors.collect(open_ledger, request.generator or "extractive", request.budget)
    errors.raise_all()
    assert generator is not None, "errors.raise_all() raised otherwise"
    assert opened is not None, "errors.raise_all() raised otherwise"
    retriever, source = opened
    same = judge is None and "faithfulness" not in synthesis.measures
    embed = shared_embedder(EMBEDDER)
    measures = _measures(synthesis, embedded=judge is None)
    tools = Tools(
        source=source, seed=request.seed, embed=embed, judge=generator if same else judge, same=same,
        measures=measures, prompts=request.prompts, judge_price=price_of(judge_name, load_prices()),
        deadline=request.deadline,
    )  # fmt: skip
    seeds = synthesis.seeds(source, request.seed)
    if not seeds:
        raise RequestError(f"synth {name}: there is nothing to start from: no document holds enough text")
    judge_spec = generator.name if same else judge_name
    manifest = SynthManifest(
        kind=name,
        specs={"generator": generator.name, "judge": judge_spec, "embedder": EMBEDDER, "retriever": retriever},
        prompts=_prompt_hashes(synthesis, measures, request.prompts),
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
    return SynthPlan(request, synthesis, tools, generator, manifest, folder, seeds, limits, began)


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


def _source(request: SynthRequest, name: str) -> tuple[str, IndexSource]:
    """The retriever's spec, and the index that it searches."""
    from turnmark.retrieval.index import open_index
    from turnmark.retrieval.registry import default_retriever, open_retriever

    if request.index is None:
        raise RequestError(f"synth {name}: --index names the documents to make data from (turnmark index list)")
    index = open_index(request.index)
    spec = request.retriever or default_retriever(index)
    return spec, IndexSource(index, open_retriever(spec, index))


def _measures(synthesis: Synthesis, embedded: bool) -> dict[str, Rubric]:
    """What judges answers: the judge's model, or the embedded judge."""
    from turnmark.evaluation.embedding import shared_embedder
    from turnmark.evaluation.judging import extractive
    from turnmark.evaluation.judging.mtrag import IDK_JUDGE, RL_F

    if not synthesis.measures:
        return {}
    if not embedded:
        return {"faithfulness": RL_F, "idk": IDK_JUDGE}
    rubrics = {rubric.name: rubric for rubric in extractive.extractive_rubrics(shared_embedder(EMBEDDER), EMBEDDER)}
    return {"faithfulness": rubrics[extractive.FAITHFULNESS], "idk": rubrics[extractive.IDK]}


def _prompt_hashes(synthesis: Synthesis, measures: Mapping[str, Rubric], directory: Path | None) -> dict[str, str]:
    from turnmark.evaluation.prompts import JUDGES

    of_judge = JUDGES.hashes([name for measure in measures.values() for name in measure.prompts])
    return PROMPTS.hashes(synthesis.prompts, directory) | of_judge


# --- the work --------------------------------------------------------------------------------------------------------


def synthesize(plan: SynthPlan) -> tuple[SynthReport, bool]:
    """Make what is not made yet, and write the files.

    Returns:
        The report, and whether the work was given up because of failures.

    Raises:
        RequestError: the folder holds something else.
        TurnmarkError: the folder is in use.
    """
    n = plan.request.n
    with open_synthesis_folder(plan.folder, plan.manifest) as folder:
        ledger = open_ledger(plan.request.generator or "", plan.request.budget, folder.samples)
        outcome = RunOutcome() if folder.kept >= n else _work(plan, folder, ledger)
        notes = [outcome.stopped] if outcome.stopped else []
        if folder.kept < n and not outcome.stopped:
            notes.append(_too_few(folder, n))
        folder.update_manifest(ended=now())
        report = _write_outputs(plan, folder, notes, ledger)
    return report, outcome.gave_up


def _too_few(folder: SynthFolder, goal: int) -> str:
    if failed := folder.samples.unfinished:
        count = "1 attempt" if failed == 1 else f"{failed} attempts"
        return f"{folder.kept} of {goal} items: {count} failed; the same command tries again"
    return f"{folder.kept} of {goal} items: every seed was tried, or {MOST}"


def _work(plan: SynthPlan, folder: SynthFolder, ledger: Ledger) -> RunOutcome:
    if plan.request.budget is not None:
        ledger.expect(sum(plan.estimate(1).values(), Usage()))
    make_ready(plan.generator)
    plan.tools.embed(["load the model"])
    folder.duplicates = Duplicates(plan.tools.embed, folder.items())

    def answer(item: Item, generator: Generator | None) -> Sample:
        assert generator is not None, "a synthesis has a model"
        attempt = Attempt(item.task, plan.tools, generator)
        try:
            plan.synthesis.make(attempt)
        except Rejected as error:
            attempt.reject(error, start=str(attempt.seed.start)[:200])
        folder.stash(item.id, attempt.items, attempt.rejects)
        return Sample(id=item.id, status="done", query=None, usage=attempt.usage)

    with shown_progress() as progress:
        progress.start(f"making {plan.synthesis.name}", plan.request.n)
        items = _ItemProgress(progress, folder)
        return generate(_jobs(plan, folder), answer, plan.generator, folder, plan.limits, ledger, items)


def _jobs(plan: SynthPlan, folder: SynthFolder) -> Iterator[SampleJob | None]:
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


class _ItemProgress(NoProgress):
    """Progress in items, while the engine counts attempts."""

    def __init__(self, progress: Progress, folder: SynthFolder) -> None:
        self._progress, self._folder, self._shown = progress, folder, 0
        self.advance()

    def advance(self, n: int = 1) -> None:  # noqa: ARG002
        self._progress.advance(self._folder.kept - self._shown)
        self._shown = self._folder.kept

    def tell(self, text: str) -> None:
        rejected = self._folder.rejected
        self._progress.tell(", ".join(filter(None, [f"{rejected} rejected" if rejected else "", text])))


# --- the report and the benchmark's files ----------------------------------------------------------------------------


class SynthReport(Record):
    """What `--json` prints of a synthesis."""

    kind: str
    out: str
    wanted: int
    kept: int
    rejected: int = Field(description="lines of rejects.jsonl; an attempt may leave several, and an item too")
    attempts: int
    failed: int = Field(description="attempts that gave nothing because a call failed; the same command tries again")
    filters: dict[str, dict[str, int]] = Field(description="stage -> reason -> how many were rejected")
    usage: Mapping[str, Mapping[str, float | None]] = Field(default_factory=dict)
    seconds: float
    files: tuple[str, ...] = Field(description="in the layout of the benchmark, under `out`")
    notes: tuple[str, ...]


def _judge_notes(manifest: SynthManifest) -> tuple[str, ...]:
    if manifest.specs.get("judge") != manifest.specs.get("generator"):
        return ()
    return ("the judge is the model that wrote the data; --judge names another",)


def _write_outputs(plan: SynthPlan, folder: SynthFolder, notes: Sequence[str], ledger: Ledger) -> SynthReport:
    """Write the benchmark's files from `items.jsonl`, and count `rejects.jsonl`.

    Raises:
        RequestError: an item lacks what its synthesis gives it.
    """
    path, synthesis = folder.path, plan.synthesis
    items = sorted(folder.items(), key=lambda item: (item.seed, item.id))
    (path / REJECTS).touch()
    try:
        exported = synthesis.export(path, items, plan.tools.source)
    except (KeyError, TypeError) as error:
        problem = f"an item is not as synth {synthesis.name} makes it ({error})"
        raise RequestError(f"{ITEMS} in {str(path)!r}: {problem}") from error
    counts = Counter((reject.stage, reject.reason) for reject in folder.rejects())
    filters: dict[str, dict[str, int]] = {}
    for (stage, reason), count in sorted(counts.items(), key=lambda pair: (pair[0][0], -pair[1], pair[0][1])):
        filters.setdefault(stage, {})[reason] = count
    return SynthReport(
        kind=synthesis.name,
        out=str(path),
        wanted=folder.manifest.wanted,
        kept=len(items),
        rejected=counts.total(),
        attempts=len(folder.samples),
        failed=folder.samples.unfinished,
        filters=filters,
        usage=_usage(folder, ledger),
        seconds=round(time.perf_counter() - plan.began, 3),
        files=exported.files,
        notes=(*_judge_notes(folder.manifest), *notes, *folder.unreadable(), *_cut_notes(items), *exported.notes),
    )


def _usage(folder: SynthFolder, ledger: Ledger) -> dict[str, dict[str, float | None]]:
    """Role -> calls, tokens and cost of all calls of the command."""
    total: dict[str, Usage] = {}
    for sample in folder.samples.records():
        total = add_usage(total, sample.usage)
    priced = ledger.priced(total)
    return {role: priced[role].model_dump() for role in dict.fromkeys((WRITER, JUDGE, *total)) if role in total}


def _cut_notes(items: Sequence[SynthItem]) -> tuple[str, ...]:
    count = sum(bool(item.notes) for item in items)
    note = f"{count} of {len(items)} items: a prompt was cut to what the model takes ('notes' in {ITEMS})"
    return (note,) if count else ()
