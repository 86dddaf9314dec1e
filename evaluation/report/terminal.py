"""A summary on the terminal: headline, breakdowns, and the published figures beside ours. Works at 80 columns.

Every text of the data is shown as text: no markup, no control characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from corpora.console import shown as inert
from evaluation.records import Metrics, MetricSummary, PublishedRow, Summary

_CHOSEN = ("recall@5", "ndcg@5")
_LEGEND = {
    "documents": "other passages were searched, or the run does not say which",
    "domains": "it is over other domains",
    "subset": "we have no figures for that subset",
    "n": "it counts another number of queries",
    "query": "it was searched for in another way, or the run does not say how",
    "metric": "something else computed it",
}


def plain(text: object, style: str = "") -> Text:
    """Any value as one line of inert text: no markup, no escape sequences, no control characters."""
    return Text(inert(text), style=style)


def show(summary: Summary, run: Path, console: Console) -> None:
    """Print a summary.

    Args:
        run: the folder it was written to.
    """
    data = "demo data" if summary.data.demo else summary.data.name
    specs = " | ".join(f"{role} {spec}" for role, spec in summary.specs.items() if spec)
    for note in summary.notes[:1] if summary.data.demo else ():
        console.print(plain(note, "bold"))
    counted = f"{summary.n} queries" + (f", {summary.failed} failed" if summary.failed else "")
    console.print(plain(f"{summary.benchmark} {summary.task} on {data}: {counted}", "bold"))
    if specs:
        console.print(plain(specs))
    console.print(_headline(summary.metrics))
    shown = [name for name in _CHOSEN if name in summary.metrics] or list(summary.metrics)[:2]
    if summary.breakdowns and shown:
        console.print(_breakdowns(summary, shown))
    _published(summary, shown, console)
    for note in summary.notes[1:] if summary.data.demo else summary.notes:
        console.print(plain(f"- {note}"))
    console.print(plain(f"run: {run}"), soft_wrap=True)


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)


def _number(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _interval(metric: MetricSummary) -> str:
    return "-" if metric.ci95 is None else f"{metric.ci95[0]:.3f}-{metric.ci95[1]:.3f}"


def _headline(metrics: Metrics) -> Table:
    table = _table("Means")
    for name in ("metric", "mean", "95% interval", "n", "failed", "n/a"):
        table.add_column(name, justify="left" if name == "metric" else "right", overflow="fold")
    for name, metric in metrics.items():
        counts = (str(metric.n), str(metric.failed), str(metric.not_applicable))
        table.add_row(plain(name), _number(metric.mean), _interval(metric), *counts)
    return table


def _breakdowns(summary: Summary, shown: Sequence[str]) -> Table:
    table = _table("By what is asked")
    table.add_column("", overflow="fold")
    table.add_column("n", justify="right")
    for name in shown:
        table.add_column(plain(name), justify="right")
        table.add_column("95% interval", justify="right")
    for dimension, values in summary.breakdowns.items():
        table.add_row(plain(dimension, "bold"))
        for value, metrics in values.items():
            cells: list[str] = []
            for name in shown:
                metric = metrics.get(name)
                cells += ["-", "-"] if metric is None else [_number(metric.mean), _interval(metric)]
            n = max((metrics[name].n for name in shown if name in metrics), default=0)
            table.add_row(plain(f"  {value}"), str(n), *cells)
        table.add_section()
    return table


def _ours(summary: Summary, where: str) -> Mapping[str, MetricSummary]:
    dimension, _, value = where.partition("=")
    return summary.metrics if where == "all" else summary.breakdowns.get(dimension, {}).get(value, {})


def _published(summary: Summary, shown: Sequence[str], console: Console) -> None:
    """Ours and theirs, a group for each slice that has both; rows made with other queries are counted, not listed."""
    asked = {row.query for row in summary.published}
    mode = summary.specs.get("query")
    rows = [row for row in summary.published if row.query == mode or mode not in asked]
    groups: dict[str, list[PublishedRow]] = {}
    for row in rows:
        groups.setdefault(row.slice or "", []).append(row)
    elsewhere = groups.pop("", [])
    if groups:
        aspects = list(dict.fromkeys(aspect for group in groups.values() for row in group for aspect in row.differs))
        console.print(_comparison(summary, groups, shown, aspects))
        for number, aspect in enumerate(aspects, 1):
            console.print(plain(f"  ({number}) {aspect}: {_LEGEND.get(aspect, aspect)}"))
    hidden = len(summary.published) - len(rows) + len(elsewhere)
    if hidden:
        console.print(plain(f"  {hidden} published rows over other domains, subsets or queries are in summary.json"))
    if not summary.published:
        console.print(plain("No published figures are known for this benchmark and task."))


def _comparison(
    summary: Summary, groups: Mapping[str, Sequence[PublishedRow]], shown: Sequence[str], aspects: Sequence[str]
) -> Table:
    table = _table("Beside published figures")
    table.box, table.padding = None, (0, 2, 0, 0)
    for name in ("system", "source", "query"):
        table.add_column(name, overflow="fold")
    for name in ("n", *shown):
        table.add_column(plain(name), justify="right")
    table.add_column("comparable", overflow="fold")
    for where, rows in groups.items():
        ours = _ours(summary, where)
        figures = [_number(ours[name].mean if name in ours else None) for name in shown]
        n = max((metric.n for metric in ours.values()), default=0)
        title = "all domains" if where == "all" else where.removeprefix("domain=")
        query = summary.specs.get("query", "not said")
        table.add_row(plain("this run", "bold"), plain(title, "bold"), plain(query), str(n), *figures, "")
        for row in rows:
            cells = [f"{row.metrics[name]:g}" if name in row.metrics else "-" for name in shown]
            numbers = ",".join(str(aspects.index(aspect) + 1) for aspect in row.differs)
            source = row.source.split(",")[0].removeprefix("MTRAG ")
            verdict = "yes" if row.comparable else f"no ({numbers})"
            table.add_row(plain(row.system), plain(source), plain(row.query), str(row.n), *cells, verdict)
        if where != list(groups)[-1]:
            table.add_row()
    return table
