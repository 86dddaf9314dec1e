"""KIWI's tables in the paper's shapes: a run of `judge` or `analyse` beside what was published.

What the paper shows as an image is "not recoverable" here and never guessed: in Table 3 the shares of good turns, in
Table 5 the name of one system; those of two others are inferred from the text, which their notes say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from corpora.kiwi import ERROR_TYPES, FINE_TYPES
from evaluation.records import Metrics, PublishedRow, Summary
from evaluation.report.beside import explained
from evaluation.report.tables import Column, Row, Table, figure

IMAGE = "not recoverable"
_MODELS = 4
"""Models that a table has columns for."""
_TABLE6 = (
    "instruction_words", "source_words", "target_words", "length_ratio", "edit_distance", "edit_ratio",
)  # fmt: skip
_RETRIEVED = ("all", "some", "none")


def kiwi_tables(summary: Summary) -> tuple[Table, ...]:
    """Table 5 of a run that judges, Tables 2, 3, 4 and 6 and section 4.3 of one that analyses; empty for any other."""
    if summary.benchmark != "kiwi" or summary.task not in ("judge", "analyse"):
        return ()
    aspects = list(dict.fromkeys(aspect for row in summary.published for aspect in row.differs))
    if summary.task == "judge":
        return (_table5(summary, aspects),)
    said = tuple(explained(summary, aspects))
    return (
        _table2(summary, aspects),
        _table3(summary, aspects),
        *_good_by_model(summary),
        _shares(summary, aspects, "As KIWI Table 4: what went wrong", "KIWI Table 4", "error", ERROR_TYPES),
        _shares(
            summary, aspects, "As KIWI section 4.3: was it retrieved?", "KIWI section 4.3", "retrieved", _RETRIEVED
        ),
        _table6(summary, aspects, said),
    )


# --- Table 5 ---------------------------------------------------------------------------------------------------------


def _table5(summary: Summary, aspects: Sequence[str]) -> Table:
    names = ("accuracy", "precision", "recall", "f1", "predicted_good")
    heads = ("accuracy", "precision", "recall", "F1", "said good", "n")
    ours = summary.metrics
    judge = summary.specs.get("generator", "predictions")
    judge = "by code" if judge.startswith("extractive") else judge
    rows = [
        Row((told, *(_mean(ours, f"{name}{mark}") for name in names), _n(ours, f"accuracy{mark}"), ""))
        for told, mark in (
            (f"this run: {judge}", ""),
            ("this run: majority", "[majority]"),
            ("this run: random", "[random]"),
        )
    ]
    for row in _rows(summary, "KIWI Table 5"):
        cells = (row.system, *(_printed(row, name) for name in names), str(row.n or "-"), _differs(row, aspects))
        rows.append(Row(cells))
    columns = (Column("system"), *(Column(head, True) for head in heads), Column("differs"))
    said = (
        f"rated good by the users, of the turns judged here: {_mean(ours, 'rated_good')}",
        "precision of a judge that never says good is 0 in the paper, and not applicable here",
        *_noted(_rows(summary, "KIWI Table 5")),
        *explained(summary, aspects),
    )
    return Table("As KIWI Table 5: predicting the user's rating", columns, tuple(rows), said, tight=True)


# --- Tables 2, 3, 4 and 6 --------------------------------------------------------------------------------------------


def _table2(summary: Summary, aspects: Sequence[str]) -> Table:
    names = ("turns_per_session", "edited", "information_seeking", "good")
    heads = ("turns", "per session", "edited", "information-seeking", "good")
    rows = [
        Row((model, _n(metrics, "good"), *(_mean(metrics, name) for name in names), ""))
        for model, metrics in (*summary.breakdowns.get("model", {}).items(), ("all", summary.metrics))
    ]
    for row in _rows(summary, "KIWI Table 2"):
        cells = (f"published: {row.system}", str(row.n or "-"), *(_printed(row, name) for name in names[:3]))
        good = next((_printed(one, "good") for one in _good(summary, row) if "good" in one.metrics), IMAGE)
        rows.append(Row((*cells, good, _differs(row, aspects))))
    columns = (Column("model"), *(Column(head, True) for head in heads), Column("differs"))
    return Table("As KIWI Table 2: the sessions; and rated good, as in section 4.1", columns, tuple(rows), tight=True)


def _good(summary: Summary, beside: PublishedRow) -> Iterator[PublishedRow]:
    """The published share of good turns over the same turns: a figure of the text, Figure 2 is an image."""
    return (row for row in summary.published if row.subset == beside.subset and "good" in row.metrics)


def _table3(summary: Summary, aspects: Sequence[str]) -> Table:
    published = next(_rows(summary, "KIWI Table 3"), None)
    rows = []
    for name in FINE_TYPES:
        cells = [name]
        for metric in (f"instruction[{name}]", f"information_seeking[{name}]"):
            cells += [_mean(summary.metrics, metric), _printed(published, metric)]
        cells.append(_mean(summary.metrics, f"good[{name}]"))
        rows.append(Row(tuple(cells)))
    heads = ("share", "published", "information-seeking", "published", "good")
    agreement = summary.metrics.get("instruction_accuracy")
    said = [f"published shares of good turns: {IMAGE}"]
    if agreement is not None and agreement.n:
        said.append(
            f"types of this run against the labels of the data: {_mean(summary.metrics, 'instruction_accuracy')}"
        )
    for row in _rows(summary, "KIWI section 4.2"):
        if "instruction_accuracy" in row.metrics:
            said.append(f"{row.system}: {row.metrics['instruction_accuracy']:g} ({row.subset})")
    if published is not None:
        said.append(f"the published shares differ in: {_differs(published, aspects)}")
    columns = (Column("instruction"), *(Column(head, True) for head in heads))
    return Table("As KIWI Table 3: what is asked for", columns, tuple(rows), tuple(said), tight=True)


def _good_by_model(summary: Summary) -> Iterator[Table]:
    """Table 3's last columns, in a table of their own: beside the others they do not fit into 80 columns."""
    models = summary.breakdowns.get("model", {})
    if not 1 < len(models) <= _MODELS:
        return
    rows = [
        Row((name, *(_mean(metrics, f"good[{name}]") for metrics in models.values()))) for name in FINE_TYPES
    ]  # fmt: skip
    columns = (Column("instruction"), *(Column(model, True) for model in models))
    yield Table("As KIWI Table 3: rated good, by model", columns, tuple(rows), tight=True)


def _shares(
    summary: Summary, aspects: Sequence[str], title: str, source: str, metric: str, values: Sequence[str]
) -> Table:
    names = [f"{metric}[{value}]" for value in values]
    published = next((row for row in _rows(summary, source) if names[0] in row.metrics), None)
    rows = [
        Row((value, _mean(summary.metrics, name), _n(summary.metrics, name), _printed(published, name)))
        for value, name in zip(values, names, strict=True)
    ]
    said = []
    if published is not None:
        said.append(
            f"published: {published.system}, {published.subset}, n {published.n}; {_differs(published, aspects)}"
        )
    columns = (Column(""), Column("share", True), Column("n", True), Column("published", True))
    return Table(title, columns, tuple(rows), tuple(said))


def _table6(summary: Summary, aspects: Sequence[str], said: Sequence[str]) -> Table:
    heads = ("n", "inst", "src", "target", "len ratio", "edit distance", "edit ratio")  # as the paper's are
    rows: list[Row] = []
    known = list(_rows(summary, "KIWI Table 6"))
    for dimension in ("instruction", "instruction_by_rules", "type", "model", "all"):
        values = {"all": summary.metrics} if dimension == "all" else summary.breakdowns.get(dimension, {})
        if not values:
            continue
        rows.append(Row((dimension, *[""] * (len(heads) + 1)), "group"))
        for value, metrics in values.items():
            rows.append(
                Row((value, _n(metrics, "edit_ratio"), *(_mean(metrics, name) for name in _TABLE6), ""), "ours")
            )
            where = "all" if dimension == "all" else f"{dimension}={value}"
            for row in known:
                if row.slice == where:
                    cells = (str(row.n or "-"), *(_printed(row, name) for name in _TABLE6), _differs(row, aspects))
                    rows.append(Row(("published", *cells), "below"))
    columns = (Column("words of"), *(Column(head, True) for head in heads), Column("differs"))
    title = "As KIWI Table 6: how much an accepted revision changes, in words"
    return Table(title, columns, tuple(rows), (*_noted(known), *said), tight=True, narrow=True)


# --- cells -----------------------------------------------------------------------------------------------------------


def _rows(summary: Summary, source: str) -> Iterator[PublishedRow]:
    return (row for row in summary.published if row.source.split(",")[0] == source)


def _mean(metrics: Metrics, name: str) -> str:
    metric = metrics.get(name)
    return figure(name, metric.mean if metric else None)


def _n(metrics: Metrics, name: str) -> str:
    return str(metrics[name].n) if name in metrics else "0"


def _printed(row: PublishedRow | None, name: str) -> str:
    return f"{row.metrics[name]:g}" if row is not None and name in row.metrics else "-"


def _differs(row: PublishedRow, aspects: Sequence[str]) -> str:
    numbers = sorted(aspects.index(aspect) + 1 for aspect in row.differs)
    return ",".join(map(str, numbers)) or "nothing"


def _noted(rows: Iterable[PublishedRow]) -> Iterator[str]:
    """What is to be said of published rows, each note once with whom it is of."""
    notes: dict[str, list[str]] = {}
    for row in rows:
        for note in filter(None, (row.note or "").split("; ")):
            notes.setdefault(note, []).append(row.system)
    return (f"{', '.join(dict.fromkeys(systems))}: {note}" for note, systems in notes.items())
