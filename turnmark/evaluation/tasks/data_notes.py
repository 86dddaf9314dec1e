"""Notes of a report on the data: whether they are the demo split, and which rows were skipped."""

from __future__ import annotations

from collections.abc import Sequence

from turnmark.corpora.types import Problem
from turnmark.evaluation.records import DataUsed

MAX_PROBLEMS = 20
"""Maximum skipped rows that a report lists."""
DEMO_NOTE = (
    "demo data: a small split that ships with Turnmark; its figures show that everything works and say nothing about "
    "quality (--data points at the real benchmark)"
)


def problem_notes(problems: Sequence[Problem]) -> list[str]:
    """Return a note for each skipped row, at most `MAX_PROBLEMS`, and one with the number of the others."""
    notes = [f"skipped: {problem}" for problem in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        notes.append(f"skipped: {len(problems) - MAX_PROBLEMS} more, {len(problems)} in all")
    return notes


def data_notes(data: DataUsed, problems: Sequence[Problem]) -> list[str]:
    """Return a report's notes on its data: whether it is the demo split, and the skipped rows."""
    demo_notes = [DEMO_NOTE] if data.demo else []
    return demo_notes + problem_notes(problems)
