"""Several runs side by side: what a report of more than one begins with."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.records import Summary
from evaluation.report import tables
from evaluation.report.mtrag_answers import settings_together
from evaluation.report.mtrag_tables import runs_together
from evaluation.report.stored import Stored
from evaluation.report.tables import Column, Row, Table


def side_by_side(stored: Sequence[Stored]) -> tuple[Table, ...]:
    """The runs of these folders, a row each, where there are several or some were left out.

    Retrieval runs of MTRAG have a second table, with all their figures, and runs of several of its settings another.
    """
    runs = named(stored)
    left_out = [f"{name}: no figures: {why}" for folder in stored for name, why in folder.left_out.items()]
    if len(runs) == 1 and not left_out:
        return ()
    columns = [Column(name) for name in ("run", "benchmark", "task", "setting", "data")]
    columns += [Column("n", True), Column("failed", True), Column("means (95% interval)")]
    rows = []
    for name, summary in runs:
        about = (name, summary.benchmark, summary.task, summary.setting or "-", tables.data_name(summary))
        rows.append(Row((*about, str(summary.n), str(summary.failed), _means(summary))))
    more = (runs_together(runs), settings_together(runs))
    return (Table("All runs", tuple(columns), tuple(rows), tuple(left_out)), *(table for table in more if table))


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
    metrics = {name: summary.metrics[name] for name in tables.chosen(summary.metrics, 3)}
    return "; ".join(f"{n} {tables.mean(n, metric)} ({tables.interval(n, metric)})" for n, metric in metrics.items())
