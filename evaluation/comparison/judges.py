"""Judges set against each other over the runs of a comparison: do they rank the systems alike, and the replies?

InsCoQA's Table 4 asks this of two judges: their figures differ, and whether the order of the systems does is what
matters. Every judge that a run was ever scored with takes part, since `judgements.jsonl` keeps what each of them said:
runs judged by several, runs of one folder judged one after the other, and runs of the same replies judged apart. One
model that was asked with other prompts is another judge.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean

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

Values = dict[tuple[str, int], float]
"""Task id and repeat -> what a judge said."""
SameReplies = Mapping[tuple[str, int], Sequence[int]]
"""Task id and repeat -> the repeats whose reply is the same."""
JudgeAndPrompts = tuple[str, str]
"""A judge, and the hash of the prompts with which it was asked; empty: it has no language model."""
ByJudgeAndPrompts = dict[str, dict[JudgeAndPrompts, Values]]
"""Metric -> judge and prompts -> values."""
ByJudge = dict[str, dict[str, Values]]
"""Metric -> judge -> values. An embedded form stands under the metric whose name it has, its judge being `embedded`."""


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
    """The judges of some runs, set against each other; None where no metric has two.

    Args:
        ids: the samples that count.
    """
    sample_ids = frozenset(ids)
    values_by_replies: dict[str, ByJudgeAndPrompts] = {}
    letters: dict[str, list[str]] = {}
    judged = [run for run in runs if (run.path / FILE).is_file()]
    for run in judged:
        replies, same_replies = _replies(run)
        letters.setdefault(replies, []).append(run.letter)
        _add(
            values_by_replies.setdefault(replies, {}),
            read_records(run.path / FILE, Judgement),
            sample_ids,
            same_replies,
        )
    systems = {"=".join(letters[replies]): by_metric for replies, by_metric in _named(values_by_replies).items()}
    names = _in_order(
        runs,
        {(metric, judge) for by_metric in systems.values() for metric, judges in by_metric.items() for judge in judges},
    )
    pairs = [(first, second) for first, second in combinations(names, 2) if first[0] == second[0]]
    if not pairs:
        return None
    metrics = {metric for (metric, _), _ in pairs}
    return Judges(
        systems=tuple(systems),
        means=tuple(_means(metric, judge, systems) for metric, judge in names if metric in metrics),
        pairs=tuple(_pair(metric, (first, second), systems) for (metric, first), (_, second) in pairs),
    )


def _in_order(runs: Sequence[Run], names: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Metrics in the order of the reports, judges as they were named; the file has them as they came to answer."""
    metrics = list(dict.fromkeys(name.removesuffix(VARIANT) for run in runs for name in run.summary.metrics))
    panels = [panel for run in runs for panel in run.summary.judging.values()]
    judges = list(dict.fromkeys(judge for panel in panels for judge in panel.judges))

    def place(name: str, order: Sequence[str]) -> tuple[int, str]:
        bare = name if name in order else name.partition(_PROMPTS)[0]
        return (order.index(bare) if bare in order else len(order), name)

    return sorted(names, key=lambda pair: (place(pair[0], metrics), place(pair[1], judges)))


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


def _add(
    by_metric: ByJudgeAndPrompts, judgements: Iterator[Judgement], sample_ids: frozenset[str], same_replies: SameReplies
) -> None:
    """Take in what judges said; of one reply the last that each of them did, which holds for all that are alike."""
    for judgement in judgements:
        if judgement.id not in sample_ids or judgement.status != "scored" or judgement.value is None:
            continue
        for metric, value in ((judgement.measure, judgement.value), *judgement.also.items()):
            if value is not None:
                judges = by_metric.setdefault(metric.removesuffix(VARIANT), {})
                values = judges.setdefault((judgement.judge, judgement.prompts), {})
                values |= {
                    (judgement.id, repeat): value
                    for repeat in same_replies.get((judgement.id, judgement.repeat), (judgement.repeat,))
                }


def _named(systems: Mapping[str, ByJudgeAndPrompts]) -> dict[str, ByJudge]:
    """The same with a name for each judge, which tells its prompts where one model was asked with several."""
    pairs = {
        (metric, *judge) for by_metric in systems.values() for metric, judges in by_metric.items() for judge in judges
    }
    times = Counter((metric, judge) for metric, judge, _ in pairs)

    def name(metric: str, judge: str, prompts: str) -> str:
        return f"{judge}{_PROMPTS}{prompts[:_DIGITS]})" if times[metric, judge] > 1 else judge

    return {
        system: {
            metric: {name(metric, *judge): values for judge, values in judges.items()}
            for metric, judges in by_metric.items()
        }
        for system, by_metric in systems.items()
    }


def _means(metric: str, judge: str, systems: Mapping[str, ByJudge]) -> JudgeMeans:
    values = {name: by_metric.get(metric, {}).get(judge, {}) for name, by_metric in systems.items()}
    means = {name: fmean(judge_values.values()) if judge_values else None for name, judge_values in values.items()}
    return JudgeMeans(metric=metric, judge=judge, means=means)


def _pair(metric: str, judges: tuple[str, str], systems: Mapping[str, ByJudge]) -> JudgePair:
    sides: list[tuple[list[float], list[float]]] = []
    for by_metric in systems.values():
        first, second = (by_metric.get(metric, {}).get(judge, {}) for judge in judges)
        keys = [key for key in first if key in second]
        if keys:
            sides.append(([first[key] for key in keys], [second[key] for key in keys]))
    replies = [[value for side in sides for value in side[index]] for index in (0, 1)]
    return JudgePair(
        metric=metric,
        judges=judges,
        systems=len(sides),
        rank_systems=spearman(
            [fmean(left_values) for left_values, _ in sides], [fmean(right_values) for _, right_values in sides]
        ),
        replies=len(replies[0]),
        rank_replies=spearman(replies[0], replies[1]),
    )


_RANKS = (
    "Spearman's rank correlation: over the means of the systems, and over single replies, of what both judged. 1: the "
    "same order. Two systems can only have the same order or the other one."
)


def judge_tables(judges: Judges | None) -> Iterator[Table]:
    """None where no metric has two judges."""
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
