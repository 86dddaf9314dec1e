"""Agreement as tables: those of MTRAG's section 7 with the printed figures beside them, where they are known."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from turnmark.evaluation.agreement.measuring import Agreement, Correlated, Estimate
from turnmark.evaluation.agreement.rows import FANC, FANC_MEAN
from turnmark.evaluation.report.overview import Document
from turnmark.evaluation.report.tables import Column, Row, Table

_SHORT = {
    "win-rate": "WR", "faithfulness": "F", "appropriateness": "A", "naturalness": "N", "completeness": "C",
}  # fmt: skip
_BESIDE = ("rl_f", "rb_llm", "rb_agg")
_UNSCORED = ("rl_r", "rl_mtb")
"""Metrics of Table 7 that the published file has no scores of."""
_ROOM = 56
"""Characters that columns of metrics may take, beside a name and a count, where a terminal has 80."""
_LABELS = "accuracy, kappa (Cohen's) and the means of TPR and FPR are over all labels; the lines below are of one label"


# What MTRAG prints of its human evaluation: 159 tasks in four domains, 5 conversations each. A file with fewer of them
# gives other figures.

PRINTED_TASKS = 135
"""Tasks of Table 6. The text says 152 answerable and partial ones, the caption the answerable subset: over the full
file the 135 ANSWERABLE tasks give six of the nine printed columns, the 150 answerable and partial ones fewer."""

PRINTED_SYSTEMS = ("reference", "gpt-4o", "llama-3.1-405b-instruct")
_COLUMNS = ("win-rate", *FANC, FANC_MEAN, "rl_f", "rb_llm", "rb_agg")

PRINTED_MEANS = {
    "reference": dict(zip(_COLUMNS, (59.3, 3.8, 3.8, 4.0, 3.9, 3.8, 0.86, 0.97, 0.87), strict=True)),
    "gpt-4o": dict(zip(_COLUMNS, (47.8, 3.5, 3.8, 4.0, 3.7, 3.6, 0.80, 0.80, 0.46), strict=True)),
    "llama-3.1-405b-instruct": dict(zip(_COLUMNS, (47.4, 3.5, 3.9, 3.9, 3.7, 3.6, 0.78, 0.78, 0.49), strict=True)),
}
"""Table 6: system -> property or metric -> mean."""

PRINTED_ANNOTATORS = {
    "faithfulness": 0.896, "appropriateness": 0.921, "naturalness": 0.956, "completeness": 0.903, "win-rate": 0.874,
}  # fmt: skip
"""Section 7: property -> agreement as appendix E defines it."""

_FIGURE = ("RougeL", "Bert-KPrec", "Bert-Rec", "rb_agg", "rl_f", "rb_llm")
PRINTED_CORRELATIONS = {
    "win-rate": {"rb_agg": 0.24, "rb_llm": 0.33, "rl_f": 0.01, "rl_r": -0.03, "rl_mtb": -0.17},
    "faithfulness": dict(zip(_FIGURE, (0.48, 0.69, 0.33, 0.53, 0.68, 0.27), strict=True)),
    "appropriateness": dict(zip(_FIGURE, (0.45, 0.28, 0.49, 0.45, 0.32, 0.46), strict=True)),
    "naturalness": dict(zip(_FIGURE, (0.11, 0.36, 0.21, 0.42, 0.34, 0.30), strict=True)),
    "completeness": dict(zip(_FIGURE, (0.45, 0.59, 0.35, 0.49, 0.63, 0.33), strict=True)),
    FANC_MEAN: dict(zip(_FIGURE, (0.46, 0.64, 0.39, 0.53, 0.63, 0.32), strict=True)),
}
"""Property -> metric -> weighted Spearman: the row of win-rate from Table 7, the others from figure 4."""

PRINTED_PREFERENCE_NOTE = (
    "Compound-QA section 5, beside the lines on preference: gpt-3.5-turbo against the majority of three people on 100 "
    "pairs has accuracy .81, mean TPR .8844 and mean FPR .1047; its people judge format and completeness alone"
)

PRINTED_NOTES = (
    "beside the printed figures: MTRAG rates 159 tasks of four domains; those of a file with fewer are other samples",
    "Table 6: its caption says the answerable subset, its text 152 answerable and partial tasks; over the full file "
    "the 135 answerable ones give six of the nine printed columns. The win rate is none of the six: it is nearer to "
    "means of all ratings (58.8 to 59.6 for the references, printed 59.3) than to means of medians (61.9 to 62.5)",
    "appendix E: over the full file neither the printed definition nor 'all equal' gives the printed agreement (.896, "
    ".921, .956, .903, .874); 'two equal' comes nearest (.905, .935, .965, .930, .885)",
    "figure 4: its caption says the answerable subset. Over the 150 answerable and partial tasks of the full file, "
    "without the references, its cells come out with a mean error of .020 where rows are ranked as they are, and then "
    "weigh one over how often the raters' median, rounded up, occurs; so they are computed here",
    "Table 7 does not come out by this formula, nor by any other that was tried, over whichever answers: its row is "
    "beside figures over all answers and systems. Its RL_R and RL_MTB need a run judged with "
    "panel:mtrag?metrics=rl_r,rl_mtb; the published file has no scores of theirs",
    "appendix E speaks of tasks; here each answer of a system counts. A point of the win rate is one of its steps (50)",
)


def _is_mtrags(systems: Collection[str], properties: Collection[str]) -> bool:
    """Whether ratings look like those that the paper reports."""
    return set(PRINTED_SYSTEMS) <= set(systems) and set(PRINTED_ANNOTATORS) <= set(properties)


def document(agreement: Agreement) -> Document:
    """What there is to say of it."""
    return Document(_title(agreement), _tables(agreement), _notes(agreement))


def _title(agreement: Agreement) -> str:
    raters = "rated by people" if agreement.people else "scored by another judge" if agreement.properties else "of runs"
    systems = f"{len(agreement.systems)} system" + ("s" if len(agreement.systems) > 1 else "")
    return f"agreement: {agreement.n} answers of {systems} in {agreement.conversations} conversations, {raters}"


def _tables(agreement: Agreement) -> tuple[Table, ...]:
    printed = _is_mtrags(agreement.systems, agreement.properties)
    subsets = list(dict.fromkeys(item.subset for item in agreement.correlations))
    return (
        means(agreement, printed),
        annotators(agreement, printed),
        matrix(agreement, printed),
        *(correlations(agreement, subset) for subset in subsets),
        verdicts(agreement),
        judges(agreement),
    )


def _notes(agreement: Agreement) -> tuple[str, ...]:
    slips = PRINTED_NOTES if _is_mtrags(agreement.systems, agreement.properties) else ()
    pairs = [PRINTED_PREFERENCE_NOTE] if any(item.judge.startswith("preference") for item in agreement.verdicts) else []
    return (*agreement.notes, *pairs, *slips)


def means(agreement: Agreement, printed: bool) -> Table:
    """Like Table 6: a row for each system, a group for each subset."""
    metrics = _fitting(agreement.metrics, _ROOM + 4 - 6 * len(agreement.properties))
    columns = (
        Column("system"),
        Column("n", True),
        *(Column(_short(name), True) for name in (*agreement.properties, *metrics)),
    )
    rows: list[Row] = []
    for subset in dict.fromkeys(item.subset for item in agreement.means):
        rows.append(Row((subset, *[""] * (len(columns) - 1)), "group"))
        for item in (item for item in agreement.means if item.subset == subset):
            cells = [_mean(item.people.get(name)) for name in agreement.properties]
            cells += [_mean(item.metrics.get(name)) for name in metrics]
            rows.append(Row((agreement.systems.get(item.system, item.system), str(item.n), *cells), "below"))
    if printed:
        rows.append(Row((f"as printed ({PRINTED_TASKS} answerable)", *[""] * (len(columns) - 1)), "group"))
        for system, values in PRINTED_MEANS.items():
            cells = [_printed(values.get(name)) for name in (*agreement.properties, *metrics)]
            rows.append(Row((agreement.systems.get(system, system), str(PRINTED_TASKS), *cells), "below"))
    lines = ("Ratings: means of the raters' medians; FANC: of the harmonic mean of the four, answer by answer.",)
    return Table("By system", columns, tuple(rows), lines if agreement.people else (), tight=True)


def annotators(agreement: Agreement, printed: bool) -> Table:
    """How far three raters agree, property by property."""
    heads = ["answers", "not three", "a point", "three", "two", "agree", "alpha", *["printed"] * printed]
    rows = []
    for name, item in agreement.annotators.items():
        theirs = PRINTED_ANNOTATORS.get(name)
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
    return Table(
        "Raters",
        (Column("property"), *(Column(head, True) for head in heads)),
        tuple(rows),
        legend if rows else (),
        tight=True,
    )


def matrix(agreement: Agreement, printed: bool) -> Table:
    """Like figure 4: weighted correlations, properties by metrics; the win rate as in Table 7."""
    lacking = [name for name in _UNSCORED if printed and name not in agreement.metrics]
    names = [*_fitting(agreement.metrics, _ROOM - sum(len(name) + 2 for name in lacking)), *lacking]
    subset = (
        "answerable and partial" if any(c.subset == "answerable and partial" for c in agreement.correlations) else "all"
    )
    rows: list[Row] = []
    for name in agreement.properties:
        table_7 = name == "win-rate" and any(c.systems == "all" for c in agreement.correlations)
        mine = {
            item.metric: item
            for item in agreement.correlations
            if item.against == name
            and item.subset == ("all" if table_7 else subset)
            and (not table_7 or item.systems == "all")
        }
        if not mine:
            continue
        cells = [_rho(mine[metric].weighted) if metric in mine else "-" for metric in names]
        rows.append(Row((name, str(max(item.n for item in mine.values())), *cells)))
        if printed and name in PRINTED_CORRELATIONS:
            theirs = PRINTED_CORRELATIONS[name]
            rows.append(Row(("printed", "", *(f"{theirs[m]:.2f}" if m in theirs else "-" for m in names)), "below"))
    legend = (
        f"Rows of {subset} tasks"
        + (", without the references; win-rate: all answers of all systems" if printed else ""),
    )
    columns = (Column(""), Column("n", True), *(Column(name, True) for name in names))
    return Table("Spearman, weighted", columns, tuple(rows), legend if rows else (), tight=True)


def correlations(agreement: Agreement, subset: str) -> Table:
    """Every correlation of a subset with its interval."""
    columns = (
        Column("metric"), Column("n", True), Column("Spearman", True), Column("95% interval", True),
        Column("weighted", True), Column("95% interval", True),
    )  # fmt: skip
    rows: list[Row] = []
    mine = [item for item in agreement.correlations if item.subset == subset]
    for name, systems in dict.fromkeys((item.against, item.systems) for item in mine):
        label = name if systems == "all" else f"{name}, {systems}"
        rows.append(Row((label, *[""] * 5), "group"))
        group = [item for item in mine if (item.against, item.systems) == (name, systems)]
        rows += [Row((item.metric, str(item.n), *_both(item)), "below") for item in group]
    return Table(f"Spearman over {subset} tasks", columns, tuple(rows), tight=True)


def _both(item: Correlated) -> Sequence[str]:
    return [cell for side in (item.plain, item.weighted) for cell in (_rho(side), _interval(side))]


def verdicts(agreement: Agreement) -> Table:
    """Judges against labels, and each label under its judge."""
    heads = ("n", "accuracy", "kappa", "precision", "TPR", "FPR", "F1")
    rows: list[Row] = []
    for item in agreement.verdicts:
        system = "" if item.system == "all" else f", {agreement.systems.get(item.system, item.system)}"
        cells = (str(item.n), _optional(item.accuracy), _optional(item.kappa), "-", _optional(item.mean_tpr))
        rows.append(
            Row(
                (
                    f"{item.judge} against {item.against}{system}",
                    *cells,
                    _optional(item.mean_fpr),
                    _optional(item.macro_f1),
                )
            )
        )
        if item.ci95:
            accuracy, kappa, tpr, fpr = (
                _bounds(item.ci95.get(name)) for name in ("accuracy", "kappa", "mean_tpr", "mean_fpr")
            )
            rows.append(Row(("95% interval", "", accuracy, kappa, "", tpr, fpr, ""), "below"))
        for name, label in item.labels.items():
            figures = map(_optional, (label.precision, label.recall, label.fpr, label.f1))
            rows.append(Row((name, str(label.support), "-", "-", *figures), "below"))
    legend = [_LABELS] if rows else []
    if any(item.against == "answerability" for item in agreement.verdicts):
        legend.append(
            "against answerability, a reply that should have been another is an error here, though its judge may be "
            "right"
        )
    return Table(
        "Verdicts against labels",
        (Column("judge"), *(Column(h, True) for h in heads)),
        tuple(rows),
        tuple(legend),
        tight=True,
    )


def judges(agreement: Agreement) -> Table:
    """The judges of the runs among themselves."""
    rows = [
        Row(
            (
                metric,
                panel.rule,
                ", ".join(panel.judges),
                str(panel.n),
                _optional(panel.alpha),
                _bounds(panel.alpha_ci95),
            )
        )
        for metric, panel in agreement.judging.items()
    ]
    columns = (Column("metric"), Column("rule"), Column("judges"), Column("n", True), Column("alpha", True),
               Column("95% interval", True))  # fmt: skip
    return Table("Judges among themselves", columns, tuple(rows))


def _fitting(metrics: Sequence[str], room: int) -> list[str]:
    """The metrics whose columns have room, judges and the like first; one at least. Others are in the tables below."""
    names = dict.fromkeys((*(name for name in _BESIDE if name in metrics), *metrics))
    chosen_names: list[str] = []
    for name in names:
        room -= max(4, len(name)) + 2
        if room >= 0 or not chosen_names:
            chosen_names.append(name)
    return chosen_names


def _short(name: str) -> str:
    return _SHORT.get(name, name)


def _mean(item: Estimate | None) -> str:
    return "-" if item is None else f"{item.value:.1f}" if abs(item.value) >= 10 else f"{item.value:.2f}"


def _printed(value: float | None) -> str:
    """With as many digits as the paper gives."""
    return "-" if value is None else f"{value:.2f}" if value < 1 else f"{value:.1f}"


def _rho(item: Estimate | None) -> str:
    return "-" if item is None else _two(item.value)


def _interval(item: Estimate | None) -> str:
    return "-" if item is None or item.ci95 is None else " to ".join(map(_two, item.ci95))


def _bounds(interval: tuple[float, float] | None) -> str:
    return "-" if interval is None else "-".join(map(_two, interval)).replace("0.", ".")


def _two(value: float) -> str:
    text = f"{value:.2f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def _optional(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
