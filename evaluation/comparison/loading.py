"""Runs as they are compared: every score by metric and sample, and what is known of the samples."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.evaluation import facts
from turnmark.evaluation.records import RunManifest, Score, Summary
from turnmark.evaluation.report.stored import read_run, samples
from turnmark.evaluation.summary import Facts

_MOST_LETTERS = 26


@dataclass(slots=True)
class Cell:
    """A metric of one sample, over its repeats.

    Attributes:
        total: sum of weight * value.
        weight: sum of weights; 0 where nothing was scored.
        lines: that are scored or not applicable.
        failed: lines that failed.
    """

    total: float = 0.0
    weight: float = 0.0
    lines: int = 0
    failed: int = 0
    scored: int = 0

    def add(self, score: Score) -> None:
        """Take in the line of one repeat."""
        if score.status == "failed":
            self.failed += 1
            return
        self.lines += 1
        if score.value is not None:
            self.scored += 1
            self.total += score.weight * score.value
            self.weight += score.weight

    @property
    def value(self) -> float | None:
        """The mean over the repeats that were scored; None without one."""
        return self.total / self.weight if self.weight else None


@dataclass(frozen=True)
class Run:
    """A finished run with all its scores.

    Attributes:
        letter: by which tables name it: A for the first.
        cells: metric -> task id -> cell.
        by: metric -> what measured it, each once.
        domains: task id -> domain, in the order of the predictions.
        skipped: task ids of which no repeat was tried.
        facts: None where the run does not have them.
        unreadable: lines of `scores.jsonl` that are no score.
    """

    letter: str
    name: str
    path: Path
    manifest: RunManifest
    summary: Summary
    cells: Mapping[str, Mapping[str, Cell]]
    by: Mapping[str, tuple[str, ...]]
    domains: Mapping[str, str | None]
    skipped: frozenset[str]
    facts: Mapping[str, Facts] | None
    unreadable: int


def load_all(paths: Sequence[Path]) -> list[Run]:
    """The runs of these folders, named A, B, C and so on.

    Raises:
        RequestError: everything that is wrong with the folders; fewer than two of them, or one twice.
    """
    errors = ErrorCollector()
    if len(paths) < 2:
        errors.add("RUN: one run alone has nothing to be compared with; name two or more")
    if len(paths) > _MOST_LETTERS:
        errors.add(f"RUN: {len(paths)} runs; at most {_MOST_LETTERS} are compared at once")
    places = Counter(os.path.realpath(path) for path in paths)
    for place, times in places.items():
        if times > 1:
            first = next(path for path in paths if os.path.realpath(path) == place)
            errors.add(f"RUN {str(first)!r} is named {times} times; a run is not compared with itself")
    names = _names(paths)
    runs = [
        errors.collect(_load, path, name, chr(ord("A") + at % _MOST_LETTERS))
        for at, (path, name) in enumerate(zip(paths, names, strict=True))
        if list(map(os.path.realpath, paths)).index(os.path.realpath(path)) == at
    ]
    errors.raise_all()
    return [run for run in runs if run is not None]


def _names(paths: Sequence[Path]) -> list[str]:
    """The names of the folders; with the folder above where two would be the same."""
    short = [path.resolve().name for path in paths]
    return [
        name if short.count(name) == 1 else "/".join(path.resolve().parts[-2:])
        for name, path in zip(short, paths, strict=True)
    ]


def _load(path: Path, name: str, letter: str) -> Run:
    stored, label = read_run(path), f"RUN {str(path)!r}"
    if stored.several:
        inside = ", ".join(str(run.path) for run in stored.runs) or "none has ended"
        raise RequestError(f"{label} holds the runs of `eval all`; name one of them: {inside}")
    errors = ErrorCollector()
    manifest = errors.collect(_manifest, path, label)
    for part in ("scores.jsonl", "predictions.jsonl"):
        if not (path / part).is_file():
            errors.add(f"{label} has no {part}; score or evaluate again")
    errors.raise_all()
    assert manifest is not None, "errors.raise_all() raised otherwise"
    cells: dict[str, dict[str, Cell]] = {}
    by: dict[str, dict[str, None]] = {}
    unreadable = 0
    samples_seen: dict[str, tuple[str | None, bool]] = {}
    for sample in samples(path):
        _, tried_before = samples_seen.get(sample.id, (None, False))
        samples_seen[sample.id] = (sample.domain, tried_before or sample.status != "skipped")
    for score in _scores(path / "scores.jsonl"):
        if score is None:
            unreadable += 1
            continue
        cells.setdefault(score.metric, {}).setdefault(score.id, Cell()).add(score)
        by.setdefault(score.metric, {})[score.by] = None
    return Run(
        letter=letter,
        name=name,
        path=path,
        manifest=manifest,
        summary=stored.runs[0].summary,
        cells=cells,
        by={metric: tuple(sorted(measured)) for metric, measured in by.items()},
        domains={name: domain for name, (domain, _) in samples_seen.items()},
        skipped=frozenset(name for name, (_, any_tried) in samples_seen.items() if not any_tried),
        facts=facts.read(path),
        unreadable=unreadable,
    )


def _manifest(path: Path, label: str) -> RunManifest:
    try:
        return RunManifest.model_validate_json((path / "manifest.json").read_bytes())
    except FileNotFoundError:
        raise RequestError(f"{label} has no manifest.json, which says what was run") from None
    except (OSError, ValidationError) as error:
        raise RequestError(f"{label}: its manifest.json cannot be read; score or evaluate again") from error


def _scores(path: Path) -> Iterator[Score | None]:
    with open(path, "rb") as file:
        for line in file:
            try:
                yield Score.model_validate_json(line)
            except ValidationError:
                yield None


def facts_together(runs: Sequence[Run], ids: Sequence[str]) -> tuple[dict[str, Facts], bool]:
    """What is known of the samples, and whether that is all a run can say; from the first run that knows.

    Raises:
        RequestError: nobody says which samples belong together.
    """
    facts_known: dict[str, Facts] = {}
    for run in runs:
        if run.facts is not None:
            facts_known = {**run.facts, **facts_known}
    if all(name in facts_known for name in ids):
        return facts_known, True
    benchmark = runs[0].manifest.benchmark
    guessed = facts.from_id(benchmark, {name: runs[0].domains.get(name) for name in ids})
    if guessed is None:
        silent = [run for run in runs if run.facts is None] or runs
        raise RequestError(
            [
                f"RUN {str(run.path)!r} does not say which samples belong together ({facts.NAME}); "
                f"score it again: turnmark score {benchmark} --predictions {run.path}"
                for run in silent
            ]
        )
    return {**guessed, **facts_known}, False
