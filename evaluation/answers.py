"""`turnwise score` for answers that are written already: by another system, or by an earlier run of ours."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpora.console import shown
from corpora.errors import Mistakes
from corpora.home import file_sha256
from corpora.progress import shown_progress
from evaluation.benchmarks.base import Benchmark, Item
from evaluation.benchmarks.prepared import TASKS, Prepared, prepare, problems_of, setting_of
from evaluation.predictions import Predictions, check_predictions
from evaluation.records import RunManifest, Sample, Summary
from evaluation.report.page import write_page
from evaluation.requests import GenerationRequest, PredictionsRequest
from evaluation.run import RunFolder, check_folder, default_folder, open_run, read_folder
from evaluation.scoring import MISSING, now, score_run
from evaluation.selection import selected
from evaluation.versions import version_of, versions


@dataclass(frozen=True)
class Plan:
    """A request that was found to be in order."""

    request: PredictionsRequest
    prepared: Prepared
    predictions: Predictions
    manifest: RunManifest
    folder: Path
    notes: tuple[str, ...]
    chosen: frozenset[str]
    began: float


def plan(request: PredictionsRequest) -> Plan:
    """Check a request: the flags, the data, and every line of every file.

    Raises:
        RequestError: everything that is wrong, at once.
    """
    began = time.perf_counter()
    mistakes = Mistakes()
    if request.seed < 0:
        mistakes.add(f"--seed {request.seed}: a number from 0 was expected")
    setting = setting_of(request.benchmark, request.setting, mistakes)
    predictions = mistakes.caught(check_predictions, request.predictions, request.benchmark)
    prepared = _prepared(request, setting, request.domains, mistakes)
    if request.out is not None:
        mistakes.caught(read_folder, request.out)
    there: dict[str, str | None] = {}
    problems: tuple[Any, ...] = ()
    if prepared is not None:
        benchmark = _built(prepared, request.embedder)
        there = {item.id: item.domain for item in selected(benchmark.items(), None)}
        problems = tuple(problems_of(benchmark))
    answered = {name for name, _ in predictions.ids} if predictions is not None else set()
    if prepared is not None and predictions is not None and answered.isdisjoint(there):
        first = next(iter(predictions.ids), ("",))[0]
        mistakes.add(
            f"--predictions: none of the {len(answered)} ids (the first is {first!r}) is one of {request.benchmark} in "
            f"{prepared.data.name!r}; are they answers to this data?"
        )
    mistakes.check()
    assert prepared is not None, "mistakes.check() raised otherwise"
    assert predictions is not None, "mistakes.check() raised otherwise"
    domains = request.domains or tuple(
        name for name in prepared.domains if any(there[key] == name for key in answered & there.keys())
    )
    if domains != prepared.domains:
        again = _prepared(request, setting, domains, mistakes)
        mistakes.check()
        assert again is not None, "mistakes.check() raised otherwise"
        prepared = again
    chosen = [key for key, domain in there.items() if not prepared.domains or domain in prepared.domains]
    manifest = _manifest(request, setting, prepared, predictions)
    folder = request.out or default_folder(manifest)
    check_folder(folder, manifest)
    from evaluation.benchmarks.mtrag_data import DEMO_NOTE, problem_notes

    strange = len(answered - there.keys())
    extra = [f"{strange} answers of the file have ids that are not in the data, and are left out"] * bool(strange)
    demo = (DEMO_NOTE,) if prepared.data.demo else ()
    notes = (*demo, *problem_notes(problems), *prepared.notes, *predictions.notes, *extra)
    return Plan(request, prepared, predictions, manifest, folder, notes, frozenset(chosen), began)


def _prepared(
    request: PredictionsRequest, setting: str | None, domains: tuple[str, ...], mistakes: Mistakes
) -> Prepared | None:
    """The data; domains are those asked for, or those that the file answers."""
    wanted = GenerationRequest(benchmark=request.benchmark, setting=setting, data=request.data, domains=domains)
    return prepare(wanted, setting, mistakes, scoring=True)


def _built(prepared: Prepared, embedder: str) -> Benchmark[Any]:
    from evaluation.benchmarks.turns import Parts
    from evaluation.embedding import shared_embedder

    return prepared.build(Parts(embed=shared_embedder(embedder)), {})


def _manifest(
    request: PredictionsRequest, setting: str | None, prepared: Prepared, predictions: Predictions
) -> RunManifest:
    # Neither the order of the files nor where they lie changes a result; two may have the same name.
    files = sorted((path.name, file_sha256(path)) for path in predictions.paths)
    return RunManifest(
        benchmark=request.benchmark,
        task=TASKS.get(request.benchmark, "generation"),
        setting=setting,
        specs={"predictions": ", ".join(name for name, _ in files), "embedder": request.embedder},
        inputs={f"predictions/{number}/{name}": content for number, (name, content) in enumerate(files, 1)},
        data=prepared.data,
        domains=prepared.domains,
        corpora=dict(prepared.corpora_used),
        repeat=1 + max((repeat for _, repeat in predictions.ids), default=0),
        seed=request.seed,
        version=version_of("turnwise"),
        versions=versions(["rapidfuzz", "numpy"]),
        command=request.command,
        started=now(),
    )


def run(made: Plan) -> tuple[Summary, Path]:
    """Take the answers over into a run folder and score them; what the file has no answer to is a failed sample.

    Raises:
        TurnwiseError: the folder is in use.
    """
    with open_run(made.folder, made.manifest) as folder:
        folder.reopen(1)
        benchmark = _built(made.prepared, made.request.embedder)
        _take_over(made, folder, benchmark)
        with shown_progress() as progress:
            progress.start(f"scoring {shown(made.manifest.benchmark)}", len(made.chosen))
            summary = score_run(
                folder,
                benchmark,
                selected(benchmark.items(), made.chosen),
                notes=made.notes,
                began=made.began,
                progress=progress,
            )
    write_page(made.folder)
    return summary, made.folder


def _take_over(made: Plan, folder: RunFolder, benchmark: Benchmark[Any]) -> None:
    for sample in made.predictions.samples():
        if sample.id in made.chosen and not folder.samples.finished(sample.key):
            folder.append(sample)
    for item in selected(benchmark.items(), made.chosen):
        for missing in _missing(item, made.manifest.repeat):
            if missing.key not in folder.samples:
                folder.append(missing)


def _missing(item: Item, repeats: int) -> Iterator[Sample]:
    reason = f"{MISSING}: the predictions have no answer to it"
    for repeat in range(repeats):
        yield Sample(id=item.id, repeat=repeat, status="failed", kind=MISSING, reason=reason, domain=item.domain)
