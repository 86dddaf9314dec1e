"""Runs of the benchmark of seven queries, answered by the scripted writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.evaluation import writer
from tests.evaluation.requests import request_of
from turnmark.evaluation.records import Sample, Score, Summary
from turnmark.evaluation.runs import benchmark_run
from turnmark.evaluation.runs.plan import Plan
from turnmark.evaluation.runs.planning import plan_run

SIX = ("c1<::>1", "c1<::>2", "c2<::>1", "c3<::>1", "c3<::>2", "c4<::>2")
"""Answerable and partial tasks that the writer answers."""


def samples_of(run: Path) -> dict[str, Sample]:
    """The samples of a run by their ids."""
    lines = (run / "predictions.jsonl").read_text(encoding="utf-8").split("\n")
    return {sample.id: sample for sample in map(Sample.model_validate_json, filter(None, lines))}


class Ran:
    """A finished run."""

    def __init__(self, summary: Summary, folder: Path) -> None:
        self.summary, self.folder, self.metrics = summary, folder, summary.metrics

    def _lines(self, name: str) -> list[str]:
        return [line for line in (self.folder / name).read_text(encoding="utf-8").split("\n") if line]

    @property
    def samples(self) -> dict[str, Sample]:
        return samples_of(self.folder)

    @property
    def scores(self) -> dict[tuple[str, str], Score]:
        return {
            (score.id, score.metric): score for score in map(Score.model_validate_json, self._lines("scores.jsonl"))
        }

    def shown(self, name: str) -> list[str]:
        return [ref.document_id for ref in self.samples[name].contexts]

    def values(self, metric: str) -> dict[str, float | None]:
        """By task; None where it is not applicable."""
        return {
            name: score.value
            for (name, name_of_metric), score in self.scores.items()
            if name_of_metric == metric and score.status != "failed"
        }


def planned(root: Path | None, out: Path, **changes: Any) -> Plan:
    fields: dict[str, Any] = {
        "benchmark": "mtrag", "data": root, "out": out, "generator": writer.SPEC, "retriever": "bm25", "concurrency": 1,
    }  # fmt: skip
    return plan_run(request_of(**(fields | changes)))


def ran(root: Path | None, out: Path, **changes: Any) -> Ran:
    return Ran(*benchmark_run.run_plan(planned(root, out, **changes))[:2])
