"""Render a comparison as tables: on the terminal, as Markdown and as an HTML page. Texts of the data are escaped."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from rich.console import Console

from turnmark.core.untrusted import ellipsize
from turnmark.evaluation.comparison.paired_statistics import Change, MetricComparison
from turnmark.evaluation.comparison.run_comparison import SIGNIFICANCE_LEVEL, RunComparison
from turnmark.evaluation.metric_style import MetricStyle
from turnmark.evaluation.records import Summary
from turnmark.evaluation.report import output_formats, tables
from turnmark.evaluation.report.finished_runs import read_run
from turnmark.evaluation.report.html_page import render_page
from turnmark.evaluation.report.output_formats import show_report
from turnmark.evaluation.report.overview import ReportSection, fold_tables
from turnmark.evaluation.report.paper_comparison import is_over_other_documents, paper_tables
from turnmark.evaluation.report.tables import Column, Mark, MarkKind, PartValue, ReportRow, Table
from turnmark.evaluation.tasks.declarations import name_clusters

MAX_BREAKDOWN_METRICS = 3
"""Maximum metrics of the breakdowns in a file."""
_MAX_SPEC_CHARACTERS = 60  # maximum characters of a spec in the table of the runs
_LEGEND = (
    "p: two-sided permutation test, swapping the two runs {one} by {one}; Holm: corrected over the {tests} tests of "
    "the headline. Intervals: 95%, over {what}. * marks a corrected p below .05."
)


def show_comparison(comparison: RunComparison, console: Console) -> None:
    """Print a comparison. Works at 80 columns."""
    show_report(describe(comparison, 1), console)


def comparison_markdown(comparison: RunComparison) -> str:
    """Return the content of a Markdown file; ends with a newline."""
    return output_formats.markdown([describe(comparison, MAX_BREAKDOWN_METRICS)])


def comparison_page(comparison: RunComparison) -> str:
    """Return a self-contained page without scripts, with the answers of the samples that changed most."""
    document = describe(comparison, MAX_BREAKDOWN_METRICS, apart=True)
    changed = []
    for sample in comparison.changed:
        before, after = (sample.shown.text(value) for value in sample.values)
        changed.append((sample, f"{_format_signed(sample.shown, sample.difference)} ({before} to {after})"))
    # The last table lists the changed samples without their answers; the page shows both.
    document = replace(document, tables=document.tables[:-1])
    return render_page("compare", [document], changed=changed, letter=comparison.runs[0].letter)


def describe(comparison: RunComparison, metrics: int, apart: bool = False) -> ReportSection:
    """Return a comparison as a section of a report.

    Args:
        metrics: maximum metrics of the breakdowns.
        apart: make a table of breakdowns for each metric.
    """
    letter = comparison.runs[0].letter
    other_runs = range(1, len(comparison.runs))
    names = comparison.lead[:metrics]
    of_runs = (tables.each_apart(names, partial(_breakdowns, comparison, index), apart) for index in other_runs)
    breakdowns = chain.from_iterable(of_runs)
    differences = [_differences(comparison, index) for index in other_runs]
    # In the tables of the paper, each run is over all of its samples.
    details = fold_tables((*breakdowns, *paper_tables(_summaries(comparison))))
    return ReportSection(
        _headline(comparison),
        (_runs(comparison), *differences, *details, _tabulate_changed_samples(comparison)),
        comparison.notes,
        warnings=comparison.warnings,
        verdict=tuple(f"not comparable: {reason.run} with {letter}: {reason.why}" for reason in comparison.why),
    )


def _headline(comparison: RunComparison) -> str:
    settings = dict.fromkeys(side.setting for side in comparison.runs if side.setting)
    setting = f" ({', '.join(settings)})" if settings else ""
    data = "demo data" if comparison.data.demo else comparison.data.name
    parts = dict.fromkeys(side.selection for side in comparison.runs)
    if len(parts) == 1 and any(parts):
        data = f"a part of {data} ({next(iter(parts))})"
    elif any(parts):
        selected = (f"{side.letter}: {side.selection}" for side in comparison.runs if side.selection)
        data = f"{data} ({'; '.join(selected)})"
    unit = "queries" if comparison.task == "retrieval" else "samples"
    clusters = f"{comparison.clusters} {name_clusters(comparison.benchmark, comparison.clusters)}"
    # The questions of a check are in MTRAG's format, but are not MTRAG.
    is_own = all(is_over_other_documents(summary) for _, summary in _summaries(comparison))
    benchmark = "own documents," if is_own else comparison.benchmark
    return f"{benchmark} {comparison.task}{setting} on {data}: {comparison.n} {unit} in common, {clusters}"


def _summaries(comparison: RunComparison) -> list[tuple[str, Summary]]:
    return [
        (f"{side.letter} {side.name}", run.summary) for side in comparison.runs for run in read_run(Path(side.run)).runs
    ]


def _name_prompts(hashes: Sequence[str]) -> str:
    """Return one short hash for all prompts in which runs differ; `-`: the run uses none of them."""
    if all(value == "-" for value in hashes):
        return "-"
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()[:8]


def _runs(comparison: RunComparison) -> Table:
    """Return a table of the runs by their letters, with the fields in which the systems differ."""
    names = [name for name in comparison.differs if not name.startswith(("inputs.", "prompts."))]
    prompts = [name for name in comparison.differs if name.startswith("prompts.")]
    titles = [name.removeprefix("specs.").removeprefix("assistant.") for name in names] + ["prompts"] * bool(prompts)
    rows = []
    for index, side in enumerate(comparison.runs):
        cells = [ellipsize(comparison.differs[name][index], _MAX_SPEC_CHARACTERS) for name in names]
        cells += [_name_prompts([comparison.differs[name][index] for name in prompts])] * bool(prompts)
        rows.append(ReportRow((side.letter, side.name, *cells, str(side.n), str(side.failed))))
    lines = () if names or prompts else ("The manifests show no difference between these systems.",)
    return Table("Runs", tables.make_columns(["", "run", *titles], ["n", "failed"]), tuple(rows), lines)


def _differences(comparison: RunComparison, index: int) -> Table:
    """Return a table of every metric of a run next to the first run, with intervals and tests."""
    first, side = comparison.runs[0], comparison.runs[index]
    changes = {name: _change_of(metric, side.letter) for name, metric in comparison.metrics.items()}
    incomplete = any(change.left_out for change in changes.values() if change)
    heads = [first.letter, side.letter, f"{side.letter} - {first.letter}", "95% interval", "p", "Holm", "n"]
    heads += ["left out"] * incomplete
    rows, lines = [], []
    with_values = [name for name, metric in comparison.metrics.items() if metric.changes or set(metric.means) != {None}]
    for name, label, below in tables.arrange_variants(with_values):
        metric = comparison.metrics[name]
        change = changes[name]
        if change is None:
            means = [metric.means[0], metric.means[index]]
            cells = [label, *map(metric.shown.text, means), *["-"] * 4, str(metric.n), str(metric.left_out)]
            mark = None
        else:
            cells = [label, *map(metric.shown.text, change.means)]
            cells += [_format_signed(metric.shown, change.difference), _interval(change, metric.shown)]
            cells += [_probability(change.p), _probability(change.p_holm, star=True)]
            cells += [str(change.n), str(change.left_out)]
            mark = _mark(metric.shown, change, change.p_holm)
        rows.append(ReportRow(tuple(cells[: len(heads) + 1]), "below" if below else "plain", mark))
        if metric.why:
            lines.append(f"{name} is not compared: {metric.why}")
    tests = sum(len(metric.changes) for metric in comparison.metrics.values())
    one, many = (name_clusters(comparison.benchmark, count) for count in (1, 2))
    lines.append(_LEGEND.format(one=one, what=many, tests=tests))
    title = f"{side.letter} against {first.letter}"
    columns = tables.make_columns(["metric"], heads)
    return Table(title, columns, tuple(rows), tuple(lines), tight=True, narrow=True)


def _mark(shown: MetricStyle, change: Change, p: float | None) -> Mark | None:
    """Return the dot of a difference, full if its corrected p is below .05, or None if no fractions are compared."""
    if not shown.fraction:
        return None
    kind: MarkKind = "unsure"
    if p is not None and p < SIGNIFICANCE_LEVEL:
        kind = "better" if change.difference > 0 else "worse"
    return Mark(change.difference, change.ci95, kind)


def _breakdowns(comparison: RunComparison, index: int, names: Sequence[str]) -> Table:
    """Return a table of the differences of a run to the first, by dimension and value; a single metric has dots."""
    first, side = comparison.runs[0], comparison.runs[index]
    legend = ("Differences of means. A full dot: p, corrected over all rows of the table (Holm), is below .05.",)
    title = f"{side.letter} - {first.letter}, by kind of question"
    return tables.break_down(title, names, comparison.breakdowns, partial(_part_value, letter=side.letter), legend)


def _part_value(metric: MetricComparison | None, letter: str) -> PartValue:
    """Return the difference of a run to the first in a metric over a part of the samples."""
    change = _change_of(metric, letter)
    if metric is None or change is None:
        return PartValue(n=metric.n if metric else 0)
    shown = metric.shown
    difference, interval = _format_signed(shown, change.difference), _interval(change, shown)
    return PartValue(difference, interval, change.n, _mark(shown, change, change.p_holm))


def _tabulate_changed_samples(comparison: RunComparison) -> Table:
    """Return a table of the samples that changed most, without their answers."""
    metric = comparison.lead[0] if comparison.lead else ""
    first = comparison.runs[0].letter
    columns = (*tables.make_columns(["sample"], [first, "other", "difference"]), Column("question"))
    rows: list[ReportRow] = []
    for side in comparison.runs[1:]:
        changed = [sample for sample in comparison.changed if sample.run == side.letter]
        if changed:
            rows.append(tables.make_group(f"{side.letter} - {first}", columns))
        for sample in changed:
            before, after = map(sample.shown.text, sample.values)
            difference = _format_signed(sample.shown, sample.difference)
            query = ellipsize(sample.query or "-", _MAX_SPEC_CHARACTERS)
            rows.append(ReportRow((sample.id, before, after, difference, query), "below"))
    return Table(f"The samples that changed most, by {metric}", columns, tuple(rows))


def _change_of(metric: MetricComparison | None, letter: str) -> Change | None:
    if metric is None:
        return None
    return next((change for change in metric.changes if change.run == letter), None)


def _format_signed(shown: MetricStyle, value: float) -> str:
    return _with_sign(shown.text(value))


def _with_sign(text: str) -> str:
    """Add a plus sign to a positive number; zero has no sign."""
    if not text.strip("-0."):
        return text.removeprefix("-")
    return text if text.startswith("-") else f"+{text}"


def _interval(change: Change, shown: MetricStyle) -> str:
    if change.ci95 is None:
        return "no interval"
    return " to ".join(_with_sign(shown.bound(bound)) for bound in change.ci95)


def _probability(value: float | None, star: bool = False) -> str:
    """Format a p with three digits; `star` marks one below .05, and pads the others to the same width."""
    if value is None:
        return "-"
    text = "<.001" if value < 0.001 else f"{value:.3f}"
    if star:
        text += "*" if value < SIGNIFICANCE_LEVEL else " "
    return text
