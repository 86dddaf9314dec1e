"""A comparison as tables: on the terminal, as Markdown, as one page. Every text of the data stays text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from turnmark.evaluation.comparison.compare import LEVEL, Change, MetricComparison, RunComparison
from turnmark.evaluation.comparison.judges import judge_tables
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.overview import ReportSection, folded
from turnmark.evaluation.report.paper import paper_tables
from turnmark.evaluation.report.stored import read_run
from turnmark.evaluation.report.tables import Column, Mark, MarkKind, Row, Table
from turnmark.evaluation.scores.metric_info import PLAIN, MetricStyle
from turnmark.evaluation.scores.summary import name_clusters

if TYPE_CHECKING:
    from rich.console import Console

METRICS = 3
"""Metrics of the breakdowns in a file."""
_LONGEST = 60  # characters of a spec in the table of the runs
_EXPLAINED = (
    "p: two-sided permutation test, swapping the two runs {one} by {one}; Holm: corrected over the {tests} tests of "
    "the headline. Intervals: 95%, from resampled {what}. * marks a corrected p below .05."
)


def show_comparison(comparison: RunComparison, console: Console) -> None:
    """Print a comparison. Works at 80 columns."""
    from turnmark.evaluation.report.rendering import show_report

    show_report(describe(comparison, 1), console)


def comparison_markdown(comparison: RunComparison) -> str:
    """A complete file; ends with a line end."""
    from turnmark.evaluation.report import rendering

    return rendering.markdown([describe(comparison, METRICS)])


def comparison_page(comparison: RunComparison) -> str:
    """One self-contained page that runs no script; of the samples that changed most it has the answers."""
    from turnmark.evaluation.report.page import rendered

    document = describe(comparison, METRICS, apart=True)
    changed = []
    for sample in comparison.changed:
        before, after = (sample.shown.text(value) for value in sample.values)
        changed.append((sample, f"{_signed(sample.shown, sample.difference)} ({before} to {after})"))
    # The last table has the samples that changed, without their answers.
    document = replace(document, tables=document.tables[:-1])
    return rendered("compare", [document], changed=changed, letter=comparison.runs[0].letter)


def describe(comparison: RunComparison, metrics: int, apart: bool = False) -> ReportSection:
    """A comparison as a document.

    Args:
        metrics: how many metrics the breakdowns of runs have.
        apart: a table of breakdowns for each metric.
    """
    letter = comparison.runs[0].letter
    pairs = range(1, len(comparison.runs))
    names = comparison.lead[:metrics]
    if apart:
        by_metric = [(name, _breakdowns(comparison, index, [name])) for index in pairs for name in names]
        broken_down = [replace(table, title=f"{table.title}: {name}") for name, table in by_metric]
    else:
        broken_down = [_breakdowns(comparison, index, names) for index in pairs]
    return ReportSection(
        _headline(comparison),
        (
            _runs(comparison),
            *(_differences(comparison, index) for index in pairs),
            *folded((*broken_down, *_paper_tables(comparison), *judge_tables(comparison.judges))),
            _changed(comparison),
        ),
        comparison.notes,
        warnings=comparison.warnings,
        verdict=tuple(f"not comparable: {reason.run} with {letter}: {reason.why}" for reason in comparison.why),
    )


def _headline(comparison: RunComparison) -> str:
    """What was run, and on what."""
    settings = dict.fromkeys(side.setting for side in comparison.runs if side.setting)
    setting = f" ({', '.join(settings)})" if settings else ""
    data = "demo data" if comparison.data.demo else comparison.data.name
    unit = "queries" if comparison.task == "retrieval" else "samples"
    clusters = f"{comparison.clusters} {name_clusters(comparison.benchmark, comparison.clusters)}"
    return f"{comparison.benchmark} {comparison.task}{setting} on {data}: {comparison.n} {unit} in common, {clusters}"


def _paper_tables(comparison: RunComparison) -> tuple[Table, ...]:
    """The tables of the benchmark's paper with these runs in them, each over all its own samples."""
    stored = [(f"{side.letter} {side.name}", read_run(Path(side.run))) for side in comparison.runs]
    return paper_tables([(name, run.summary) for name, folder in stored for run in folder.runs])


def _name_prompts(hashes: Sequence[str]) -> str:
    """One short hash for all prompts in which runs differ; `-`: the run asks none of them."""
    if all(value == "-" for value in hashes):
        return "-"
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()[:8]


def _runs(comparison: RunComparison) -> Table:
    """Which letter is which run, and in what the systems differ."""
    names = [name for name in comparison.differs if not name.startswith(("inputs.", "prompts."))]
    prompts = [name for name in comparison.differs if name.startswith("prompts.")]
    titles = [name.removeprefix("specs.").removeprefix("assistant.") for name in names]
    columns = [Column(""), Column("run"), *map(Column, titles), *([Column("prompts")] if prompts else [])]
    rows = []
    for index, side in enumerate(comparison.runs):
        cells = [_shorten(comparison.differs[name][index]) for name in names]
        if prompts:
            cells.append(_name_prompts([comparison.differs[name][index] for name in prompts]))
        rows.append(Row((side.letter, side.name, *cells, str(side.n), str(side.failed))))
    lines = () if names or prompts else ("The manifests name nothing in which these systems differ.",)
    return Table("Runs", (*columns, Column("n", True), Column("failed", True)), tuple(rows), lines)


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _with_figures(comparison: RunComparison) -> list[str]:
    """The metrics that some run has a figure in."""
    return [name for name, metric in comparison.metrics.items() if any(mean is not None for mean in metric.means)]


def _differences(comparison: RunComparison, index: int) -> Table:
    """Every metric of a run next to the first, with interval and tests."""
    first, side = comparison.runs[0], comparison.runs[index]
    incomplete = any(metric.left_out for metric in comparison.metrics.values())
    heads = [first.letter, side.letter, f"{side.letter} - {first.letter}", "95% interval", "p", "Holm", "n"]
    columns = [Column("metric"), *(Column(name, True) for name in (*heads, *["left out"] * incomplete))]
    rows, lines = [], []
    for name, label, below in tables.arranged(_with_figures(comparison)):
        metric = comparison.metrics[name]
        change = _change_of(metric, side.letter)
        tested = ("-",) * 4
        if change:
            ps = (_probability(change.p), _probability(change.p_holm, star=True))
            tested = (_signed(metric.shown, change.difference), _interval(change, metric.shown), *ps)
        cells = (
            label, metric.shown.text(metric.means[0]), metric.shown.text(metric.means[index]), *tested,
            str(metric.n), *[str(metric.left_out)] * incomplete,
        )  # fmt: skip
        rows.append(
            Row(cells, "below" if below else "plain", _mark(metric.shown, change, change.p_holm if change else None))
        )
        if metric.why:
            lines.append(f"{name} is not compared: {metric.why}")
    tests = sum(len(metric.changes) for metric in comparison.metrics.values())
    one, many = (name_clusters(comparison.benchmark, count) for count in (1, 2))
    lines.append(_EXPLAINED.format(one=one, what=many, tests=tests))
    title = f"{side.letter} against {first.letter}"
    return Table(title, tuple(columns), tuple(rows), tuple(lines), tight=True, narrow=True)


def _mark(shown: MetricStyle, change: Change | None, p: float | None) -> Mark | None:
    """The dot of a difference, full if its p is below .05; none of what is no fraction."""
    if change is None or not shown.fraction:
        return None
    sure = p is not None and p < LEVEL
    kind: MarkKind = ("better" if change.difference > 0 else "worse") if sure else "unsure"
    return Mark(change.difference, change.ci95, kind)


def _breakdowns(comparison: RunComparison, index: int, names: Sequence[str]) -> Table:
    """The differences of a run to the first, by every dimension and value; marked if they are in one metric."""
    first, side = comparison.runs[0], comparison.runs[index]
    parts = [metrics for values in comparison.breakdowns.values() for metrics in values.values()]
    apart = tables.differ([[metrics[name].n if name in metrics else 0 for name in names] for metrics in parts])
    columns = list(tables.broken_down(names, apart))
    rows: list[Row] = []
    for dimension, values in comparison.breakdowns.items() if names else ():
        rows.append(Row((dimension, *[""] * (len(columns) - 1)), "group"))
        for value, metrics in values.items():
            change = _change_of(metrics.get(names[0]), side.letter) if len(names) == 1 else None
            shown = metrics[names[0]].shown if names[0] in metrics else PLAIN
            counts = [metrics[name].n if name in metrics else 0 for name in names]
            cells = (value, *tables.with_counts(list(_break_down(metrics, names, side.letter)), counts, apart))
            rows.append(Row(cells, "below", _mark(shown, change, change.p if change else None)))
    legend = ("Differences of means. These are many: their p, in --json, are not corrected.",) if rows else ()
    title = f"{side.letter} - {first.letter}, by what is asked"
    return Table(title, tuple(columns), tuple(rows), legend, groups="dimension")


def _break_down(
    metrics: Mapping[str, MetricComparison], names: Sequence[str], letter: str
) -> Iterator[tuple[str, str]]:
    """Difference and interval of each metric."""
    for name in names:
        change = _change_of(metrics.get(name), letter)
        if change is None:
            yield "-", "-"
        else:
            yield _signed(metrics[name].shown, change.difference), _interval(change, metrics[name].shown)


def _changed(comparison: RunComparison) -> Table:
    """The samples that changed most, without their texts."""
    metric = comparison.lead[0] if comparison.lead else ""
    first = comparison.runs[0].letter
    columns = (Column("sample"), *(Column(name, True) for name in (first, "other", "difference")), Column("question"))
    rows: list[Row] = []
    for side in comparison.runs[1:]:
        changed = [sample for sample in comparison.changed if sample.run == side.letter]
        rows += [Row((f"{side.letter} - {first}", *[""] * 4), "group")] if changed else []
        for sample in changed:
            figures = (*(sample.shown.text(value) for value in sample.values), _signed(sample.shown, sample.difference))
            rows.append(Row((sample.id, *figures, _shorten(sample.query or "-")), "below"))
    return Table(f"The samples that changed most, by {metric}", columns, tuple(rows))


def _change_of(metric: MetricComparison | None, letter: str) -> Change | None:
    return next((change for change in metric.changes if change.run == letter), None) if metric else None


def _signed(shown: MetricStyle, value: float) -> str:
    """A difference with its sign, in the digits of its metric."""
    return _with_sign(shown.text(value))


def _with_sign(text: str) -> str:
    if not text.strip("-0."):  # a difference that rounds to nothing has no sign
        return text.removeprefix("-")
    return text if text.startswith("-") else f"+{text}"


def _interval(change: Change, shown: MetricStyle) -> str:
    """The interval of a difference, both ends with their signs."""
    if change.ci95 is None:
        return "no interval"
    return " to ".join(_with_sign(shown.bound(bound)) for bound in change.ci95)


def _probability(value: float | None, star: bool = False) -> str:
    """A p with three digits; one below .05 is marked if that is asked, and the others are as wide."""
    if value is None:
        return "-"
    text = "<.001" if value < 0.001 else f"{value:.3f}"
    return text + ("*" if value < LEVEL else " ") if star else text
