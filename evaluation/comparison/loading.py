"""Runs as they are compared: every score by metric and sample, and what is known of the samples."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.evaluation.records import RunManifest, Summary
from turnmark.evaluation.report.stored import read_one, samples, score_lines
from turnmark.evaluation.summary import FACTS, Facts, read_facts

_MOST_LETTERS = 26


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
        unreadable: lines of `scores.jsonl` that are no score.
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
    unreadable: int

    def metrics(self, scored: bool = False) -> list[str]:
        """The metrics of its samples in the order of the file; only those with a score, if that is asked."""
        cells = self.cells[self.cells["scored"] > 0] if scored else self.cells
        return list(cells.index.unique("metric"))

    def values(self, metric: str) -> Any:
        """Task id -> mean over the repeats that were scored."""
        cells = self.cells.loc[metric]
        return cells["total"] / cells["weight"].where(cells["weight"] > 0)


def load_runs(paths: Sequence[Path]) -> list[ComparedRun]:
    """The runs of these folders, named A, B, C and so on."""
    errors = ErrorCollector()
    if len(paths) < 2:
        errors.add("RUN: one run alone has nothing to be compared with; name two or more")
    real = [os.path.realpath(path) for path in paths]
    for path, target in zip(paths, real, strict=True):
        if real.count(target) > 1 and real.index(target) == paths.index(path):
            errors.add(f"RUN {str(path)!r} is named {real.count(target)} times; a run is not compared with itself")
    if len(paths) > _MOST_LETTERS:
        errors.add(f"RUN: {len(paths)} runs; at most {_MOST_LETTERS} are compared at once")
    short = [path.resolve().name for path in paths]
    runs = [
        errors.collect(_load, path, name if short.count(name) == 1 else "/".join(path.resolve().parts[-2:]), letter)
        for path, name, letter in zip(paths, short, map(chr, range(ord("A"), ord("A") + len(paths))), strict=True)
    ]
    errors.raise_all()
    return [run for run in runs if run is not None]


def _load(path: Path, name: str, letter: str) -> ComparedRun:
    import pandas as pd

    stored, label = read_one(path), f"RUN {str(path)!r}"
    errors = ErrorCollector()
    manifest = errors.collect(_read_manifest, path, label)
    if not (path / "scores.jsonl").is_file():
        errors.add(f"{label} has no scores.jsonl; score or evaluate again")
    errors.raise_all()
    assert manifest is not None, "errors.raise_all() raised otherwise"
    lines = [
        None if score is None else (
            score.metric, score.id, score.by, (score.value or 0.0) * score.weight,
            score.weight * (score.status == "scored"), score.status == "scored", score.status != "failed",
            score.status == "failed",
        )
        for score in score_lines(path)
    ]  # fmt: skip
    columns = ["metric", "id", "by", "total", "weight", "scored", "counted", "failed"]
    scores = pd.DataFrame([line for line in lines if line is not None], columns=columns)
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
        unreadable=lines.count(None),
    )


def _read_manifest(path: Path, label: str) -> RunManifest:
    try:
        return RunManifest.model_validate_json((path / "manifest.json").read_bytes())
    except FileNotFoundError:
        raise RequestError(f"{label} has no manifest.json, which says what was run") from None
    except (OSError, ValidationError) as error:
        raise RequestError(f"{label}: its manifest.json cannot be read; score or evaluate again") from error


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
