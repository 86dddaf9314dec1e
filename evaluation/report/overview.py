"""Several runs side by side: what a report of more than one begins with."""

from __future__ import annotations

from collections.abc import Sequence

from turnmark.evaluation.records import Summary
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.paper_tables import tables_together
from turnmark.evaluation.report.stored import Stored
from turnmark.evaluation.report.tables import Column, Row, Table

MOST = 3
"""Metrics of a run where not all of them can be shown."""


def side_by_side(stored: Sequence[Stored]) -> tuple[Table, ...]:
    """The runs of these folders, a row each, where there are several or some were left out.

    Runs of the same benchmark and task stand together in the tables of its paper.
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
    every = Table("All runs", tuple(columns), tuple(rows), tuple(left_out))
    whole = pipelines(stored)
    return (*([whole] if whole else []), every, *tables_together(runs))


def pipelines(stored: Sequence[Stored]) -> Table | None:
    """Folders of `eval all` side by side: a row for each part and metric, a column a folder. None without such.

    `turnmark compare` has the differences, paired and tested.
    """
    whole = [folder for folder in stored if folder.several]
    there = dict.fromkeys(run.path.name for folder in whole for run in folder.runs)
    rows: list[Row] = []
    for part in there:
        found = [next((run.summary for run in folder.runs if run.path.name == part), None) for folder in whole]
        means = {name: metric for one in found if one for name, metric in one.metrics.items()}
        for at, metric in enumerate(tables.chosen(means, MOST)):
            cells = (_cell(metric, one) for one in found)
            rows.append(Row((part if not at else "", metric, *cells), "below" if at else "plain"))
    if not rows:
        return None
    columns = (Column("benchmark"), Column("metric"), *(Column(folder.path.name, True) for folder in whole))
    said = [f"{folder.path.name}: {', '.join(_specs(folder))}" for folder in whole]
    if len(whole) > 1:
        said.append(
            "means with 95% intervals, each over its own samples; `turnmark compare` has the paired differences"
        )
    return Table("The benchmarks by pipeline", columns, tuple(rows), tuple(said))


def _cell(metric: str, summary: Summary | None) -> str:
    found = summary.metrics.get(metric) if summary else None
    if found is None or not found.n:
        return "-"
    return f"{tables.mean(metric, found)} ({tables.interval(metric, found)})"


def _specs(folder: Stored) -> list[str]:
    found = {role: spec for run in folder.runs for role, spec in run.summary.specs.items()}
    return [f"{role} {found[role]}" for role in ("retriever", "generator", "judge") if role in found]


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
