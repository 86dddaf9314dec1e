"""Runs as they are compared: every score by metric and sample, what is known of the samples, and what else differs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.record import Record
from turnmark.evaluation.records import RunManifest, Summary
from turnmark.evaluation.report.stored import distinct_names, read_one, samples, score_lines
from turnmark.evaluation.report.tables import data_name
from turnmark.evaluation.scores.summary import FACTS, Facts, read_facts

_SUBSET = ("limit", "sample", "only", "counterfactual")
_ASPECTS = frozenset(("benchmark", "task", "data", "setting", "domains", "corpora", "repeat", "seed", *_SUBSET))
"""Fields of a manifest that are no part of the system."""
_SHORT = 12  # characters of a checksum that identify it


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """A finished run with all its scores.

    Attributes:
        letter: its name in tables: A for the first.
        cells: a row for each metric and task id, over the repeats: `total` (the sum of weight * value), `weight`, and
            how many lines are `scored`, `counted` (scored or not applicable) and `failed`.
        by: metric -> what measured it, each once.
        domains: task id -> domain, in the order of the predictions.
        skipped: task ids of which no repeat was tried.
        facts: None if the run does not have them.
    """

    letter: str
    name: str
    path: Path
    manifest: RunManifest
    summary: Summary
    cells: Any
    by: Mapping[str, tuple[str, ...]]
    domains: Mapping[str, str | None]
    skipped: frozenset[str]
    facts: Mapping[str, Facts] | None

    def metrics(self, scored: bool = False) -> list[str]:
        """The metrics of its samples in the order of the file; only those with a score, if that is asked."""
        cells = self.cells[self.cells["scored"] > 0] if scored else self.cells
        return list(cells.index.unique("metric"))

    def values(self, metric: str) -> Any:
        """Task id -> mean over the repeats that were scored."""
        cells = self.cells.loc[metric]
        return cells["total"] / cells["weight"].where(cells["weight"] > 0)


class Reason(Record):
    """Why two runs are not comparable."""

    aspect: str
    run: str
    why: str


def load_runs(paths: Sequence[Path]) -> list[ComparedRun]:
    """The runs of these folders, named A, B, C and so on; what cannot be compared at all is refused."""
    errors = ErrorCollector()
    if len(paths) < 2:
        errors.add("RUN: one run alone has nothing to be compared with; name two or more")
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        errors.add("RUN: a run is named twice; it is not compared with itself")
    loaded = [
        errors.collect(_load, path, name, chr(ord("A") + index))
        for index, (path, name) in enumerate(zip(paths, distinct_names(paths), strict=True))
    ]
    errors.raise_all()
    runs = [run for run in loaded if run is not None]
    _check_comparable(runs)
    return runs


def _load(path: Path, name: str, letter: str) -> ComparedRun:
    import pandas as pd

    stored = read_one(path)
    try:
        manifest = RunManifest.model_validate_json((path / "manifest.json").read_bytes())
        lines = [
            (
                score.metric, score.id, score.by, (score.value or 0.0) * score.weight,
                score.weight * (score.status == "scored"), score.status == "scored", score.status != "failed",
                score.status == "failed",
            )
            for score in score_lines(path)
        ]  # fmt: skip
    except (OSError, ValidationError) as error:
        raise RequestError(f"RUN {str(path)!r}: manifest.json cannot be read; score or evaluate again") from error
    if not lines:
        raise RequestError(f"RUN {str(path)!r} has no scores in scores.jsonl; score or evaluate again")
    columns = ["metric", "id", "by", "total", "weight", "scored", "counted", "failed"]
    scores = pd.DataFrame(lines, columns=columns)
    domains, tried = dict[str, str | None](), set[str]()
    for sample in samples(path):
        domains[sample.id] = sample.domain
        if sample.status != "skipped":
            tried.add(sample.id)
    return ComparedRun(
        letter=letter,
        name=name,
        path=path,
        manifest=manifest,
        summary=stored.summary,
        cells=scores.drop(columns="by").groupby(["metric", "id"], sort=False).sum(),
        by={metric: tuple(sorted(by)) for metric, by in scores.groupby("metric")["by"].unique().items()},
        domains=domains,
        skipped=frozenset(domains.keys() - tried),
        facts=read_facts(path),
    )


def _check_comparable(runs: Sequence[ComparedRun]) -> None:
    errors = ErrorCollector()
    first, *other_runs = runs
    for run in other_runs:
        for aspect, ours, theirs in zip(("benchmark", "task", "data"), _kind(first), _kind(run), strict=True):
            if ours != theirs:
                errors.add(f"RUN {str(run.path)!r}: {aspect} {theirs}, but {ours} in {str(first.path)!r}")
        if not {*first.metrics(scored=True)} & {*run.metrics(scored=True)}:
            errors.add(f"RUN {str(run.path)!r} has no metric in common with {str(first.path)!r}")
    if not set.intersection(*(set(run.domains) for run in runs)):
        errors.add("RUN: there is no sample that all of these runs have")
    errors.raise_all()


def _kind(run: ComparedRun) -> tuple[str, str, str]:
    manifest = run.manifest
    return manifest.benchmark, manifest.task, "the demo split" if manifest.data.demo else "the benchmark's own"


def merge_facts(runs: Sequence[ComparedRun], ids: Sequence[str]) -> dict[str, Facts]:
    """What is known of the samples, each from the first run that has it."""
    merged = {name: facts for run in reversed(runs) for name, facts in (run.facts or {}).items()}
    if all(name in merged for name in ids):
        return {name: merged[name] for name in ids}
    raise RequestError(
        [
            f"RUN {str(run.path)!r} does not say which samples belong together ({FACTS}); "
            f"score it again: turnmark score {run.manifest.benchmark} --predictions {run.path}"
            for run in runs
            if not all(name in (run.facts or {}) for name in ids)
        ]
    )


# --- what runs differ in ---------------------------------------------------------------------------------------------


def find_reasons(runs: Sequence[ComparedRun]) -> Iterator[Reason]:
    """Why the others are not comparable with the first, as runs; `metric_reason` has those of single metrics."""
    first, *other_runs = runs
    for run in other_runs:
        here, there = f"in {first.letter}", f"in {run.letter}"
        mine, theirs = _aspects(first, run), _aspects(run, first)
        differing = {
            aspect: f"{text or 'none'} {here}, {theirs[aspect] or 'none'} {there}"
            for aspect, text in mine.items()
            if text != theirs[aspect]
        }
        alone = len(first.domains.keys() ^ run.domains.keys())
        if alone and not {"domains", "subset"} & differing.keys():
            differing["subset"] = f"{alone} samples are in one of {first.letter} and {run.letter} alone"
        for aspect, difference in differing.items():
            yield Reason(aspect=aspect, run=run.letter, why=f"{aspect}: {difference}")


def _aspects(run: ComparedRun, other: ComparedRun) -> dict[str, str]:
    """What of a run has to be the same in another, in words."""
    manifest = run.manifest
    subset = [f"{name} {_show(value)}" for name in _SUBSET if (value := getattr(manifest, name))]
    corpora = {name: manifest.corpora[name] for name in sorted(manifest.corpora.keys() & other.manifest.corpora.keys())}
    judges = {name: _show(value) for name, value in _flatten(run).items() if _is_of_judge(name)}
    judges |= {
        metric: ", ".join(panel.judges)
        for metric, panel in run.summary.judging.items()
        if metric in other.summary.judging
    }
    same_files = manifest.data.fingerprint == other.manifest.data.fingerprint  # whatever their folder is called
    return {
        "data": "" if same_files else f"{data_name(run.summary)} (files {manifest.data.fingerprint[:_SHORT]})",
        "setting": manifest.setting or "",
        "domains": ", ".join(sorted(manifest.domains)),
        "subset": ", ".join([*subset, *([f"seed {manifest.seed}"] if manifest.sample else [])]),
        "documents": "; ".join(
            f"{name} {corpus.passages:,} passages ({corpus.sha256[:_SHORT]})" for name, corpus in corpora.items()
        ),
        "judge": "; ".join(f"{name} {text}" for name, text in judges.items()),
    }


def metric_reason(runs: Sequence[ComparedRun], metric: str) -> str | None:
    """Why a metric of these runs is not the same metric, if it is not: something else measured it."""
    first, *other_runs = runs
    instruments = first.by.get(metric, ())
    differences = [
        f"measured by {', '.join(instruments)} in {first.letter}, by {', '.join(theirs)} in {run.letter}"
        for run in other_runs
        if (theirs := run.by.get(metric, ())) != instruments
    ]
    return f"metric: {'; '.join(differences)}" if differences else None


def list_differences(runs: Sequence[ComparedRun]) -> dict[str, list[str]]:
    """In what the systems differ: `specs.generator` -> its value in each run; `-` if a run has none."""
    manifests = [_flatten(run) for run in runs]
    names = dict.fromkeys(name for fields in manifests for name in fields)
    values = {name: [_show(fields.get(name)) for fields in manifests] for name in names}
    return {name: shown for name, shown in values.items() if len({*shown}) > 1 and not _is_of_judge(name)}


def _flatten(run: ComparedRun) -> dict[str, object]:
    """What of a manifest is the system's: `specs.query`, `prompts.answer`."""
    fields: dict[str, object] = {}
    for name, value in run.manifest.identity.items():
        if name not in _ASPECTS:
            nested = isinstance(value, dict)
            fields |= {f"{name}.{key}": inner for key, inner in value.items()} if nested else {name: value}
    for name in ("index", "generator", "retriever", "embedder", "steps", "prompts"):  # the specs and hashes say it
        fields.pop(f"assistant.{name}", None)
    return fields


def _is_of_judge(name: str) -> bool:
    return "judge" in name.partition(".")[2].casefold()


def _show(value: object) -> str:
    """A value of a manifest; of a checksum its beginning."""
    if isinstance(value, tuple | list):
        return f"{len(value)} ids" if value else "-"
    text = "-" if value is None or value == "" else str(value)
    return text[:_SHORT] if len(text) == 64 else text
