"""MTRAG's tables of answers in the paper's shapes, with runs of ours in them.

Table 5 sets the three settings beside each other on the tasks with at most two reference passages; Tables 16a to 16c
break the reference setting down by answerability, turn and domain; Table 13 shows what conditioning on "I don't know"
does to unanswerable tasks. What measures the same in another way (`rl_f[embedded]`) has a row under its own name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from evaluation.benchmarks.mtrag_generation import FEW_REFERENCES, SETTINGS
from evaluation.published import facts
from evaluation.records import Metrics, PublishedRow, Summary
from evaluation.report.beside import explained
from evaluation.report.tables import Column, Row, Table, chosen, mean, untagged

JUDGED = ("answerability_accuracy", "rl_f.idk", "rb_llm.idk", "rb_alg.idk")
"""The columns of Table 5; Table 16 has all but the first."""
MORE = 3
"""Metrics that the paper has no figures of, shown beneath."""

_ANSWERABILITY = [(name.lower(), {"answerability": name}) for name in ("ANSWERABLE", "PARTIAL", "UNANSWERABLE")]
_SIXTEEN: tuple[tuple[str, str, Sequence[tuple[str, Mapping[str, str]]]], ...] = (
    ("16a", "by answerability", [("overall", {}), *_ANSWERABILITY]),
    ("16b", "by turn", [("first", {"turn": "first"}), ("later", {"turn": "later"})]),
)


@dataclass(frozen=True)
class _Place:
    """A column: what each run of ours has there, and the published rows by system."""

    head: str
    ours: tuple[Metrics, ...]
    rows: Mapping[str, PublishedRow]


@dataclass(frozen=True)
class _Group:
    """Rows about one metric, which may be another one in each column."""

    title: str
    metrics: tuple[str, ...]


def settings_together(runs: Sequence[tuple[str, Summary]]) -> Table | None:
    """Runs of several settings in the shape of Table 5; None where there are fewer than two settings.

    Args:
        runs: what to call each, and its summary.
    """
    mine = [(name, summary) for name, summary in runs if _answers(summary)]
    settings = [name for name in SETTINGS if any(summary.setting == name for _, summary in mine)]
    if len(settings) < 2:
        return None
    once = len(settings) == len(mine)  # one run a setting: one row
    labels = ["these runs"] if once else [name for name, _ in mine]
    places = [_setting(setting, mine, once) for setting in settings]
    aspects = _aspects(places)
    table = _grid(
        "As MTRAG Table 5: by setting, on the tasks with at most two reference passages",
        labels, places, _same(JUDGED, places), aspects, more=True,
    )  # fmt: skip
    lines = [*table.lines, *explained(mine[0][1], aspects)]
    silent = [name for name, summary in mine if not _few(summary)]
    lines += [f"{name}: scored without these tasks set apart; score it again" for name in silent]
    return replace(table, lines=tuple(lines))


def generation_tables(summary: Summary) -> tuple[Table, ...]:
    """Tables 5, 16a, 16b, 16c and 13 with this run in them, the metrics that it has, or has in a form of its own.

    Empty for other tasks, for demo data, and where no such metric was measured. The numbers under `differs` stand for
    what makes a row not comparable; the last table says what they mean.
    """
    if not _answers(summary) or summary.data.demo:
        return ()
    parts = [
        (title, places, shown)
        for title, places, groups in _shapes(summary)
        if any(place.rows for place in places) and (shown := [group for group in groups if _measured(places, group)])
    ]
    aspects = _aspects(place for _, places, _ in parts for place in places)
    made = [_grid(f"As MTRAG Table {title}", ["this run"], places, groups, aspects) for title, places, groups in parts]
    if made:
        made[-1] = replace(made[-1], lines=(*made[-1].lines, *explained(summary, aspects)))
    return tuple(made)


def _shapes(summary: Summary) -> Iterator[tuple[str, Sequence[_Place], Sequence[_Group]]]:
    """Number and title of each table that a run's setting has, its columns and its metrics."""
    few = [_setting(summary.setting or "", [("", summary)], True)]
    yield "5: tasks with at most two reference passages", few, _same(JUDGED, few)
    if summary.setting != "reference":
        return
    domains = [(name, {"domain": name}) for name in summary.breakdowns.get("domain", {})]
    for number, about, values in (*_SIXTEEN, ("16c", "by domain", domains)):
        places = [_part(summary, number, head, part) for head, part in values]
        yield f"{number}: {about}", places, _same(JUDGED[1:], places)
    places = [_part(summary, "13", head, {"answerability": "UNANSWERABLE"}) for head in ("before", "after")]
    pairs = [(name.removesuffix(".idk"), name) for name in JUDGED[1:]]
    yield "13: unanswerable tasks before and after conditioning", places, [_Group(pair[0], pair) for pair in pairs]


def _answers(summary: Summary) -> bool:
    return summary.benchmark == "mtrag" and summary.task == "generation" and summary.setting in SETTINGS


# --- columns ---------------------------------------------------------------------------------------------------------


def _few(summary: Summary) -> Metrics:
    """Our figures for the tasks with at most two references."""
    if summary.setting == "reference+rag":
        return summary.metrics
    ((dimension, (value,)),) = FEW_REFERENCES.items()
    return summary.breakdowns.get(dimension, {}).get(value, {})


def _setting(setting: str, runs: Sequence[tuple[str, Summary]], once: bool) -> _Place:
    own = [summary for _, summary in runs if summary.setting == setting]
    ours = [_few(own[0])] if once else [_few(one) if one.setting == setting else {} for _, one in runs]
    rows = [row for row in own[0].published if row.source.startswith("MTRAG Table 5,") and row.setting == setting]
    return _Place(setting, tuple(ours), {row.system: row for row in rows})


def _part(summary: Summary, number: str, head: str, part: Mapping[str, str]) -> _Place:
    ours = summary.metrics
    for dimension, value in part.items():
        ours = summary.breakdowns.get(dimension, {}).get(value, {})
    domain = part.get("domain")
    rows = [
        row
        for row in summary.published
        if row.source.startswith(f"MTRAG Table {number},")
        and (row.domains == (domain,) if domain else _parts().get((row.source, row.subset)) == part)
    ]
    return _Place(head, (ours,), {row.system: row for row in rows})


@lru_cache(maxsize=1)
def _parts() -> Mapping[tuple[str, str], Mapping[str, str]]:
    return {(fact.source, fact.subset): dict(fact.part) for fact in facts() if fact.task == "generation"}


def _same(metrics: Iterable[str], places: Sequence[_Place]) -> list[_Group]:
    return [_Group(name, (name,) * len(places)) for name in metrics]


def _alike(ours: Metrics, metric: str) -> list[str]:
    """A metric and what measures the same in another way, of those that we have figures for."""
    return [name for name, one in ours.items() if untagged(name) == metric and one.n]


def _measured(places: Sequence[_Place], group: _Group) -> bool:
    return any(_alike(ours, metric) for place, metric in zip(places, group.metrics, strict=True) for ours in place.ours)


def _aspects(places: Iterable[_Place]) -> list[str]:
    return list(dict.fromkeys(aspect for place in places for row in place.rows.values() for aspect in row.differs))


# --- rows ------------------------------------------------------------------------------------------------------------


def _grid(
    title: str,
    labels: Sequence[str],
    places: Sequence[_Place],
    groups: Sequence[_Group],
    aspects: Sequence[str],
    more: bool = False,
) -> Table:
    rows: list[Row] = []
    for group in groups:
        rows.append(Row((group.title, *[""] * (len(places) + 1)), "group"))
        rows += _own(labels, places, group)
        for system in dict.fromkeys(system for place in places for system in place.rows):
            found = [place.rows.get(system) for place in places]
            if any(row is not None and name in row.metrics for row, name in zip(found, group.metrics, strict=True)):
                cells = (_printed(row, name) for row, name in zip(found, group.metrics, strict=True))
                rows.append(Row((system, *cells, _numbers(found, aspects)), "below"))
    if more:
        rows += _others(labels, places)
    columns = (Column(""), *(Column(place.head, True) for place in places), Column("differs"))
    return Table(title, columns, tuple(rows), tuple(_said(places, groups)), tight=True, narrow=True)


def _own(labels: Sequence[str], places: Sequence[_Place], group: _Group) -> Iterator[Row]:
    """Our figures of a metric, and of what measures the same in another way."""
    for at, label in enumerate(labels):
        ours = [place.ours[at] for place in places]
        both = list(zip(ours, group.metrics, strict=True))
        alike = dict.fromkeys(name for one, metric in both for name in _alike(one, metric) if name != metric)
        if not alike or any(name in one for one, name in both):
            yield Row((label, *(mean(name, one.get(name)) for one, name in both), ""))
        for name in alike:
            values = (mean(name, one.get(name)) if name in _alike(one, metric) else "-" for one, metric in both)
            yield Row((name if len(labels) == 1 else f"{label}, {name}", *values, "metric"))


def _others(labels: Sequence[str], places: Sequence[_Place]) -> Iterator[Row]:
    """What the paper has no figures of: the most telling ones."""
    there = {name: metric for place in places for ours in place.ours for name, metric in ours.items()}
    names = [name for name in chosen(there, len(there)) if untagged(name) not in (*JUDGED, "rl_f", "rb_llm")]
    if names[:MORE]:
        yield Row(("not in the paper's table", *[""] * (len(places) + 1)), "group")
    for name in names[:MORE]:
        for at, label in enumerate(labels):
            cells = (mean(name, place.ours[at].get(name)) for place in places)
            yield Row((name if len(labels) == 1 else f"{label}, {name}", *cells, ""))


def _printed(row: PublishedRow | None, metric: str) -> str:
    """As the paper prints it, with two digits."""
    return "-" if row is None or metric not in row.metrics else f"{row.metrics[metric]:.2f}"


def _numbers(rows: Iterable[PublishedRow | None], aspects: Sequence[str]) -> str:
    found = {aspects.index(aspect) + 1 for row in rows if row is not None for aspect in row.differs}
    return ",".join(map(str, sorted(found))) or "nothing"


def _said(places: Sequence[_Place], groups: Sequence[_Group]) -> Iterator[str]:
    """How many samples the figures are over, ours and theirs, and where theirs come from."""
    counts = []
    for at, place in enumerate(places):
        metrics = [group.metrics[at] for group in groups]
        counts.append(
            f"{place.head} {' or '.join(dict.fromkeys(_n(one, metrics) for one in place.ours if one)) or '-'}"
        )
    yield f"n here: {', '.join(counts)}"
    known = [row for place in places for row in place.rows.values()]
    if known:
        said = dict.fromkeys(
            f"{place.head} {row.n or 'not said'}" for place in places for row in list(place.rows.values())[:1]
        )
        domains = ", ".join(dict.fromkeys(name for row in known for name in row.domains))
        yield f"published: {known[0].source}; {domains}; n: {', '.join(said)}"


def _n(ours: Metrics, metrics: Sequence[str]) -> str:
    """The largest n of these metrics, in whatever form they were measured; of all, where none was."""
    shown = [ours[name].n for metric in metrics for name in _alike(ours, metric)]
    return str(max(shown or [one.n for one in ours.values()], default="-"))
