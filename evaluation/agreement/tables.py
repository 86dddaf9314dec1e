"""Agreement as tables: those of MTRAG's section 7 with the printed figures next to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from turnmark.evaluation.agreement.measuring import Agreement, Estimate, Subset
from turnmark.evaluation.report.overview import ReportSection
from turnmark.evaluation.report.tables import Column, Row, Table
from turnmark.evaluation.scores.summary import name_clusters

_SHORT = {
    "win-rate": "WR", "faithfulness": "F", "appropriateness": "A", "naturalness": "N", "completeness": "C",
}  # fmt: skip
_FIRST = ("rl_f", "rb_llm", "rb_agg")
_ROOM = 56
"""Characters that columns of metrics may take, next to a name and a count, on a terminal of 80."""
_LABELS = "accuracy, kappa (Cohen's) and the means of TPR and FPR are over all labels; the lines below are of one label"


@cache
def printed_figures() -> dict[str, Any]:
    """What MTRAG prints of its human evaluation, and what is known of how it was computed (`printed.json`)."""
    printed: dict[str, Any] = json.loads((Path(__file__).parent / "printed.json").read_text(encoding="utf-8"))
    return printed


def describe_agreement(agreement: Agreement) -> ReportSection:
    """Agreement as a document."""
    raters = "rated by people" if agreement.people else "scored by another judge" if agreement.properties else "of runs"
    systems = f"{len(agreement.systems)} system" + "s" * (len(agreement.systems) > 1)
    conversations = f"{agreement.conversations} {name_clusters('mtrag', agreement.conversations)}"
    # Ratings that look like those that the paper reports.
    printed = {*printed_figures()["table_6"]} <= {*agreement.systems} and {*printed_figures()["agreement"]} <= {
        *agreement.properties
    }
    notes = [*agreement.notes]
    if any(item.judge.startswith("preference") for item in agreement.verdicts):
        notes.append(printed_figures()["preference"])
    return ReportSection(
        f"agreement: {agreement.n} answers of {systems} in {conversations}, {raters}",
        (
            _means(agreement, printed),
            _annotators(agreement, printed),
            *(
                _correlations(agreement, subset, printed)
                for subset in dict.fromkeys(item.subset for item in agreement.correlations)
            ),
            _verdicts(agreement),
        ),
        (*notes, *(printed_figures()["notes"] if printed else ())),
    )


def _means(agreement: Agreement, printed: bool) -> Table:
    """Like Table 6: a row for each system, a group for each subset."""
    metrics = _fitting(agreement.metrics, _ROOM + 4 - 6 * len(agreement.properties))
    names = (*agreement.properties, *metrics)
    heads = ("n", *(_SHORT.get(name, name) for name in names))
    rows: list[Row] = []
    for subset in dict.fromkeys(item.subset for item in agreement.means):
        rows.append(Row((subset, *[""] * len(heads)), "group"))
        for item in (item for item in agreement.means if item.subset == subset):
            figures = item.people | item.metrics
            cells = [_mean(figures.get(name)) for name in names]
            rows.append(Row((agreement.systems.get(item.system, item.system), str(item.n), *cells), "below"))
    lines = ["Ratings: means of the raters' medians; FANC: of the harmonic mean of the four, answer by answer."]
    if printed:
        tasks = str(printed_figures()["tasks"])
        rows.append(Row((f"as printed ({tasks} answerable)", *[""] * len(heads)), "group"))
        for system, values in printed_figures()["table_6"].items():
            cells = [_printed(values.get(name)) for name in names]
            rows.append(Row((agreement.systems.get(system, system), tasks, *cells), "below"))
        lines.append(_say_equal_columns(agreement))
    columns = (Column("system"), *(Column(head, True) for head in heads))
    return Table("By system", columns, tuple(rows), tuple(lines) if agreement.people else (), tight=True)


def _say_equal_columns(agreement: Agreement) -> str:
    """Which columns of Table 6 the answerable tasks of this file give, to the printed digit and for every system."""
    table = printed_figures()["table_6"]
    ours = {item.system: item.people | item.metrics for item in agreement.means if item.subset == "answerable"}
    columns = dict.fromkeys(name for values in table.values() for name in values)
    equal = [
        _SHORT.get(name, name)
        for name in columns
        if all(
            name in ours.get(system, {})
            and round(ours[system][name].value, 2 if values[name] < 1 else 1) == values[name]
            for system, values in table.items()
        )
    ]
    listed = ", ".join(equal) or "none"
    return f"Of the {len(columns)} printed columns these come out over the answerable tasks here: {listed}."


def _annotators(agreement: Agreement, printed: bool) -> Table:
    """How far three raters agree, property by property."""
    heads = ["answers", "not three", "a point", "three", "two", "agree", "alpha", *["printed"] * printed]
    rows = []
    for name, item in agreement.annotators.items():
        theirs = printed_figures()["agreement"].get(name)
        cells = [str(item.n), str(item.fewer), f"{item.point:g}", f"{item.absolute:.3f}"]
        cells += [f"{item.two_equal:.3f}", f"{item.agreeing:.3f}"]
        cells += [_optional(item.alpha), *([_optional(theirs)] if printed else [])]
        rows.append(Row((name, *cells)))
        if item.alpha_ci95 is not None:
            rows.append(Row(("95% interval", *[""] * 6, _bounds(item.alpha_ci95), *[""] * printed), "below"))
    legend = (
        "three, two: so many ratings are equal; agree: three, or two and the third one point off (MTRAG "
        "appendix E); alpha: Krippendorff's, interval",
    )
    columns = (Column("property"), *(Column(head, True) for head in heads))
    return Table("Raters", columns, tuple(rows), legend if rows else (), tight=True)


def _correlations(agreement: Agreement, subset: Subset, printed: bool) -> Table:
    """Every correlation of a subset with its interval; next to figure 4 and Table 7 what they print."""
    figures = printed_figures()["correlations"] if printed else {}
    heads = ("n", "Spearman", "95% interval", "weighted", "95% interval", *["printed"] * printed)
    rows: list[Row] = []
    mine = [item for item in agreement.correlations if item.subset == subset]
    for name, systems in dict.fromkeys((item.against, item.systems) for item in mine):
        label = name if systems == "all" else f"{name}, {systems}"
        rows.append(Row((label, *[""] * len(heads)), "group"))
        table_7 = name == "win-rate"
        fits = (subset, systems) == (("all", "all") if table_7 else ("answerable and partial", "without the reference"))
        theirs = figures.get(name, {}) if fits else {}
        for item in mine:
            if (item.against, item.systems) == (name, systems):
                sides = [cell for side in (item.plain, item.weighted) for cell in (_rho(side), _interval(side))]
                ours = (item.metric, str(item.n), *sides)
                rows.append(Row((*ours, *[_printed(theirs.get(item.metric))] * printed), "below"))
        lacking = [metric for metric in theirs if metric not in agreement.metrics]
        rows += [Row((metric, *["-"] * 5, _printed(theirs[metric])), "below") for metric in lacking]
    columns = (Column("metric"), *(Column(head, True) for head in heads))
    return Table(f"Spearman over {subset} tasks", columns, tuple(rows), tight=True, narrow=printed)


def _verdicts(agreement: Agreement) -> Table:
    """Judges against labels, and each label under its judge."""
    heads = ("n", "accuracy", "kappa", "precision", "TPR", "FPR", "F1")
    rows: list[Row] = []
    for item in agreement.verdicts:
        system = "" if item.system == "all" else f", {agreement.systems.get(item.system, item.system)}"
        figures = (item.accuracy, item.kappa, None, item.mean_tpr, item.mean_fpr, item.macro_f1)
        label = f"{item.judge} against {item.against}{system}"
        rows.append(Row((label, str(item.n), *map(_optional, figures))))
        if item.ci95:
            names = ("accuracy", "kappa", "", "mean_tpr", "mean_fpr", "macro_f1")
            bounds = (_bounds(item.ci95.get(name)) if name else "" for name in names)
            rows.append(Row(("95% interval", "", *bounds), "below"))
        for name, of_label in item.labels.items():
            rates = map(_optional, (of_label.precision, of_label.recall, of_label.fpr, of_label.f1))
            rows.append(Row((name, str(of_label.support), "-", "-", *rates), "below"))
    legend = [_LABELS] if rows else []
    if any(item.against == "answerability" for item in agreement.verdicts):
        legend.append(
            "against answerability, a reply that should have been another is an error here, though its judge may be "
            "right"
        )
    columns = (Column("judge"), *(Column(head, True) for head in heads))
    return Table("Verdicts against labels", columns, tuple(rows), tuple(legend), tight=True)


def _fitting(metrics: Sequence[str], room: int) -> list[str]:
    """The metrics whose columns have room, judges and the like first; one at least. Others are in the tables below."""
    names = dict.fromkeys((*(name for name in _FIRST if name in metrics), *metrics))
    chosen_names: list[str] = []
    for name in names:
        room -= max(4, len(name)) + 2
        if room >= 0 or not chosen_names:
            chosen_names.append(name)
    return chosen_names


def _mean(item: Estimate | None) -> str:
    return "-" if item is None else f"{item.value:.1f}" if abs(item.value) >= 10 else f"{item.value:.2f}"


def _printed(value: float | None) -> str:
    """With as many digits as the paper gives."""
    return "" if value is None else f"{value:.2f}" if value < 1 else f"{value:.1f}"


def _rho(item: Estimate | None) -> str:
    return "-" if item is None else _two(item.value)


def _interval(item: Estimate | None) -> str:
    if item is None:
        return "-"
    return "no interval" if item.ci95 is None else " to ".join(map(_two, item.ci95))


def _bounds(interval: tuple[float, float] | None) -> str:
    return "-" if interval is None else "-".join(map(_two, interval)).replace("0.", ".")


def _two(value: float) -> str:
    text = f"{value:.2f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def _optional(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
