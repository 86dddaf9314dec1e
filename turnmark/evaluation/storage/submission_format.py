"""Check files of answers against the form in which SemEval-2026 Task 8 takes submissions.

Source: https://github.com/IBM/mt-rag-benchmark, scripts/evaluation/format_checker.py. It is stricter than reading the
files: every task has one line, and every context has an id and a score.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from turnmark.corpora.jsonl_rows import json_lines
from turnmark.corpora.types import Problem

FIELDS: Mapping[str, Mapping[str, type]] = {
    "A": {"task_id": str, "Collection": str, "contexts": list},
    "B": {"task_id": str, "input": list, "contexts": list, "predictions": list},
    "C": {"task_id": str, "Collection": str, "input": list, "contexts": list, "predictions": list},
}
"""Subtask (retrieval, generation from reference passages, RAG) -> the fields of a line, with their types."""
MAX_CONTEXTS = 10
MAX_MEBIBYTES = 20
MAX_LISTED = 5
"""Maximum number of mistakes in a note; the others are counted."""


def note_submission(paths: Sequence[Path], subtask: str, task_ids: Collection[str]) -> Iterator[str]:
    """Yield a note for each file in the official form: what the organizers' check would refuse, or that it would not.

    Args:
        subtask: A, B or C.
        task_ids: the ids of all tasks of the data.
    """
    for path in paths:
        rows = [(number, row) for number, row in json_lines(path, path.name)] if path.is_file() else []
        if not rows or isinstance(rows[0][1], Problem) or "task_id" not in rows[0][1]:
            continue
        mistakes = list(_mistakes(path, rows, FIELDS[subtask], task_ids))
        listed = "; ".join(mistakes[:MAX_LISTED])
        if len(mistakes) > MAX_LISTED:
            listed += f"; {len(mistakes) - MAX_LISTED} more"
        verdict = f"has the form of a submission to SemEval-2026 Task 8{subtask}"
        yield (
            f"{path.name}: SemEval-2026 Task 8{subtask} refuses it: {listed}" if mistakes else f"{path.name} {verdict}"
        )


def _mistakes(
    path: Path, rows: Sequence[tuple[int, Any]], fields: Mapping[str, type], task_ids: Collection[str]
) -> Iterator[str]:
    if path.suffix != ".jsonl":
        yield "its name does not end in .jsonl"
    if path.stat().st_size > MAX_MEBIBYTES * 1024**2:
        yield f"it is larger than {MAX_MEBIBYTES} MiB"
    found = [row.get("task_id") for _, row in rows if isinstance(row, dict)]
    missing, unknown = set(task_ids).difference(found), set(map(str, found)).difference(task_ids)
    if missing:
        yield f"{len(missing)} of {len(task_ids)} tasks have no line, {min(missing)!r} first"
    if unknown:
        yield f"{len(unknown)} ids are no tasks of the data, {min(unknown)!r} first"
    if len(found) > len(set(map(str, found))):
        yield f"{len(found) - len(set(map(str, found)))} lines repeat a task"
    for number, row in rows:
        if not isinstance(row, dict):
            yield f"line {number}: {row.what}"
            continue
        for name, kind in fields.items():
            if not isinstance(row.get(name), kind):
                yield f"line {number}: {name}: expected {'a list' if kind is list else 'a text'}"
        contexts = row["contexts"] if isinstance(row.get("contexts"), list) else []
        if len(contexts) > MAX_CONTEXTS:
            yield f"line {number}: {len(contexts)} contexts, at most {MAX_CONTEXTS} are allowed"
        if not all(_is_scored(context) for context in contexts):
            yield f"line {number}: contexts: each needs a document_id (text) and a score (number)"


def _is_scored(context: Any) -> bool:
    """Return whether a context has an id and a number as its score."""
    known = context if isinstance(context, dict) else {}
    return isinstance(known.get("document_id"), str) and isinstance(known.get("score"), int | float)
