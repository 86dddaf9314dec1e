"""Make the plain tables of a report, which terminal, Markdown and HTML page render.

Cells contain the texts of the data unescaped; the renderer escapes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from turnmark.evaluation.metric_style import DEFAULT_STYLE
from turnmark.evaluation.model_names import with_snapshots
from turnmark.evaluation.records import Metrics, MetricSummary, Summary
from turnmark.evaluation.report.metric_meanings import metric_meaning
from turnmark.evaluation.scores.cluster_statistics import MIN_BOOTSTRAP_CLUSTERS, MIN_CLUSTERS
from turnmark.evaluation.tasks.declarations import name_clusters

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
    """Heading that the column shares with its neighbors."""

    @property
    def title(self) -> str:
        """Shared heading and name, on one line."""
        return f"{self.over} {self.name}".strip()


def make_columns(names: Iterable[str], numbers: Iterable[str] = ()) -> tuple[Column, ...]:
    """Return columns of text with these names, then columns of numbers."""
    return (*map(Column, names), *(Column(name, True) for name in numbers))


@dataclass(frozen=True)
class Mark:
    """A dot of a page, with its interval; `better`, `worse` and `unsure` are kinds of differences."""

    value: float
    interval: tuple[float, float] | None = None
    kind: MarkKind = "plain"


@dataclass(frozen=True)
class ReportRow:
    """A row of a table.

    Attributes:
        kind: `group` names the rows after it; `below` is a part or variant of a row above; `ours` shows our run;
            `dim` shows published values that are not comparable with ours.
        full: text of the first cell in a file, where each row is read alone; if empty, the cell itself.
    """

    cells: tuple[str, ...]
    kind: RowKind = "plain"
    mark: Mark | None = None
    full: str = field(default="", kw_only=True)


def make_group(name: str, columns: Sequence[Column], full: str = "") -> ReportRow:
    """Return a row that names the rows after it, in a table with these columns."""
    return ReportRow((name, *[""] * (len(columns) - 1)), "group", full=full)


@dataclass(frozen=True)
class PartValue:
    """A metric over a part of the samples: its text, interval, number of samples (0: not measured) and dot."""

    text: str = "-"
    interval: str = "-"
    n: int = 0
    mark: Mark | None = None


@dataclass(frozen=True)
class Table:
    """A table, and the lines beneath it, which are shown even if the table has no rows."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[ReportRow, ...]
    lines: tuple[str, ...] = ()
    tight: bool = field(default=False, kw_only=True)
    """True: many columns, which use the full width of a terminal."""
    narrow: bool = field(default=False, kw_only=True)
    """True: only one space between columns."""
    folded: bool = field(default=False, kw_only=True)
    """True: a page shows the table only after a click."""
    groups: str = field(default="", kw_only=True)
    """The kind of name in the rows of kind `group`, such as `dimension`."""


M = TypeVar("M")


# --- lines -----------------------------------------------------------------------------------------------------------


def warnings(summary: Summary) -> tuple[str, ...]:
    """Return the lines before a report's values: the data is a demo, a judge grades itself."""
    demo = summary.notes[:1] if summary.data.demo else ()
    return tuple(dict.fromkeys((*demo, *summary.warnings)))


def notes(summary: Summary) -> tuple[str, ...]:
    """Return all notes that are not in `warnings`."""
    first = warnings(summary)
    return tuple(note for note in summary.notes if note not in first)


def data_name(summary: Summary) -> str:
    """Return the name of the run's data, and which part of it ran."""
    name = "demo data" if summary.data.demo else summary.data.name
    return f"a part of {name} ({summary.selection})" if summary.selection else name


def headline(summary: Summary) -> str:
    """Return one line with benchmark, task, data and the number of samples, failed and skipped ones."""
    singular, plural = ("query", "queries") if summary.task == "retrieval" else ("sample", "samples")
    counts = [f"{summary.n} {singular if summary.n == 1 else plural}"]
    if summary.failed:
        counts.append(f"{summary.failed} failed")
    if summary.skipped:
        counts.append(f"{summary.skipped} skipped")
    setting = f" ({summary.setting})" if summary.setting else ""
    return f"{summary.benchmark} {summary.task}{setting} on {data_name(summary)}: {', '.join(counts)}"


def specs(summary: Summary) -> str:
    """Return the specs of a run, `retriever hybrid | query assistant`; may be empty."""
    return " | ".join(f"{role} {spec}" for role, spec in summary.specs.items() if spec)


# --- values as text --------------------------------------------------------------------------------------------------


def dot_of(metric: MetricSummary | None) -> Mark | None:
    """Return the dot of a mean, or None if there is no mean or if the values are not fractions."""
    if metric is None or metric.mean is None or not metric.shown.fraction:
        return None
    return Mark(metric.mean, metric.ci95 if _has_interval(metric) else None)


def mean_text(metric: MetricSummary | None) -> str:
    """Format the mean of a metric."""
    return metric.shown.text(metric.mean) if metric else "-"


def interval_text(metric: MetricSummary | None) -> str:
    """Format the 95% interval of a metric; too few clusters have no interval."""
    if metric is None or metric.ci95 is None:
        return "-"
    return "-".join(map(metric.shown.bound, metric.ci95)) if _has_interval(metric) else "no interval"


def _has_interval(metric: MetricSummary) -> bool:
    return metric.clusters is None or metric.clusters >= MIN_CLUSTERS


def describe_repeats(metric: MetricSummary) -> str:
    """Return the value of each repeat and their spread, in words; empty if tasks were answered once."""
    if metric.spread is None:
        return ""
    values = ", ".join(metric.shown.text(value) for value in metric.repeats)
    return f"over {len(metric.repeats)} repeats: {values} (standard deviation {metric.shown.text(metric.spread)})"


def choose_headline(metrics: Metrics, limit: int) -> list[str]:
    """Return the headline metrics by rank, at most `limit`; those without a value last.

    A variant (`judge_score[embedded]`) is included only if it has a value and the metric itself has none.
    """
    ranks = {name: metric.shown.headline for name, metric in metrics.items() if not _is_variant(name, metrics)}
    names = [name for _, name in sorted((rank, name) for name, rank in ranks.items() if rank is not None)]
    if not names:
        names = [name for name in metrics if "[" not in name] or list(metrics)
    return sorted(names, key=lambda name: metrics[name].n == 0)[:limit]


def _is_variant(name: str, metrics: Metrics) -> bool:
    base = name.partition("[")[0]
    return base != name and base in metrics and (metrics[base].n > 0 or metrics[name].n == 0)


def strip_tags(name: str) -> str:
    """Remove the brackets from a metric's name: `rl_f[embedded].idk[embedded]` becomes `rl_f.idk`."""
    return _TAGS.sub("", name)


def arrange_variants(names: Iterable[str]) -> Iterator[tuple[str, str, bool]]:
    """Yield (name, label, below) of every metric, each variant right after its metric.

    `rouge_l.word[lead]` becomes `[lead] baseline` below `rouge_l.word`; without that metric it keeps its full name.
    """
    names = list(names)
    for name in names:
        base = name.partition("[")[0]
        if base != name and base in names:
            continue
        yield name, name, False
        for variant in names:
            if variant.startswith(f"{name}["):
                label = variant.removeprefix(name)
                if label.endswith(_BASELINES):
                    label += " baseline"
                yield variant, label, True


# --- tables ----------------------------------------------------------------------------------------------------------


def means(summary: Summary) -> Table:
    """Return a table of every metric with its mean, interval and counts."""
    repeated = any(metric.repeats for metric in summary.metrics.values())
    heads = ["mean", "95% interval", "n", "failed", "n/a", *["sd of repeats"] * repeated]
    rows = []
    for name, label, below in arrange_variants(summary.metrics):
        metric = summary.metrics[name]
        cells = [label, mean_text(metric), interval_text(metric)]
        cells += [str(metric.n), str(metric.failed), str(metric.not_applicable)]
        cells += [metric.shown.text(metric.spread)] * repeated
        rows.append(ReportRow(tuple(cells), "below" if below else "plain", dot_of(metric), full=name))
    return Table("Means", make_columns(["metric"], heads), tuple(rows), tuple(_clusters_line(summary)))


def meanings(summary: Summary) -> Table:
    """Return a table with the meaning of each metric that has one."""
    known = {name: metric_meaning(name) for name in summary.metrics}
    rows = tuple(ReportRow((name, meaning)) for name, meaning in known.items() if meaning)
    return Table("What the metrics mean", make_columns(["metric", "meaning"]), rows)


def _clusters_line(summary: Summary) -> Iterator[str]:
    counts = sorted({metric.clusters for metric in summary.metrics.values() if metric.clusters})
    if not counts or counts[-1] < MIN_CLUSTERS:
        return
    number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    method = "bootstrap" if counts[0] >= MIN_BOOTSTRAP_CLUSTERS else "jackknife"
    if counts[0] < MIN_BOOTSTRAP_CLUSTERS <= counts[-1]:
        method = f"bootstrap, below {MIN_BOOTSTRAP_CLUSTERS} jackknife"
    yield f"intervals over {number} {name_clusters(summary.benchmark, counts[-1])}: {method}"
    wide = {name: metric.ci95 for name, metric in summary.metrics.items() if metric.ci95 and _has_interval(metric)}
    same = [name for name, bounds in wide.items() if bounds[0] == bounds[1]]
    if same:
        yield f"an interval without a width: all samples have the same value in {', '.join(same)}"


def breakdowns(summary: Summary, names: Sequence[str]) -> Table:
    """Return a table of some metrics of a run with their intervals, by every dimension and value."""

    def part_value(metric: MetricSummary | None) -> PartValue:
        return PartValue(mean_text(metric), interval_text(metric), metric.n if metric else 0, dot_of(metric))

    return break_down("By what is asked", names, summary.breakdowns, part_value)


def each_apart(names: Sequence[str], table: Callable[[Sequence[str]], Table], apart: bool) -> list[Table]:
    """Return the table of some metrics or, if `apart`, a table of each, whose title names it."""
    if not apart:
        return [table(names)]
    return [replace(of_metric, title=f"{of_metric.title}: {name}") for name in names for of_metric in [table([name])]]


def break_down(
    title: str,
    names: Sequence[str],
    breakdowns: Mapping[str, Mapping[str, Mapping[str, M]]],
    part_value: Callable[[M | None], PartValue],
    lines: tuple[str, ...] = (),
) -> Table:
    """Return a table of some metrics by every dimension and value; a single metric has dots.

    The numbers of samples are in one column; if those of a row differ, each metric has its own.

    Args:
        names: names of the metrics.
        breakdowns: dimension -> value -> name of a metric -> the metric over the samples with this value.
        part_value: function from such a metric, or None if it was not measured, to its cells.
        lines: lines beneath the table, if it has rows.
    """
    parts = {
        dimension: {value: [part_value(metrics.get(name)) for name in names] for value, metrics in values.items()}
        for dimension, values in breakdowns.items()
    }
    apart = any(len({cell.n for cell in row} - {0}) > 1 for values in parts.values() for row in values.values())
    heads = [] if apart else ["n"]
    for name in names:
        heads += [name, "95% interval", "n"] if apart else [name, "95% interval"]
    columns = make_columns([""], heads)
    rows: list[ReportRow] = []
    for dimension, values in parts.items() if names else ():
        rows.append(make_group(dimension, columns))
        for value, row in values.items():
            cells = [value] if apart else [value, str(max(cell.n for cell in row))]
            for cell in row:
                cells += [cell.text, cell.interval, str(cell.n)] if apart else [cell.text, cell.interval]
            rows.append(ReportRow(tuple(cells), "below", row[0].mark if len(names) == 1 else None))
    return Table(title, columns, tuple(rows), lines if rows else (), groups="dimension")


def judges(summary: Summary) -> Table:
    """Return a table of the judges of each metric, and their agreement."""
    columns = make_columns(["metric", "judge"], ["mean", "n", "failed", "metric's n"])
    columns += make_columns(["rule", "agreement"])
    rows: list[ReportRow] = []
    for name, panel in summary.judging.items():
        alpha = "-" if panel.alpha is None else f"alpha {panel.alpha:.2f} over {panel.n} ({panel.level})"
        metric = summary.metrics.get(name)
        shown = metric.shown if metric else DEFAULT_STYLE
        for index, judge in enumerate(panel.judges):
            counts = map(str, (panel.judged.get(judge, "-"), panel.failed.get(judge, 0), metric.n if metric else 0))
            # The rule and the agreement of the panel are shown only in its first row.
            panel_cells = ("", "") if index else (panel.rule, alpha)
            judge_cells = (with_snapshots(judge, panel.answered), shown.text(panel.means.get(judge)))
            rows.append(ReportRow((name, *judge_cells, *counts, *panel_cells)))
    return Table("Judges", columns, tuple(rows))


def usage(summary: Summary) -> Table:
    """Return a table of calls, tokens and cost of every role; beneath it the seconds."""
    columns = make_columns(["role"], ["calls", "prompt tokens", "completion tokens", "cost ($)"])
    rows = tuple(ReportRow((role, *_usage_cells(spent))) for role, spent in summary.usage.items())
    lines: list[str] = []
    unpriced = [role for role, spent in summary.usage.items() if spent.get("cost") is None]
    if unpriced:
        lines.append(f"no price is known for: {', '.join(unpriced)}")
    seconds = [f"{phase} {value:.1f}" for phase, value in summary.seconds.items()]
    if seconds:
        lines.append(f"seconds: {', '.join(seconds)}")
    return Table("Used", columns, rows, tuple(lines))


def _usage_cells(spent: Mapping[str, float | None]) -> Iterator[str]:
    for key in ("calls", "prompt_tokens", "completion_tokens"):
        count = spent.get(key)
        yield "-" if count is None else f"{count:,.0f}"
    cost = spent.get("cost")
    yield "-" if cost is None else f"{cost:.4f}"
