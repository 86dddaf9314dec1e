"""Runs as rows of a paper's own table, next to the rows that the paper printed.

A `PaperTable` says what each row and column of the printed table is of; `fill` fills it with the figures of our runs
and with published ones, in the paper's order and digits. A published row without a comparable figure is
dimmed and marked; where only some may not, these are marked. One line beneath says in what they differ. Demo data is
compared with nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from turnmark.evaluation.judging.judge import model_key, short_name
from turnmark.evaluation.published import RERUN, Fact, facts
from turnmark.evaluation.records import Metrics, MetricSummary, PublishedRow, Summary
from turnmark.evaluation.report.tables import Column, Row, RowKind, Table, untagged

MARK = "†"
"""Stands behind the name of a published row, or behind a figure of it, that is not comparable."""

Runs = Sequence[tuple[str, Summary]]
"""What to call each run, and its summary."""


@dataclass(frozen=True)
class Slot:
    """A row or a column of a paper's table. A cell is of both: its parts are joined.

    Attributes:
        label: as in the paper.
        over: a heading of several columns, or above several rows.
        metrics: of a column, the first that was measured counts; `{}` is replaced by the row's key.
        part: dimension -> value: which samples; empty: all of them.
        setting, query, judge: what a figure was made with; None: anything.
        form: format of a figure, as the paper prints it; of a percentage the head has the sign.
        variant: `embedded`: of this form of the metrics, which nobody published.
        ours: False: only the paper has these samples.
    """

    label: str = ""
    over: str = ""
    metrics: tuple[str, ...] = ()
    key: str = ""
    part: Mapping[str, str] = field(default_factory=dict)
    setting: str | None = None
    query: str | None = None
    judge: str | None = None
    form: str = ".2f"
    variant: str = ""
    ours: bool = True

    def at(self, row: Slot) -> Slot:
        """The cell of this column in a row."""
        return replace(
            self,
            metrics=tuple(name.format(row.key) for name in self.metrics),
            part={**row.part, **self.part},
            query=self.query or row.query,
            ours=self.ours and row.ours,
        )

    def of(self, variant: str) -> Slot:
        """The column of another form of the metrics, named after it."""
        label, over = (self.label, f"{self.over} [{variant}]") if self.over else (f"{self.label} [{variant}]", "")
        return replace(self, label=label, over=over, variant=variant)


@dataclass(frozen=True)
class PaperTable:
    """The shape of a printed table.

    Attributes:
        sources: where its figures were published, as a fact's `source` begins.
        heads: of the column of systems, and of the one of rows.
        by_row: a row of the paper with all systems, one row after the other; else a system with all its rows.
        facts: which facts of the sources belong in it; None: all.
        published: what published rows are called; empty: by their systems.
        variants: forms of a metric, `[embedded]`, that have separate columns behind the paper's.
        baselines: forms of a metric, `[majority]`, that the paper prints as systems, and that have rows.
        judged: metric whose judge has a column.
        counted: whether there is a column of the number of samples.
        joined: runs of one system in different settings are one row.
    """

    sources: tuple[str, ...]
    title: str
    columns: tuple[Slot, ...]
    rows: tuple[Slot, ...] = (Slot(),)
    heads: tuple[str, str] = ("system", "")
    by_row: bool = False
    facts: Callable[[Fact], bool] | None = None
    published: str = ""
    variants: tuple[str, ...] = ("embedded", "script")
    baselines: tuple[str, ...] = ()
    judged: str = ""
    counted: bool = True
    joined: bool = False
    note: str = ""


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


_Line = tuple[Slot, _System, list[_Figure | None]]
_RowsByKey = Mapping[tuple[object, ...], PublishedRow]


def fill(table: PaperTable, runs: Runs) -> Table | None:
    """A paper's table with these runs in it; None where they have no figure in it."""
    known_rows: list[_RowsByKey] = [
        {} if summary.data.demo else {_key(row): row for row in summary.published} for _, summary in runs
    ]
    table = replace(table, columns=(*table.columns, *_further_columns(table, runs)))
    systems = [*_our_systems(table, runs), *_published_systems(table, known_rows)]
    domains = tuple(dict.fromkeys(name for _, summary in runs for name in summary.breakdowns.get("domain", {})))
    pairs = (
        [(row, system) for row in table.rows for system in systems]
        if table.by_row
        else [(row, system) for system in systems for row in table.rows]
    )
    lines = [
        (row, system, [_figure(system, column.at(row), domains) for column in table.columns]) for row, system in pairs
    ]
    lines = [line for line in lines if any(line[2])]
    if not any(system.ours for _, system, _ in lines):
        return None
    filled = [index for index in range(len(table.columns)) if any(figures[index] for _, _, figures in lines)]
    differs: dict[str, None] = {}
    rows: list[Row] = []
    over = ""
    for index, line in enumerate(lines):
        before = lines[index - 1] if index else None
        slot, system, _ = line
        if table.by_row and slot.over != over:
            over, before = slot.over, None
            rows.append(Row((over, *[""] * (len(_columns(table, filled)) - 1)), "group"))
        apart = _differs(table, line, runs, known_rows)
        differs |= dict.fromkeys(aspect for cell in apart.values() for aspect in cell)
        dimmed = bool(apart) and all(apart.values())
        marked = () if dimmed else tuple(index for index, aspects in apart.items() if aspects)
        kind: RowKind = "ours" if system.ours else "dim" if dimmed else "plain"
        rows.append(Row((*_names(table, line, before, dimmed), *_cells(table, line, filled, marked)), kind))
    title = f"As {table.sources[0]}: {table.title}"
    legend = tuple(_legend(table, runs, lines, differs))
    return Table(title, _columns(table, filled), tuple(rows), legend, tight=True, narrow=True)


def query_of(summary: Summary) -> str:
    """The query mode of a run; a run file of another system does not say."""
    return summary.specs.get("query") or "not said"


def judges_of(summary: Summary, metric: str) -> str:
    """The models that judged a metric of a run, by their short names; empty where nobody did."""
    panel = summary.judging.get(metric)
    return ", ".join(map(short_name, panel.judges)) if panel else ""


# --- who has rows ----------------------------------------------------------------------------------------------------


def _further_columns(table: PaperTable, runs: Runs) -> Iterator[Slot]:
    """Columns of the forms of metrics that nobody published, where a run has them: no figure of ours is under a head of
    the paper's that measured something else."""
    for variant in table.variants:
        for column in table.columns:
            slot = column.of(variant)
            cells = [slot.at(row) for row in table.rows]
            if not column.variant and any(_measured(summary, cell) for _, summary in runs for cell in cells):
                yield slot


_WHO = ("generator", "predictions", "protocol", "steps", "judge")
_FOUND = ("retriever", "passages", "query")
"""Roles that have to be the same in runs of one system; the second ones where both runs show what was found."""


def _our_systems(table: PaperTable, runs: Runs) -> Iterator[_System]:
    groups: list[list[tuple[str, Summary]]] = []
    for name, summary in runs:
        others = (group for group in groups if all(_same_system(other, summary) for _, other in group))
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


def _published_systems(table: PaperTable, known_rows: Sequence[_RowsByKey]) -> list[_System]:
    """The systems that the runs are compared with, in the paper's order; recorded runs scored again last."""
    by_name: dict[str, list[Fact]] = {}
    for source in table.sources:
        for fact in facts():
            if (
                _source(fact) == source
                and (table.facts is None or table.facts(fact))
                and any(_key(fact) in rows for rows in known_rows)
            ):
                by_name.setdefault(fact.system + (" (rerun)" if source == RERUN else ""), []).append(fact)
    return [_System(name, facts=tuple(group)) for name, group in by_name.items()]


def _source(fact: Fact) -> str:
    return RERUN if fact.source == RERUN else fact.source.split(",")[0]


def _key(row: Fact | PublishedRow) -> tuple[object, ...]:
    return row.source, row.system, row.subset, row.setting, row.query, tuple(row.domains)


# --- figures ---------------------------------------------------------------------------------------------------------


def _figure(system: _System, cell: Slot, domains: Sequence[str]) -> _Figure | None:
    if not system.ours:
        return _published(system.facts, cell, domains)
    cell = replace(cell, variant=cell.variant or system.baseline)
    for summary in system.ours:
        if (measured := _measured(summary, cell)) is not None:
            name, metric = measured
            return _Figure(_text(cell, metric.mean or 0.0), metric.n, cell.variant or judges_of(summary, name))
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
    """Our figures over a part of the samples; a dimension in which all samples are alike takes nothing away."""
    if len(part) > 1:
        part = {name: value for name, value in part.items() if set(summary.breakdowns.get(name, {})) != {value}}
    if not part:
        return summary.metrics
    return summary.breakdowns.get("+".join(part), {}).get(", ".join(part.values()), {})


def _published(known_rows: Sequence[Fact], cell: Slot, domains: Sequence[str]) -> _Figure | None:
    """What was published for a cell; where it was for several sets of domains, for those of the run."""
    part = {name: value for name, value in cell.part.items() if name != "domain"}
    domain = cell.part.get("domain")
    fitting = [
        (fact, name)
        for fact in known_rows
        for name in cell.metrics
        if name in fact.metrics
        and not cell.variant
        and fact.part == part
        and (fact.domains == (domain,) if domain else len(fact.domains) != 1 or set(fact.domains) == set(domains))
        and cell.setting in (None, fact.setting)
        and cell.query in (None, fact.query)
        and cell.judge in (None, *fact.instruments[name].judges)
    ]
    if not fitting:
        return None
    fact, name = max(fitting, key=lambda pair: (set(pair[0].domains) == set(domains), len(pair[0].domains)))
    return _Figure(_text(cell, fact.metrics[name]), fact.n, ", ".join(fact.instruments[name].judges), name, fact)


def _text(cell: Slot, value: float) -> str:
    return f"{value:{cell.form}}".removesuffix("%")


# --- what differs ----------------------------------------------------------------------------------------------------


def _differs(
    table: PaperTable, line: _Line, runs: Runs, known_rows: Sequence[_RowsByKey]
) -> dict[int, tuple[str, ...]]:
    """Column -> in what its published figure differs from those of the runs: the cells that both have, else all."""
    slot, _, figures = line
    every: dict[int, dict[str, None]] = {}
    shared: dict[int, dict[str, None]] = {}
    for (_, summary), rows in zip(runs, known_rows, strict=True):
        for index, (column, figure) in enumerate(zip(table.columns, figures, strict=True)):
            row = rows.get(_key(figure.fact)) if figure and figure.fact else None
            if figure is None or row is None:
                continue
            cell = column.at(slot)
            aspects = dict.fromkeys(row.differs_in(figure.metric))
            every.setdefault(index, {}).update(aspects)
            if _measured(summary, cell) is not None:
                shared.setdefault(index, {}).update(aspects)
    return {index: tuple(aspects) for index, aspects in (shared or every).items()}


def _legend(table: PaperTable, runs: Runs, lines: Sequence[_Line], differs: Mapping[str, None]) -> Iterator[str]:
    if any(summary.data.demo for _, summary in runs):
        yield "no published rows: demo data is not the benchmark"
        return
    parts = [table.note] if table.note else []
    if differs:
        whom = "this run" if len(runs) == 1 else "these runs"
        parts.append(f"{MARK} not comparable with {whom} ({', '.join(differs)}); summary.json has the reasons")
    if any(fact.source == RERUN for _, system, _ in lines for fact in system.facts):
        parts.append("rerun: recorded runs of known systems over the full corpora, scored by Turnmark")
    if parts:
        yield "; ".join(parts)


# --- rows and columns ------------------------------------------------------------------------------------------------


def _columns(table: PaperTable, filled: Sequence[int]) -> tuple[Column, ...]:
    system, row = table.heads
    labels = [row, system] if table.by_row else [system, row]
    names = [Column(name) for name in labels if name]
    judge = [Column("judge")] if table.judged else []
    figures = [Column(table.columns[index].label, True, over=table.columns[index].over) for index in filled]
    return (*names, *judge, *figures, *([Column("n", True)] if table.counted else []))


def _names(table: PaperTable, line: _Line, before: _Line | None, apart: bool) -> Iterator[str]:
    """The name of the system and the label of the row, the first of them only where it changes."""
    slot, system, figures = line
    name = table.published if system.facts and table.published else system.name
    mark = MARK if apart else ""
    if not table.heads[1]:
        yield name + mark
    elif table.by_row:
        yield "" if before and before[0] == slot else slot.label
        yield name + mark
    else:
        yield "" if before and before[1] == system else name
        yield slot.label + mark
    if table.judged:
        index = next(index for index, column in enumerate(table.columns) if table.judged in column.metrics)
        figure = figures[index]
        yield (figure.judge if figure else "") or "-"


def _cells(table: PaperTable, line: _Line, filled: Sequence[int], marked: Sequence[int]) -> Iterator[str]:
    figures = [line[2][index] for index in filled]
    yield from (
        figure.text + (MARK if index in marked else "") if figure else "-"
        for index, figure in zip(filled, figures, strict=True)
    )
    if table.counted:
        counts = [figure.n for figure in figures if figure and figure.n is not None]
        yield str(max(counts)) if counts else "-"
