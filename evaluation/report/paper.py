"""Runs as rows of a paper's own table, next to the rows that the paper printed.

`paper_tables.json` says what each row and column of a printed table is of; here it is filled with the figures of our
runs and with published ones, in the paper's order and digits. A published row without a comparable figure is dimmed and
marked; where only some may not be compared, these are marked. One line beneath says in what they differ. Demo data is
compared with nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from turnmark.evaluation.judging.judge import model_key
from turnmark.evaluation.records import Metrics, MetricSummary, PublishedRow, Summary
from turnmark.evaluation.report.paper_tables import VARIANTS, PaperTable, Shape, Slot, judges_of, query_of, shapes
from turnmark.evaluation.report.tables import Column, Row, RowKind, Table, untagged
from turnmark.evaluation.scores.published import RERUN, Fact, facts, samples_of

N = "n"
MARK = "†"
"""Stands behind the name of a published row, or behind a figure of it, that is not comparable."""

Runs = Sequence[tuple[str, Summary]]
"""What to call each run, and its summary."""


@dataclass(frozen=True)
class _System:
    """What has rows in a table: runs of ours or a baseline of theirs, or the facts about a published system."""

    name: str
    ours: tuple[Summary, ...] = ()
    baseline: str = ""
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True)
class _Figure:
    """A cell with its count; the judge, where one is named; of a published one its fact."""

    text: str
    n: int | None
    judge: str = ""
    metric: str = ""
    fact: Fact | None = None


@dataclass(frozen=True)
class _Line:
    """A row of the table: a system in a slot, its figures by column, and in what a published one differs from ours."""

    slot: Slot
    system: _System
    figures: Sequence[_Figure | None]
    differs: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def dimmed(self) -> bool:
        return bool(self.differs) and all(self.differs.values())


_Compared = Sequence[tuple[Summary, Mapping[tuple[object, ...], PublishedRow]]]
"""Each run with its published rows by their key."""


def paper_tables(runs: Runs) -> tuple[Table, ...]:
    """The tables of a benchmark's paper with these runs of it in them, the most informative one first.

    Args:
        runs: what to call each run, and its summary; all of one benchmark and task.
    """
    filled = (_fill(shape, runs) for shape in shapes([summary for _, summary in runs]))
    return tuple(table for table in filled if table is not None)


def tables_together(runs: Runs) -> tuple[Table, ...]:
    """The papers' tables of every benchmark and task that there are several runs of."""
    groups: dict[tuple[str, str], list[tuple[str, Summary]]] = {}
    for name, summary in runs:
        groups.setdefault((summary.benchmark, summary.task), []).append((name, summary))
    return tuple(table for group in groups.values() if len(group) > 1 for table in paper_tables(group))


def _fill(shape: Shape, runs: Runs) -> Table | None:
    """A paper's table with these runs in it; None where they have no figure in it."""
    table, columns, slots = shape
    columns = [*columns, *_further_columns(columns, slots, runs)]
    compared = [
        (summary, {} if summary.data.demo else {_key(row): row for row in summary.published}) for _, summary in runs
    ]
    cells = [column.at(slot) for column in columns for slot in slots]
    systems = [*_our_systems(table, runs, cells), *_published_systems(table, compared)]
    domains = {name for _, summary in runs for name in summary.breakdowns.get("domain", {})}
    pairs = product(slots, systems) if table.by_row else ((slot, system) for system in systems for slot in slots)
    lines = [_line(slot, system, columns, compared, domains) for slot, system in pairs]
    lines = [line for line in lines if any(line.figures)]
    if not any(line.system.ours for line in lines):
        return None
    filled = [index for index in range(len(columns)) if any(line.figures[index] for line in lines)]
    # A row over one set of samples has its count at its end; the counts of others are beneath their figures.
    counted = any(len(_counts(line)) == 1 for line in lines)
    heads = tuple(_heads(table, [columns[index] for index in filled], counted))
    rows: list[Row] = []
    before: _Line | None = None
    for line, following in zip(lines, [*lines[1:], None], strict=True):
        if table.by_row and line.slot.over != (before.slot.over if before else ""):
            rows.append(Row((line.slot.over, *[""] * (len(heads) - 1)), "group"))
            before = None
        kind: RowKind = "ours" if line.system.ours else "dim" if line.dimmed else "plain"
        names, counts = list(_names(table, columns, line, before)), _counts(line)
        at_end = counts if len(counts) == 1 else [""]
        beneath = (*[""] * len(names), *(_count(line.figures[index]) for index in filled), *[""] * counted)
        rows.append(Row((*names, *_cells(line, filled), *at_end * counted), kind, counts=beneath))
        if len(counts) > 1 and not _counted_together(line, following):
            place = int(bool(table.heads[1]))
            labelled = (*beneath[:place], N, *beneath[place + 1 :])
            rows.append(Row(labelled, "plain" if place else "below", counting=True))
        before = line
    title = f"As {table.sources[0]}: {table.title}"
    legend = tuple(_legend(table, runs, lines))
    return Table(title, heads, tuple(rows), legend, tight=True, narrow=True, groups="part")


def _line(slot: Slot, system: _System, columns: Sequence[Slot], compared: _Compared, domains: set[str]) -> _Line:
    cells = [column.at(slot) for column in columns]
    figures = [_figure(system, cell, domains) for cell in cells]
    return _Line(slot, system, figures, _differs(cells, figures, compared))


# --- who has rows ----------------------------------------------------------------------------------------------------


def _further_columns(columns: Sequence[Slot], slots: Sequence[Slot], runs: Runs) -> Iterator[Slot]:
    """Columns of the forms of metrics that nobody published, where a run has them: no figure of ours is under a head of
    the paper's that measured something else."""
    for variant, column in product(VARIANTS, columns):
        further = column.of(variant)
        cells = [further.at(slot) for slot in slots]
        if not column.variant and any(_measured(summary, cell) for _, summary in runs for cell in cells):
            yield further


_WHO = ("generator", "predictions", "protocol", "steps", "judge")
_FOUND = ("retriever", "passages", "query")
"""Roles that have to be the same in runs of one system; the second ones where both runs show what was found."""


def _our_systems(table: PaperTable, runs: Runs, cells: Sequence[Slot]) -> Iterator[_System]:
    groups: list[list[tuple[str, Summary]]] = []
    for name, summary in runs:
        others = (
            group
            for group in groups
            if all(_same_system(other, summary) and _same_samples(other, summary, cells) for _, other in group)
        )
        group = next(others, None) if table.joined else None
        if group is None:
            groups.append([(name, summary)])
        else:
            group.append((name, summary))
    for group in groups:
        name = group[0][0] if len(group) == 1 else "these runs" if len(groups) == 1 else ", ".join(n for n, _ in group)
        summaries = tuple(summary for _, summary in group)
        yield _System(name, summaries)
        yield from (_System(f"{name} [{baseline}]", summaries, baseline) for baseline in table.baselines)


def _same_system(first: Summary, second: Summary) -> bool:
    """Whether two runs are one system in two settings: who answered, what found, and who judged are the same."""
    found = [tuple(map(summary.specs.get, _FOUND)) for summary in (first, second) if summary.setting != "reference"]
    return (
        first.setting != second.setting
        and all(first.specs.get(role) == second.specs.get(role) for role in _WHO)
        and len(set(found)) < 2
    )


def _same_samples(first: Summary, second: Summary, cells: Sequence[Slot]) -> bool:
    """Whether the figures that two runs have in a table are over the same samples, by their ids."""
    sides = [
        {summary.samples.get(_part_name(summary, cell.part)) for cell in cells if _measured(summary, cell)}
        for summary in (first, second)
    ]
    return sides[0] == sides[1] and None not in sides[0]


def _published_systems(table: PaperTable, compared: _Compared) -> list[_System]:
    """The systems that the runs are compared with, in the paper's order; recorded runs scored again last."""
    by_name: dict[str, list[Fact]] = {}
    for source in table.sources:
        for fact in facts():
            fits = all(str(getattr(fact, name)).casefold() == value for name, value in table.facts.items())
            if fits and fact.source.split(",")[0] == source and any(_key(fact) in rows for _, rows in compared):
                name = f"{fact.system} (rerun)" if fact.source == RERUN else fact.system
                by_name.setdefault(name, []).append(fact)
    return [_System(name, facts=tuple(group)) for name, group in by_name.items()]


def _key(row: Fact | PublishedRow) -> tuple[object, ...]:
    return row.source, row.system, row.subset, row.setting, row.query, tuple(row.domains)


# --- figures ---------------------------------------------------------------------------------------------------------


def _figure(system: _System, cell: Slot, domains: set[str]) -> _Figure | None:
    if not system.ours:
        return _published(system.facts, cell, domains)
    cell = cell.model_copy(update={"variant": cell.variant or system.baseline})
    for summary in system.ours:
        if (measured := _measured(summary, cell)) is not None:
            name, metric = measured
            judge = cell.variant or judges_of(summary, name)
            return _Figure(_text(cell, metric.mean or 0.0), samples_of(name, metric), judge)
    return None


def _measured(summary: Summary, cell: Slot) -> tuple[str, MetricSummary] | None:
    """The first metric of a cell that a run has a mean of, in the cell's form."""
    variant = cell.variant
    if not cell.ours or cell.setting not in (None, summary.setting) or cell.query not in (None, query_of(summary)):
        return None
    metrics = _part(summary, cell.part)
    for expected in cell.metrics:
        for name, metric in metrics.items():
            fits = name == expected if not variant else _variant(name) == variant and untagged(name) == expected
            judge = variant or judges_of(summary, name)
            if fits and metric.mean is not None and (cell.judge is None or model_key(judge) == model_key(cell.judge)):
                return name, metric
    return None


def _variant(name: str) -> str:
    """The one form that a metric's name has: `embedded` of `rl_f[embedded].idk[embedded]`."""
    tags = {part.partition("]")[0] for part in name.split("[")[1:]}
    return tags.pop() if len(tags) == 1 else ""


def _part(summary: Summary, part: Mapping[str, str]) -> Metrics:
    """Our figures over a part of the samples."""
    part = _narrowed(summary, part)
    if not part:
        return summary.metrics
    return summary.breakdowns.get("+".join(part), {}).get(", ".join(part.values()), {})


def _part_name(summary: Summary, part: Mapping[str, str]) -> str:
    """What the summary's hashes of samples call a part."""
    part = _narrowed(summary, part)
    return f"{'+'.join(part)}={', '.join(part.values())}" if part else "all"


def _narrowed(summary: Summary, part: Mapping[str, str]) -> Mapping[str, str]:
    """The dimensions of a part, of several without those in which all samples are alike."""
    if len(part) < 2:
        return part
    return {name: value for name, value in part.items() if set(summary.breakdowns.get(name, {})) != {value}}


def _published(known: Sequence[Fact], cell: Slot, domains: set[str]) -> _Figure | None:
    """What was published for a cell; where it was for several sets of domains, for those of the run."""
    part = {name: value for name, value in cell.part.items() if name != "domain"}
    domain = cell.part.get("domain")
    fitting = [
        (fact, name)
        for fact in known
        for name in cell.metrics
        if name in fact.metrics
        and not cell.variant
        and fact.part == part
        and (fact.domains == (domain,) if domain else len(fact.domains) != 1 or set(fact.domains) == domains)
        and cell.setting in (None, fact.setting)
        and cell.query in (None, fact.query)
        and cell.judge in (None, *fact.instruments[name].judges)
    ]
    if not fitting:
        return None
    fact, name = max(fitting, key=lambda pair: (set(pair[0].domains) == domains, len(pair[0].domains)))
    return _Figure(_text(cell, fact.metrics[name]), fact.n, ", ".join(fact.instruments[name].judges), name, fact)


def _text(cell: Slot, value: float) -> str:
    return f"{value:{cell.form}}".removesuffix("%")


# --- what differs ----------------------------------------------------------------------------------------------------


def _differs(
    cells: Sequence[Slot], figures: Sequence[_Figure | None], compared: _Compared
) -> dict[int, tuple[str, ...]]:
    """Column -> in what its published figure differs from those of the runs: the cells that both have, else all."""
    every: dict[int, dict[str, None]] = {}
    shared: dict[int, dict[str, None]] = {}
    for summary, rows in compared:
        for index, (cell, figure) in enumerate(zip(cells, figures, strict=True)):
            row = rows.get(_key(figure.fact)) if figure and figure.fact else None
            if figure is None or row is None:
                continue
            aspects = dict.fromkeys(row.differs_in(figure.metric))
            every.setdefault(index, {}).update(aspects)
            if _measured(summary, cell) is not None:
                shared.setdefault(index, {}).update(aspects)
    return {index: tuple(aspects) for index, aspects in (shared or every).items()}


def _legend(table: PaperTable, runs: Runs, lines: Sequence[_Line]) -> Iterator[str]:
    if any(summary.data.demo for _, summary in runs):
        yield "no published rows: demo data is not the benchmark"
        return
    parts = [table.note] if table.note else []
    if differs := dict.fromkeys(aspect for line in lines for cell in line.differs.values() for aspect in cell):
        whom = "this run" if len(runs) == 1 else "these runs"
        parts.append(f"{MARK} not comparable with {whom} ({', '.join(differs)}); summary.json has the reasons")
    if any(fact.source == RERUN for line in lines for fact in line.system.facts):
        parts.append("rerun: recorded runs of known systems over the full corpora, scored by Turnmark")
    if parts:
        yield "; ".join(parts)


# --- rows and columns ------------------------------------------------------------------------------------------------


def _heads(table: PaperTable, columns: Sequence[Slot], counted: bool) -> Iterator[Column]:
    system, row = table.heads
    yield from (Column(name) for name in ((row, system) if table.by_row else (system, row)) if name)
    yield from [Column("judge")] if table.judged else []
    yield from (Column(column.label, True, over=column.over) for column in columns)
    yield from [Column(N, True)] if counted else []


def _names(table: PaperTable, columns: Sequence[Slot], line: _Line, before: _Line | None) -> Iterator[str]:
    """The name of the system and the label of the row, the first of them only where it changes."""
    name = table.published if line.system.facts and table.published else line.system.name
    mark = MARK if line.dimmed else ""
    if not table.heads[1]:
        yield name + mark
    elif table.by_row:
        yield "" if before and before.slot == line.slot else line.slot.label
        yield name + mark
    else:
        yield "" if before and before.system == line.system else name
        yield line.slot.label + mark
    if table.judged:
        index = next(index for index, column in enumerate(columns) if table.judged in column.metrics)
        figure = line.figures[index]
        yield (figure.judge if figure else "") or "-"


def _cells(line: _Line, filled: Sequence[int]) -> Iterator[str]:
    """A figure that is not comparable is marked, unless the row is."""
    for index in filled:
        figure = line.figures[index]
        mark = MARK if line.differs.get(index) and not line.dimmed else ""
        yield figure.text + mark if figure else "-"


def _count(figure: _Figure | None) -> str:
    """The samples of a figure; `-`: the source does not say."""
    if figure is None:
        return ""
    return "-" if figure.n is None else str(figure.n)


def _counts(line: _Line) -> list[str]:
    """The counts of a line's figures, each once."""
    return list(dict.fromkeys(_count(figure) for figure in line.figures if figure))


def _counted_together(line: _Line, following: _Line | None) -> bool:
    """Whether the next line is a published one over the same samples, so that one row of counts does for both."""
    if following is None or line.system.ours or following.system.ours or line.slot.over != following.slot.over:
        return False
    return list(map(_count, line.figures)) == list(map(_count, following.figures))
