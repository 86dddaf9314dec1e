"""Judges set against each other, as tables: what each of them said of each system, and how far two of them agree."""

from __future__ import annotations

from collections.abc import Iterator

from turnmark.evaluation.comparing.judges import Judges
from turnmark.evaluation.judging.seats import EMBEDDED
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.tables import Column, Row, Table

_RANKS = (
    "Spearman's rank correlation: over the means of the systems, and over single replies, of what both judged. 1: the "
    "same order. Two systems can only have the same order or the other one."
)


def judge_tables(judges: Judges | None) -> Iterator[Table]:
    """None where no metric has two judges."""
    if judges is None:
        return
    numbers = {judge: str(n) for n, judge in enumerate(dict.fromkeys(one.judge for one in judges.means), 1)}
    columns = (Column("metric"), Column("judge", True), *(Column(name, True) for name in judges.systems))
    rows, before = [], ""
    for one in judges.means:
        figures = (tables.figure(one.metric, one.means.get(name)) for name in judges.systems)
        rows.append(Row(("" if one.metric == before else one.metric, numbers[one.judge], *figures)))
        before = one.metric
    legend = tuple(f"{number}: {judge}" for judge, number in numbers.items())
    if EMBEDDED in numbers:
        legend += (f"{EMBEDDED}: by the metric of the same name that ends in [{EMBEDDED}], which is another one",)
    yield Table("The systems, by judge", columns, tuple(rows), legend)
    columns = (
        Column("metric"), Column("judges"), Column("systems", True), Column("rank", True), Column("replies", True),
        Column("rank", True),
    )  # fmt: skip
    rows = [
        Row(
            (
                pair.metric,
                " and ".join(numbers[judge] for judge in pair.judges),
                str(pair.systems),
                _rank(pair.rank_systems),
                str(pair.replies),
                _rank(pair.rank_replies),
            )
        )
        for pair in judges.pairs
    ]
    yield Table("How alike two judges rank them", columns, tuple(rows), (_RANKS,))


def _rank(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
