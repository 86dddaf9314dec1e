"""Describe runs as sections of a report: one section for each run, and one with the tables that several share.

Terminal, Markdown and HTML render these sections.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from turnmark.core.plural import count_phrase
from turnmark.evaluation.records import Summary
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.finished_runs import RunCollection, StoredRun, distinct_names, why_not_done
from turnmark.evaluation.report.paper_comparison import paper_tables, tables_together
from turnmark.evaluation.report.tables import ReportRow, Table

MAX_METRICS = 3
"""Maximum metrics per run in a table of several runs, and in the breakdowns of a file."""
MAX_METRICS_ON_SCREEN = 2
"""Maximum metrics in breakdowns on a terminal of 80 columns."""


@dataclass(frozen=True)
class ReportSection:
    """A section of a report, about one run, several runs or a comparison.

    Attributes:
        warnings: lines before the tables.
        verdict: lines beneath the title, as prominent as the title.
        specs: what was measured, in one line; may be empty.
        reasons: why samples failed or were skipped.
        run: folder of the run, or None if the section is about several runs.
        name: displayed name of the run; empty if the section is about several runs.
    """

    title: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    verdict: tuple[str, ...] = ()
    specs: str = ""
    reasons: tuple[str, ...] = ()
    run: Path | None = None
    name: str = ""


def describe(
    stored: Sequence[RunCollection], metrics: int = MAX_METRICS, apart: bool = False, explain: bool = False
) -> list[ReportSection]:
    """Return the overview of several runs, if any, then a section for each run; the arguments as in `describe_run`."""
    sections = [
        replace(describe_run(run.summary, run.path, metrics, apart=apart, explain=explain), name=name)
        for name, run in name_runs(stored)
    ]
    return [*filter(None, [overview(stored)]), *sections]


def describe_run(
    summary: Summary,
    run: Path,
    metrics: int = MAX_METRICS,
    full: bool = True,
    apart: bool = False,
    explain: bool = False,
) -> ReportSection:
    """Describe one run.

    Args:
        run: folder of the run; its predictions, if present, tell why samples failed.
        metrics: maximum metrics of the breakdowns.
        full: include breakdowns, judges and every table of the paper; False: only the first table of the paper.
        apart: make a table of breakdowns for each metric that was measured in some part of the samples.
        explain: add what each metric means.
    """
    papers = paper_tables([("this run", summary)])
    shown = [tables.means(summary), *papers[:1]]
    if full:
        names = tables.choose_headline(summary.metrics, metrics)
        if apart:
            parts = [of_part for values in summary.breakdowns.values() for of_part in values.values()]
            names = [name for name in names if any(name in of_part and of_part[name].n for of_part in parts)]
        breakdowns = tables.each_apart(names, partial(tables.breakdowns, summary), apart)
        shown += fold_tables(papers[1:])
        shown += breakdowns[:1]
        shown += fold_tables([*breakdowns[1:], tables.judges(summary)])
    shown += fold_tables([tables.usage(summary), *([tables.meanings(summary)] if explain else [])])
    return ReportSection(
        tables.headline(summary),
        tuple(shown),
        tables.notes(summary),
        warnings=tables.warnings(summary),
        specs=tables.specs(summary),
        reasons=tuple(why_not_done(run)),
        run=run,
    )


def fold_tables(shown: Iterable[Table]) -> Iterator[Table]:
    """Mark tables that a page shows only after a click."""
    return (replace(table, folded=True) for table in shown)


def overview(stored: Sequence[RunCollection]) -> ReportSection | None:
    """Describe the runs of these folders together; None for a single, complete run.

    Runs of the same benchmark and task share the tables of its paper.
    """
    runs = [(name, run.summary) for name, run in name_runs(stored)]
    left_out = {name: reason for folder in stored for name, reason in folder.left_out.items()}
    if len(runs) == 1 and not left_out:
        return None
    warnings = [line for _, summary in runs for line in tables.warnings(summary)]
    return ReportSection(
        count_phrase(len(runs), "run"),
        (_all_runs(runs, left_out), *tables_together(runs)),
        warnings=tuple(dict.fromkeys(warnings)),
        run=stored[0].path if len(stored) == 1 else None,
    )


def _all_runs(runs: Sequence[tuple[str, Summary]], left_out: Mapping[str, str]) -> Table:
    """Return a table with a row for each run and metric. `turnmark compare` tests the paired differences."""
    columns = tables.make_columns(["metric"], ["mean", "95% interval", "n", "failed"])
    rows: list[ReportRow] = []
    for name, summary in runs:
        rows.append(tables.make_group(f"{name}: {tables.headline(summary)}", columns, full=name))
        for metric in tables.choose_headline(summary.metrics, MAX_METRICS):
            measured = summary.metrics[metric]
            cells = (metric, tables.mean_text(measured), tables.interval_text(measured))
            rows.append(ReportRow((*cells, str(measured.n), str(measured.failed)), "below"))
    lines = tuple(f"{name}: no figures: {reason}" for name, reason in left_out.items())
    return Table("All runs", columns, tuple(rows), lines, tight=True, groups="run")


def name_runs(stored: Sequence[RunCollection]) -> list[tuple[str, StoredRun]]:
    """Name every run after its folder, with as many parent folders as make the names distinct."""
    runs = [run for folder in stored for run in folder.runs]
    min_parts = [2 if folder.several else 1 for folder in stored for _ in folder.runs]
    return list(zip(distinct_names([run.path for run in runs], min_parts), runs, strict=True))
