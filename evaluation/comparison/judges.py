"""The judges of compared runs: do two of them rank the systems alike, and the replies?

InsCoQA's Table 4 asks this of two judges: their figures differ, and whether the order of the systems does is what
matters. Every judge that a run was ever scored with takes part, since `judgements.jsonl` keeps the verdicts of each.
One model that was asked with other prompts is another judge.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

from pydantic import Field

from turnmark.corpora.types import Record
from turnmark.evaluation.comparison.loading import ComparedRun
from turnmark.evaluation.journal import read_records
from turnmark.evaluation.judging.judgements import FILE, Judgement
from turnmark.evaluation.judging.rubrics import EMBEDDED
from turnmark.evaluation.metric_info import Figured, shown_as
from turnmark.evaluation.metrics.agreement import spearman
from turnmark.evaluation.report.stored import samples
from turnmark.evaluation.report.tables import Column, Row, Table

VARIANT = f"[{EMBEDDED}]"
_REPLY = ["system", "id", "repeat"]


class JudgeMeans(Figured):
    """One judge's means of one metric."""

    metric: str
    judge: str
    means: dict[str, float | None] = Field(description="system -> mean over what this judge scored; None: nothing")


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


class JudgeComparison(Record):
    """Every judge of the runs that are compared."""

    systems: tuple[str, ...] = Field(description="letters of the runs that have the same replies: `A`, `B=C`")
    means: tuple[JudgeMeans, ...]
    pairs: tuple[JudgePair, ...]


def compare_judges(runs: Sequence[ComparedRun], ids: Sequence[str]) -> JudgeComparison | None:
    """The judges of some runs over some samples; None if no metric has two."""
    import pandas as pd

    systems = _name_systems([run for run in runs if (run.path / FILE).is_file()])
    rows = [row for run in runs if run.letter in systems for row in _read_verdicts(run, systems[run.letter])]
    table = pd.DataFrame(rows, columns=["metric", "judge", "prompts", *_REPLY, "value"])
    # Of one reply the last judgement counts.
    table = table[table["id"].isin(ids)].drop_duplicates(["metric", "judge", "prompts", *_REPLY], keep="last")
    several = table.groupby(["metric", "judge"])["prompts"].transform("nunique") > 1
    table.loc[several, "judge"] += " (prompts " + table["prompts"].str[:8] + ")"
    in_reports = [name.removesuffix(VARIANT) for run in runs for name in run.summary.metrics]
    judges = {
        metric: sorted(table["judge"][table["metric"] == metric].unique())
        for metric in dict.fromkeys((*in_reports, *sorted(set(table["metric"]))))
    }
    pairs = [(metric, pair) for metric, names in judges.items() for pair in combinations(names, 2)]
    if not pairs:
        return None
    names = tuple(dict.fromkeys(systems.values()))
    known = {name.removesuffix(VARIANT): metric.shown for run in runs for name, metric in run.summary.metrics.items()}
    means = table.groupby(["metric", "judge", "system"])["value"].mean().to_dict()
    return JudgeComparison(
        systems=names,
        means=tuple(
            JudgeMeans(
                metric=metric,
                judge=judge,
                means={name: means.get((metric, judge, name)) for name in names},
                shown=shown_as(metric, known),
            )
            for metric, several_judges in judges.items()
            for judge in several_judges
            if len(several_judges) > 1
        ),
        pairs=tuple(_compare_pair(table, metric, pair) for metric, pair in pairs),
    )


def _read_verdicts(run: ComparedRun, system: str) -> Iterator[tuple[object, ...]]:
    for judgement in read_records(run.path / FILE, Judgement):
        if judgement.status == "scored":
            for metric, value in ((judgement.measure, judgement.value), *judgement.also.items()):
                if value is not None:
                    reply = (system, judgement.id, judgement.repeat)
                    yield metric.removesuffix(VARIANT), judgement.judge, judgement.prompts, *reply, value


def _name_systems(runs: Sequence[ComparedRun]) -> dict[str, str]:
    """Letter -> letters of all runs with the same replies: they are one system, whoever judged them."""
    letters: dict[str, list[str]] = {}
    for run in runs:
        replies = sorted(
            sample.model_dump_json(include={"id", "repeat", "status", "prediction", "procedure"})
            for sample in samples(run.path)
        )
        letters.setdefault(hashlib.sha256("\n".join(replies).encode()).hexdigest(), []).append(run.letter)
    return {letter: "=".join(alike) for alike in letters.values() for letter in alike}


def _compare_pair(table: Any, metric: str, judges: tuple[str, str]) -> JudgePair:
    verdicts = table[table["metric"] == metric]
    replies = verdicts.pivot(index=_REPLY, columns="judge", values="value")[list(judges)].dropna()
    systems = replies.groupby("system").mean()
    return JudgePair(
        metric=metric,
        judges=judges,
        systems=len(systems),
        rank_systems=spearman(*(list(systems[judge]) for judge in judges)),
        replies=len(replies),
        rank_replies=spearman(*(list(replies[judge]) for judge in judges)),
    )


_RANKS = (
    "Spearman's rank correlation: over the means of the systems, and over single replies, of what both judged. 1: the "
    "same order. Two systems can only have the same order or the other one."
)


def judge_tables(judges: JudgeComparison | None) -> Iterator[Table]:
    """Two tables; none if no metric has two judges."""
    if judges is None:
        return
    numbers = {judge: str(n) for n, judge in enumerate(dict.fromkeys(means.judge for means in judges.means), 1)}
    columns = (Column("metric"), Column("judge", True), *(Column(name, True) for name in judges.systems))
    rows = [
        Row((means.metric, numbers[means.judge], *(means.shown.text(mean) for mean in means.means.values())))
        for means in judges.means
    ]
    legend = tuple(f"{number}: {judge}" for judge, number in numbers.items())
    if EMBEDDED in numbers:
        legend += (f"{EMBEDDED}: by the metric of the same name that ends in [{EMBEDDED}], which is another one",)
    yield Table("The systems, by judge", columns, tuple(rows), legend)
    heads = (("metric", False), ("judges", False), ("systems", True), ("rank", True), ("replies", True), ("rank", True))
    rows = [
        Row((
            pair.metric, " and ".join(numbers[judge] for judge in pair.judges), str(pair.systems),
            _rank(pair.rank_systems), str(pair.replies), _rank(pair.rank_replies),
        ))
        for pair in judges.pairs
    ]  # fmt: skip
    yield Table("How alike two judges rank them", tuple(Column(*head) for head in heads), tuple(rows), (_RANKS,))


def _rank(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
