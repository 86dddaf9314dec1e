"""`turnmark synth`: check a request, make the missing items, and write the benchmark's files."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from turnmark.assistant.llm.calls.ledger import Ledger, price_in
from turnmark.assistant.llm.calls.prices import load_prices, parse_budget, price_of
from turnmark.assistant.llm.calls.protocols import Generator, traits_of
from turnmark.assistant.llm.generators.registry import open_generator
from turnmark.assistant.llm.generators.response_cache import with_cache
from turnmark.assistant.llm.prompts.prompt_files import check_prompts
from turnmark.assistant.types import Usage
from turnmark.core.console import NoProgress, Progress, shown_progress
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.record import Record
from turnmark.evaluation.calls.cost_estimates import add_usage, open_ledger
from turnmark.evaluation.calls.generator_wrappers import DeadlineGenerator
from turnmark.evaluation.records import Sample
from turnmark.evaluation.runs.sample_scheduler import Limits, RunOutcome, SampleJob, generate
from turnmark.evaluation.storage.journal import SampleJournal
from turnmark.evaluation.storage.run_folder import check_folder, default_folder, now, package_versions, version_of
from turnmark.evaluation.synth.request import SynthRequest
from turnmark.evaluation.synth.review import Reviews, check_reviews, read_reviews, rejections
from turnmark.evaluation.synth.synthesis_attempt import (
    EMBEDDER,
    JUDGE,
    PROMPTS,
    WRITER,
    Attempt,
    Seed,
    Synthesis,
    Tools,
)
from turnmark.evaluation.synth.synthesis_folder import (
    ITEMS,
    REJECTS,
    Duplicates,
    IndexSource,
    SynthFolder,
    SynthManifest,
    open_synthesis_folder,
)
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.request import allowed_failures, command_line
from turnmark.retrieval.embedding.embedders import shared_embedder
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.search.retriever_factory import default_retriever, open_retriever

ATTEMPT_SECONDS = 600.0
"""Deadline of one attempt with all of its calls."""
ATTEMPTS_PER_ITEM, SPARE_ATTEMPTS = 5, 5
"""Maximum number of attempts per requested item, and a constant number of additional attempts; limits the cost of
strict filters."""
STOPPING_REASON = (
    f"every seed was tried, or {ATTEMPTS_PER_ITEM} times the attempts needed if every item passed the filters, and "
    f"{SPARE_ATTEMPTS} more"
)


@dataclass(frozen=True)
class SynthPlan:
    """A checked request of `synth`."""

    request: SynthRequest
    synthesis: Synthesis
    tools: Tools
    generator: Generator
    judge: Generator | None
    manifest: SynthManifest
    folder: Path
    seeds: Sequence[Seed]
    reviews: Reviews


def plan_synthesis(request: SynthRequest, synthesis: Synthesis, errors: ErrorCollector) -> SynthPlan:
    """Check a request.

    Raises:
        RequestError: all mistakes, including those already in `errors`.
    """
    generator = _writer(request, errors)
    judge = _model("--judge", request.judge, errors) if request.judge else None
    errors.collect(check_prompts, request.prompts, PROMPTS)
    opened = errors.collect(_source, request, synthesis.name)
    reviews = errors.collect(read_reviews, request.review) or {}
    if request.budget is not None:
        errors.collect(_open_ledger, request)
    errors.raise_all()
    assert generator is not None, "errors.raise_all() raised otherwise"
    assert opened is not None, "errors.raise_all() raised otherwise"
    retriever, source = opened
    seeds = synthesis.seeds(source, request.seed)
    if not seeds:
        raise RequestError(f"synth {synthesis.name}: there is nothing to start from: no document contains enough text")
    specs = {WRITER: generator.name}
    if judge is not None:
        specs[JUDGE] = judge.name
    specs |= {"embedder": EMBEDDER, "retriever": retriever}
    manifest = SynthManifest(
        kind=synthesis.name,
        specs=specs,
        prompts=PROMPTS.hashes(synthesis.prompts, request.prompts),
        corpus=source.corpus(),
        options=dict(synthesis.options),
        seed=request.seed,
        wanted=request.n,
        version=version_of("turnmark"),
        versions=package_versions(["openvino", "tokenizers", "numpy"]),
        command=command_line(),
        started=now(),
    )
    folder = request.out or default_folder(manifest)
    check_folder(folder, manifest)
    check_reviews(reviews, folder)
    tools = Tools(source, request.seed, shared_embedder(EMBEDDER), request.prompts)
    return SynthPlan(request, synthesis, tools, generator, judge, manifest, folder, seeds, reviews)


def _writer(request: SynthRequest, errors: ErrorCollector) -> Generator | None:
    if not request.generator:
        errors.add("--generator: name the model that writes, e.g. openai:MODEL@URL; there is no default")
        return None
    return _model("--generator", request.generator, errors)


def _model(flag: str, spec: str, errors: ErrorCollector) -> Generator | None:
    """Open a language model with the response cache, so that a resumed attempt does not pay twice."""
    if spec.partition("?")[0] in ("extractive", "embedded"):
        lacking = "cannot write questions" if flag == "--generator" else "cannot tell question types apart"
        errors.add(f"{flag} {spec}: the embedded forms {lacking}; name a language model")
        return None
    generator = errors.collect(open_generator, spec)
    if generator is None or spec.startswith("replay:"):  # each line of a script is used once
        return generator
    return errors.collect(with_cache, generator)


def _open_ledger(request: SynthRequest, samples: SampleJournal | None = None) -> Ledger:
    ledger = open_ledger(request.generator or "extractive", request.budget, samples)
    if request.judge:
        prices = load_prices()
        limit = parse_budget(request.budget) if request.budget else None
        ledger.others[JUDGE] = price_in(limit, request.judge, prices) if limit else price_of(request.judge, prices)
    return ledger


def _source(request: SynthRequest, name: str) -> tuple[str, IndexSource]:
    """Open the index; return the spec of its retriever, and the documents."""
    if request.index is None:
        raise RequestError(f"synth {name}: --index names the documents to make data from (turnmark index list)")
    index = open_index(request.index)
    spec = default_retriever(index)
    return spec, IndexSource(index, open_retriever(spec, index))


# --- the work --------------------------------------------------------------------------------------------------------


def synthesize(plan: SynthPlan) -> tuple[SynthReport, bool]:
    """Make the missing items, and write the files.

    Returns:
        The report, and whether failures stopped the work.
    """
    began, n = time.perf_counter(), plan.request.n
    rejected = rejections(plan.reviews)
    with open_synthesis_folder(plan.folder, plan.manifest, rejected) as folder:
        ledger = _open_ledger(plan.request, folder.samples)
        outcome = RunOutcome() if folder.kept >= n else _work(plan, folder, ledger)
        notes: list[str] = []
        if outcome.stopped:
            notes.append(outcome.stopped)
        elif folder.kept < n:
            reason = STOPPING_REASON
            if folder.samples.unfinished:
                reason = f"attempts failed: {folder.samples.unfinished}; the same command tries them again"
            notes.append(f"{folder.kept} of {n} items: {reason}")
        folder.update_manifest(ended=now())
        reviewers = {reviewer for reason_of_reviewer in plan.reviews.values() for reviewer in reason_of_reviewer}
        if reviewers:
            counts = f"{len(plan.reviews)} items read by {len(reviewers)} people, {len(rejected)} rejected"
            notes.append(f"review: {counts}")
        report = _write_outputs(plan, folder, notes, ledger, began)
    return report, outcome.gave_up


def _work(plan: SynthPlan, folder: SynthFolder, ledger: Ledger) -> RunOutcome:
    request = plan.request
    tokens_in, tokens_out = plan.synthesis.tokens
    ledger.expect(Usage(prompt_tokens=tokens_in, completion_tokens=tokens_out))
    for model in filter(None, (plan.generator, plan.judge)):
        traits_of(model).make_ready()
    plan.tools.embed(["load the model"])
    folder.duplicates = Duplicates(plan.tools.embed, list(folder.items()))
    limits = Limits(request.concurrency, ATTEMPT_SECONDS, allowed_failures(request.max_failures, request.n))

    def answer(item: Item, generator: Generator | None) -> Sample:
        assert generator is not None, "a synthesis has a model"
        judge = DeadlineGenerator(plan.judge, ATTEMPT_SECONDS) if plan.judge is not None else None
        attempt = Attempt(item.task, plan.tools, generator, judge)
        with attempt.rejecting({"start": str(attempt.seed.start)[:200]}):
            plan.synthesis.make(attempt)
        folder.stash(item.id, attempt.items, attempt.rejects)
        return Sample(id=item.id, status="done", query=None, usage=attempt.usage)

    with shown_progress() as progress:
        progress.start(f"making {plan.synthesis.name}", request.n)
        items = _ItemProgress(progress, folder)
        return generate(_jobs(plan, folder), answer, plan.generator, folder, limits, ledger, items)


def _jobs(plan: SynthPlan, folder: SynthFolder) -> Iterator[SampleJob | None]:
    """Yield seeds until the items so far, plus those that the running and failed attempts may give, are enough.

    A call therefore uses the same first seeds at any concurrency. None is yielded while the running attempts may be
    enough: the next seed is needed only if one of them is rejected.
    """
    each, wanted = plan.synthesis.each, plan.request.n
    limit = ATTEMPTS_PER_ITEM * -(-wanted // each) + SPARE_ATTEMPTS
    started, finished_before = 0, folder.finished
    for seed in plan.seeds[:limit]:
        if folder.samples.finished((seed.id, 0)):
            continue
        while True:
            unfinished = started - (folder.finished - finished_before)
            if folder.kept + each * unfinished < wanted:
                break
            yield None
        started += 1
        yield SampleJob(Item(id=seed.id, task=seed, domain=seed.domain or None))


class _ItemProgress(NoProgress):
    """Progress in items, for a run that reports attempts."""

    def __init__(self, progress: Progress, folder: SynthFolder) -> None:
        self._progress, self._folder, self._shown = progress, folder, 0
        self.advance()

    def advance(self, n: int = 1) -> None:  # noqa: ARG002
        self._progress.advance(self._folder.kept - self._shown)
        self._shown = self._folder.kept

    def tell(self, text: str) -> None:
        rejected = self._folder.rejected
        if rejected:
            text = f"{rejected} rejected, {text}" if text else f"{rejected} rejected"
        self._progress.tell(text)


# --- the report and the benchmark's files ----------------------------------------------------------------------------


class SynthReport(Record):
    """The report of a synthesis, which `--json` prints."""

    kind: str
    out: str
    wanted: int
    kept: int
    rejected: int = Field(
        description="lines of rejects.jsonl; an attempt may have several rejects in addition to an item"
    )
    attempts: int
    failed: int = Field(description="attempts that failed because of a call; the same command tries them again")
    filters: dict[str, dict[str, int]] = Field(description="stage -> reason -> number of rejects")
    usage: Mapping[str, Mapping[str, float | None]] = Field(default_factory=dict)
    seconds: float
    files: tuple[str, ...] = Field(description="in the layout of the benchmark, under `out`")
    notes: tuple[str, ...]


def _write_outputs(
    plan: SynthPlan, folder: SynthFolder, notes: Sequence[str], ledger: Ledger, began: float
) -> SynthReport:
    """Write the benchmark's files from `items.jsonl`, and make the report."""
    path, name = folder.path, plan.synthesis.name
    items = sorted(folder.items(), key=lambda item: (item.seed, item.id))
    (path / REJECTS).touch()
    try:
        files = tuple(plan.synthesis.export(path, items, plan.tools.source))
    except (KeyError, TypeError) as error:
        raise RequestError(f"{ITEMS} in {str(path)!r}: an item is not as synth {name} makes it ({error})") from error
    counts = Counter((reject.stage, reject.reason) for reject in folder.rejects())
    filters: dict[str, dict[str, int]] = {}
    for (stage, reason), count in sorted(counts.items(), key=lambda pair: (pair[0][0], -pair[1], pair[0][1])):
        filters.setdefault(stage, {})[reason] = count
    usage: dict[str, Usage] = {}
    for sample in folder.samples.records():
        usage = add_usage(usage, sample.usage)
    all_notes = list(notes)
    if plan.synthesis.filters and not plan.judge:
        all_notes.append("the model that writes was also the filter; --judge names another")
    all_notes += folder.unreadable()
    if files:
        all_notes.append(f"try it: turnmark eval {plan.synthesis.benchmark} --data {path}")
    return SynthReport(
        kind=name,
        out=str(path),
        wanted=folder.manifest.wanted,
        kept=len(items),
        rejected=counts.total(),
        attempts=len(folder.samples),
        failed=folder.samples.unfinished,
        filters=filters,
        usage={role: priced.model_dump() for role, priced in ledger.priced(usage).items()},
        seconds=round(time.perf_counter() - began, 3),
        files=files,
        notes=tuple(all_notes),
    )
