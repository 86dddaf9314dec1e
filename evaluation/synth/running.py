"""`turnmark synth`: a request checked as a whole, then carried out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import Field

from turnmark.assistant.config import load_prices, price_of
from turnmark.assistant.types import Usage
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.progress import shown_progress
from turnmark.corpora.types import Record
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.engine import Limits, Outcome, generate
from turnmark.evaluation.flags import check_calls, failures
from turnmark.evaluation.records import Sample
from turnmark.evaluation.requests import GenerationRequest
from turnmark.evaluation.run import RunFolder
from turnmark.evaluation.scoring import now
from turnmark.evaluation.spending import Ledger, open_ledger
from turnmark.evaluation.synth.desk import Declined, Desk, Tools
from turnmark.evaluation.synth.finishing import finished, own_judge
from turnmark.evaluation.synth.folder import Alike, SynthFolder, check_folder, default_folder, open_folder
from turnmark.evaluation.synth.jobs import SPARE, TRIES, Counted, Jobs, usage_of
from turnmark.evaluation.synth.kinds import Haul, Kind, Seed
from turnmark.evaluation.synth.prompts import prompt_hashes
from turnmark.evaluation.synth.records import Manifest, Report
from turnmark.evaluation.versions import version_of, versions

if TYPE_CHECKING:
    from turnmark.assistant.generators.base import Generator
    from turnmark.evaluation.judging.rubrics import Measure
    from turnmark.evaluation.synth.source import Source

EMBEDDER = "minilm"
MOST = f"{TRIES} times as many attempts as it would take if every filter were passed, and {SPARE} more"


class SynthRequest(Record):
    """What the command was asked for, beside the kind and its settings."""

    index: str | None = None
    n: int | None = Field(default=None, description="items wanted; None: what all seeds give")
    generator: str | None = None
    judge: str | None = None
    retriever: str | None = None
    prompts: Path | None = None
    seed: int = 0
    concurrency: int = 16
    deadline: float = 300.0
    max_failures: str | None = None
    budget: str | None = None
    out: Path | None = None
    command: str = ""


@dataclass(frozen=True)
class Plan:
    """A request that was found to be in order."""

    request: SynthRequest
    kind: Kind
    tools: Tools
    generator: Generator
    manifest: Manifest
    folder: Path
    seeds: Sequence[Seed]
    limits: Limits
    notes: tuple[str, ...]
    began: float

    @property
    def attempts(self) -> int:
        """About how many there will be: as many as it takes if every filter is passed."""
        wanted = self.request.n
        return len(self.seeds) if wanted is None else min(len(self.seeds), -(-wanted // self.kind.each))

    def one(self) -> dict[str, Usage]:
        """What an attempt takes by role, if every filter is passed."""
        from turnmark.evaluation.synth.rehearsal import rehearsed

        return rehearsed(self.kind, self.seeds, self.tools, self.generator.name, self.generator.reply_tokens)

    def describe(self) -> dict[str, Any]:
        """What `--dry-run` says."""
        estimated = {
            role: {
                "calls": used.calls * self.attempts,
                "prompt_tokens": used.prompt_tokens * self.attempts,
                "completion_tokens": used.completion_tokens * self.attempts,
            }
            for role, used in self.one().items()
        }
        return {
            "dry_run": True,
            "kind": self.kind.name,
            "wanted": self.request.n,
            "attempts": self.attempts,
            "seeds": len(self.seeds),
            "specs": self.manifest.specs,
            "corpus": self.manifest.corpus.model_dump(),
            "estimated": estimated,
            "out": str(self.folder),
            "notes": [*self.notes, f"an attempt that is rejected is made up for by another; {MOST}"],
        }


def checked(request: SynthRequest, kind: str, errors: ErrorCollector) -> GenerationRequest:
    """Take down what is wrong with the numbers; the flags of the calls as `eval` has them."""
    flags = GenerationRequest(
        benchmark=kind, generator=request.generator or "extractive", concurrency=request.concurrency,
        deadline=request.deadline, max_failures=request.max_failures, budget=request.budget,
    )  # fmt: skip
    check_calls(flags, errors)
    failures(flags, 1, errors)
    if request.n is not None and request.n < 1:
        errors.add(f"--n {request.n}: a number from 1 was expected")
    if request.seed < 0:
        errors.add(f"--seed {request.seed}: a number from 0 was expected")
    return flags


def plan(request: SynthRequest, kind: Kind, errors: ErrorCollector) -> Plan:
    """Check a request.

    Args:
        errors: those that were found before.

    Raises:
        RequestError: everything that is wrong with it, at once.
    """
    from turnmark.evaluation.embedding import shared_embedder

    began = time.perf_counter()
    generator = _writer(request, errors)
    judge_name, judge = _judge(request, kind, errors)
    hashes = errors.collect(prompt_hashes, kind.prompts, request.prompts) or {}
    opened = errors.collect(_source, request, kind) if kind.searches else None
    flags = checked(request, kind.name, errors)
    errors.raise_all()
    assert generator is not None, "errors.raise_all() raised otherwise"
    named, source = opened if opened else ("", None)
    same = judge is None and "faithfulness" not in kind.measures
    tools = Tools(
        seed=request.seed,
        embed=shared_embedder(EMBEDDER),
        source=source,
        judge=generator if same else judge,
        same=same,
        prompts=request.prompts,
        price=_priced(judge_name),
        deadline=request.deadline,
    )
    measures = _measures(kind, tools)
    tools = replace(tools, measures=measures)
    seeds = kind.seeds(tools)
    if not seeds:
        raise RequestError(f"synth {kind.name}: there is nothing to start from: no document holds enough text")
    specs = {"generator": generator.name, "judge": generator.name if same else judge_name, "embedder": EMBEDDER}
    manifest = Manifest(
        kind=kind.name,
        specs=specs | ({"retriever": named} if named else {}),
        prompts=hashes | _judge_prompts(measures),
        corpus=kind.corpus(tools),
        options=dict(kind.options()),
        seed=request.seed,
        wanted=request.n,
        version=version_of("turnmark"),
        versions=versions(["sentence-transformers", "torch", "numpy"]),
        command=request.command,
        started=now(),
    )
    folder = request.out or default_folder(manifest)
    check_folder(folder, manifest)
    most_failures = failures(flags, request.n or len(seeds), ErrorCollector())
    return Plan(
        request=request, kind=kind, tools=tools, generator=generator, manifest=manifest, folder=folder, seeds=seeds,
        limits=Limits(request.concurrency, request.deadline, most_failures),
        notes=own_judge(manifest), began=began,
    )  # fmt: skip


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
    made = errors.collect(open_generator, request.generator)
    if made is None or request.generator.startswith("replay:"):  # each line of a script is said once
        return made
    return errors.collect(with_cache, made)


def _judge(request: SynthRequest, kind: Kind, errors: ErrorCollector) -> tuple[str, Generator | None]:
    """The judge's spec in normal form, and its model; None: the embedded one, or the writer itself."""
    from turnmark.evaluation.judging.judge import open_seats
    from turnmark.evaluation.judging.rubrics import EMBEDDED

    if request.judge is None or request.judge == EMBEDDED:
        if request.judge == EMBEDDED and "faithfulness" not in kind.measures:
            errors.add(f"--judge embedded: the filters of {kind.name} need a language model")
        return EMBEDDED, None
    seats = errors.collect(open_seats, [request.judge]) or ()
    if len(seats) > 1:
        errors.add(f"--judge {request.judge}: one judge was expected, not a panel")
    return (seats[0].name, seats[0].generator) if seats else ("", None)


def _source(request: SynthRequest, kind: Kind) -> tuple[str, Source]:
    """The retriever's spec, and the index that it searches."""
    from turnmark.evaluation.synth.source import Source
    from turnmark.retrieval.index import open_index
    from turnmark.retrieval.registry import default_retriever, open_retriever

    if request.index is None:
        raise RequestError(f"synth {kind.name}: --index names the documents to make data from (turnmark index list)")
    index = open_index(request.index)
    named = request.retriever or default_retriever(index)
    return named, Source(index, open_retriever(named, index))


def _measures(kind: Kind, tools: Tools) -> dict[str, Measure]:
    """What judges answers: the judge's model, or the embedded judge."""
    if not kind.measures:
        return {}
    from turnmark.evaluation.judging import extractive
    from turnmark.evaluation.judging.mtrag import IDK_JUDGE, RL_F

    if tools.judge is not None:
        return {"faithfulness": RL_F, "idk": IDK_JUDGE}
    own = {one.name: one for one in extractive.embedded_measures(tools.embed, EMBEDDER)}
    return {"faithfulness": own[extractive.FAITHFULNESS], "idk": own[extractive.IDK]}


def _judge_prompts(measures: dict[str, Measure]) -> dict[str, str]:
    from turnmark.evaluation.prompts import prompt_hashes as judges

    return judges([name for one in measures.values() for name in one.prompts])


def _priced(judge: str) -> Any:
    price = price_of(judge, load_prices())

    def priced(used: Usage) -> Usage:
        if price is None or used.cost is not None:
            return used
        return used.model_copy(update={"cost": price.cost(used.prompt_tokens, used.completion_tokens)})

    return priced


def run(made: Plan) -> tuple[Report, bool]:
    """Make what is not made yet, and write the files.

    Returns:
        The report, and whether the work was given up because of failures.

    Raises:
        RequestError: the folder holds something else.
        TurnmarkError: the folder is in use.
    """
    with open_folder(made.folder, made.manifest) as folder:
        enough = made.request.n is not None and folder.kept >= made.request.n
        outcome, ledger = (Outcome(), _ledger(made, folder)) if enough else _work(made, folder)
        notes = [outcome.stopped] if outcome.stopped else []
        if made.request.n is not None and folder.kept < made.request.n and not outcome.stopped:
            notes.append(_short(folder, made.request.n))
        folder.update(ended=now())
        report = finished(
            made.kind, folder, made.tools.source, notes=notes, seconds=time.perf_counter() - made.began,
            usage=usage_of(folder, ledger),
        )  # fmt: skip
    return report, outcome.gave_up


def _short(folder: SynthFolder, wanted: int) -> str:
    if folder.failed:
        count = "1 attempt" if folder.failed == 1 else f"{folder.failed} attempts"
        return f"{folder.kept} of {wanted} items: {count} failed; the same command tries again"
    return f"{folder.kept} of {wanted} items: every seed was tried, or {MOST}"


def _ledger(made: Plan, folder: SynthFolder, guess: Usage | None = None) -> Ledger:
    return open_ledger(made.request.generator or "", made.request.budget, folder.samples, guess)


def _work(made: Plan, folder: SynthFolder) -> tuple[Outcome, Ledger]:
    from turnmark.assistant.generators.base import make_ready

    guess = None
    if made.request.budget is not None:
        one = made.one().values()
        guess = Usage(
            prompt_tokens=sum(used.prompt_tokens for used in one),
            completion_tokens=sum(used.completion_tokens for used in one),
        )
    ledger = _ledger(made, folder, guess)
    make_ready(made.generator)
    made.tools.embed(["load the model"])
    folder.same = Alike(made.tools.embed, folder.items())

    def answer(item: Item, generator: Generator | None) -> Sample:
        assert generator is not None, "a synthesis has a model"
        desk, seed = Desk(made.tools, generator), cast(Seed, item.task)
        try:
            haul = made.kind.make(seed, desk)
        except Declined as why:
            haul = Haul(seed)
            haul.reject(why, start=str(seed.about)[:200])
        folder.stash(seed.id, haul.made, haul.rejects)
        return Sample(id=seed.id, status="done", query=None, usage=desk.usage)

    with shown_progress() as progress:
        counted = Counted(progress, folder)
        counted.start(f"making {made.kind.name}", made.request.n)
        # To the engine, a folder is what has `samples` and appends them.
        runs = cast(RunFolder, folder)
        return generate(
            Jobs(made.seeds, made.request.n, made.kind.each, folder),
            answer,
            made.generator,
            runs,
            made.limits,
            ledger,
            counted,
        ), ledger
