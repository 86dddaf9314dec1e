"""What a report says, as plain tables: the terminal, Markdown and the page each draw the same ones in their own way.

Cells hold texts as they came; whoever draws them makes them inert.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from turnmark.evaluation.judging.judge import with_snapshots
from turnmark.evaluation.records import Metrics, MetricSummary, Summary
from turnmark.evaluation.scores.metric_info import PLAIN

RowKind = Literal["plain", "group", "ours", "below", "dim"]
MarkKind = Literal["ours", "plain", "better", "worse", "unsure"]

_BASELINES = ("[lead]", "[always-unknown]", "[majority]", "[random]")
_TAGS = re.compile(r"\[[^\]]*\]")


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    number: bool = False
    over: str = field(default="", kw_only=True)
    """A heading that it shares with its neighbours."""

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

    `dim` is one that may not be compared with ours.

    Attributes:
        full: what the first cell is called where the row stands alone, in a file; empty: as it is.
        counts: the samples of each cell's figure, where the figures of a row have several; empty: they have not.
        counting: it shows the counts of rows above it, each of which has its own.
    """

    cells: tuple[str, ...]
    kind: RowKind = "plain"
    mark: Mark | None = None
    full: str = field(default="", kw_only=True)
    counts: tuple[str, ...] = field(default=(), kw_only=True)
    counting: bool = field(default=False, kw_only=True)


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
    groups: str = field(default="", kw_only=True)
    """What its rows of the kind `group` name, such as `dimension`."""


# --- lines -----------------------------------------------------------------------------------------------------------


def warnings(summary: Summary) -> tuple[str, ...]:
    """What a report says before its figures: what those of demo data are worth, that a judge grades itself."""
    demo = summary.notes[:1] if summary.data.demo else ()
    return tuple(dict.fromkeys((*demo, *summary.warnings)))


def notes(summary: Summary) -> tuple[str, ...]:
    """All that is noted, apart from `warnings`."""
    first = warnings(summary)
    return tuple(note for note in summary.notes if note not in first)


def data_name(summary: Summary) -> str:
    """What the run was made on."""
    return "demo data" if summary.data.demo else summary.data.name


def headline(summary: Summary) -> str:
    """One line: what was run on what, how many samples, and what became of them."""
    singular, plural = ("query", "queries") if summary.task == "retrieval" else ("sample", "samples")
    counts = [f"{summary.n} {singular if summary.n == 1 else plural}"]
    counts += [f"{summary.failed} failed"] if summary.failed else []
    counts += [f"{summary.skipped} skipped"] if summary.skipped else []
    setting = f" ({summary.setting})" if summary.setting else ""
    return f"{summary.benchmark} {summary.task}{setting} on {data_name(summary)}: {', '.join(counts)}"


def specs(summary: Summary) -> str:
    """What was measured: `retriever hybrid | query assistant`; empty where nothing is known."""
    return " | ".join(f"{role} {spec}" for role, spec in summary.specs.items() if spec)


# --- figures ---------------------------------------------------------------------------------------------------------


def dot_of(metric: MetricSummary | None) -> Mark | None:
    """The dot of a mean; None without a mean, or if values are not fractions."""
    if metric is None or metric.mean is None or not metric.shown.fraction:
        return None
    return Mark(metric.mean, None if metric.clusters == 1 else metric.ci95)


def mean_text(metric: MetricSummary | None) -> str:
    """The mean of a metric."""
    return metric.shown.text(metric.mean) if metric else "-"


def interval_text(metric: MetricSummary | None) -> str:
    """The 95% interval of a metric; one conversation has no interval."""
    if metric is None or metric.ci95 is None:
        return "-"
    if metric.clusters == 1:
        return "no interval"
    return "-".join(map(metric.shown.bound, metric.ci95))


def describe_repeats(metric: MetricSummary) -> str:
    """The figure of each repeat and their spread, in words; empty if tasks were answered once."""
    if metric.spread is None:
        return ""
    figures = ", ".join(metric.shown.text(value) for value in metric.repeats)
    return f"over {len(metric.repeats)} repeats: {figures} (standard deviation {metric.shown.text(metric.spread)})"


def chosen(metrics: Metrics, limit: int) -> list[str]:
    """The headline metrics, at most so many, by their rank; those without a value last.

    A variant (`judge_score[embedded]`) is chosen only if the metric itself was not measured.
    """
    ranks = {name: metric.shown.headline for name, metric in metrics.items() if not _is_variant(name, metrics)}
    ranked = sorted((rank, name) for name, rank in ranks.items() if rank is not None)
    listed = [name for _, name in ranked] or [name for name in metrics if "[" not in name] or list(metrics)
    return sorted(listed, key=lambda name: metrics[name].n == 0)[:limit]


def _is_variant(name: str, metrics: Metrics) -> bool:
    base = name.partition("[")[0]
    return base != name and base in metrics


def untagged(name: str) -> str:
    """A metric's name without its brackets: `rl_f.idk` of `rl_f[embedded].idk[embedded]`."""
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
        spread = [metric.shown.text(metric.spread)] * repeated
        cells = (label, mean_text(metric), interval_text(metric), *counts, *spread)
        rows.append(Row(cells, "below" if below else "plain", dot_of(metric), full=name))
    return Table("Means", columns, tuple(rows))


def breakdowns(summary: Summary, names: Sequence[str]) -> Table:
    """The metrics named, with their intervals, by every dimension and value; marked where it is one metric."""
    parts = [metrics for values in summary.breakdowns.values() for metrics in values.values()]
    counts = [[metrics[name].n if name in metrics else 0 for name in names] for metrics in parts]
    apart = differ(counts)
    columns = list(broken_down(names, apart))
    rows: list[Row] = []
    for dimension, values in summary.breakdowns.items() if names else ():
        rows.append(Row((dimension, *[""] * (len(columns) - 1)), "group"))
        for value, metrics in values.items():
            found = [metrics.get(name) for name in names]
            figures = [(mean_text(metric), interval_text(metric)) for metric in found]
            cells = with_counts(figures, [metric.n if metric else 0 for metric in found], apart)
            rows.append(Row((value, *cells), "below", dot_of(found[0]) if len(names) == 1 else None))
    return Table("By what is asked", tuple(columns), tuple(rows), groups="dimension")


def differ(counts: Iterable[Sequence[int]]) -> bool:
    """Whether some row's figures are over different numbers of samples; 0: there is no figure."""
    return any(len(set(row) - {0}) > 1 for row in counts)


def broken_down(names: Sequence[str], apart: bool) -> Iterator[Column]:
    """The columns of a table of breakdowns: one count for all metrics or, where they differ, one for each."""
    yield Column("")
    yield from [] if apart else [Column("n", True)]
    for name in names:
        yield from (Column(name, True), Column("95% interval", True), *[Column("n", True)] * apart)


def with_counts(figures: Sequence[tuple[str, ...]], counts: Sequence[int], apart: bool) -> Iterator[str]:
    """The cells of such a row, behind its name."""
    yield from [] if apart else [str(max(counts, default=0))]
    for cells, count in zip(figures, counts, strict=True):
        yield from (*cells, *[str(count)] * apart)


def judges(summary: Summary) -> Table:
    """Who judged each metric, and how the judges agree."""
    heads = ("mean", "n", "failed", "metric's n")
    columns = (
        *map(Column, ("metric", "judge")),
        *(Column(name, True) for name in heads),
        *map(Column, ("rule", "agreement")),
    )
    rows: list[Row] = []
    for name, panel in summary.judging.items():
        alpha = "-" if panel.alpha is None else f"alpha {panel.alpha:.2f} over {panel.n} ({panel.level})"
        metric = summary.metrics.get(name)
        shown = metric.shown if metric else PLAIN
        for index, judge in enumerate(panel.judges):
            counts = (
                str(panel.judged.get(judge, "-")),
                str(panel.failed.get(judge, 0)),
                str(metric.n if metric else 0),
            )
            once = ("", "") if index else (panel.rule, alpha)
            said = (with_snapshots(judge, panel.answered), shown.text(panel.means.get(judge)))
            rows.append(Row((name, *said, *counts, *once)))
    return Table("Judges", columns, tuple(rows))


def usage(summary: Summary) -> Table:
    """Calls, tokens and cost of every role, and the seconds beneath."""
    columns = (Column("role"), *(Column(n, True) for n in ("calls", "prompt tokens", "completion tokens", "cost")))
    rows = tuple(Row((role, *_spent(spent))) for role, spent in summary.usage.items())
    unpriced = [role for role, spent in summary.usage.items() if spent.get("cost") is None]
    lines = [f"no price is known for: {', '.join(unpriced)}"] if unpriced else []
    seconds = ", ".join(f"{part} {value:.1f}" for part, value in summary.seconds.items())
    lines += [f"seconds: {seconds}"] if seconds else []
    return Table("Used", columns, rows, tuple(lines))


def _spent(spent: Mapping[str, float | None]) -> tuple[str, ...]:
    counts = (spent.get(key) for key in ("calls", "prompt_tokens", "completion_tokens"))
    cost = spent.get("cost")
    return (*("-" if count is None else f"{count:,.0f}" for count in counts), "-" if cost is None else f"{cost:.4f}")
