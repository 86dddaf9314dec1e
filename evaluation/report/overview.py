"""What a report says, for whoever renders it: of one run its parts in their order, of several the tables they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from turnmark.evaluation.records import Summary
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.paper_tables import paper_tables, tables_together
from turnmark.evaluation.report.stored import Stored, why_not_done
from turnmark.evaluation.report.tables import Column, Row, Table

MOST = 3
"""Metrics of a run where not all of them can be shown."""


@dataclass(frozen=True)
class Document:
    """What there is to say of a run or of a comparison, top to bottom.

    Attributes:
        warnings: what stands before the figures.
        verdict: what stands beneath the title, as weighty as it.
        specs: what was measured, in a line; may be empty.
        reasons: why samples failed or were skipped.
        run: the folder that it is of; None: it is of several.
    """

    title: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    verdict: tuple[str, ...] = ()
    specs: str = ""
    reasons: tuple[str, ...] = ()
    run: Path | None = None


def run_document(summary: Summary, run: Path, breakdown_metrics: int, full: bool = True) -> Document:
    """What there is to say of a run.

    Args:
        run: its folder; its predictions say why samples failed, where they are there.
        breakdown_metrics: how many metrics the breakdowns have room for.
        full: with the breakdowns, and with every table of the paper rather than the first.
    """
    paper = paper_tables([("this run", summary)])
    names = tables.chosen(summary.metrics, breakdown_metrics)
    return Document(
        tables.headline(summary),
        (
            tables.means(summary),
            *(paper if full else paper[:1]),
            *([tables.breakdowns(summary, names)] if full else []),
            tables.usage(summary),
        ),
        tables.notes(summary),
        warnings=tables.warnings(summary),
        specs=tables.specs(summary),
        reasons=tuple(tables.reasons(why_not_done(summary, run))),
        run=run,
    )


def side_by_side(stored: Sequence[Stored]) -> tuple[Table, ...]:
    """The runs of these folders, a row each, where there are several or some were left out.

    Runs of the same benchmark and task stand together in the tables of its paper.
    """
    runs = named(stored)
    left_out = [f"{name}: no figures: {reason}" for folder in stored for name, reason in folder.left_out.items()]
    if len(runs) == 1 and not left_out:
        return ()
    columns = [Column(name) for name in ("run", "benchmark", "task", "setting", "data")]
    columns += [Column("n", True), Column("failed", True), Column("means (95% interval)")]
    rows = []
    for name, summary in runs:
        about = (name, summary.benchmark, summary.task, summary.setting or "-", tables.data_name(summary))
        rows.append(Row((*about, str(summary.n), str(summary.failed), _means(summary))))
    all_runs = Table("All runs", tuple(columns), tuple(rows), tuple(left_out))
    by_pipeline = pipelines(stored)
    return (*([by_pipeline] if by_pipeline else []), all_runs, *tables_together(runs))


def pipelines(stored: Sequence[Stored]) -> Table | None:
    """Folders of `eval all` side by side: a row for each part and metric, a column a folder. None without such.

    `turnmark compare` has the differences, paired and tested.
    """
    folders = [folder for folder in stored if folder.several]
    parts = dict.fromkeys(run.path.name for folder in folders for run in folder.runs)
    rows: list[Row] = []
    for part in parts:
        summaries = [next((run.summary for run in folder.runs if run.path.name == part), None) for folder in folders]
        means = {name: metric for summary in summaries if summary for name, metric in summary.metrics.items()}
        for index, metric in enumerate(tables.chosen(means, MOST)):
            cells = (_cell(metric, summary) for summary in summaries)
            rows.append(Row((part if not index else "", metric, *cells), "below" if index else "plain"))
    if not rows:
        return None
    columns = (Column("benchmark"), Column("metric"), *(Column(folder.path.name, True) for folder in folders))
    lines = [f"{folder.path.name}: {', '.join(_specs(folder))}" for folder in folders]
    if len(folders) > 1:
        lines.append(
            "means with 95% intervals, each over its own samples; `turnmark compare` has the paired differences"
        )
    return Table("The benchmarks by pipeline", columns, tuple(rows), tuple(lines))


def _cell(metric: str, summary: Summary | None) -> str:
    measured = summary.metrics.get(metric) if summary else None
    if measured is None or not measured.n:
        return "-"
    return f"{tables.mean(metric, measured)} ({tables.interval(metric, measured)})"


def _specs(folder: Stored) -> list[str]:
    specs = {role: spec for run in folder.runs for role, spec in run.summary.specs.items()}
    return [f"{role} {specs[role]}" for role in ("retriever", "generator", "judge") if role in specs]


def named(stored: Sequence[Stored]) -> list[tuple[str, Summary]]:
    """Every run of these folders by the name of its folder, and of the folder that holds it beside others."""
    return [
        (f"{folder.path.name}/{run.path.name}" if folder.several else run.path.name, run.summary)
        for folder in stored
        for run in folder.runs
    ]


def warnings(stored: Sequence[Stored]) -> tuple[str, ...]:
    """What the reports of these runs say before their figures, each once."""
    return tuple(
        dict.fromkeys(line for folder in stored for run in folder.runs for line in tables.warnings(run.summary))
    )


def _means(summary: Summary) -> str:
    metrics = {name: summary.metrics[name] for name in tables.chosen(summary.metrics, MOST)}
    return "; ".join(f"{n} {tables.mean(n, metric)} ({tables.interval(n, metric)})" for n, metric in metrics.items())
