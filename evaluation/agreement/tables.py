"""Agreement as tables: those of MTRAG's section 7 with the printed figures beside them, where they are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turnmark.evaluation.agreement import published
from turnmark.evaluation.agreement.measuring import Agreement, Correlated, Estimate
from turnmark.evaluation.report.tables import Column, Row, Table

_SHORT = {
    "win-rate": "WR", "faithfulness": "F", "appropriateness": "A", "naturalness": "N", "completeness": "C",
}  # fmt: skip
_BESIDE = ("rl_f", "rb_llm", "rb_agg")
_ROOM = 56
"""Characters that columns of metrics may take, beside a name and a count, where a terminal has 80."""
_LABELS = "accuracy, kappa (Cohen's) and the means of TPR and FPR are over all labels; the lines below are of one label"


def title(found: Agreement) -> str:
    """One line: what was looked at."""
    who = "rated by people" if found.people else "scored by another judge" if found.properties else "of runs"
    systems = f"{len(found.systems)} system" + ("s" if len(found.systems) > 1 else "")
    return f"agreement: {found.n} answers of {systems} in {found.conversations} conversations, {who}"


def everything(found: Agreement) -> tuple[Table, ...]:
    """All tables; one without rows is not drawn."""
    printed = published.is_mtrag(found.systems, found.properties)
    subsets = list(dict.fromkeys(one.subset for one in found.correlations))
    return (
        means(found, printed),
        annotators(found, printed),
        matrix(found, printed),
        *(correlations(found, subset) for subset in subsets),
        verdicts(found),
        judges(found),
    )


def notes(found: Agreement) -> tuple[str, ...]:
    """What is said beneath the tables."""
    again = [
        f"{name} of the file, worked out again: at most {one.largest_difference:.1e} off on {one.n} answers"
        for name, one in found.recomputed.items()
    ]
    slips = published.NOTES if published.is_mtrag(found.systems, found.properties) else ()
    pairs = [published.PREFERENCE_NOTE] if any(one.judge.startswith("preference") for one in found.verdicts) else []
    return (*found.notes, *again, *pairs, *slips)


def means(found: Agreement, printed: bool) -> Table:
    """Like Table 6: a row for each system, a group for each subset."""
    shown = _fitting(found.metrics, _ROOM + 4 - 6 * len(found.properties))
    columns = (
        Column("system"),
        Column("n", True),
        *(Column(_short(name), True) for name in (*found.properties, *shown)),
    )
    rows: list[Row] = []
    for subset in dict.fromkeys(one.subset for one in found.means):
        rows.append(Row((subset, *[""] * (len(columns) - 1)), "group"))
        for one in (one for one in found.means if one.subset == subset):
            cells = [_mean(one.people.get(name)) for name in found.properties]
            cells += [_mean(one.metrics.get(name)) for name in shown]
            rows.append(Row((found.systems.get(one.system, one.system), str(one.n), *cells), "below"))
    if printed:
        rows.append(Row((f"as printed ({published.RATED} answerable)", *[""] * (len(columns) - 1)), "group"))
        for system, values in published.MEANS.items():
            cells = [_printed(values.get(name)) for name in (*found.properties, *shown)]
            rows.append(Row((found.systems.get(system, system), str(published.RATED), *cells), "below"))
    said = ["Ratings: means of the raters' medians; FANC: of the harmonic mean of the four, answer by answer."]
    said += _two_ways(found)
    return Table("By system", columns, tuple(rows), tuple(said) if found.people else (), tight=True)


def _two_ways(found: Agreement) -> Iterator[str]:
    there = [one for one in found.means if one.subset == "all" and "win-rate" in one.raters]
    if there:
        rates = ", ".join(f"{found.systems.get(one.system, one.system)} {one.raters['win-rate']:.1f}" for one in there)
        yield f"Win rate as the mean of all ratings instead, over all answers: {rates}."


def annotators(found: Agreement, printed: bool) -> Table:
    """How far three raters agree, property by property."""
    heads = ["answers", "not three", "a point", "three", "two", "agree", "alpha", *["printed"] * printed]
    rows = []
    for name, one in found.annotators.items():
        theirs = published.ANNOTATORS.get(name)
        cells = [str(one.n), str(one.fewer), f"{one.point:g}", f"{one.absolute:.3f}"]
        cells += [f"{one.two_equal:.3f}", f"{one.agreeing:.3f}"]
        cells += [_optional(one.alpha), *([_optional(theirs)] if printed else [])]
        rows.append(Row((name, *cells)))
    said = (
        "three, two: so many ratings are equal; agree: three, or two and the third one point off (MTRAG "
        "appendix E); alpha: Krippendorff's, interval",
    )
    return Table(
        "Raters",
        (Column("property"), *(Column(head, True) for head in heads)),
        tuple(rows),
        said if rows else (),
        tight=True,
    )


def matrix(found: Agreement, printed: bool) -> Table:
    """Like figure 4: weighted correlations, properties by metrics; the win rate as in Table 7."""
    names = _fitting(found.metrics, _ROOM)
    subset = (
        "answerable and partial" if any(c.subset == "answerable and partial" for c in found.correlations) else "all"
    )
    rows: list[Row] = []
    for name in found.properties:
        table_7 = name == "win-rate" and any(c.systems == "all" for c in found.correlations)
        mine = {
            one.metric: one
            for one in found.correlations
            if one.against == name
            and one.subset == ("all" if table_7 else subset)
            and (not table_7 or one.systems == "all")
        }
        if not mine:
            continue
        cells = [_rho(mine[metric].weighted) if metric in mine else "-" for metric in names]
        rows.append(Row((name, str(max(one.n for one in mine.values())), *cells)))
        if printed and name in published.CORRELATIONS:
            theirs = published.CORRELATIONS[name]
            rows.append(Row(("printed", "", *(f"{theirs[m]:.2f}" if m in theirs else "-" for m in names)), "below"))
    said = (
        f"Rows of {subset} tasks"
        + (", without the references; win-rate: all answers of all systems" if printed else ""),
    )
    columns = (Column(""), Column("n", True), *(Column(name, True) for name in names))
    return Table("Spearman, weighted", columns, tuple(rows), said if rows else (), tight=True)


def correlations(found: Agreement, subset: str) -> Table:
    """Every correlation of a subset with its interval."""
    columns = (
        Column("metric"), Column("n", True), Column("Spearman", True), Column("95% interval", True),
        Column("weighted", True), Column("95% interval", True),
    )  # fmt: skip
    rows: list[Row] = []
    mine = [one for one in found.correlations if one.subset == subset]
    for name, systems in dict.fromkeys((one.against, one.systems) for one in mine):
        what = name if systems == "all" else f"{name}, {systems}"
        rows.append(Row((what, *[""] * 5), "group"))
        group = [one for one in mine if (one.against, one.systems) == (name, systems)]
        rows += [Row((one.metric, str(one.n), *_both(one)), "below") for one in group]
    return Table(f"Spearman over {subset} tasks", columns, tuple(rows), tight=True)


def _both(one: Correlated) -> Sequence[str]:
    return [cell for side in (one.plain, one.weighted) for cell in (_rho(side), _interval(side))]


def verdicts(found: Agreement) -> Table:
    """Judges against labels, and each label under its judge."""
    heads = ("n", "accuracy", "kappa", "precision", "TPR", "FPR", "F1")
    rows: list[Row] = []
    for one in found.verdicts:
        system = "" if one.system == "all" else f", {found.systems.get(one.system, one.system)}"
        cells = (str(one.n), _optional(one.accuracy), _optional(one.kappa), "-", _optional(one.mean_tpr))
        rows.append(
            Row(
                (f"{one.judge} against {one.against}{system}", *cells, _optional(one.mean_fpr), _optional(one.macro_f1))
            )
        )
        for name, label in one.labels.items():
            figures = map(_optional, (label.precision, label.recall, label.fpr, label.f1))
            rows.append(Row((name, str(label.support), "-", "-", *figures), "below"))
    said = [_LABELS] if rows else []
    if any(one.against == "answerability" for one in found.verdicts):
        said.append(
            "against answerability, a reply that should have been another is an error here, though its judge may be "
            "right"
        )
    return Table(
        "Verdicts against labels",
        (Column("judge"), *(Column(h, True) for h in heads)),
        tuple(rows),
        tuple(said),
        tight=True,
    )


def judges(found: Agreement) -> Table:
    """The judges of the runs among themselves."""
    rows = [
        Row((metric, panel.rule, ", ".join(panel.judges), str(panel.n), _optional(panel.alpha)))
        for metric, panel in found.judging.items()
    ]
    columns = (Column("metric"), Column("rule"), Column("judges"), Column("n", True), Column("alpha", True))
    return Table("Judges among themselves", columns, tuple(rows))


def _fitting(metrics: Sequence[str], room: int) -> list[str]:
    """The metrics whose columns have room, judges and the like first; one at least. Others are in the tables below."""
    names = dict.fromkeys((*(name for name in _BESIDE if name in metrics), *metrics))
    shown: list[str] = []
    for name in names:
        room -= max(4, len(name)) + 2
        if room >= 0 or not shown:
            shown.append(name)
    return shown


def _short(name: str) -> str:
    return _SHORT.get(name, name)


def _mean(one: Estimate | None) -> str:
    return "-" if one is None else f"{one.value:.1f}" if abs(one.value) >= 10 else f"{one.value:.2f}"


def _printed(value: float | None) -> str:
    """With as many digits as the paper gives."""
    return "-" if value is None else f"{value:.2f}" if value < 1 else f"{value:.1f}"


def _rho(one: Estimate | None) -> str:
    return "-" if one is None else _two(one.value)


def _interval(one: Estimate | None) -> str:
    return "-" if one is None else " to ".join(map(_two, one.ci95))


def _two(value: float) -> str:
    text = f"{value:.2f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def _optional(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
