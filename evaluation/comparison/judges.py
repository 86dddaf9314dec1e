"""The judges of compared runs: do two of them rank the systems alike, and the replies?

InsCoQA's Table 4 asks this of two judges: their figures differ, and whether the order of the systems does is what
matters. Every judge that a run was ever scored with takes part, since `judgements.jsonl` keeps the verdicts of each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from typing import Any

from pydantic import Field

from turnmark.core.record import Record
from turnmark.evaluation.comparison.loading import ComparedRun
from turnmark.evaluation.judging.rubrics import FILE, Judgement
from turnmark.evaluation.report.stored import samples
from turnmark.evaluation.report.tables import Column, Row, Table
from turnmark.evaluation.runs.journal import read_records

_REPLY = ["system", "id", "repeat"]
_RANKS = (
    "Spearman's rank correlation: over the means of the systems, and over single replies, of what both judged. 1: the "
    "same order. Two systems can only have the same order or the other one."
)


class JudgePair(Record):
    """Two judges of one metric."""

    metric: str
    judges: tuple[str, str]
    systems: int = Field(description="systems of which both judged a reply")
    rank_systems: float | None = Field(
        description="Spearman over the systems' means of the replies that both judged; None: nothing that varies"
    )
    replies: int = Field(description="replies that both judged, over all systems")
    rank_replies: float | None = Field(description="Spearman over these; None: nothing that varies")


def compare_judges(runs: Sequence[ComparedRun], ids: Collection[str]) -> tuple[JudgePair, ...]:
    """Each pair of judges of a metric, over the samples of these ids. Of one reply a judge's last verdict counts."""
    import pandas as pd

    rows = [row for run in runs if (run.path / FILE).is_file() for row in _read_verdicts(run)]
    table = pd.DataFrame(rows, columns=["metric", "judge", *_REPLY, "value"])
    table = table[table["id"].isin(ids)].drop_duplicates(["metric", "judge", *_REPLY], keep="last")
    return tuple(
        _compare_pair(verdicts, metric, pair)
        for metric, verdicts in table.groupby("metric", sort=False)
        for pair in combinations(sorted(verdicts["judge"].unique()), 2)
    )


def _read_verdicts(run: ComparedRun) -> Iterator[tuple[object, ...]]:
    # Runs with the same replies are one system, whoever judged them.
    replies = sorted(
        sample.model_dump_json(include={"id", "repeat", "status", "prediction", "procedure"})
        for sample in samples(run.path)
    )
    system = hashlib.sha256("\n".join(replies).encode()).hexdigest()
    for judgement in read_records(run.path / FILE, Judgement):
        if judgement.status == "scored":
            for measure, value in ((judgement.measure, judgement.value), *judgement.also.items()):
                if value is not None:
                    metric = measure.partition("[")[0]
                    yield metric, judgement.judge, system, judgement.id, judgement.repeat, value


def _compare_pair(verdicts: Any, metric: str, judges: tuple[str, str]) -> JudgePair:
    replies = verdicts.pivot(index=_REPLY, columns="judge", values="value")[list(judges)].dropna()
    systems = replies.groupby("system").mean()
    return JudgePair(
        metric=metric,
        judges=judges,
        systems=len(systems),
        rank_systems=_spearman(systems),
        replies=len(replies),
        rank_replies=_spearman(replies),
    )


def _spearman(sides: Any) -> float | None:
    varies = (sides.nunique() > 1).all()
    return float(sides.corr("spearman").iloc[0, 1]) if varies else None


def judge_tables(pairs: Sequence[JudgePair]) -> Iterator[Table]:
    """One table; none if no metric has two judges."""
    heads = (("metric", False), ("judges", False), ("systems", True), ("rank", True), ("replies", True), ("rank", True))
    rows = [
        Row((
            pair.metric, " and ".join(pair.judges), str(pair.systems), _rank(pair.rank_systems), str(pair.replies),
            _rank(pair.rank_replies),
        ))
        for pair in pairs
    ]  # fmt: skip
    if rows:
        yield Table("How alike two judges rank them", tuple(Column(*head) for head in heads), tuple(rows), (_RANKS,))


def _rank(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
