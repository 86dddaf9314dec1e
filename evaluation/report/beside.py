"""The published rows beside ours, as tables: a readable choice for the terminal, all of them for a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from evaluation.records import Metrics, PublishedRow, Summary
from evaluation.report.tables import Column, Row, Table, chosen, mean

ROWS = 12
"""Published rows that a terminal shows; the rest is counted."""

TITLE = "Beside published figures"
"""What stands above published figures, as a table or a plot."""

_NOTHING = "No published figures are known for this benchmark and task."
_LEGEND = {
    "documents": "other passages were searched, or the run does not say which",
    "domains": "it is over other domains",
    "subset": "we have no figures for that subset",
    "n": "it counts another number of {noun}, or does not say how many",
    "query": "it was searched for in another way, or the run does not say how",
    "setting": "the answers were made in another setting",
    "judge": "another judge gave the figures, or none did here",
    "metric": "something else computed it",
    "data": "it is over other data",
}


def short(summary: Summary, most: int, rows: int = ROWS) -> Table:
    """The rows nearest to the run, each beneath our own figures for the same slice, with reasons by number.

    Shown are rows of the run's own setting and query mode (of others only where nobody published these) that have a
    figure beside ours; comparable ones go first, then those that differ in the least.

    Args:
        most: number of metrics.
        rows: number of published rows.
    """
    if not summary.published:
        return Table(TITLE, (), (), (_NOTHING,))
    nearest = [row for row in near(summary) if row.slice]
    names = _shared(summary, nearest)[:most]
    nearest = [row for row in nearest if any(name in row.metrics for name in names)]
    order = sorted(range(len(nearest)), key=lambda at: (not nearest[at].comparable, len(nearest[at].differs)))
    picked = [nearest[at] for at in sorted(order[:rows])]
    optional = ["setting"] if {_theirs(row, "setting") for row in picked} - {_ours(summary, "setting")} else []
    optional += ["query"] if any(row.query for row in picked) else []
    groups = _grouped(picked)
    aspects = list(dict.fromkeys(aspect for group in groups.values() for row in group for aspect in row.differs))
    table_rows: list[Row] = []
    for where, group in groups.items():
        table_rows.append(_our_row(summary, where, names, [_ours(summary, name) for name in optional]))
        for row in group:
            numbers = ",".join(str(aspects.index(aspect) + 1) for aspect in row.differs)
            source = row.source.split(",")[0].removeprefix("MTRAG ")
            about = (row.system, source, *(_theirs(row, name) for name in optional), _count(row))
            table_rows.append(Row((*about, *_figures(row, names), "yes" if row.comparable else f"no ({numbers})")))
    columns = (*map(Column, ("system", "source", *optional)), *(Column(name, True) for name in ("n", *names)))
    said = (*explained(summary, aspects), *left_over(summary, len(picked)))
    return Table(TITLE, (*columns, Column("comparable")), tuple(table_rows), said, tight=True)


def full(summary: Summary, brief: bool = False) -> Table:
    """Every published row with all its figures, and every reason why it is not comparable in words.

    Args:
        brief: without the rows that are over what this run has no figures for, without what measured each figure, and
            with reasons by number: a tenth of the length.
    """
    if not summary.published:
        return Table(TITLE, (), (), (_NOTHING,))
    published = [row for row in summary.published if row.slice or not brief]
    there = dict.fromkeys(name for row in published for name in row.metrics)
    names = list(dict.fromkeys([*(name for name in summary.metrics if name in there), *there]))
    optional = [
        name
        for name in ("setting", "query", "judge", *([] if brief else ["variant"]))
        if any(_theirs(row, name) != "-" for row in published)
    ]
    columns = (*map(Column, ("system", "source", *optional, "subset")), *(Column(name, True) for name in ("n", *names)))
    aspects = list(dict.fromkeys(aspect for row in published for aspect in row.differs))
    rows: list[Row] = []
    for where, group in _grouped(published).items():
        if where:
            rows.append(_our_row(summary, where, names, [*(_ours(summary, name) for name in optional), ""]))
        else:
            rows.append(Row(("what this run has no figures for", *[""] * len(columns)), "group"))
        for row in group:
            source = row.source + (f" ({row.note})" if row.note else "")
            about = (row.system, source, *(_theirs(row, name) for name in optional), row.subset, _count(row))
            numbers = ", ".join(str(aspects.index(name) + 1) for name in row.differs)
            told = "yes" if row.comparable else f"no ({numbers})" if brief else f"no: {row.why}"
            rows.append(Row((*about, *_figures(row, names), told)))
    said = (*explained(summary, aspects), *left_over(summary, len(published))) if brief else ()
    return Table(TITLE, (*columns, Column("comparable")), tuple(rows), said, tight=True)


def explained(summary: Summary, aspects: Sequence[str]) -> Iterator[str]:
    """`(1) n: it counts another number of queries …` for each aspect, in this order."""
    noun = "queries" if summary.task == "retrieval" else "samples"
    for number, name in enumerate(aspects, 1):
        yield f"({number}) {name}: {_LEGEND.get(name, name).format(noun=noun)}"


def left_over(summary: Summary, shown: int) -> Iterator[str]:
    """Where the published rows are that were not shown, if any."""
    if hidden := len(summary.published) - shown:
        more = "more published" if shown else "published"
        counted = f"1 {more} row is" if hidden == 1 else f"{hidden} {more} rows are"
        yield f"{counted} in summary.json, with what differs"


def asked(summary: Summary) -> str:
    """The query mode of a run; a run file of another system does not say."""
    return summary.specs.get("query") or "not said"


def near(summary: Summary) -> list[PublishedRow]:
    """The rows of the run's own setting, and of these the ones of its query mode; all, where there are none."""
    rows = list(summary.published)
    for name in ("setting", "query"):
        rows = [row for row in rows if _theirs(row, name) == _ours(summary, name)] or rows
    return rows


def _shared(summary: Summary, rows: Sequence[PublishedRow]) -> list[str]:
    """The metrics of the rows that the run measured too, the most telling first; all of theirs, where there are none"""
    there = list(dict.fromkeys(name for row in rows for name in row.metrics))
    both = {name: summary.metrics[name] for name in there if name in summary.metrics}
    return chosen(both, len(both)) if both else there


def _grouped(rows: Iterable[PublishedRow]) -> dict[str, list[PublishedRow]]:
    """Slice of ours -> rows, in the order in which the slices come; those without a slice last, under ""."""
    groups: dict[str, list[PublishedRow]] = {}
    for row in rows:
        groups.setdefault(row.slice or "", []).append(row)
    elsewhere = groups.pop("", [])
    return {**groups, **({"": elsewhere} if elsewhere else {})}


def _our_row(summary: Summary, where: str, names: Sequence[str], about: Sequence[str]) -> Row:
    dimension, _, value = where.partition("=")
    ours: Metrics = summary.metrics if where == "all" else summary.breakdowns.get(dimension, {}).get(value, {})
    title = "all" if where == "all" else where.removeprefix("domain=")
    counts = [ours[name].n for name in names if name in ours] or [metric.n for metric in ours.values()]
    figures = (mean(name, ours.get(name)) for name in names)
    return Row(("this run", title, *about, str(max(counts, default=0)), *figures, ""), "ours")


def _ours(summary: Summary, name: str) -> str:
    if name == "query":
        return asked(summary)
    return (summary.setting if name == "setting" else summary.specs.get(name)) or "-"


def _theirs(row: PublishedRow, name: str) -> str:
    return str(getattr(row, name) or "-")


def _count(row: PublishedRow) -> str:
    return "-" if row.n is None else str(row.n)


def _figures(row: PublishedRow, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{row.metrics[name]:g}" if name in row.metrics else "-" for name in names)
