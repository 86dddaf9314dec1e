"""What a report says, for whoever draws it: of one run its parts in their order, of several the tables they share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from turnmark.evaluation.records import Summary
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.paper import paper_tables, tables_together
from turnmark.evaluation.report.stored import Stored, StoredRun, distinct_names, why_not_done
from turnmark.evaluation.report.tables import Column, Row, Table

MOST = 3
"""Metrics of a run next to other runs, and of its breakdowns in a file."""
ON_SCREEN = 2
"""Metrics of its breakdowns on a terminal of 80 columns."""


@dataclass(frozen=True)
class ReportSection:
    """What there is to say of a run, of several or of a comparison, top to bottom.

    Attributes:
        warnings: what is said before the figures.
        verdict: what is said beneath the title, as prominent as it.
        specs: what was measured, in a line; may be empty.
        reasons: why samples failed or were skipped.
        run: the folder that it is of; None: it is of several.
        name: of that run, as it is called beside others; empty: it is of several.
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


def describe(stored: Sequence[Stored], metrics: int = MOST, apart: bool = False) -> list[ReportSection]:
    """What the runs of these folders have in common, then each of them."""
    together = overview(stored)
    runs = [
        replace(describe_run(run.summary, run.path, metrics, apart=apart), name=name) for name, run in name_runs(stored)
    ]
    return [*([together] if together else []), *runs]


def describe_run(
    summary: Summary, run: Path, metrics: int = MOST, full: bool = True, apart: bool = False
) -> ReportSection:
    """What there is to say of a run.

    Args:
        run: its folder; its predictions say why samples failed, where they are there.
        metrics: how many metrics the breakdowns have room for.
        full: with the breakdowns, the judges, and every table of the paper rather than the first.
        apart: a table of breakdowns for each metric.
    """
    first, *more = paper_tables([("this run", summary)]) or (None,)
    names = tables.chosen(summary.metrics, metrics)
    broken_down = [tables.breakdowns(summary, names)]
    if apart:
        parts = [metrics for values in summary.breakdowns.values() for metrics in values.values()]
        names = [name for name in names if any(name in metrics and metrics[name].n for metrics in parts)]
        by_metric = {name: tables.breakdowns(summary, [name]) for name in names}
        broken_down = [replace(table, title=f"{table.title}: {name}") for name, table in by_metric.items()]
    rest = (*folded(more), *broken_down[:1], *folded((*broken_down[1:], tables.judges(summary))))
    return ReportSection(
        tables.headline(summary),
        (
            tables.means(summary),
            *([first] if first else []),
            *(rest if full else ()),
            *folded([tables.usage(summary)]),
        ),
        tables.notes(summary),
        warnings=tables.warnings(summary),
        specs=tables.specs(summary),
        reasons=tuple(why_not_done(run)),
        run=run,
    )


def folded(shown: Iterable[Table]) -> Iterator[Table]:
    """Tables that a page shows when a reader asks for them."""
    return (replace(table, folded=True) for table in shown)


def overview(stored: Sequence[Stored]) -> ReportSection | None:
    """The runs of these folders together; None for one run, if nothing was left out.

    Runs of the same benchmark and task are together in the tables of its paper.
    """
    runs = [(name, run.summary) for name, run in name_runs(stored)]
    left_out = {name: reason for folder in stored for name, reason in folder.left_out.items()}
    if len(runs) == 1 and not left_out:
        return None
    return ReportSection(
        "1 run" if len(runs) == 1 else f"{len(runs)} runs",
        (_all_runs(runs, left_out), *tables_together(runs)),
        warnings=tuple(dict.fromkeys(line for _, summary in runs for line in tables.warnings(summary))),
        run=stored[0].path if len(stored) == 1 else None,
    )


def _all_runs(runs: Sequence[tuple[str, Summary]], left_out: Mapping[str, str]) -> Table:
    """A row for each run and metric. `turnmark compare` has the differences, paired and tested."""
    columns = (Column("metric"), *(Column(name, True) for name in ("mean", "95% interval", "n", "failed")))
    rows: list[Row] = []
    for name, summary in runs:
        rows.append(Row((f"{name}: {tables.headline(summary)}", *[""] * (len(columns) - 1)), "group", full=name))
        for metric in tables.chosen(summary.metrics, MOST):
            measured = summary.metrics[metric]
            figures = (tables.mean_text(measured), tables.interval_text(measured))
            rows.append(Row((metric, *figures, str(measured.n), str(measured.failed)), "below"))
    lines = tuple(f"{name}: no figures: {reason}" for name, reason in left_out.items())
    return Table("All runs", columns, tuple(rows), lines, tight=True, groups="run")


def name_runs(stored: Sequence[Stored]) -> list[tuple[str, StoredRun]]:
    """Every run of these folders by the name of its folder, and of as many above it as tell it from the others."""
    runs = [(run, 2 if folder.several else 1) for folder in stored for run in folder.runs]
    names = distinct_names([run.path for run, _ in runs], [parts for _, parts in runs])
    return [(name, run) for name, (run, _) in zip(names, runs, strict=True)]
