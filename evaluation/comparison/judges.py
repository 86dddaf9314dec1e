"""Judges set against each other over the runs of a comparison: do they rank the systems alike, and the replies?

InsCoQA's Table 4 asks this of two judges: their figures differ, and whether the order of the systems does is what
matters. Every judge that a run was ever scored with takes part, since `judgements.jsonl` keeps what each of them said:
runs judged by several, runs of one folder judged one after the other, and runs of the same replies judged apart. One
model that was asked with other prompts is another judge.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from pydantic import Field

from turnmark.corpora.types import Record
from turnmark.evaluation.comparison.loading import Run
from turnmark.evaluation.journal import read_records
from turnmark.evaluation.judging.judgements import FILE, Judgement
from turnmark.evaluation.judging.rubrics import EMBEDDED
from turnmark.evaluation.metrics.agreement import spearman
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.stored import samples
from turnmark.evaluation.report.tables import Column, Row, Table

VARIANT = f"[{EMBEDDED}]"
_PROMPTS, _DIGITS = " (prompts ", 8


SameReplies = Mapping[tuple[str, int], Sequence[int]]
"""Task id and repeat -> the repeats whose reply is the same."""


class JudgeMeans(Record):
    """One judge's means of one metric."""

    metric: str
    judge: str
    means: dict[str, float | None] = Field(
        description="system -> mean over what this judge gave a value; None: nothing"
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


class Judges(Record):
    """Every judge of the runs that are compared."""

    systems: tuple[str, ...] = Field(description="letters of the runs that have the same replies: `A`, `B=C`")
    means: tuple[JudgeMeans, ...]
    pairs: tuple[JudgePair, ...]


def judges_of(runs: Sequence[Run], ids: Sequence[str]) -> Judges | None:
    """The judges of some runs, set against each other; None if no metric has two.

    Args:
        ids: the samples that count.
    """
    import pandas as pd

    replies = {run.letter: _replies(run) for run in runs if (run.path / FILE).is_file()}
    letters: dict[str, list[str]] = {}
    for letter, (digest, _) in replies.items():
        letters.setdefault(digest, []).append(letter)
    names = {letter: "=".join(letters[digest]) for letter, (digest, _) in replies.items()}
    rows = [
        row for run in runs if run.letter in replies for row in _rows(run, names[run.letter], replies[run.letter][1])
    ]
    key = ["metric", "judge", "prompts", "system", "id", "repeat"]
    table = pd.DataFrame(rows, columns=[*key, "value"])
    # Of one reply the last judgement counts. One model that was asked with other prompts is another judge.
    table = table[table["id"].isin(ids)].drop_duplicates(
        ["metric", "judge", "prompts", "system", "id", "repeat"], keep="last"
    )
    several = table.groupby(["metric", "judge"])["prompts"].transform("nunique") > 1
    table.loc[several, "judge"] += _PROMPTS + table["prompts"].str[:_DIGITS] + ")"
    ordered = _in_order(runs, set(zip(table["metric"], table["judge"], strict=True)))
    pairs = [(first, second) for first, second in combinations(ordered, 2) if first[0] == second[0]]
    if not pairs:
        return None
    systems = tuple(dict.fromkeys(names.values()))
    means = table.groupby(["metric", "judge", "system"])["value"].mean().to_dict()
    compared = {metric for (metric, _), _ in pairs}
    return Judges(
        systems=systems,
        means=tuple(
            JudgeMeans(metric=metric, judge=judge, means={name: means.get((metric, judge, name)) for name in systems})
            for metric, judge in ordered
            if metric in compared
        ),
        pairs=tuple(_pair(table, metric, (first, second)) for (metric, first), (_, second) in pairs),
    )


def _rows(run: Run, system: str, same_replies: SameReplies) -> Iterator[tuple[object, ...]]:
    """What judges said of a run; what they said of one reply holds for all repeats that are alike."""
    for judgement in read_records(run.path / FILE, Judgement):
        if judgement.status != "scored" or judgement.value is None:
            continue
        for metric, value in ((judgement.measure, judgement.value), *judgement.also.items()):
            for repeat in same_replies.get((judgement.id, judgement.repeat), (judgement.repeat,)):
                if value is not None:
                    name = metric.removesuffix(VARIANT)
                    yield name, judgement.judge, judgement.prompts, system, judgement.id, repeat, value


def _in_order(runs: Sequence[Run], names: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Metrics in the order of the reports, judges as they were named; the file has them as they came to answer."""
    metrics = list(dict.fromkeys(name.removesuffix(VARIANT) for run in runs for name in run.summary.metrics))
    panels = [panel for run in runs for panel in run.summary.judging.values()]
    judges = list(dict.fromkeys(judge for panel in panels for judge in panel.judges))

    def position(name: str, order: Sequence[str]) -> tuple[int, str]:
        bare = name if name in order else name.partition(_PROMPTS)[0]
        return (order.index(bare) if bare in order else len(order), name)

    return sorted(names, key=lambda pair: (position(pair[0], metrics), position(pair[1], judges)))


def _replies(run: Run) -> tuple[str, SameReplies]:
    """A hash of all that a run replied: the same replies are one system, whoever judged them. And the repeats that
    are alike, of which only one was judged."""
    rows: list[str] = []
    repeats_of: dict[tuple[str, str], list[int]] = {}
    for sample in samples(run.path):
        reply = json.dumps([sample.id, sample.status, sample.prediction, [step["step"] for step in sample.procedure]])
        rows.append(f"{sample.repeat} {reply}")
        passages = json.dumps([[context.document_id, context.text] for context in sample.contexts])
        repeats_of.setdefault((sample.id, reply + passages), []).append(sample.repeat)
    digest = hashlib.sha256("\n".join(sorted(rows)).encode())
    return digest.hexdigest(), {
        (name, repeat): repeats for (name, _), repeats in repeats_of.items() for repeat in repeats
    }


def _pair(table: Any, metric: str, judges: tuple[str, str]) -> JudgePair:
    mine = table[table["metric"] == metric]
    replies = mine.pivot(index=["system", "id", "repeat"], columns="judge", values="value")[list(judges)].dropna()
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


def judge_tables(judges: Judges | None) -> Iterator[Table]:
    """None if no metric has two judges."""
    if judges is None:
        return
    numbers = {judge: str(n) for n, judge in enumerate(dict.fromkeys(means.judge for means in judges.means), 1)}
    columns = (Column("metric"), Column("judge", True), *(Column(name, True) for name in judges.systems))
    rows, previous_metric = [], ""
    for means in judges.means:
        figures = (tables.figure(means.metric, means.means.get(name)) for name in judges.systems)
        rows.append(Row(("" if means.metric == previous_metric else means.metric, numbers[means.judge], *figures)))
        previous_metric = means.metric
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
