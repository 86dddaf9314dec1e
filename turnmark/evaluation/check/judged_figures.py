"""What both kinds of checks read from the scores of a run: support by the passages, and agreement with a reference."""

from __future__ import annotations

import re
from pathlib import Path

from turnmark.core.grouping import group_pairs
from turnmark.evaluation.records import Score
from turnmark.evaluation.storage.journal import read_records

SUPPORT_METRIC = "rl_f"
"""The judged metric: faithfulness (MTRAG section 6.3.2)."""
SUPPORT_NAME = re.compile(rf"{SUPPORT_METRIC}(\[[^\]]*\])?")
"""The metric's name, with or without that of a judge; `rl_f[…].idk[…]` is another metric."""
AGREEMENT_NAME = re.compile(r"token_recall(\[unicode\])?")
"""Share of the reference answer's words that an answer contains; in scripts without spaces, of its characters."""
MIN_AGREEMENT = 0.26
"""Minimum agreement of a right answer. In MTRAG's human evaluation, .92 of the answers that people found complete and
appropriate reach it, .14 of random sentences from the same passages, and .73 of the answers that people found
incomplete: `python -m tests.benchmarks.judging agreeing`."""


def support_judge(judge: str) -> str:
    """Return the spec of a judge that grades only the support by the passages, unless the spec names its metrics."""
    if judge == "embedded" or "metrics=" in judge or judge.startswith("ragas:"):
        return judge
    return f"{judge}{'&' if '?' in judge else '?'}metrics={SUPPORT_METRIC}"


def means_of(run: Path, metric: re.Pattern[str]) -> dict[str, float]:
    """Return task id -> mean of its scores in the metrics whose names fit, from the folder of a run."""
    scored = (score for score in read_records(run / "scores.jsonl", Score) if metric.fullmatch(score.metric))
    values = group_pairs((score.id, score.value) for score in scored if score.value is not None)
    return {name: sum(scores) / len(scores) for name, scores in values.items()}
