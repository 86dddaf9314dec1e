"""Judges put to a plan of `eval` or `score`: the same plan, its benchmark judged as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from corpora.errors import Mistakes
from evaluation.benchmarks.base import Benchmark, Item
from evaluation.judging.benchmark import Judged
from evaluation.judging.embedded import FAITHFULNESS, IDK, embedded_measures
from evaluation.judging.embedded import NAME as EMBEDDED_JUDGE
from evaluation.judging.embedded import NAMES as EMBEDDED
from evaluation.judging.judged import AT_ONCE, ROLE, Judging
from evaluation.judging.measures import CLARIFICATION, IDK_JUDGE, RB_LLM, RL_F, RL_MTB, Measure, relevance
from evaluation.judging.records import Case
from evaluation.judging.seats import Seat, open_seats
from evaluation.records import RunManifest, Sample

if TYPE_CHECKING:
    from evaluation import answers, generation
    from evaluation.benchmarks.turns import Parts
    from retrieval.types import Retriever

    P = TypeVar("P", generation.Plan, answers.Plan)
else:
    P = TypeVar("P")

RL_R = "rl_r"
EMBEDDER = "minilm"
NAMES: Mapping[str, tuple[str, ...]] = {
    "mtrag": (RB_LLM.name, RL_F.name, RL_MTB.name, RL_R, IDK_JUDGE.name, *EMBEDDED),
    "mtrag-un": (RB_LLM.name, RL_F.name, RL_MTB.name, RL_R, IDK_JUDGE.name, CLARIFICATION.name, *EMBEDDED),
    "mtrag-s": (RL_F.name, RL_MTB.name, RL_R, IDK_JUDGE.name, FAITHFULNESS, IDK),
}
"""Benchmark -> the metrics that judges are asked for; MTRAG-S has no reference answers."""


def judge_problems(benchmark: str, specs: Sequence[str]) -> list[str]:
    """What is wrong with `--judge`, a sentence a mistake; empty where nothing is."""
    mistakes = Mistakes()
    seats = mistakes.caught(open_seats, specs) or ()
    if specs and benchmark not in (*NAMES, "all"):
        mistakes.add(f"--judge: {benchmark} has no judged metrics yet; those that have: {', '.join(NAMES)}")
    there = (
        {name for names in NAMES.values() for name in names} if benchmark == "all" else set(NAMES.get(benchmark, ()))
    )
    for seat in seats if there else ():
        offered = {name for name in there if (name in EMBEDDED) == (seat.name == EMBEDDED_JUDGE)}
        strange = sorted((seat.measures or frozenset()) - offered)
        if strange or seat.measures == frozenset():
            mistakes.add(
                f"--judge {seat.name}: metrics={','.join(strange)}: the judged metrics of {benchmark} are "
                f"{', '.join(sorted(offered))}"
            )
    return mistakes.problems


def judged(plan: P) -> P:
    """The plan with the judges of its request, or as it is where it names none, or its benchmark has nothing to judge.

    Raises:
        RequestError: something is wrong with the judges.
    """
    request, manifest = plan.request, plan.manifest
    names = NAMES.get(manifest.benchmark)
    if not request.judge:
        return plan
    if names is None:
        note = f"--judge: {manifest.benchmark} has no judged metrics yet, and is scored without a judge"
        unjudged: P = replace(plan, notes=(*plan.notes, note))
        return unjudged
    seats = open_seats(request.judge)
    prepared = plan.prepared
    build = prepared.build

    def built(parts: Parts, retrievers: Mapping[str, Retriever]) -> Benchmark[Any]:
        return Judged(build(parts, retrievers), _judging(names, seats, request, manifest))

    made: P = replace(plan, prepared=replace(prepared, build=built))
    return made


def described(plan: generation.Plan) -> dict[str, Any]:
    """What `--dry-run` says of a plan, with the judges of its request."""
    told = plan.describe()
    names = NAMES.get(plan.manifest.benchmark)
    if not plan.request.judge or names is None:
        return told
    from evaluation.benchmarks.turns import Parts
    from evaluation.judging.estimate import estimate_judging
    from evaluation.selection import selected

    seats = open_seats(plan.request.judge)
    benchmark = plan.prepared.build(Parts(), {})
    used = estimate_judging(
        benchmark, selected(benchmark.items(), plan.chosen), plan.items, seats, _measures(names, plan.request.embedder),
        mtrag_case(plan.manifest.setting), searched=plan.prepared.searched,
    )  # fmt: skip
    used = {key: value * plan.request.repeat for key, value in used.items()}
    specs = told["specs"] | {ROLE: ", ".join(seat.name for seat in seats)}
    return told | {"estimated": told["estimated"] | {ROLE: used}, "specs": specs}


def _measures(names: Sequence[str], embedder: str) -> list[Measure]:
    from evaluation.embedding import shared_embedder

    own = embedded_measures(shared_embedder(EMBEDDER), EMBEDDER)  # its weights were fitted over this one
    there = {one.name: one for one in (RB_LLM, RL_F, RL_MTB, _relevance(embedder), IDK_JUDGE, CLARIFICATION, *own)}
    return [there[name] for name in names]


def _judging(names: Sequence[str], seats: Sequence[Seat], request: Any, manifest: RunManifest) -> Judging:
    from assistant.config import load_prices

    return Judging(
        seats,
        _measures(names, request.embedder),
        mtrag_case(manifest.setting),
        tested=_tested(request, manifest),
        at_once=getattr(request, "concurrency", AT_ONCE),
        prices=load_prices(),
    )


def _relevance(embedder: str) -> Measure:
    from evaluation.embedding import shared_embedder

    shared, lock, loaded = shared_embedder(embedder), Lock(), Event()

    def embed(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        with lock:
            if not loaded.is_set():
                # One text by itself first: OpenVINO may wait for itself where the first batches of a process are two.
                shared(["load the model"])
                loaded.set()
        vectors: Sequence[Sequence[float]] = shared(texts).tolist()
        return vectors

    return relevance(embed, embedder)


def _tested(request: Any, manifest: RunManifest) -> list[str]:
    """The generators that wrote the samples: the run's own, or those of the runs whose samples are scored."""
    if "generator" in manifest.specs:
        return [manifest.specs["generator"]]
    found = []
    for path in getattr(request, "predictions", ()):
        folder = path if path.is_dir() else Path(path).parent
        if path.is_dir() or path.name == "predictions.jsonl":
            with suppress(OSError, ValidationError):
                there = RunManifest.model_validate_json((folder / "manifest.json").read_bytes())
                found += [there.specs["generator"]] if "generator" in there.specs else []
    return found


def mtrag_case(setting: str | None) -> Any:
    """Item, sample and context of the MTRAG family -> what is judged."""

    def case(item: Item, sample: Sample, context: Any) -> Case:
        task = item.task.task
        # Without texts, either nothing was shown to the system or nobody says what was. A file of another system that
        # names no passages says nothing of them, except where the task's own are given.
        known = context.passages or not (sample.contexts or (setting != "reference" and sample.decision is None))
        return Case(
            question=task.question,
            answer=context.answer,
            history=tuple(task.history),
            reference=context.reference,
            passages=tuple(context.passages) if known else None,
            answerability=context.answerability,
        )

    return case
