"""Manifests and samples as tests of run folders make them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from turnmark.evaluation.benchmarks.inscoqa.rubrics import INSEVAL
from turnmark.evaluation.metric_style import styles_by_name
from turnmark.evaluation.records import Breakdowns, DataUsed, Metrics, RunManifest, Sample, Score
from turnmark.evaluation.scores.score_tally import Facts, ScoreTally
from turnmark.evaluation.tasks.standard_metrics import (
    LEAD_METRICS,
    PASSAGE_METRICS,
    REFERENCE_METRICS,
    STYLE_METRICS,
    UNKNOWN_METRICS,
)

SHOWN = {
    name: shown
    for record in (*REFERENCE_METRICS, *PASSAGE_METRICS, *STYLE_METRICS, *LEAD_METRICS, *UNKNOWN_METRICS)
    for name, shown in styles_by_name(record.names, record.shown).items()
} | styles_by_name((), INSEVAL.shown)
DATA = DataUsed(name="d", demo=False, fingerprint="f")


def manifest(**changes: Any) -> RunManifest:
    fields: dict[str, Any] = {
        "benchmark": "mtrag", "task": "retrieval", "specs": {"retriever": "bm25"}, "data": DATA, "domains": ("a",),
        "seed": 0, "version": "1", "started": "then",
    }  # fmt: skip
    return RunManifest(**(fields | changes))


def sample(name: str, **changes: Any) -> Sample:
    return Sample.model_validate({"id": name, "status": "done", "query": "what?"} | changes)


def summarize(scores: Iterable[Score], facts: Mapping[str, Facts], seed: int) -> tuple[Metrics, Breakdowns]:
    """Headline metrics and every breakdown of scores that are all there; in any order.

    Args:
        facts: task id -> facts, for every id among the scores.
        seed: of the bootstrap.

    Returns:
        Both as `ScoreTally` gives them.
    """
    tally = ScoreTally(seed, SHOWN)
    for (identifier, repeat), group in groupby(scores, key=lambda score: (score.id, score.repeat)):
        tally.add(tuple(group), facts[identifier], repeat=repeat)
    return tally.metrics(), tally.breakdowns()
