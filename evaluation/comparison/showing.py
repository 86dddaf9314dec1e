"""A comparison as a document of tables: the terminal, Markdown and the page draw the same ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from turnmark.evaluation.comparison.compare import PIPELINE_ROLES, Comparison, Pipelines
from turnmark.evaluation.comparison.figures import LEVEL, Change, Compared, Place
from turnmark.evaluation.comparison.judges import judge_tables
from turnmark.evaluation.metric_info import metric_info
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.overview import Document, folded
from turnmark.evaluation.report.paper_tables import paper_tables
from turnmark.evaluation.report.stored import read_run
from turnmark.evaluation.report.tables import Column, Mark, MarkKind, Row, Table
from turnmark.evaluation.summary import clusters_of

MOST_METRICS = 3
"""Metrics of a part of a pipeline, those that stand for all."""
_LONGEST = 60  # characters of a spec in the table of the runs
_EXPLAINED = (
    "p: two-sided permutation test, swapping the two runs in whole {what}; Holm: corrected over the {tests} tests of "
    "the headline. Intervals: 95%, from resampled {what}. * marks a corrected p below .05."
)


def document(comparison: Comparison | Pipelines, metrics: int, apart: bool = False) -> Document:
    """What there is to say of a comparison.

    Args:
        metrics: how many metrics the breakdowns of runs have.
        apart: a table of breakdowns for each metric.
    """
    if isinstance(comparison, Pipelines):
        return _of_pipelines(comparison)
    letter = comparison.runs[0].letter
    pairs = range(1, len(comparison.runs))
    names = comparison.lead[:metrics]
    broken_down = [breakdowns(comparison, index, names) for index in pairs]
    if apart:
        by_metric = [(name, breakdowns(comparison, index, [name])) for index in pairs for name in names]
        broken_down = [replace(table, title=f"{table.title}: {name}") for name, table in by_metric]
    rest = (
        *broken_down,
        *paper(comparison),
        *judge_tables(comparison.judges),
    )
    return Document(
        _headline(comparison),
        (
            runs(comparison),
            *((matrix(comparison), ranking(comparison)) if len(comparison.runs) > 2 else ()),
            *(differences(comparison, index) for index in pairs),
            *folded(rest),
            changed(comparison),
        ),
        comparison.notes,
        warnings=comparison.warnings,
        verdict=tuple(f"not comparable: {reason.run} with {letter}: {reason.why}" for reason in comparison.why),
    )


def _headline(comparison: Comparison) -> str:
    """What was run, and on what."""
    settings = dict.fromkeys(side.setting for side in comparison.runs if side.setting)
    setting = f" ({', '.join(settings)})" if settings else ""
    data = "demo data" if comparison.data.demo else comparison.data.name
    unit = "queries" if comparison.task == "retrieval" else "samples"
    counts = f"{comparison.n} {unit} in common, {comparison.clusters} {clusters(comparison)}"
    return f"{comparison.benchmark} {comparison.task}{setting} on {data}: {counts}"


def clusters(comparison: Comparison) -> str:
    """What is resampled, in words: `conversations`."""
    return clusters_of(comparison.benchmark)


def paper(comparison: Comparison) -> tuple[Table, ...]:
    """The tables of the benchmark's paper with these runs in them, each over all its own samples."""
    stored = [(f"{side.letter} {side.name}", read_run(Path(side.run))) for side in comparison.runs]
    return paper_tables([(name, run.summary) for name, folder in stored for run in folder.runs])


def runs(comparison: Comparison) -> Table:
    """Which letter is which run, and in what the systems differ."""
    names = [name for name in comparison.differs if not name.startswith("inputs.")]
    columns = [Column(""), Column("run"), *(Column(name.removeprefix("specs.")) for name in names)]
    rows = []
    for index, side in enumerate(comparison.runs):
        values = (_cut(comparison.differs[name][index]) for name in names)
        rows.append(Row((side.letter, side.name, *values, str(side.n), str(side.failed))))
    lines = () if names else ("The manifests name nothing in which these systems differ.",)
    return Table("Runs", (*columns, Column("n", True), Column("failed", True)), tuple(rows), lines)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def matrix(comparison: Comparison) -> Table:
    """A column for each run against the first: `-0.0855*`."""
    first, *other_runs = comparison.runs
    columns = (
        Column("metric"), Column(first.letter, True),
        *(Column(f"{side.letter} - {first.letter}", True) for side in other_runs), Column("n", True),
    )  # fmt: skip
    rows = []
    for name, label, below in tables.arranged(_shown(comparison)):
        metric = comparison.metrics[name]
        by_run = {change.run: change for change in metric.changes}
        cells = (
            label, tables.figure(name, metric.means[0]),
            *(_starred(name, by_run.get(side.letter)) for side in other_runs), str(metric.n),
        )  # fmt: skip
        rows.append(Row(cells, "below" if below else "plain"))
    return Table(f"Against {first.letter}", columns, tuple(rows), ("* a corrected p below .05",))


def _shown(comparison: Comparison) -> list[str]:
    """The metrics that some run has a figure in."""
    return [name for name, metric in comparison.metrics.items() if any(mean is not None for mean in metric.means)]


def _starred(metric: str, change: Change | None) -> str:
    if change is None:
        return "-"
    return signed(metric, change.difference) + (_star(change) or " ")


def ranking(comparison: Comparison) -> Table:
    """The runs in order, by every metric of which more is better: `A .336 ≈ B .319 > C .301`."""
    rows = tuple(
        Row((name, order([f"{place.run} {tables.figure(name, place.mean)}" for place in places], places)))
        for name, places in comparison.ranking.items()
    )
    legend = (
        f"x > y: neighbours that a test tells apart (permutation over {clusters(comparison)}, p below .05 after "
        "Holm's correction over the neighbours of the row); x ≈ y: it does not"
    )
    return Table("Ranking", (Column("metric"), Column("best first")), rows, (legend,) if rows else ())


def order(labels: Sequence[str], places: Sequence[Place]) -> str:
    """Labels in the order of a ranking, with what a test says between neighbours."""
    signs = {None: "", True: " > ", False: " ≈ "}
    return "".join(f"{signs[place.told_apart]}{label}" for label, place in zip(labels, places, strict=True))


def differences(comparison: Comparison, index: int) -> Table:
    """Every metric of a run beside the first, with interval and tests."""
    first, side = comparison.runs[0], comparison.runs[index]
    incomplete = any(metric.left_out for metric in comparison.metrics.values())
    heads = (first.letter, side.letter, f"{side.letter} - {first.letter}", "95% interval", "p", "Holm", "n")
    columns = [Column("metric"), *(Column(name, True) for name in heads)]
    columns += [Column("left out", True)] * incomplete
    rows, lines = [], []
    for name, label, below in tables.arranged(_shown(comparison)):
        metric = comparison.metrics[name]
        change = change_of(metric, side.letter)
        cells = (
            label, tables.figure(name, metric.means[0]), tables.figure(name, metric.means[index]),
            *(_tested(name, change) if change else ("-",) * 4),
            str(metric.n), *[str(metric.left_out)] * incomplete,
        )  # fmt: skip
        mark = _mark(name, change, change.p_holm) if change else None
        rows.append(Row(cells, "below" if below else "plain", mark))
        if metric.why:
            lines.append(f"{name} is not compared: {metric.why}")
    tests = sum(len(metric.changes) for metric in comparison.metrics.values())
    lines.append(_EXPLAINED.format(what=clusters(comparison), tests=tests))
    return Table(
        f"{side.letter} against {first.letter}", tuple(columns), tuple(rows), tuple(lines), tight=True, narrow=True
    )


def _mark(metric: str, change: Change, p: float | None) -> Mark | None:
    """The dot of a difference, full where its p is below .05; none of what is no fraction."""
    if not metric_info(metric).fraction:
        return None
    sure = p is not None and p < LEVEL
    kind: MarkKind = ("better" if change.difference > 0 else "worse") if sure else "unsure"
    return Mark(change.difference, change.ci95, kind)


def _tested(metric: str, change: Change) -> tuple[str, ...]:
    ps = (probability(change.p), probability(change.p_holm, star=True))
    return signed(metric, change.difference), interval(metric, change), *ps


def breakdowns(comparison: Comparison, index: int, names: Sequence[str]) -> Table:
    """The differences of a run to the first, by every dimension and value; marked where they are in one metric."""
    first, side = comparison.runs[0], comparison.runs[index]
    columns = [Column(""), Column("n", True)]
    for name in names:
        columns += [Column(name, True), Column("95% interval", True)]
    rows: list[Row] = []
    for dimension, values in comparison.breakdowns.items() if names else ():
        rows.append(Row((dimension, *[""] * (len(columns) - 1)), "group"))
        for value, metrics in values.items():
            change = change_of(metrics[names[0]], side.letter) if names[0] in metrics and len(names) == 1 else None
            mark = _mark(names[0], change, change.p) if change else None
            rows.append(Row((value, *_broken_down(metrics, names, side.letter)), "below", mark))
    legend = ("Differences of means. These are many: their p, in --json, are not corrected.",) if rows else ()
    return Table(f"{side.letter} - {first.letter}, by what is asked", tuple(columns), tuple(rows), legend)


def _broken_down(metrics: Mapping[str, Compared], names: Sequence[str], letter: str) -> Iterator[str]:
    yield str(max((metrics[name].n for name in names if name in metrics), default=0))
    for name in names:
        change = change_of(metrics[name], letter) if name in metrics else None
        yield signed(name, change.difference) if change else "-"
        yield interval(name, change) if change else "-"


def changed(comparison: Comparison) -> Table:
    """The samples that changed most, without their texts."""
    metric = comparison.lead[0] if comparison.lead else ""
    first = comparison.runs[0].letter
    columns = (Column("sample"), *(Column(name, True) for name in (first, "other", "difference")), Column("question"))
    rows: list[Row] = []
    for side in comparison.runs[1:]:
        mine = [sample for sample in comparison.changed if sample.run == side.letter]
        rows += [Row((f"{side.letter} - {first}", *[""] * 4), "group")] if mine else []
        for sample in mine:
            figures = (tables.figure(metric, value) for value in sample.values)
            rows.append(
                Row((sample.id, *figures, signed(metric, sample.difference), _cut(sample.query or "-")), "below")
            )
    return Table(f"The samples that changed most, by {metric}", columns, tuple(rows))


def change_of(metric: Compared, letter: str) -> Change | None:
    """The change of the run with this letter."""
    return next((change for change in metric.changes if change.run == letter), None)


def signed(metric: str, value: float) -> str:
    """A difference with its sign, in the digits of its metric."""
    return _with_sign(tables.figure(metric, value))


def _with_sign(text: str) -> str:
    if not text.strip("-0."):  # a difference that rounds to nothing has no sign
        return text.removeprefix("-")
    return text if text.startswith("-") else f"+{text}"


def interval(metric: str, change: Change) -> str:
    """The interval of a difference, both ends with their signs."""
    return " to ".join(_with_sign(f"{bound:.{metric_info(metric).digits[1]}f}") for bound in change.ci95)


def probability(value: float | None, star: bool = False) -> str:
    """A p with three digits.

    Args:
        star: one below .05 is marked, and the others are as wide.
    """
    if value is None:
        return "-"
    text = "<.001" if value < 0.001 else f"{value:.3f}"
    return text + ("*" if value < LEVEL else " ") if star else text


# --- pipelines -------------------------------------------------------------------------------------------------------


def _of_pipelines(pipelines: Pipelines) -> Document:
    """Which pipeline is which, all of them side by side, then each against the first, part by part."""
    roles = [role for role in PIPELINE_ROLES if any(role in pipeline.specs for pipeline in pipelines.pipelines)]
    rows = tuple(
        Row((pipeline.letter, pipeline.name, *(pipeline.specs.get(role, "-") for role in roles)))
        for pipeline in pipelines.pipelines
    )
    names = Table("Pipelines", (Column(""), Column("folder"), *map(Column, roles)), rows)
    parts = (
        replace(table, title=f"{part}: {table.title}")
        for part, comparison in pipelines.parts.items()
        for table in (*(differences(comparison, index) for index in range(1, len(comparison.runs))), *paper(comparison))
    )
    return Document(
        f"{len(pipelines.pipelines)} pipelines over {len(pipelines.parts)} parts",
        (names, _pipeline_matrix(pipelines), *parts),
        tuple(f"{part}: {note}" for part, comparison in pipelines.parts.items() for note in comparison.notes),
        warnings=tuple(dict.fromkeys(line for part in pipelines.parts.values() for line in part.warnings)),
    )


def _pipeline_matrix(pipelines: Pipelines) -> Table:
    """The means of the first pipeline, and what each other one adds: `.3161 (-.0855*)`."""
    first, *other_pipelines = pipelines.pipelines
    columns = [Column("part"), Column("metric"), Column(first.letter, True)]
    columns += [Column(pipeline.letter, True) for pipeline in other_pipelines] + [Column("n", True)]
    rows: list[Row] = []
    for part, comparison in pipelines.parts.items():
        metric_names = (comparison.lead or tuple(comparison.metrics))[:MOST_METRICS]
        for index, name in enumerate(metric_names):
            metric = comparison.metrics[name]
            cells = [
                part if not index else "",
                name,
                *_pipeline_cells(name, metric, len(other_pipelines)),
                str(metric.n),
            ]
            rows.append(Row(tuple(cells), "below" if index else "plain"))
    lines = [f"Beside each figure: the difference to {first.letter}; * a corrected p below .05 within its part."]
    lines += [
        f"{part}: not like for like: {reason.why}"
        for part, comparison in pipelines.parts.items()
        for reason in comparison.why
    ]
    lines += [f"{part} is left out: {why}" for part, why in pipelines.left_out.items()]
    return Table("Pipelines side by side", tuple(columns), tuple(rows), tuple(dict.fromkeys(lines)))


def _pipeline_cells(name: str, metric: Compared, count: int) -> list[str]:
    cells = [tables.figure(name, metric.means[0])]
    changes: list[Change | None] = [*metric.changes] or [None] * count
    for mean, change in zip(metric.means[1:], changes, strict=True):
        difference = f" ({signed(name, change.difference)}{_star(change)})" if change else ""
        cells.append(tables.figure(name, mean) + difference)
    return cells


def _star(change: Change) -> str:
    return "*" if change.p_holm is not None and change.p_holm < LEVEL else ""
