"""Judges put to a plan of `eval` or `score`: the same plan, its benchmark judged as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from turnmark.corpora.errors import ErrorCollector
from turnmark.evaluation.benchmarks.base import Benchmark
from turnmark.evaluation.benchmarks.registry import find_task
from turnmark.evaluation.judging.calls import AT_ONCE
from turnmark.evaluation.judging.judge import Seat, brought, for_seat, open_seats, panel_notes
from turnmark.evaluation.judging.judged import ROLE, Judged, Judging
from turnmark.evaluation.judging.rubrics import Jury
from turnmark.evaluation.records import RunManifest

if TYPE_CHECKING:
    from turnmark.assistant.types import Usage
    from turnmark.evaluation import answers, generation
    from turnmark.evaluation.benchmarks.turns import Parts
    from turnmark.retrieval.types import Retriever

    P = TypeVar("P", generation.Plan, answers.Plan)
else:
    P = TypeVar("P")


MODULES: Mapping[str, str] = {
    "mtrag": "mtrag",
    "mtrag-un": "mtrag",
    "mtrag-s": "mtrag",
    "inscoqa": "inscoqa",
    "compound-qa": "compound_qa",
    "kiwi": "kiwi",
}
"""Benchmark -> the module of this package that says what its replies are judged by."""


def names_of(benchmark: str, task: str) -> tuple[str, ...]:
    """The judged metrics of a task, nothing heavy being loaded; empty where it has none."""
    if benchmark not in MODULES:
        jury = jury_of(benchmark, task, None, "minilm")
        return tuple(measure.name for measure in jury.measures) if jury else ()
    found: tuple[str, ...] = _module(benchmark).names(benchmark, task)
    return found


def jury_of(benchmark: str, task: str, setting: str | None, embedder: str) -> Jury | None:
    """What judges are asked of a task; None where it has nothing to judge.

    Args:
        embedder: spec of the run's embedder, for measures that compare texts.
    """
    if benchmark not in MODULES:
        rubrics = getattr(find_task(benchmark, task), "rubrics", None)
        own: Jury | None = rubrics(setting, embedder) if rubrics else None
        return own
    made: Jury | None = _module(benchmark).jury(benchmark, task, setting, embedder)
    return made


def _module(benchmark: str) -> Any:
    return import_module(f"turnmark.evaluation.judging.{MODULES[benchmark]}")


def judge_problems(benchmark: str, tasks: Sequence[str], specs: Sequence[str]) -> list[str]:
    """What is wrong with `--judge`, a sentence a mistake; empty where nothing is.

    Args:
        benchmark: its name, or `all`.
        tasks: those of the benchmark that may be meant; of `all`, none.
    """
    errors = ErrorCollector()
    seats = errors.collect(open_seats, specs) or ()
    named = MODULES if benchmark == "all" else [benchmark]
    whose = {one: _TASKS.get(one, ("generation",)) if benchmark == "all" else tasks for one in named}
    there = {name for one, of in whose.items() for task in of for name in names_of(one, task)}
    if specs and not there:
        errors.add(f"--judge: {' '.join([benchmark, *tasks])} has no judged metrics")
    for seat in seats if there else ():
        offered = {name for name in there if for_seat(name, seat.name)}
        if not offered:
            errors.add(f"--judge {seat.name}: {benchmark} has no metrics that it measures; leave it out")
            continue
        strange = sorted((seat.measures or frozenset()) - offered)
        if strange or seat.measures == frozenset():
            errors.add(
                f"--judge {seat.name}: metrics={','.join(strange)}: the judged metrics of {benchmark} are "
                f"{', '.join(sorted(offered))}"
            )
    return errors.problems


_TASKS: Mapping[str, tuple[str, ...]] = {"kiwi": ("revise",)}


def judged(plan: P) -> P:
    """The plan with the judges of its request, or as it is where it names none, or its benchmark has nothing to judge.

    Raises:
        RequestError: something is wrong with the judges.
    """
    request, manifest = plan.request, plan.manifest
    if not request.judge:
        return plan
    if not names_of(manifest.benchmark, manifest.task):
        note = f"--judge: {manifest.benchmark} has no judged metrics in {manifest.task}, and is scored without a judge"
        unjudged: P = replace(plan, notes=(*plan.notes, note))
        return unjudged
    seats = open_seats(request.judge)
    missing: tuple[str, ...] = tuple(panel_notes(request.judge))
    prepared = plan.prepared
    build = prepared.build

    def built(parts: Parts, retrievers: Mapping[str, Retriever]) -> Benchmark[Any]:
        jury = jury_of(manifest.benchmark, manifest.task, manifest.setting, request.embedder)
        assert jury is not None, "it has judged metrics"
        elsewhere = getattr(plan, "elsewhere", None)
        return Judged(build(parts, retrievers), _judging(jury, seats, request, manifest, elsewhere))

    made: P = replace(plan, prepared=replace(prepared, build=built), notes=(*plan.notes, *missing))
    return made


def described(plan: generation.Plan) -> dict[str, Any]:
    """What `--dry-run` says of a plan, with the judges of its request."""
    told = plan.describe()
    manifest, request = plan.manifest, plan.request
    if not request.judge or not names_of(manifest.benchmark, manifest.task):
        return told
    jury = jury_of(manifest.benchmark, manifest.task, manifest.setting, request.embedder)
    assert jury is not None, "it has judged metrics"
    from turnmark.evaluation.benchmarks.turns import Parts
    from turnmark.evaluation.judging.estimate import estimate_judging
    from turnmark.evaluation.selection import selected

    seats = open_seats(request.judge)
    benchmark = plan.prepared.build(Parts(), {})
    used = estimate_judging(
        benchmark, selected(benchmark.items(), plan.chosen), plan.items, seats, jury.measures, jury.case,
        searched=plan.prepared.searched, prompts=request.prompts,
    )  # fmt: skip
    used = {key: value * request.repeat for key, value in used.items()}
    specs = told["specs"] | {ROLE: ", ".join(seat.name for seat in seats)}
    return told | {"estimated": told["estimated"] | {ROLE: used}, "specs": specs}


def _judging(
    jury: Jury, seats: Sequence[Seat], request: Any, manifest: RunManifest, elsewhere: Usage | None
) -> Judging:
    from turnmark.assistant.config import load_prices, parse_budget

    own = brought(seats, names_of(manifest.benchmark, manifest.task))
    return Judging(
        seats,
        [*jury.measures, *own],
        jury.case,
        tested=_tested(request, manifest),
        at_once=getattr(request, "concurrency", AT_ONCE),
        prices=load_prices(),
        prompts=request.prompts,
        budget=parse_budget(request.budget) if request.budget else None,
        elsewhere=elsewhere,
    )


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
