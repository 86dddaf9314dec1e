"""Runs as they are compared: every score by metric and sample, and what is known of the samples.

Then what the runs differ in: what is being compared, what makes them hard to compare, and what makes them nonsense.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.types import Record
from turnmark.evaluation import facts
from turnmark.evaluation.records import RunManifest, Score, Summary
from turnmark.evaluation.report.stored import read_one, samples, score_lines
from turnmark.evaluation.report.tables import data_name
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
        errors.collect(_load, path, name, chr(ord("A") + index % _MOST_LETTERS))
        for index, (path, name) in enumerate(zip(paths, names, strict=True))
        if list(map(os.path.realpath, paths)).index(os.path.realpath(path)) == index
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
    stored, label = read_one(path), f"RUN {str(path)!r}"
    errors = ErrorCollector()
    manifest = errors.collect(_manifest, path, label)
    if not (path / "scores.jsonl").is_file():
        errors.add(f"{label} has no scores.jsonl; score or evaluate again")
    errors.raise_all()
    assert manifest is not None, "errors.raise_all() raised otherwise"
    cells: dict[str, dict[str, Cell]] = {}
    by: dict[str, dict[str, None]] = {}
    unreadable = 0
    samples_seen: dict[str, tuple[str | None, bool]] = {}
    for sample in samples(path):
        _, tried_before = samples_seen.get(sample.id, (None, False))
        samples_seen[sample.id] = (sample.domain, tried_before or sample.status != "skipped")
    for score in score_lines(path):
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
        summary=stored.summary,
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


def facts_together(runs: Sequence[Run], ids: Sequence[str]) -> dict[str, Facts]:
    """What is known of the samples, each from the first run that has it.

    Raises:
        RequestError: nobody says which samples belong together.
    """
    known_facts = {name: facts_of_run for run in reversed(runs) for name, facts_of_run in (run.facts or {}).items()}
    if all(name in known_facts for name in ids):
        return known_facts
    raise RequestError(
        [
            f"RUN {str(run.path)!r} does not say which samples belong together ({facts.NAME}); "
            f"score it again: turnmark score {run.manifest.benchmark} --predictions {run.path}"
            for run in runs
            if not all(name in (run.facts or {}) for name in ids)
        ]
    )


# --- what they differ in ---------------------------------------------------------------------------------------------

_SUBSET = ("limit", "sample", "only", "counterfactual")
_ASPECTS = frozenset(("benchmark", "task", "data", "setting", "domains", "corpora", "repeat", "seed", *_SUBSET))
"""Fields of a manifest that are no part of the system."""
_SHORT = 12  # characters of a checksum that tell it from another


class Reason(Record):
    """Why two runs are not comparable as they stand."""

    aspect: str
    run: str
    why: str


def check(runs: Sequence[Run]) -> None:
    """Refuse what cannot be compared at all.

    Raises:
        RequestError: every reason: another benchmark or task, the demo beside real data, no samples in common.
    """
    errors = ErrorCollector()
    first, *other_runs = runs
    for run in other_runs:
        for aspect, mine, theirs in (
            ("benchmark", first.manifest.benchmark, run.manifest.benchmark),
            ("task", first.manifest.task, run.manifest.task),
            ("data", _demo(first), _demo(run)),
        ):
            if mine != theirs:
                errors.add(f"RUN {str(run.path)!r}: {aspect} {theirs}, but {mine} in {str(first.path)!r}")
        if not first.domains.keys() & run.domains.keys():
            errors.add(
                f"RUN {str(run.path)!r} has no sample in common with {str(first.path)!r} "
                f"({len(run.domains)} and {len(first.domains)} samples)"
            )
        elif not _metrics_scored(first) & _metrics_scored(run):
            errors.add(f"RUN {str(run.path)!r} has no metric in common with {str(first.path)!r}")
    if not errors.problems and not set.intersection(*(set(run.domains) for run in runs)):
        errors.add("RUN: there is no sample that all of these runs have; compare fewer at once")
    errors.raise_all()


def _demo(run: Run) -> str:
    return "the demo split" if run.manifest.data.demo else "the benchmark's own"


def _metrics_scored(run: Run) -> set[str]:
    return {name for name, cells in run.cells.items() if any(cell.scored for cell in cells.values())}


def reasons(runs: Sequence[Run]) -> list[Reason]:
    """Why the others are not comparable with the first, over the whole of a run; metrics have reasons of their own."""
    first, *other_runs = runs
    return [
        Reason(aspect=aspect, run=run.letter, why=f"{aspect}: {why}")
        for run in other_runs
        for aspect, why in _aspects(first, run)
    ]


def _aspects(first: Run, run: Run) -> Iterator[tuple[str, str]]:
    mine, theirs = first.manifest, run.manifest
    a, b = first.letter, run.letter
    if mine.data.fingerprint != theirs.data.fingerprint:
        names = f"{data_name(first.summary)} in {a}, {data_name(run.summary)} in {b}"
        yield (
            "data",
            f"other files were read ({names}; {_short(mine.data.fingerprint)}, {_short(theirs.data.fingerprint)})",
        )
    if mine.setting != theirs.setting:
        yield "setting", f"{mine.setting or 'none'} in {a}, {theirs.setting or 'none'} in {b}"
    if set(mine.domains) != set(theirs.domains):
        yield "domains", f"{', '.join(mine.domains) or 'none'} in {a}, {', '.join(theirs.domains) or 'none'} in {b}"
    subset = [
        f"{name} {_said(getattr(mine, name))} in {a}, {_said(getattr(theirs, name))} in {b}"
        for name in _SUBSET
        if getattr(mine, name) != getattr(theirs, name)
    ]
    if mine.sample and theirs.sample and mine.seed != theirs.seed:
        subset.append(f"drawn by seed {mine.seed} in {a}, {theirs.seed} in {b}")
    if mine.domains == theirs.domains and (missing := len(first.domains.keys() ^ run.domains.keys())) and not subset:
        subset.append(f"{missing} samples are in one of {a} and {b} alone")
    if subset:
        yield "subset", "; ".join(subset)
    documents = [
        f"{domain}: {mine.corpora[domain].passages:,} passages in {a}, {theirs.corpora[domain].passages:,} in {b}"
        for domain in sorted(mine.corpora.keys() & theirs.corpora.keys())
        if mine.corpora[domain].sha256 != theirs.corpora[domain].sha256
    ]
    if documents:
        yield "documents", f"other passages were searched ({'; '.join(documents)})"
    judges = [
        f"{name} {_short(str(earlier))} in {a}, {_short(str(later))} in {b}"
        for name, earlier, later in _flat_differences(first, run)
        if _of_a_judge(name)
    ]
    judges += [
        f"{name} {_judges(first, name)} in {a}, {_judges(run, name)} in {b}"
        for name in first.summary.judging
        if name in run.summary.judging and _judges(first, name) != _judges(run, name)
    ]
    if judges:
        yield "judge", "; ".join(judges)


def _judges(run: Run, metric: str) -> str:
    """The judges of a metric."""
    return ", ".join(run.summary.judging[metric].judges)


def metric_reason(runs: Sequence[Run], metric: str) -> str | None:
    """Why a metric of these runs is not the same metric, if it is not: something else measured it."""
    first, *other_runs = runs
    instruments = first.by.get(metric, ())
    differences = [
        f"measured by {', '.join(instruments)} in {first.letter}, by {', '.join(theirs)} in {run.letter}"
        for run in other_runs
        if (theirs := run.by.get(metric, ())) != instruments
    ]
    return f"metric: {'; '.join(differences)}" if differences else None


def compared(runs: Sequence[Run]) -> dict[str, list[str]]:
    """What of the systems differs: `specs.generator` -> its value in each run; `-` where a run has none."""
    names = dict.fromkeys(
        name for run in runs[1:] for name, _, _ in _flat_differences(runs[0], run) if not _of_a_judge(name)
    )
    flats = [_flat(run) for run in runs]
    return {name: [_said(flat.get(name)) for flat in flats] for name in names}


def versions(runs: Sequence[Run]) -> list[str]:
    """A note where runs were scored by other versions, for a metric may have changed between them."""
    first, *other_runs = runs
    return [
        f"{first.letter} and {run.letter} were made by other versions of Turnmark "
        f"({first.manifest.version}, {run.manifest.version}); score both again to be sure of the metrics"
        for run in other_runs
        if run.manifest.version != first.manifest.version
    ]


def _flat_differences(first: Run, run: Run) -> Iterator[tuple[str, object, object]]:
    mine, theirs = _flat(first), _flat(run)
    for name in dict.fromkeys((*mine, *theirs)):
        if mine.get(name) != theirs.get(name):
            yield name, mine.get(name), theirs.get(name)


def _flat(run: Run) -> dict[str, object]:
    """What of a manifest is the system's: `specs.query`, `prompts.answer`; checksums cut short."""
    fields: dict[str, object] = {}
    for name, value in run.manifest.identity.items():
        if name in _ASPECTS:
            continue
        if isinstance(value, dict):
            cut = name in ("prompts", "inputs")
            fields |= {f"{name}.{key}": _short(str(inner)) if cut else inner for key, inner in value.items()}
        else:
            fields[name] = value
    return fields


def _of_a_judge(name: str) -> bool:
    return "judge" in name.partition(".")[2].casefold()


def _said(value: object) -> str:
    if value is None or value == () or value == "":
        return "-"
    if isinstance(value, tuple | list):
        return f"{len(value)} ids"
    return str(value)


def _short(checksum: str) -> str:
    return checksum[:_SHORT] if len(checksum) == 64 else checksum
