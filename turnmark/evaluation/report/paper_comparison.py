"""Fill a paper's tables with our runs, next to the rows that the paper printed.

`paper_tables.json` defines the rows and columns of each printed table. This module fills them with the values of our
runs and with published ones, in the paper's order and digits. A published row without any comparable value is dimmed
and marked; if only some of its values are not comparable, these are marked. A line beneath the table names the
differences. Runs on demo data are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from turnmark.core.grouping import group_pairs
from turnmark.evaluation.model_names import model_key
from turnmark.evaluation.records import Metrics, MetricSummary, PublishedRow, Summary
from turnmark.evaluation.report.paper_layouts import VARIANTS, PaperTable, Shape, Slot, judges_of, query_of, shapes
from turnmark.evaluation.report.tables import Column, ReportRow, RowKind, Table, make_columns, make_group, strip_tags
from turnmark.evaluation.scores.published_results import RERUN, PublishedFact, published_facts, samples_of

NOT_COMPARABLE_MARK = "†"
"""Suffix of a published row's name, or of one of its values, that is not comparable."""

Runs = Sequence[tuple[str, Summary]]
"""Displayed name and summary of each run."""


@dataclass(frozen=True)
class _System:
    """A system with rows in a table: our runs, a baseline of our runs, or a published system.

    Attributes:
        ours: summaries of our runs; empty for a published system.
        baseline: variant of the metrics, such as `majority`; empty if the system is not a baseline.
        facts: published values; empty for our runs.
    """

    name: str
    ours: tuple[Summary, ...] = ()
    baseline: str = ""
    facts: tuple[PublishedFact, ...] = ()


@dataclass(frozen=True)
class _PaperCell:
    """A cell of the table, with its number of samples, and its judge and published fact if it has them."""

    text: str
    n: int | None
    judge: str = ""
    metric: str = ""
    fact: PublishedFact | None = None


@dataclass(frozen=True)
class _Line:
    """A row of the table: a system in a slot, and its values by column.

    Attributes:
        differs: column index -> aspects in which a published value differs from ours.
    """

    slot: Slot
    system: _System
    values: Sequence[_PaperCell | None]
    differs: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def dimmed(self) -> bool:
        return bool(self.differs) and all(self.differs.values())

    @property
    def kind(self) -> RowKind:
        return "ours" if self.system.ours else "dim" if self.dimmed else "plain"


_ComparedSummaries = Sequence[tuple[Summary, Mapping[tuple[object, ...], PublishedRow]]]
"""Each run with its published rows, by key."""


def paper_tables(runs: Runs) -> tuple[Table, ...]:
    """Return the tables of a benchmark's paper with these runs in them, the most informative one first.

    Args:
        runs: displayed name and summary of each run; all of one benchmark and task. A run over other documents than
            those of the benchmark has no place in these tables.
    """
    if any(is_over_other_documents(summary) for _, summary in runs):
        return ()
    filled = (_fill(shape, runs) for shape in shapes([summary for _, summary in runs]))
    return tuple(table for table in filled if table is not None)


def is_over_other_documents(summary: Summary) -> bool:
    """Return whether a run is over documents of none of the published domains, such as the run of a `check`.

    Without this, the check of one's own notes would be listed between systems that were measured on Wikipedia.
    """
    published = {domain for row in summary.published for domain in row.domains}
    own = summary.breakdowns.get("domain", {}).keys()
    return bool(published and own) and not summary.data.demo and not published & own


def tables_together(runs: Runs) -> tuple[Table, ...]:
    """Return the papers' tables of every benchmark and task with several runs."""
    groups = group_pairs(((summary.benchmark, summary.task), (name, summary)) for name, summary in runs)
    return tuple(table for group in groups.values() if len(group) > 1 for table in paper_tables(group))


def _fill(shape: Shape, runs: Runs) -> Table | None:
    """Return a paper's table with these runs in it, or None if they have no value in it."""
    table, columns, slots = shape
    runs = [(name, summary) for name, summary in runs if summary.setting not in table.without]
    columns = [*columns, *_further_columns(columns, slots, runs)]
    lines = _lines(table, columns, slots, runs)
    if not any(line.system.ours for line in lines):
        return None
    filled = [index for index in range(len(columns)) if any(line.values[index] for line in lines)]
    heads = tuple(_heads(table, [columns[index] for index in filled]))
    rows: list[ReportRow] = []
    before: _Line | None = None
    for line in lines:
        if table.by_row and line.slot.over != (before.slot.over if before else ""):
            rows.append(make_group(line.slot.over, heads))
            before = None
        cells = (*_names(table, columns, line, before), *_cells(line, filled), _count(line))
        rows.append(ReportRow(cells, line.kind))
        before = line
    title = f"As {table.sources[0]}: {table.title}"
    legend = tuple(_legend(table, runs, lines))
    return Table(title, heads, tuple(rows), legend, tight=True, narrow=True, groups="part")


def _lines(table: PaperTable, columns: Sequence[Slot], slots: Sequence[Slot], runs: Runs) -> list[_Line]:
    """Return every row of the table that has a value, in the paper's order."""
    compared = [
        (summary, {} if summary.data.demo else {_key(row): row for row in summary.published}) for _, summary in runs
    ]
    cells = [column.at(slot) for column in columns for slot in slots]
    systems = [*_our_systems(table, runs, cells), *_published_systems(table, compared)]
    domains = {name for _, summary in runs for name in summary.breakdowns.get("domain", {})}
    pairs = product(slots, systems) if table.by_row else ((slot, system) for system in systems for slot in slots)
    lines = [_line(slot, system, columns, compared, domains) for slot, system in pairs]
    return [line for line in lines if any(line.values)]


def _line(
    slot: Slot, system: _System, columns: Sequence[Slot], compared: _ComparedSummaries, domains: set[str]
) -> _Line:
    cells = [column.at(slot) for column in columns]
    values = [_make_cell(system, cell, domains) for cell in cells]
    return _Line(slot, system, values, _differs(cells, values, compared))


# --- systems with rows -----------------------------------------------------------------------------------------------


def _further_columns(columns: Sequence[Slot], slots: Sequence[Slot], runs: Runs) -> Iterator[Slot]:
    """Yield columns for the variants of metrics that a run measured and nobody published.

    This keeps our values out of columns of the paper that measured something else.
    """
    for variant, column in product(VARIANTS, columns):
        further = column.of(variant)
        cells = [further.at(slot) for slot in slots]
        if not column.variant and any(_find_metric(summary, cell) for _, summary in runs for cell in cells):
            yield further


_ANSWER_ROLES = ("generator", "predictions", "protocol", "steps", "judge")
_RETRIEVAL_ROLES = ("retriever", "passages", "query")
"""Roles whose specs are the same in all runs of one system; `_RETRIEVAL_ROLES` only in runs that searched."""


def _our_systems(table: PaperTable, runs: Runs, cells: Sequence[Slot]) -> Iterator[_System]:
    groups: list[list[tuple[str, Summary]]] = []
    for name, summary in runs:
        # Runs of one system over the same samples share a row.
        same = (group for group in groups if table.joined and _is_one_system(summary, group, cells))
        if (group := next(same, None)) is None:
            groups.append(group := [])
        group.append((name, summary))
    for group in groups:
        name = ", ".join(run_name for run_name, _ in group)
        if len(group) > 1 and len(groups) == 1:
            name = "these runs"
        summaries = tuple(summary for _, summary in group)
        yield _System(name, summaries)
        for baseline in table.baselines:
            yield _System(f"{name} [{baseline}]", summaries, baseline)


def _is_one_system(summary: Summary, group: Runs, cells: Sequence[Slot]) -> bool:
    """Return whether a run is of the same system as a group of runs, over the same samples."""
    return all(_same_system(other, summary) and _same_samples(other, summary, cells) for _, other in group)


def _same_system(first: Summary, second: Summary) -> bool:
    """Return whether two runs are one system in two settings: generator, retrieval and judge are the same."""
    if first.setting == second.setting:
        return False
    if any(first.specs.get(role) != second.specs.get(role) for role in _ANSWER_ROLES):
        return False
    if "reference" in (first.setting, second.setting):
        return True
    return all(first.specs.get(role) == second.specs.get(role) for role in _RETRIEVAL_ROLES)


def _same_samples(first: Summary, second: Summary, cells: Sequence[Slot]) -> bool:
    """Return whether the values that two runs have in a table are over the same samples, by ids and number.

    The ids include samples that failed, so a metric that failed on some samples of one run has another number.
    """
    first_hashes = _sample_hashes(first, cells)
    if None in first_hashes or first_hashes != _sample_hashes(second, cells):
        return False
    first_counts, second_counts = _sample_counts(first, cells), _sample_counts(second, cells)
    return all(first_counts[name] == second_counts[name] for name in first_counts.keys() & second_counts.keys())


def _sample_hashes(summary: Summary, cells: Sequence[Slot]) -> set[str | None]:
    return {summary.samples.get(_part_name(summary, cell.part)) for cell in cells if _find_metric(summary, cell)}


def _sample_counts(summary: Summary, cells: Sequence[Slot]) -> dict[str, int]:
    measured = [_find_metric(summary, cell) for cell in cells]
    return {name: samples_of(name, metric) for name, metric in filter(None, measured)}


def _published_systems(table: PaperTable, compared: _ComparedSummaries) -> list[_System]:
    """Return the systems that the runs are compared with, in the paper's order; recorded runs scored again last."""
    by_name: dict[str, list[PublishedFact]] = {}
    for source in table.sources:
        for fact in published_facts():
            fits = all(str(getattr(fact, name)).casefold() == value for name, value in table.facts.items())
            if fits and fact.source.split(",")[0] == source and any(_key(fact) in rows for _, rows in compared):
                name = f"{fact.system} (rerun)" if fact.source == RERUN else fact.system
                by_name.setdefault(name, []).append(fact)
    return [_System(name, facts=tuple(group)) for name, group in by_name.items()]


def _key(row: PublishedFact | PublishedRow) -> tuple[object, ...]:
    return row.source, row.system, row.subset, row.setting, row.query, tuple(row.domains)


# --- values ---------------------------------------------------------------------------------------------------------


def _make_cell(system: _System, cell: Slot, domains: set[str]) -> _PaperCell | None:
    if not system.ours:
        return _find_published(system.facts, cell, domains)
    cell = cell.model_copy(update={"variant": cell.variant or system.baseline})
    for summary in system.ours:
        if measured := _find_metric(summary, cell):
            name, metric = measured
            judge = cell.variant or judges_of(summary, name)
            return _PaperCell(_text(cell, metric.mean or 0.0), samples_of(name, metric), judge)
    return None


def _find_metric(summary: Summary, cell: Slot) -> tuple[str, MetricSummary] | None:
    """Return name and summary of the first metric of a cell, in the cell's variant, that has a mean in a run."""
    variant = cell.variant
    if not cell.ours or cell.setting not in (None, summary.setting) or cell.query not in (None, query_of(summary)):
        return None
    metrics = _part(summary, cell.part)
    for expected, (name, metric) in product(cell.metrics, metrics.items()):
        fits = name == expected
        if variant:
            fits = _variant(name) == variant and strip_tags(name) == expected
        judge = variant or judges_of(summary, name)
        if fits and metric.mean is not None and (cell.judge is None or model_key(judge) == model_key(cell.judge)):
            return name, metric
    return None


def _variant(name: str) -> str:
    """Return the variant in a metric's name (`embedded` of `rl_f[embedded].idk[embedded]`), or "" if it has not one."""
    tags = {part.partition("]")[0] for part in name.split("[")[1:]}
    return tags.pop() if len(tags) == 1 else ""


def _part(summary: Summary, part: Mapping[str, str]) -> Metrics:
    part = _narrow_part(summary, part)
    if not part:
        return summary.metrics
    return summary.breakdowns.get("+".join(part), {}).get(", ".join(part.values()), {})


def _part_name(summary: Summary, part: Mapping[str, str]) -> str:
    """Return the key of a part in the summary's hashes of samples."""
    part = _narrow_part(summary, part)
    return f"{'+'.join(part)}={', '.join(part.values())}" if part else "all"


def _narrow_part(summary: Summary, part: Mapping[str, str]) -> Mapping[str, str]:
    """Drop from a part of several dimensions those in which all samples have the same value."""
    if len(part) < 2:
        return part
    return {name: value for name, value in part.items() if set(summary.breakdowns.get(name, {})) != {value}}


def _find_published(known: Sequence[PublishedFact], cell: Slot, domains: set[str]) -> _PaperCell | None:
    """Return the published value of a cell, over all domains of the paper unless the cell is one domain's.

    Only the rerun, which no paper printed, is shown over the domains of the run.
    """
    if cell.variant:
        return None
    fitting = [
        (fact, name)
        for fact, name in product(known, cell.metrics)
        if name in fact.metrics
        and cell.judge in (None, *fact.instruments[name].judges)
        and _is_over(fact, cell, domains)
    ]
    if not fitting:
        return None
    fact, name = max(fitting, key=lambda pair: (_is_rerun_over(pair[0], domains), len(pair[0].domains)))
    return _PaperCell(_text(cell, fact.metrics[name]), fact.n, ", ".join(fact.instruments[name].judges), name, fact)


def _is_over(fact: PublishedFact, cell: Slot, domains: set[str]) -> bool:
    """Return whether a fact is over the samples of a cell, in its setting and query mode."""
    domain = cell.part.get("domain")
    same_domains = len(fact.domains) != 1 or _is_rerun_over(fact, domains)
    if domain:
        same_domains = fact.domains == (domain,)
    other_dimensions = {name: value for name, value in cell.part.items() if name != "domain"}
    return (
        same_domains
        and fact.part == other_dimensions
        and cell.setting in (None, fact.setting)
        and cell.query in (None, fact.query)
    )


def _is_rerun_over(fact: PublishedFact, domains: set[str]) -> bool:
    return fact.source == RERUN and set(fact.domains) == domains


def _text(cell: Slot, value: float) -> str:
    return f"{value:{cell.form}}".removesuffix("%")


# --- what differs ----------------------------------------------------------------------------------------------------


def _differs(
    cells: Sequence[Slot], values: Sequence[_PaperCell | None], compared: _ComparedSummaries
) -> dict[int, tuple[str, ...]]:
    """Return column index -> aspects in which its published value differs from those of the runs.

    Only cells in which a run has a value count. If there is no such cell, all of them count.
    """
    every: dict[int, dict[str, None]] = {}
    shared: dict[int, dict[str, None]] = {}
    for summary, rows in compared:
        for index, (cell, value) in enumerate(zip(cells, values, strict=True)):
            row = rows.get(_key(value.fact)) if value and value.fact else None
            if value is None or row is None:
                continue
            aspects = dict.fromkeys(row.differs_by_metric.get(value.metric, row.differs))
            every.setdefault(index, {}).update(aspects)
            if _find_metric(summary, cell) is not None:
                shared.setdefault(index, {}).update(aspects)
    return {index: tuple(aspects) for index, aspects in (shared or every).items()}


def _legend(table: PaperTable, runs: Runs, lines: Sequence[_Line]) -> Iterator[str]:
    if any(summary.data.demo for _, summary in runs):
        yield "no published rows: demo data is not the benchmark"
        return
    remarks = [table.note] if table.note else []
    differing = dict.fromkeys(aspect for line in lines for aspects in line.differs.values() for aspect in aspects)
    if differing:
        whom = "this run" if len(runs) == 1 else "these runs"
        remarks.append(
            f"{NOT_COMPARABLE_MARK} not comparable with {whom} ({', '.join(differing)}); summary.json has the reasons"
        )
    if any(fact.source == RERUN for line in lines for fact in line.system.facts):
        remarks.append("rerun: recorded runs of known systems over the full corpora, scored by Turnmark")
    if remarks:
        yield "; ".join(remarks)


# --- rows and columns ------------------------------------------------------------------------------------------------


def _heads(table: PaperTable, columns: Sequence[Slot]) -> Iterator[Column]:
    system_head, row_head = table.heads
    name_heads = [row_head, system_head] if table.by_row else [system_head, row_head]
    yield from make_columns(filter(None, (*name_heads, "judge" if table.judged else "")))
    for column in columns:
        yield Column(column.label, True, over=column.over)
    yield Column("n", True)


def _names(table: PaperTable, columns: Sequence[Slot], line: _Line, before: _Line | None) -> Iterator[str]:
    """Yield the name of the system and the label of the row. A name that repeats is left blank."""
    name = table.published if line.system.facts and table.published else line.system.name
    mark = NOT_COMPARABLE_MARK if line.dimmed else ""
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
        value = line.values[index]
        yield (value.judge if value else "") or "-"


def _cells(line: _Line, filled: Sequence[int]) -> Iterator[str]:
    """Yield the values of a row. A value that is not comparable is marked, unless the whole row is marked."""
    for index in filled:
        value = line.values[index]
        mark = NOT_COMPARABLE_MARK if line.differs.get(index) and not line.dimmed else ""
        yield value.text + mark if value else "-"


def _count(line: _Line) -> str:
    """Return the number of samples of a row's values, `3-12` if they differ; `-`: the source does not say."""
    counts = sorted({value.n for value in line.values if value and value.n is not None})
    return "-".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else "-"
