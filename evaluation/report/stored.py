"""Finished runs as they lie in their folders, for those who show them. Nothing here writes, or repairs.

Predictions and scores are streamed: what is kept of them does not grow with the run, whatever its size.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.home import check_name
from turnmark.corpora.types import Record
from turnmark.evaluation.records import Sample, Score, Summary

Key = tuple[str, int]
M = TypeVar("M", bound=Record)

_MOST_KINDS = 100  # distinct reasons; a run whose every failure has separate words is not held in memory
_REASON = 80  # characters of a reason that distinguish it if a failure has no type
_MOST_FIELDS = 5


@dataclass(frozen=True)
class StoredRun:
    """A run that has ended."""

    path: Path
    summary: Summary


@dataclass(frozen=True)
class Stored:
    """What a folder holds: one run, or those of `eval all` and the reasons why others have no figures."""

    path: Path
    runs: tuple[StoredRun, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    several: bool = False


def read_run(path: Path) -> Stored:
    """The summary, or summaries, of a folder.

    Raises:
        RequestError: no folder, no `summary.json`, one that cannot be read or is no summary: every field that is wrong.
    """
    named = f"RUN {str(path)!r}"
    if not path.is_dir():
        raise RequestError(f"{named} is {'a file' if path.exists() else 'not there'}; name the folder of a run")
    try:
        content = json.loads((path / "summary.json").read_bytes())
    except FileNotFoundError:
        if (path / "manifest.json").is_file():
            raise RequestError(f"{named} has not ended: no summary.json; its command, given again, goes on") from None
        raise RequestError(f"{named} is no run: it has no summary.json") from None
    except OSError as error:
        raise RequestError(f"{named}: summary.json cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{named}: summary.json is not JSON ({error}); score or evaluate again") from error
    if isinstance(content, dict) and content and all(isinstance(entry, dict) for entry in content.values()):
        return _several(path, content)
    return Stored(path=path, runs=(StoredRun(path, _summary(content, f"{named}: summary.json")),))


def read_one(path: Path) -> StoredRun:
    """The one run of a folder that has its predictions.

    Raises:
        RequestError: as `read_run`; it holds several, or no predictions.
    """
    stored = read_run(path)
    if stored.several:
        inside = ", ".join(str(run.path) for run in stored.runs) or "none has ended"
        raise RequestError(f"RUN {str(path)!r} holds the runs of `eval all`; name one of them: {inside}")
    if not (path / "predictions.jsonl").is_file():
        raise RequestError(f"RUN {str(path)!r} has no predictions.jsonl; score or evaluate again")
    return stored.runs[0]


def _several(path: Path, benchmarks: Mapping[str, Any]) -> Stored:
    """The folder of `eval all`, whose summary has an entry for each benchmark."""
    where = f"RUN {str(path)!r}: summary.json"
    errors = ErrorCollector()
    runs: list[StoredRun] = []
    left_out: dict[str, str] = {}
    for name, entry in benchmarks.items():
        # The name becomes a folder, and the file may be anybody's.
        if errors.collect(check_name, name, f"{where}: benchmark") is None:
            continue
        if isinstance(entry, dict) and set(entry) == {"skipped"}:
            left_out[name] = str(entry["skipped"])
        elif summary := errors.collect(_summary, entry, f"{where}, benchmark {name!r}"):
            runs.append(StoredRun(path / name, summary))
    errors.raise_all()
    return Stored(path=path, runs=tuple(runs), left_out=left_out, several=True)


def _summary(content: Any, where: str) -> Summary:
    try:
        # Through JSON, as it was written: there a list is what a tuple was.
        return Summary.model_validate_json(json.dumps(content))
    except ValidationError as error:
        problems = [
            f"{where}, field {'.'.join(map(str, mistake['loc'])) or 'all'}: {mistake['msg']}"
            for mistake in error.errors()
        ]
        rest_of_problems = (
            [f"{where}: {len(problems) - _MOST_FIELDS} more fields are wrong"] if len(problems) > _MOST_FIELDS else []
        )
        raise RequestError([*problems[:_MOST_FIELDS], *rest_of_problems]) from error


# --- predictions and scores ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SampleCounts:
    """What became of the samples of a run.

    Attributes:
        n: lines that are a sample.
        unreadable: lines that are not a sample.
        failures: type of failure (its reason where it has none) -> samples.
        skipped: reason -> samples.
        first: keys of the first samples, in the order of the file.
    """

    n: int
    unreadable: int
    failures: Mapping[str, int]
    skipped: Mapping[str, int]
    first: tuple[Key, ...]


def count_samples(run: Path, first: int = 0) -> SampleCounts | None:
    """Count what became of the samples, and record the keys of the first so many. None: there are no predictions."""
    path = run / "predictions.jsonl"
    if not path.is_file():
        return None
    n = unreadable = 0
    grouped: dict[str, Counter[str]] = {"failed": Counter(), "skipped": Counter()}
    keys: list[Key] = []
    for sample in _lines(path, Sample):
        if sample is None:
            unreadable += 1
            continue
        n += 1
        if len(keys) < first:
            keys.append(sample.key)
        if sample.status != "done":
            group = grouped[sample.status]
            reason = (sample.reason or "no reason is given")[:_REASON]
            name = sample.kind or reason if sample.status == "failed" else reason
            group[name if name in group or len(group) < _MOST_KINDS else "other reasons"] += 1
    failed, skipped = (dict(grouped[status].most_common()) for status in ("failed", "skipped"))
    return SampleCounts(n=n, unreadable=unreadable, failures=failed, skipped=skipped, first=tuple(keys))


def why_not_done(summary: Summary, run: Path) -> SampleCounts | None:
    """`tally`, where the summary counts samples that are not done; else the predictions are not read."""
    return count_samples(run) if summary.failed or summary.skipped else None


def samples(run: Path) -> Iterator[Sample]:
    """The samples in the order of the file; other lines are skipped (`count_samples` counts them)."""
    return (sample for sample in _lines(run / "predictions.jsonl", Sample) if sample is not None)


def scores(run: Path, keys: Collection[Key], metrics: Collection[str]) -> dict[Key, dict[str, Score]]:
    """Sample -> metric -> score, of the samples and metrics named. Reading stops when all of them are found."""
    by_key: dict[Key, dict[str, Score]] = {key: {} for key in keys}
    missing = len(by_key) * len(set(metrics))
    if not (run / "scores.jsonl").is_file() or not missing:
        return by_key
    for score in score_lines(run):
        if score is None or score.metric not in metrics:
            continue
        mine = by_key.get((score.id, score.repeat))
        if mine is not None and score.metric not in mine:
            mine[score.metric] = score
            missing -= 1
            if not missing:
                break
    return by_key


def score_lines(run: Path) -> Iterator[Score | None]:
    """Every line of the scores; None for a line that is not a score."""
    return _lines(run / "scores.jsonl", Score)


def _lines(path: Path, kind: type[M]) -> Iterator[M | None]:
    """Each line as a record, or None if it is not one."""
    with open(path, "rb") as file:
        for line in file:
            try:
                yield kind.model_validate_json(line)
            except ValidationError:
                yield None
