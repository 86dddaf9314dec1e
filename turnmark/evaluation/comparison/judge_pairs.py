"""Compare the judges of several runs: whether two judges rank the systems, and the replies, alike.

InsCoQA's Table 4 does this for two judges, since their ratings differ and only the order of the systems matters. Every
judge that a run was ever scored with is included, since `judgements.jsonl` keeps all verdicts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from typing import Any

from pydantic import Field

from turnmark.core.record import Record
from turnmark.evaluation.calls.judgment_store import JUDGMENTS_FILE, StoredJudgment
from turnmark.evaluation.comparison.comparable_runs import ComparedRun
from turnmark.evaluation.report.finished_runs import samples
from turnmark.evaluation.report.tables import ReportRow, Table, make_columns
from turnmark.evaluation.storage.journal import read_records

_REPLY_COLUMNS = ["system", "id", "repeat"]
_RANKS_LEGEND = (
    "Spearman's rank correlation over the systems' means and over single replies, for replies that both judged. 1: the "
    "same order. Two systems can only have the same order or the other one."
)


class JudgePair(Record):
    """Two judges of one metric."""

    metric: str
    judges: tuple[str, str]
    systems: int = Field(description="systems whose replies both judges judged")
    rank_systems: float | None = Field(
        description="Spearman over the systems' means of the replies that both judged, or None if there is no variation"
    )
    replies: int = Field(description="replies that both judged, over all systems")
    rank_replies: float | None = Field(description="Spearman over these replies, or None if there is no variation")


def compare_judges(runs: Sequence[ComparedRun], ids: Collection[str]) -> tuple[JudgePair, ...]:
    """Compare each pair of judges of a metric over the samples with these ids, by each judge's last verdict."""
    import pandas as pd

    rows: list[tuple[object, ...]] = []
    for run in runs:
        if (run.path / JUDGMENTS_FILE).is_file():
            rows += _read_verdicts(run)
    table = pd.DataFrame(rows, columns=["metric", "judge", *_REPLY_COLUMNS, "value"])
    table = table[table["id"].isin(ids)].drop_duplicates(["metric", "judge", *_REPLY_COLUMNS], keep="last")
    pairs: list[JudgePair] = []
    for metric, verdicts in table.groupby("metric", sort=False):
        for judges in combinations(sorted(verdicts["judge"].unique()), 2):
            pairs.append(_compare_pair(verdicts, metric, judges))
    return tuple(pairs)


def _read_verdicts(run: ComparedRun) -> Iterator[tuple[object, ...]]:
    """Yield metric, judge, system, id, repeat and value of each verdict of a run."""
    # Runs with the same replies are one system, even if their judges differ.
    replies = sorted(
        sample.model_dump_json(include={"id", "repeat", "status", "prediction", "procedure"})
        for sample in samples(run.path)
    )
    system = hashlib.sha256("\n".join(replies).encode()).hexdigest()
    for judgment in read_records(run.path / JUDGMENTS_FILE, StoredJudgment):
        if judgment.status != "scored":
            continue
        for measure, value in ((judgment.measure, judgment.value), *judgment.also.items()):
            if value is not None:
                metric = measure.partition("[")[0]
                yield metric, judgment.judge, system, judgment.id, judgment.repeat, value


def _compare_pair(verdicts: Any, metric: str, judges: tuple[str, str]) -> JudgePair:
    replies = verdicts.pivot(index=_REPLY_COLUMNS, columns="judge", values="value")[list(judges)].dropna()
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
    """Yield one table; nothing if no metric has two judges."""
    if not pairs:
        return
    columns = make_columns(["metric", "judges"], ["systems", "rank", "replies", "rank"])
    rows: list[ReportRow] = []
    for pair in pairs:
        by_systems = (str(pair.systems), _rank(pair.rank_systems))
        by_replies = (str(pair.replies), _rank(pair.rank_replies))
        rows.append(ReportRow((pair.metric, " and ".join(pair.judges), *by_systems, *by_replies)))
    yield Table("How similarly two judges rank", columns, tuple(rows), (_RANKS_LEGEND,))


def _rank(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
