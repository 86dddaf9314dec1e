"""Read finished runs from their folders. Nothing here writes or repairs files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.grouping import group_pairs
from turnmark.core.home import check_name
from turnmark.core.record import mistakes_in
from turnmark.evaluation.records import Sample, Score, Summary
from turnmark.evaluation.storage.journal import read_records

Key = tuple[str, int]
_MAX_REASONS = 8
_MAX_REASON_CHARACTERS = 80  # maximum characters of a reason in the list of failures
_MAX_FIELDS = 5


@dataclass(frozen=True)
class StoredRun:
    """A finished run."""

    path: Path
    summary: Summary


@dataclass(frozen=True)
class RunCollection:
    """The content of a folder: one run, or the runs of `eval all`.

    Attributes:
        left_out: benchmark -> why `eval all` has no values of it.
        several: whether the folder is of `eval all`.
    """

    path: Path
    runs: tuple[StoredRun, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    several: bool = False


def read_run(path: Path) -> RunCollection:
    """Read the run, or the runs, of a folder.

    Raises:
        RequestError: the folder has no readable summary.
    """
    run_label = f"RUN {str(path)!r}"
    if not path.is_dir():
        raise RequestError(
            f"{run_label} {'is a file' if path.exists() else 'does not exist'}; name the folder of a run"
        )
    try:
        content = json.loads((path / "summary.json").read_bytes())
    except FileNotFoundError:
        if (path / "manifest.json").is_file():
            raise RequestError(f"{run_label} has not ended (no summary.json); the same command continues it") from None
        raise RequestError(f"{run_label} is not a run: it has no summary.json") from None
    except (OSError, ValueError, RecursionError) as error:
        raise RequestError(f"{run_label}: summary.json is not JSON ({error}); score or evaluate again") from error
    if isinstance(content, dict) and content and all(isinstance(entry, dict) for entry in content.values()):
        return _several(path, content)
    return RunCollection(path=path, runs=(StoredRun(path, _summary(content, f"{run_label}: summary.json")),))


def distinct_names(paths: Sequence[Path], parts: Sequence[int] = ()) -> list[str]:
    """Name each path by its last component, with as many parent folders as needed to make the names distinct.

    Args:
        parts: minimum components of each path's name; empty: one for all.
    """
    components = [path.resolve().parts for path in paths]
    counts = list(parts) or [1] * len(paths)
    while True:
        names = ["/".join(path[-count:]) for path, count in zip(components, counts, strict=True)]
        paths_of = group_pairs(zip(names, components, strict=True))
        ambiguous = [
            index
            for index, name in enumerate(names)
            if len(set(paths_of[name])) > 1 and counts[index] < len(components[index])
        ]
        if not ambiguous:
            return names
        for index in ambiguous:
            counts[index] += 1


def read_one(path: Path) -> StoredRun:
    """Read the only run of a folder.

    Raises:
        RequestError: the folder contains several runs, no finished run, or no predictions.
    """
    stored = read_run(path)
    if stored.several:
        inside = ", ".join(str(run.path) for run in stored.runs) or "none has ended"
        raise RequestError(f"RUN {str(path)!r} contains the runs of `eval all`; name one of them: {inside}")
    if not (path / "predictions.jsonl").is_file():
        raise RequestError(f"RUN {str(path)!r} has no predictions.jsonl; score or evaluate again")
    return stored.runs[0]


def _several(path: Path, benchmarks: Mapping[str, Any]) -> RunCollection:
    where = f"RUN {str(path)!r}: summary.json"
    errors = ErrorCollector()
    runs: list[StoredRun] = []
    left_out: dict[str, str] = {}
    for name, entry in benchmarks.items():
        # The name becomes part of a path, and the file may come from elsewhere.
        if errors.collect(check_name, name, f"{where}: benchmark") is None:
            continue
        if isinstance(entry, dict) and set(entry) == {"skipped"}:
            left_out[name] = str(entry["skipped"])
        elif summary := errors.collect(_summary, entry, f"{where}, benchmark {name!r}"):
            runs.append(StoredRun(path / name, summary))
    errors.raise_all()
    return RunCollection(path=path, runs=tuple(runs), left_out=left_out, several=True)


def _summary(content: Any, where: str) -> Summary:
    try:
        # As JSON, since strict validation accepts a list for a tuple only there.
        return Summary.model_validate_json(json.dumps(content))
    except ValidationError as error:
        raise RequestError([f"{where}, field {mistake}" for mistake in mistakes_in(error)[:_MAX_FIELDS]]) from error


# --- predictions and scores ------------------------------------------------------------------------------------------


def samples(run: Path) -> Iterator[Sample]:
    """Yield the samples in the order of the file; other lines are skipped."""
    return read_records(run / "predictions.jsonl", Sample)


def first_answers(run: Path) -> dict[str, Sample]:
    """Return task id -> finished sample of the first repeat."""
    return {sample.id: sample for sample in samples(run) if sample.status == "done" and not sample.repeat}


def score_lines(run: Path) -> Iterator[Score]:
    """Yield the scores in the order of the file; other lines are skipped."""
    return read_records(run / "scores.jsonl", Score)


def scores(run: Path, keys: Collection[Key], metrics: Collection[str]) -> dict[Key, dict[str, Score]]:
    """Return sample key -> metric -> score, for these keys and metrics."""
    by_key: dict[Key, dict[str, Score]] = {key: {} for key in keys}
    if not by_key:
        return by_key
    for score in score_lines(run):
        key = (score.id, score.repeat)
        if score.metric in metrics and key in by_key:
            by_key[key].setdefault(score.metric, score)
    return by_key


def why_not_done(run: Path) -> Iterator[str]:
    """Yield why samples failed or were skipped, `failed: timeout (3), bad_reply (1)`, then the unreadable lines."""
    readable = 0
    counts: dict[str, Counter[str]] = {"failed": Counter(), "skipped": Counter()}
    for sample in samples(run):
        readable += 1
        if sample.status == "done":
            continue
        reason = (sample.reason or "no reason is given")[:_MAX_REASON_CHARACTERS]
        if sample.status == "failed" and sample.kind:
            reason = sample.kind
        counts[sample.status][reason] += 1
    for status, reasons in counts.items():
        most_common = reasons.most_common(_MAX_REASONS)
        listed = [f"{reason} ({count})" for reason, count in most_common]
        others = reasons.total() - sum(count for _, count in most_common)
        if others:
            listed.append(f"others ({others})")
        if listed:
            yield f"{status}: {', '.join(listed)}"
    unreadable = _count_lines(run / "predictions.jsonl") - readable
    if unreadable:
        yield f"{unreadable} lines of predictions.jsonl cannot be read and are left out"


def _count_lines(path: Path) -> int:
    if not path.is_file():
        return 0
    with open(path, "rb") as file:
        return sum(not line.isspace() for line in file)
