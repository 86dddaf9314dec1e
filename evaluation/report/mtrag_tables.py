"""MTRAG's retrieval tables in the paper's shapes: a run beside what was published and what a rerun brought.

Table 3 sets systems and query forms against recall and nDCG; Table 4 breaks ELSER with rewrites down by turn, by
whether a turn stands alone, and by domain; Table 15 shows ELSER in each domain. ELSER stands in all of them twice: as
published, and as a rerun over the full corpora, which is weaker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from evaluation.published import RERUN, facts
from evaluation.records import Metrics, MetricSummary, PublishedRow, Summary
from evaluation.report.beside import asked, explained, left_over
from evaluation.report.tables import Column, Row, Table

CUTOFFS = (1, 3, 5, 10)
METRICS = tuple(f"{metric}@{k}" for metric in ("recall", "ndcg") for k in CUTOFFS)

_HEADS = tuple(f"{name}@{k}" if k == 1 else f"@{k}" for name in ("R", "nDCG") for k in CUTOFFS)
_SUBSETS = (("turn", "first", "later"), ("standalone", "standalone", "non-standalone"))


@dataclass(frozen=True)
class _Rows:
    """The rows of one of the paper's tables that were found among a run's published ones, and those of the rerun."""

    published: Sequence[PublishedRow]
    rerun: Sequence[PublishedRow]

    def each(self) -> Iterator[tuple[str, Sequence[PublishedRow]]]:
        """What they are called in a table, and they."""
        yield "published", self.published
        yield "rerun", self.rerun


def retrieval_tables(summary: Summary, alone: bool = False) -> tuple[Table, ...]:
    """Tables 3, 4 and 15 with this run in them; empty for other tasks, for demo data, and where nothing is known.

    The numbers in them stand for what makes a row not comparable; the last table says what they mean.

    Args:
        alone: no table of all published rows follows, so that the last one says where the others are.
    """
    if not _retrieval(summary) or summary.data.demo:
        return ()
    domains = tuple(summary.breakdowns.get("domain", {}))
    found = {number: _rows(summary, number, domains) for number in (3, 4, 15)}
    if not any(rows.published for rows in found.values()):
        return ()
    used = [row for rows in found.values() for _, group in rows.each() for row in group]
    aspects = list(dict.fromkeys(aspect for row in used for aspect in row.differs))
    made = [
        _by_system(summary, found[3], aspects),
        _by_subset(summary, found[4], aspects, domains),
        _by_domain(summary, found[15], aspects, domains),
    ]
    shown = len({id(row) for row in used})
    said = (*explained(summary, aspects), *(left_over(summary, shown) if alone else ()))
    return (*made[:-1], replace(made[-1], lines=(*made[-1].lines, *said)))


def runs_together(runs: Sequence[tuple[str, Summary]]) -> Table | None:
    """Several retrieval runs of MTRAG under each other in the shape of Table 3; None where there are fewer than two.

    Args:
        runs: what to call each, and its summary.
    """
    ours = [(name, summary) for name, summary in runs if _retrieval(summary)]
    if len(ours) < 2:
        return None
    columns = (Column("run"), Column("searched by"), Column("query"), Column("n", True), *_columns())
    rows = (
        Row((name, _system(summary), asked(summary), str(_n(summary.metrics)), *_means(summary.metrics)))
        for name, summary in ours
    )
    return Table("Retrieval runs", columns, tuple(rows), tight=True, narrow=True)


def _retrieval(summary: Summary) -> bool:
    return summary.benchmark == "mtrag" and summary.task == "retrieval"


def _system(summary: Summary) -> str:
    return summary.specs.get("retriever") or summary.specs.get("predictions") or "-"


# --- which rows ------------------------------------------------------------------------------------------------------


def _rows(summary: Summary, number: int, domains: Sequence[str]) -> _Rows:
    """The rows of a table, and of the rerun those that fill the same shape."""
    table = [row for row in summary.published if row.source.startswith(f"MTRAG Table {number},")]
    rerun = [row for row in summary.published if row.source == RERUN]
    if number == 3:
        return _Rows(table, _over(domains, [row for row in rerun if not _part(row)]))
    elser = [row for row in rerun if row.system == "ELSER"]
    if number == 4:
        elser = [row for row in elser if row.query == "rewrite" and (_part(row) or len(row.domains) == 1)]
    else:
        elser = [row for row in elser if not _part(row)]
    return _Rows(table, elser)


def _over(domains: Sequence[str], rows: Sequence[PublishedRow]) -> list[PublishedRow]:
    """The rows over these domains; where there are none, those over the most."""
    same = [row for row in rows if set(row.domains) == set(domains)]
    most = max((len(row.domains) for row in rows), default=0)
    return same or [row for row in rows if len(row.domains) == most]


def _part(row: PublishedRow) -> Mapping[str, str]:
    """The subset of a row as a dimension and its value; empty: all queries of its domains."""
    return _parts().get((row.source, row.subset), {})


@lru_cache(maxsize=1)
def _parts() -> Mapping[tuple[str, str], Mapping[str, str]]:
    return {(fact.source, fact.subset): fact.part for fact in facts() if fact.task == "retrieval"}


# --- the tables ------------------------------------------------------------------------------------------------------


def _by_system(summary: Summary, found: _Rows, aspects: Sequence[str]) -> Table:
    rows = [Row(("this run", asked(summary), *_means(summary.metrics), ""), "ours")]
    for name, group in found.each():
        if group:
            rows.append(Row((name, *[""] * (len(METRICS) + 2)), "group"))
            rows += [_published_row(row, row.system, aspects) for row in group]
    columns = (Column("system"), Column("query"), *_columns(), Column("differs"))
    title = "Beside published figures, as MTRAG Table 3: by system and query"
    lines = (*_sources(found), "what the numbers under `differs` mean stands beneath the last of these tables")
    return Table(title, columns, tuple(rows), lines, tight=True, narrow=True)


def _by_subset(summary: Summary, found: _Rows, aspects: Sequence[str], domains: Sequence[str]) -> Table:
    heads = ("n", "R@5", "published R@5 (n)", "rerun R@5 (n)", "nDCG@5", "rerun nDCG@5")
    rows: list[Row] = []
    for dimension, *values in (*_SUBSETS, ("domain", *domains)):
        rows.append(Row((dimension, *[""] * len(heads)), "group"))
        for value in values:
            ours = summary.breakdowns.get(dimension, {}).get(value, {})
            published, rerun = (_of(group, dimension, value) for _, group in found.each())
            cells = (
                str(_n(ours)), _mean(ours.get("recall@5")), _with_n(published), _with_n(rerun),
                _mean(ours.get("ndcg@5")), _printed(rerun, "ndcg@5"),
            )  # fmt: skip
            rows.append(Row((value, *cells), "below"))
    columns = (Column(""), *(Column(head, True) for head in heads))
    lines = [
        f"{line}; {_differing(group, aspects)}"
        for line, group in zip(_sources(found), filter(None, (found.published, found.rerun)), strict=True)
    ]
    lines.append("standalone: published by the paper's labels, here and in the rerun by those of 200 later turns")
    title = "As MTRAG Table 4: subsets, beside ELSER with rewrites"
    return Table(title, columns, tuple(rows), tuple(lines), tight=True, narrow=True)


def _by_domain(summary: Summary, found: _Rows, aspects: Sequence[str], domains: Sequence[str]) -> Table:
    columns = (Column("ELSER"), Column("query"), Column("n", True), *_columns(), Column("differs"))
    rows: list[Row] = []
    for domain in (*domains, "all"):
        ours = summary.metrics if domain == "all" else summary.breakdowns["domain"][domain]
        rows.append(Row((domain, *[""] * (len(columns) - 1)), "group"))
        rows.append(Row(("this run", asked(summary), str(_n(ours)), *_means(ours), "")))
        for name, group in found.each():
            whole = [row for row in group if len(row.domains) > 1]
            shown = whole if domain == "all" else [row for row in group if row.domains == (domain,)]
            rows += [_published_row(row, name, aspects, with_n=True) for row in shown]
    title = "As MTRAG Table 15: by domain, beside ELSER"
    lines = tuple(f"all, {line}" for line in _sources(found))
    return Table(title, columns, tuple(rows), lines, tight=True, narrow=True)


def _columns() -> Iterator[Column]:
    return (Column(head, True) for head in _HEADS)


def _published_row(row: PublishedRow, name: str, aspects: Sequence[str], with_n: bool = False) -> Row:
    count = (str(row.n or "-"),) if with_n else ()
    figures = (_printed(row, metric) for metric in METRICS)
    return Row((name, row.query or "-", *count, *figures, _numbers(row.differs, aspects) or "nothing"))


def _of(rows: Iterable[PublishedRow], dimension: str, value: str) -> PublishedRow | None:
    for row in rows:
        if dict(_part(row) or {"domain": ", ".join(row.domains)}) == {dimension: value}:
            return row
    return None


# --- cells and lines -------------------------------------------------------------------------------------------------


def _n(metrics: Metrics) -> int:
    return max((metrics[name].n for name in METRICS if name in metrics), default=0)


def _means(metrics: Metrics) -> tuple[str, ...]:
    return tuple(_mean(metrics.get(name)) for name in METRICS)


def _mean(metric: MetricSummary | None) -> str:
    return "-" if metric is None or metric.mean is None else f"{metric.mean:.3f}"


def _printed(row: PublishedRow | None, metric: str) -> str:
    """A figure with two digits where the source gives no more, as the paper prints it."""
    if row is None or metric not in row.metrics:
        return "-"
    digits = 2 if all(round(value, 2) == value for value in row.metrics.values()) else 3
    return f"{row.metrics[metric]:.{digits}f}"


def _with_n(row: PublishedRow | None) -> str:
    return "-" if row is None else f"{_printed(row, 'recall@5')} ({row.n or '-'})"


def _numbers(differs: Iterable[str], aspects: Sequence[str]) -> str:
    return ",".join(str(number) for number in sorted(aspects.index(aspect) + 1 for aspect in differs))


def _differing(rows: Iterable[PublishedRow], aspects: Sequence[str]) -> str:
    """`not comparable (1,2)`, of all the rows together."""
    numbers = _numbers(dict.fromkeys(aspect for row in rows for aspect in row.differs), aspects)
    return f"not comparable ({numbers})" if numbers else "comparable"


def _sources(found: _Rows) -> Iterator[str]:
    """`published: MTRAG Table 3, section 5.3; clapnq, cloud, fiqa, govt, 777 queries`, of each kind that is there."""
    for name, rows in found.each():
        if rows:
            widest = max(rows, key=lambda row: (len(row.domains), row.n or 0))
            counted = f", {widest.n} queries" if widest.n and not _part(widest) else ""
            note = f"; {widest.note}" if widest.note else ""
            yield f"{name}: {widest.source.removeprefix('rerun, ')}; {', '.join(widest.domains)}{counted}{note}"
