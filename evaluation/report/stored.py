"""Finished runs as they lie in their folders, for those who show them. Nothing here writes, or repairs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.home import check_name
from turnmark.evaluation.records import Sample, Score, Summary
from turnmark.evaluation.runs.journal import read_records

Key = tuple[str, int]
_MOST_REASONS = 8
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
    """The summary, or summaries, of a folder."""
    named = f"RUN {str(path)!r}"
    if not path.is_dir():
        raise RequestError(f"{named} is {'a file' if path.exists() else 'not there'}; name the folder of a run")
    try:
        content = json.loads((path / "summary.json").read_bytes())
    except FileNotFoundError:
        if (path / "manifest.json").is_file():
            raise RequestError(f"{named} has not ended: no summary.json; its command, given again, goes on") from None
        raise RequestError(f"{named} is no run: it has no summary.json") from None
    except (OSError, ValueError, RecursionError) as error:
        raise RequestError(f"{named}: summary.json is not JSON ({error}); score or evaluate again") from error
    if isinstance(content, dict) and content and all(isinstance(entry, dict) for entry in content.values()):
        return _several(path, content)
    return Stored(path=path, runs=(StoredRun(path, _summary(content, f"{named}: summary.json")),))


def distinct_names(paths: Sequence[Path], parts: Sequence[int] = ()) -> list[str]:
    """What to call each path: its name, and as many of the folders above it as tell it from the others.

    Args:
        parts: how many of each path its name has at least; empty: one.
    """
    whole = [path.resolve().parts for path in paths]
    taken = [*(parts or [1] * len(paths))]
    while True:
        names = ["/".join(path[-count:]) for path, count in zip(whole, taken, strict=True)]
        alike = [
            index
            for index, name in enumerate(names)
            if any(other == name and whole[place] != whole[index] for place, other in enumerate(names))
            and taken[index] < len(whole[index])
        ]
        if not alike:
            return names
        for index in alike:
            taken[index] += 1


def read_one(path: Path) -> StoredRun:
    """The one run of a folder that has its predictions."""
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
        raise RequestError([
            f"{where}, field {'.'.join(map(str, mistake['loc'])) or 'all'}: {mistake['msg']}"
            for mistake in error.errors()[:_MOST_FIELDS]
        ]) from error  # fmt: skip


# --- predictions and scores ------------------------------------------------------------------------------------------


def samples(run: Path) -> Iterator[Sample]:
    """The samples in the order of the file; other lines are skipped."""
    return read_records(run / "predictions.jsonl", Sample)


def score_lines(run: Path) -> Iterator[Score]:
    """The scores in the order of the file; other lines are skipped."""
    return read_records(run / "scores.jsonl", Score)


def scores(run: Path, keys: Collection[Key], metrics: Collection[str]) -> dict[Key, dict[str, Score]]:
    """Sample -> metric -> score, of the samples and metrics named."""
    by_key: dict[Key, dict[str, Score]] = {key: {} for key in keys}
    for score in score_lines(run) if by_key else ():
        key = (score.id, score.repeat)
        if score.metric in metrics and key in by_key:
            by_key[key].setdefault(score.metric, score)
    return by_key


def why_not_done(run: Path) -> Iterator[str]:
    """Why samples failed or were skipped, a line each: `failed: timeout (3), bad_reply (1)`; and what is unreadable."""
    path, readable = run / "predictions.jsonl", 0
    why: dict[str, Counter[str]] = {"failed": Counter(), "skipped": Counter()}
    for sample in samples(run):
        readable += 1
        if sample.status != "done":
            reason = (sample.reason or "no reason is given")[:_REASON]
            why[sample.status][sample.kind or reason if sample.status == "failed" else reason] += 1
    for status, reasons in why.items():
        listed = [f"{reason} ({count})" for reason, count in reasons.most_common(_MOST_REASONS)]
        others = reasons.total() - sum(count for _, count in reasons.most_common(_MOST_REASONS))
        if listed:
            yield f"{status}: {', '.join([*listed, *([f'others ({others})'] if others else [])])}"
    if unreadable := _count_lines(path) - readable:
        yield f"{unreadable} lines of predictions.jsonl cannot be read and are left out"


def _count_lines(path: Path) -> int:
    if not path.is_file():
        return 0
    with open(path, "rb") as file:
        return sum(not line.isspace() for line in file)
