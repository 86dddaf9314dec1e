"""Make the tables of agreement: those of MTRAG's section 7, with the printed values next to ours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from turnmark.core.plural import count_phrase
from turnmark.evaluation.agreement.measurement import Agreement, Estimate, Subset, Systems
from turnmark.evaluation.benchmark_files import benchmark_files
from turnmark.evaluation.report.overview import ReportSection
from turnmark.evaluation.report.tables import ReportRow, Table, make_columns, make_group
from turnmark.evaluation.tasks.declarations import name_clusters

_SHORT_NAMES = {
    "win-rate": "WR", "faithfulness": "F", "appropriateness": "A", "naturalness": "N", "completeness": "C",
}  # fmt: skip
_FIRST_METRICS = ("rl_f", "rb_llm", "rb_agg")
_METRICS_WIDTH = 56
"""Maximum width of the columns of metrics, in characters, next to a name and a count on a terminal of 80."""
_LABELS = "accuracy, Cohen's kappa and the means of TPR and FPR are over all labels; each line below is for one label"


@cache
def read_printed_statistics() -> dict[str, Any]:
    """Read the values of a paper's human evaluation, with notes on how they were computed."""
    (path,) = benchmark_files("human_ratings.json")
    printed: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return printed


def describe_agreement(agreement: Agreement) -> ReportSection:
    """Return agreement as a section of a report."""
    raters = "rated by people" if agreement.properties else "of runs"
    systems = count_phrase(len(agreement.systems), "system")
    conversations = f"{agreement.conversations} {name_clusters(count=agreement.conversations)}"
    # The file has the systems and properties of the paper's values.
    has_printed_systems = set(read_printed_statistics()["table_6"]) <= set(agreement.systems)
    printed = has_printed_systems and set(read_printed_statistics()["agreement"]) <= set(agreement.properties)
    notes = [*agreement.notes]
    if any(item.judge.startswith("preference") for item in agreement.verdicts):
        notes.append(read_printed_statistics()["preference"])
    if printed:
        notes += read_printed_statistics()["notes"]
    subsets = dict.fromkeys(item.subset for item in agreement.correlations)
    correlations = [_correlations(agreement, subset, printed) for subset in subsets]
    return ReportSection(
        f"agreement: {agreement.n} answers of {systems} in {conversations}, {raters}",
        (_means(agreement, printed), _annotators(agreement, printed), *correlations, _verdicts(agreement)),
        tuple(notes),
    )


def _means(agreement: Agreement, printed: bool) -> Table:
    """Return a table like Table 6: a group for each subset, a row for each system."""
    metrics = _select_fitting_metrics(agreement.metrics, _METRICS_WIDTH + 4 - 6 * len(agreement.properties))
    names = (*agreement.properties, *metrics)
    columns = make_columns(["system"], ["n", *(_SHORT_NAMES.get(name, name) for name in names)])
    rows: list[ReportRow] = []
    for subset in dict.fromkeys(item.subset for item in agreement.means):
        rows.append(make_group(subset, columns))
        for item in agreement.means:
            if item.subset == subset:
                estimates = item.people | item.metrics
                cells = [_mean(estimates.get(name)) for name in names]
                rows.append(ReportRow((agreement.systems.get(item.system, item.system), str(item.n), *cells), "below"))
    lines = ["Ratings: means of the raters' medians; FANC: of the harmonic mean of the four, answer by answer."]
    if printed:
        tasks = str(read_printed_statistics()["tasks"])
        rows.append(make_group(f"as printed ({tasks} answerable)", columns))
        for system, values in read_printed_statistics()["table_6"].items():
            cells = [_format_printed(values.get(name)) for name in names]
            rows.append(ReportRow((agreement.systems.get(system, system), tasks, *cells), "below"))
    return Table("By system", columns, tuple(rows), tuple(lines) if agreement.properties else (), tight=True)


def _annotators(agreement: Agreement, printed: bool) -> Table:
    """Return a table of the agreement of three raters, with a row for each property."""
    heads = ["answers", "not three", "a point", "three", "two", "agree", "alpha", *["printed"] * printed]
    rows = []
    for name, item in agreement.annotators.items():
        cells = [str(item.n), str(item.fewer), f"{item.point:g}", f"{item.absolute:.3f}"]
        cells += [f"{item.two_equal:.3f}", f"{item.agreeing:.3f}", _optional(item.alpha)]
        cells += [_optional(read_printed_statistics()["agreement"].get(name))] * printed
        rows.append(ReportRow((name, *cells)))
        if item.alpha_ci95 is not None:
            rows.append(ReportRow(("95% interval", *[""] * 6, _bounds(item.alpha_ci95), *[""] * printed), "below"))
    legend = (
        "three, two: share with that many equal ratings; agree: three, or two and the third one point off "
        f"({read_printed_statistics()['agreement_source']}); alpha: Krippendorff's, interval",
    )
    return Table("Raters", make_columns(["property"], heads), tuple(rows), legend if rows else (), tight=True)


def _correlations(agreement: Agreement, subset: Subset, printed: bool) -> Table:
    """Return a table of every correlation of a subset, with the printed ones of figure 4 and Table 7 if asked for."""
    heads = ["n", "Spearman", "95% interval", "weighted", "95% interval", *["printed"] * printed]
    columns = make_columns(["metric"], heads)
    rows: list[ReportRow] = []
    of_subset = [item for item in agreement.correlations if item.subset == subset]
    for name, systems in dict.fromkeys((item.against, item.systems) for item in of_subset):
        rows.append(make_group(name if systems == "all" else f"{name}, {systems}", columns))
        printed_values = _printed_correlations(name, subset, systems) if printed else {}
        for item in of_subset:
            if (item.against, item.systems) == (name, systems):
                cells = [cell for of in (item.plain, item.weighted) for cell in (_rho(of), _interval(of))]
                cells += [_format_printed(printed_values.get(item.metric))] * printed
                rows.append(ReportRow((item.metric, str(item.n), *cells), "below"))
        not_measured = {metric: value for metric, value in printed_values.items() if metric not in agreement.metrics}
        rows += [ReportRow((name, *["-"] * 5, _format_printed(value)), "below") for name, value in not_measured.items()]
    return Table(f"Spearman over {subset} tasks", columns, tuple(rows), tight=True, narrow=printed)


def _printed_correlations(name: str, subset: Subset, systems: Systems) -> dict[str, float]:
    """Return metric -> printed correlation: Table 7 for win rates, figure 4 for the others; empty: not printed."""
    of_win_rate, of_others = ("all", "all"), ("answerable and partial", "without the reference")
    if (subset, systems) != (of_win_rate if name == "win-rate" else of_others):
        return {}
    correlations: dict[str, float] = read_printed_statistics()["correlations"].get(name, {})
    return correlations


def _verdicts(agreement: Agreement) -> Table:
    """Return a table of judges against labels, with a row for each label beneath its judge."""
    heads = ("n", "accuracy", "kappa", "precision", "TPR", "FPR", "F1")
    rows: list[ReportRow] = []
    for item in agreement.verdicts:
        system = "" if item.system == "all" else f", {agreement.systems.get(item.system, item.system)}"
        statistics = (item.accuracy, item.kappa, None, item.mean_tpr, item.mean_fpr, item.macro_f1)
        label = f"{item.judge} against {item.against}{system}"
        rows.append(ReportRow((label, str(item.n), *map(_optional, statistics))))
        if item.ci95:
            accuracy_and_kappa = [_bounds(item.ci95.get(name)) for name in ("accuracy", "kappa")]
            mean_rates = [_bounds(item.ci95.get(name)) for name in ("mean_tpr", "mean_fpr", "macro_f1")]
            rows.append(ReportRow(("95% interval", "", *accuracy_and_kappa, "", *mean_rates), "below"))
        for name, of_label in item.labels.items():
            rates = map(_optional, (of_label.precision, of_label.recall, of_label.fpr, of_label.f1))
            rows.append(ReportRow((name, str(of_label.support), "-", "-", *rates), "below"))
    legend = [_LABELS] if rows else []
    if any(item.against == "answerability" for item in agreement.verdicts):
        legend.append(
            "against answerability, a reply of the wrong kind is an error here, even if the judge labels it correctly"
        )
    return Table("Verdicts against labels", make_columns(["judge"], heads), tuple(rows), tuple(legend), tight=True)


def _select_fitting_metrics(metrics: Sequence[str], room: int) -> list[str]:
    """Return the metrics whose columns fit the width, those in `_FIRST_METRICS` first; at least one metric."""
    names = dict.fromkeys((*(name for name in _FIRST_METRICS if name in metrics), *metrics))
    chosen_names: list[str] = []
    for name in names:
        room -= max(4, len(name)) + 2
        if room >= 0 or not chosen_names:
            chosen_names.append(name)
    return chosen_names


def _mean(item: Estimate | None) -> str:
    if item is None:
        return "-"
    return f"{item.value:.1f}" if abs(item.value) >= 10 else f"{item.value:.2f}"


def _format_printed(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if value < 1 else f"{value:.1f}"


def _rho(item: Estimate | None) -> str:
    return "-" if item is None else _two_digits(item.value)


def _interval(item: Estimate | None) -> str:
    if item is None:
        return "-"
    return "no interval" if item.ci95 is None else " to ".join(map(_two_digits, item.ci95))


def _bounds(interval: tuple[float, float] | None) -> str:
    return "-" if interval is None else "-".join(map(_two_digits, interval)).replace("0.", ".")


def _two_digits(value: float) -> str:
    """Format a value with two digits; zero has no sign."""
    text = f"{value:.2f}"
    return text if text.strip("-0.") else text.removeprefix("-")


def _optional(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
