"""`turnmark score` for answers that are written already: by another system, or by an earlier run of ours."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from turnmark.corpora.console import inert, shown_progress
from turnmark.corpora.errors import ErrorCollector
from turnmark.corpora.home import file_sha256
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.base import Benchmark
from turnmark.evaluation.benchmarks.mtrag_data import data_notes
from turnmark.evaluation.benchmarks.prepared import Prepared, read_through
from turnmark.evaluation.benchmarks.registry import prepare, setting_of, task_of
from turnmark.evaluation.passages import HIDDEN
from turnmark.evaluation.predictions import Predictions, check_predictions
from turnmark.evaluation.predictions_official import MTRAG_FAMILY
from turnmark.evaluation.records import RunManifest, Summary
from turnmark.evaluation.report.page import write_page
from turnmark.evaluation.request import EvalRequest, ScoreRequest, selected
from turnmark.evaluation.rundir import (
    RunFolder,
    check_folder,
    default_folder,
    open_run,
    read_folder,
    version_of,
    versions,
)
from turnmark.evaluation.scorers import Scorers
from turnmark.evaluation.scoring import missing, now, score_run
from turnmark.retrieval.workers import check_engine

if TYPE_CHECKING:
    from turnmark.evaluation.benchmarks.turns import Parts


@dataclass(frozen=True)
class Plan:
    """A request that was found to be in order."""

    request: ScoreRequest
    prepared: Prepared
    predictions: Predictions
    manifest: RunManifest
    folder: Path
    notes: tuple[str, ...]
    chosen: Mapping[str, str | None]  # id -> domain
    began: float
    scorers: Scorers | None = None  # who computes scores, where it is not this process


def plan(request: ScoreRequest) -> Plan:
    """Check a request: the flags, the data, and every line of every file.

    Raises:
        RequestError: everything that is wrong, at once.
    """
    began = time.perf_counter()
    errors = ErrorCollector()
    if request.seed < 0:
        errors.add(f"--seed {request.seed}: a number from 0 was expected")
    errors.collect(check_engine, request.engine)
    named_setting = request.setting or _recorded_setting(request, errors)
    setting = setting_of(request.benchmark, named_setting, errors, request.task)
    predictions = errors.collect(check_predictions, request.predictions, request.benchmark)
    answered = {name for name, _ in predictions.ids} if predictions is not None else set()
    prepared = _prepared(request, setting, request.domains, answered, errors)
    if request.out is not None:
        errors.collect(read_folder, request.out)
    domain_of_id: dict[str, str | None] = {}
    problems: list[Problem] = []
    if prepared is not None:
        domain_of_id, problems = read_through(_built(prepared, request.embedder))
    repeats = {repeat for _, repeat in predictions.ids} if predictions is not None else set()
    if repeats and max(repeats) >= len(repeats):
        errors.add(f"--predictions: repeat {max(repeats)} stands there, but not all of 0 to {max(repeats) - 1}")
    if prepared is not None and predictions is not None and answered.isdisjoint(domain_of_id):
        first = next(iter(predictions.ids), ("",))[0]
        errors.add(
            f"--predictions: none of the {len(answered)} ids (the first is {first!r}) is one of "
            f"{_in_words(request.benchmark, setting)} in {prepared.data.name!r}; are they answers to this data?"
        )
    errors.raise_all()
    assert prepared is not None, "errors.raise_all() raised otherwise"
    assert predictions is not None, "errors.raise_all() raised otherwise"
    domains = request.domains or tuple(
        name for name in prepared.domains if any(domain_of_id[key] == name for key in answered & domain_of_id.keys())
    )
    if domains != prepared.domains:
        narrowed = _prepared(request, setting, domains, answered, errors)
        errors.raise_all()
        assert narrowed is not None, "errors.raise_all() raised otherwise"
        prepared = narrowed
    chosen = {key: name for key, name in domain_of_id.items() if not prepared.domains or name in prepared.domains}
    if request.answered_only:
        chosen = {key: name for key, name in chosen.items() if key in answered}
    manifest = _manifest(request, setting, prepared, predictions)
    folder = request.out or default_folder(manifest)
    check_folder(folder, manifest)
    strange = len(answered - chosen.keys())
    data_in_words = _in_words(request.benchmark, setting, prepared.domains)
    extra = [f"{strange} ids of the predictions are none of {data_in_words}, and are left out"] * bool(strange)
    notes = (*data_notes(prepared.data, problems), *prepared.notes, *predictions.notes, *extra)
    return Plan(request, prepared, predictions, manifest, folder, notes, chosen, began)


def _recorded_setting(request: ScoreRequest, errors: ErrorCollector) -> str | None:
    """The setting of the runs whose samples are to be scored; None where they are of none, or are no runs."""
    settings: dict[str, str] = {}
    for path in request.predictions:
        folder = path if path.is_dir() else path.parent
        if not path.is_dir() and path.name != "predictions.jsonl":
            continue
        with suppress(OSError, ValidationError):
            manifest = RunManifest.model_validate_json((folder / "manifest.json").read_bytes())
            if manifest.setting and manifest.benchmark == request.benchmark:
                settings.setdefault(manifest.setting, str(path))
    if len(settings) > 1:
        settings_in_words = ", ".join(f"{name} ({path})" for name, path in settings.items())
        errors.add(
            f"--predictions: runs of several settings: {settings_in_words}; score them one at a time, or name --setting"
        )
    return next(iter(settings), None)


def _in_words(benchmark: str, setting: str | None, domains: tuple[str, ...] = ()) -> str:
    return " ".join(filter(None, (benchmark, setting, f"({', '.join(domains)})" if domains else "")))


def _prepared(
    request: ScoreRequest,
    setting: str | None,
    domains: tuple[str, ...],
    answered: Iterable[str],
    errors: ErrorCollector,
) -> Prepared | None:
    """The data; domains are those asked for, or those that the file answers."""
    eval_request = EvalRequest(
        benchmark=request.benchmark,
        task=request.task,
        setting=setting,
        data=request.data,
        domains=domains,
        references=request.references,
        counterfactual=request.benchmark in MTRAG_FAMILY
        and setting == "rag"
        and any(name.endswith(HIDDEN) for name in answered),
    )
    return prepare(eval_request, setting, errors, scoring=True)


def parts_of(embedder: str) -> Parts:
    """What metrics are computed with."""
    from turnmark.evaluation.benchmarks.turns import Parts
    from turnmark.evaluation.embedding import shared_embedder

    return Parts(embed=shared_embedder(embedder))


def _built(prepared: Prepared, embedder: str) -> Benchmark[Any]:
    return prepared.build(parts_of(embedder), {})


def _manifest(request: ScoreRequest, setting: str | None, prepared: Prepared, predictions: Predictions) -> RunManifest:
    # Neither the order of the files nor where they lie changes a result; two may have the same name.
    files = sorted((path.name, file_sha256(path)) for path in predictions.paths)
    return RunManifest(
        benchmark=request.benchmark,
        task=task_of(request.benchmark, request.task),
        setting=setting,
        specs={"predictions": ", ".join(name for name, _ in files), "embedder": request.embedder},
        inputs={f"predictions/{number}/{name}": content for number, (name, content) in enumerate(files, 1)},
        data=prepared.data,
        domains=prepared.domains,
        corpora=dict(prepared.corpora_used),
        counterfactual=prepared.counterfactual,
        repeat=1 + max((repeat for _, repeat in predictions.ids), default=0),
        seed=request.seed,
        version=version_of("turnmark"),
        versions=versions(["rapidfuzz", "numpy"]),
        command=request.command,
        started=now(),
    )


def run(plan: Plan) -> tuple[Summary, Path]:
    """Take the answers over into a run folder and score them; what the file has no answer to is a failed sample.

    Raises:
        TurnmarkError: the folder is in use.
    """
    with open_run(plan.folder, plan.manifest) as folder:
        folder.reopen(1)
        benchmark = _built(plan.prepared, plan.request.embedder)
        _take_over(plan, folder, benchmark)
        with shown_progress() as progress:
            progress.start(f"scoring {inert(plan.manifest.benchmark)}", len(plan.chosen))
            summary = score_run(
                folder,
                benchmark,
                selected(benchmark.items(), frozenset(plan.chosen)),
                notes=plan.notes,
                began=plan.began,
                progress=progress,
                scorers=plan.scorers,
            )
    write_page(plan.folder)
    return summary, plan.folder


def _take_over(plan: Plan, folder: RunFolder, benchmark: Benchmark[Any]) -> None:
    for sample in plan.predictions.samples():
        if sample.id in plan.chosen and not folder.samples.finished(sample.key):
            folder.append(sample.model_copy(update={"domain": plan.chosen[sample.id]}))
    for item in selected(benchmark.items(), frozenset(plan.chosen)):
        for repeat in range(plan.manifest.repeat):
            if (item.id, repeat) not in folder.samples:
                folder.append(missing(item, "the predictions have no answer to it", repeat))
