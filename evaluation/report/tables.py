"""What a report says, as plain tables: the terminal, Markdown and the page each draw the same ones in their own way.

Cells hold texts as they came; whoever draws them makes them inert.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from turnmark.evaluation.metric_info import metric_info
from turnmark.evaluation.records import Metrics, MetricSummary, Summary
from turnmark.evaluation.report.stored import Tally

RowKind = Literal["plain", "group", "ours", "below", "dim"]
MarkKind = Literal["ours", "plain", "better", "worse", "unsure"]

CHOICE = (
    "recall@5", "ndcg@5", "win_rate", "part_coverage", "task_completion", "judge_score", "rb_llm", "rl_f", "rb_alg",
    "rouge_l.word", "k_precision", "token_recall", "rouge_l.char", "good", "accuracy", "f1", "length_ratio",
    "edit_ratio", "edit_distance", "unknown.f1", "clarify.f1", "idk_rate", "answer_words",
)  # fmt: skip
"""Metrics that stand for a run where not all of them can be shown, the most telling first."""

_BASELINES = ("[lead]", "[always-unknown]", "[majority]", "[random]")
_MOST_REASONS = 8
_TAGS = re.compile(r"\[[^\]]*\]")


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    number: bool = False
    over: str = field(default="", kw_only=True)
    """A heading that it shares with the columns beside it."""

    @property
    def title(self) -> str:
        """Its name beneath that heading, on one line."""
        return f"{self.over} {self.name}".strip()


@dataclass(frozen=True)
class Mark:
    """A figure that a page draws as a dot, and its interval; `better`, `worse` and `unsure` are of differences."""

    value: float
    interval: tuple[float, float] | None = None
    kind: MarkKind = "plain"


@dataclass(frozen=True)
class Row:
    """A row: `group` names the rows after it, `below` is a part or variant of one above, `ours` is a run's.

    `dim` is one that may not be set beside ours.
    """

    cells: tuple[str, ...]
    kind: RowKind = "plain"
    mark: Mark | None = None


@dataclass(frozen=True)
class Table:
    """A table, and what is said beneath it. One without rows is not drawn; what is said still is."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    lines: tuple[str, ...] = ()
    tight: bool = field(default=False, kw_only=True)
    """True: many columns, which need all the room that a terminal has."""
    narrow: bool = field(default=False, kw_only=True)
    """True: so many that one space has to do between them."""
    folded: bool = field(default=False, kw_only=True)
    """True: a page shows it when a reader asks for it."""


# --- lines -----------------------------------------------------------------------------------------------------------


def warnings(summary: Summary) -> tuple[str, ...]:
    """What a report says before its figures: what those of demo data are worth, that a judge grades itself."""
    demo = summary.notes[:1] if summary.data.demo else ()
    return tuple(dict.fromkeys((*demo, *summary.warnings)))


def notes(summary: Summary) -> tuple[str, ...]:
    """All that is noted, apart from `warnings`."""
    first = warnings(summary)
    return tuple(note for note in summary.notes if note not in first)


def noun(summary: Summary, n: int) -> str:
    """What the run counts: `1 query`, `423 samples`."""
    singular, plural = ("query", "queries") if summary.task == "retrieval" else ("sample", "samples")
    return f"{n} {singular if n == 1 else plural}"


def data_name(summary: Summary) -> str:
    """What the run was made on."""
    return "demo data" if summary.data.demo else summary.data.name


def headline(summary: Summary) -> str:
    """One line: what was run on what, how many samples, and what became of them."""
    counts = [noun(summary, summary.n)]
    counts += [f"{summary.failed} failed"] if summary.failed else []
    counts += [f"{summary.skipped} skipped"] if summary.skipped else []
    setting = f" ({summary.setting})" if summary.setting else ""
    return f"{summary.benchmark} {summary.task}{setting} on {data_name(summary)}: {', '.join(counts)}"


def specs(summary: Summary) -> str:
    """What was measured: `retriever hybrid | query assistant`; empty where nothing is known."""
    return " | ".join(f"{role} {spec}" for role, spec in summary.specs.items() if spec)


def reasons(tally: Tally | None) -> Iterator[str]:
    """Why samples failed or were skipped, a line each: `failed: timeout (3), bad_reply (1)`."""
    if tally is None:
        return
    for status, group in (("failed", tally.failures), ("skipped", tally.skipped)):
        if group:
            listed = ", ".join(f"{kind} ({count})" for kind, count in list(group.items())[:_MOST_REASONS])
            others_count = sum(list(group.values())[_MOST_REASONS:])
            yield f"{status}: {listed}" + (f", others ({others_count})" if others_count else "")
    if tally.unreadable:
        yield f"{tally.unreadable} lines of predictions.jsonl cannot be read"


def seconds(summary: Summary) -> str:
    """How long each part took: `seconds: search 26.2, total 27.1`; empty where nothing is known."""
    parts = ", ".join(f"{part} {value:.1f}" for part, value in summary.seconds.items())
    return f"seconds: {parts}" if parts else ""


# --- figures ---------------------------------------------------------------------------------------------------------


def mark(name: str, metric: MetricSummary | None, kind: MarkKind = "plain") -> Mark | None:
    """The dot of a mean; None where there is none, or values are no fractions."""
    if metric is None or metric.mean is None or not metric_info(name).fraction:
        return None
    return Mark(metric.mean, None if metric.clusters == 1 else metric.ci95, kind)


def figure(metric: str, value: float | None) -> str:
    """A value with the digits that suit its metric."""
    return "-" if value is None else f"{value:.{metric_info(metric).digits[0]}f}"


def mean(name: str, metric: MetricSummary | None) -> str:
    """The mean of a metric."""
    return figure(name, metric.mean if metric else None)


def interval(name: str, metric: MetricSummary | None) -> str:
    """The 95% interval of a metric; of one conversation there is none."""
    if metric is None or metric.ci95 is None:
        return "-"
    if metric.clusters == 1:
        return "no interval"
    return "-".join(f"{bound:.{metric_info(name).digits[1]}f}" for bound in metric.ci95)


def describe_repeats(name: str, metric: MetricSummary) -> str:
    """The figure of each repeat and their spread, in words; empty if tasks were answered once."""
    if metric.spread is None:
        return ""
    figures = ", ".join(figure(name, value) for value in metric.repeats)
    return f"over {len(metric.repeats)} repeats: {figures} (standard deviation {figure(name, metric.spread)})"


def chosen(metrics: Metrics, limit: int) -> list[str]:
    """The metrics that stand for all of them, at most so many, in the order of `CHOICE`; those without a value last.

    An embedded form (`judge_score[embedded]`) stands in where the metric itself was not measured, under its own name.
    """
    names = [name if name in metrics else f"{name}[embedded]" for name in CHOICE]
    listed = [name for name in names if name in metrics] or [name for name in metrics if "[" not in name]
    # sorted() is stable: the choice's order holds among those with a value.
    return sorted(listed or list(metrics), key=lambda name: metrics[name].n == 0)[:limit]


def untagged(name: str) -> str:
    """A metric's name without what stands in brackets: `rl_f.idk` of `rl_f[embedded].idk[embedded]`."""
    return _TAGS.sub("", name)


def arranged(names: Iterable[str]) -> list[tuple[str, str, bool]]:
    """(name, label, below) of every metric, variants right under the metric that they are variants of.

    `rouge_l.word[lead]` becomes `[lead] baseline` under `rouge_l.word`; a variant without it keeps its full name.
    """
    names = list(names)
    rows: list[tuple[str, str, bool]] = []
    for name in names:
        base = name.partition("[")[0]
        if base != name and base in names:
            continue
        rows.append((name, name, False))
        for variant in names:
            if variant != name and variant.startswith(f"{name}["):
                label = variant.removeprefix(name)
                rows.append((variant, label + (" baseline" if label.endswith(_BASELINES) else ""), True))
    return rows


# --- tables ----------------------------------------------------------------------------------------------------------


def means(summary: Summary) -> Table:
    """Every metric with its interval and its counts."""
    heads = ["mean", "95% interval", "n", "failed", "n/a"]
    repeated = any(metric.repeats for metric in summary.metrics.values())
    columns = (Column("metric"), *(Column(name, True) for name in (*heads, *["sd of repeats"] * repeated)))
    rows = []
    for name, label, below in arranged(summary.metrics):
        metric = summary.metrics[name]
        counts = (str(metric.n), str(metric.failed), str(metric.not_applicable))
        cells = (label, mean(name, metric), interval(name, metric), *counts, *[figure(name, metric.spread)] * repeated)
        rows.append(Row(cells, "below" if below else "plain", mark(name, metric)))
    return Table("Means", columns, tuple(rows))


def breakdowns(summary: Summary, names: Sequence[str]) -> Table:
    """The metrics named, with their intervals, by every dimension and value; marked where it is one metric."""
    columns = [Column(""), Column("n", True)]
    for name in names:
        columns += [Column(name, True), Column("95% interval", True)]
    rows: list[Row] = []
    for dimension, values in summary.breakdowns.items() if names else ():
        rows.append(Row((dimension, *[""] * (len(columns) - 1)), "group"))
        for value, metrics in values.items():
            cells = [value, str(max((metrics[name].n for name in names if name in metrics), default=0))]
            for name in names:
                cells += [mean(name, metrics.get(name)), interval(name, metrics.get(name))]
            rows.append(Row(tuple(cells), "below", mark(names[0], metrics.get(names[0])) if len(names) == 1 else None))
    return Table("By what is asked", tuple(columns), tuple(rows))


def judges(summary: Summary) -> Table:
    """Who judged each metric, and how the judges agree."""
    columns = (*map(Column, ("metric", "judge")), Column("mean", True), Column("failed", True),
               *map(Column, ("rule", "agreement")))  # fmt: skip
    rows: list[Row] = []
    for name, panel in summary.judging.items():
        alpha = "-" if panel.alpha is None else f"alpha {panel.alpha:.2f} over {panel.n} ({panel.level})"
        for index, judge in enumerate(panel.judges):
            cells = (name, judge, figure(name, panel.means.get(judge)), str(panel.failed.get(judge, 0)))
            rows.append(Row((*cells, "" if index else panel.rule, "" if index else alpha)))
    return Table("Judges", columns, tuple(rows))


def usage(summary: Summary) -> Table:
    """Calls, tokens and cost of every role, and the seconds beneath."""
    columns = (Column("role"), *(Column(n, True) for n in ("calls", "prompt tokens", "completion tokens", "cost")))
    rows = tuple(Row((role, *_spent(spent))) for role, spent in summary.usage.items())
    unpriced = [role for role, spent in summary.usage.items() if spent.get("cost") is None]
    lines = [f"no price is known for: {', '.join(unpriced)}"] if unpriced else []
    lines += [seconds(summary)] if summary.seconds else []
    return Table("Used", columns, rows, tuple(lines))


def _spent(spent: Mapping[str, float | None]) -> tuple[str, ...]:
    counts = (spent.get(key) for key in ("calls", "prompt_tokens", "completion_tokens"))
    cost = spent.get("cost")
    return (*("-" if count is None else f"{count:,.0f}" for count in counts), "-" if cost is None else f"{cost:.4f}")
