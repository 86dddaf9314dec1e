"""Which plots a run has: its means by what was asked, beside what was published, over k, and what answering took."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from turnmark.evaluation.metric_info import metric_info
from turnmark.evaluation.records import Metrics, MetricSummary, PublishedRow, Summary
from turnmark.evaluation.report import plots, tables
from turnmark.evaluation.report.paper import query_of
from turnmark.evaluation.report.plots import Line, Scale
from turnmark.evaluation.report.stored import StoredRun, samples

CUTOFFS = (1, 3, 5, 10)
METRICS = 4
SYSTEMS = 22
"""Published systems that a plot shows."""
_PUBLISHED_LINES = 3  # published lines in a plot over k
_CLASSES = {
    "95% interval": "figure wide number", "comparable": "told", "n": "figure count number", "best first": "told order",
}  # fmt: skip
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
    "turns": "it is over other turns",
    "prompt": "the authors' prompt asked",
}


@dataclass(frozen=True)
class PlotRow:
    """A row of a plot: a name, a drawing, its figures; `group` names the rows after it."""

    name: str
    kind: str = "plain"
    drawing: str = ""
    figures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Panel:
    """What is seen when a metric is chosen."""

    name: str
    rows: tuple[PlotRow, ...]
    axis: str
    columns: tuple[str, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """Of each column, how wide it is and on which side its texts begin."""
        return tuple(_CLASSES.get(name, "figure number") for name in self.columns)


@dataclass(frozen=True)
class Plot:
    """A heading, and either panels to choose from or drawings side by side with what they are called."""

    title: str
    panels: tuple[Panel, ...] = ()
    drawings: tuple[tuple[str, str], ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def wide(self) -> bool:
        """Whether it needs the whole width."""
        return bool(self.drawings)


@dataclass
class Costs:
    """What the samples of a run took.

    Attributes:
        seconds: of each sample that says.
        tokens: of each sample that asked a language model, prompts and completions.
        phases: phase -> seconds over all samples.
    """

    n: int = 0
    seconds: array[float] = field(default_factory=lambda: array("d"))
    tokens: array[float] = field(default_factory=lambda: array("d"))
    phases: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Headline:
    """A metric among the first things that a reader sees."""

    name: str
    mean: str
    interval: str
    n: str
    drawing: str


def headlines(summary: Summary) -> tuple[Headline, ...]:
    """The metrics that stand for a run, each with its interval on a scale from 0 to 1 where it is a fraction."""
    listed = []
    for name in tables.chosen(summary.metrics, METRICS):
        metric = summary.metrics[name]
        fraction = metric_info(name).direction is not None and 0 <= (metric.mean or 0) <= 1
        drawing = plots.interval(metric.mean, metric.ci95, Scale(0, 1, (0, 0.5, 1)), "ours") if fraction else ""
        counts = [f"n {metric.n}"] + [f"{metric.failed} failed"] * bool(metric.failed)
        listed.append(
            Headline(name, tables.mean(name, metric), tables.interval(name, metric), ", ".join(counts), drawing)
        )
    return tuple(listed)


def figures(run: StoredRun) -> tuple[Plot, ...]:
    """The plots of a run, those that there is something for."""
    run_costs = costs(run)
    plots_made = (_published(run.summary), _breakdowns(run.summary), _by_cutoff(run.summary), _spent(run_costs))
    return tuple(plot for plot in plots_made if plot.panels or plot.drawings)


# --- by what is asked ------------------------------------------------------------------------------------------------


def _breakdowns(summary: Summary) -> Plot:
    names = tables.chosen(summary.metrics, METRICS)
    panels = [_breakdown(summary, name) for name in names]
    return Plot("By what is asked", tuple(panel for panel in panels if panel is not None))


def _breakdown(summary: Summary, name: str) -> Panel | None:
    dimensions = [
        (dimension, [(value, metrics[name]) for value, metrics in values.items() if name in metrics])
        for dimension, values in summary.breakdowns.items()
    ]
    measured = [metric for _, values in dimensions for _, metric in values if metric.mean is not None]
    if not measured:
        return None
    overall = summary.metrics[name]
    on = plots.scale(_ends([overall, *measured]), 4)
    rows = [_row("all", name, overall, on, "ours")]
    for dimension, values in dimensions:
        with_mean = [(value, metric) for value, metric in values if metric.mean is not None]
        if with_mean:
            rows.append(PlotRow(dimension, "group"))
            rows += [_row(value, name, metric, on, "plain") for value, metric in with_mean]
    return Panel(name, tuple(rows), plots.axis(on), ("mean", "95% interval", "n"))


def _row(label: str, name: str, metric: MetricSummary, on: Scale, kind: str) -> PlotRow:
    drawing = plots.interval(metric.mean, metric.ci95, on, kind)
    return PlotRow(label, kind, drawing, (tables.mean(name, metric), tables.interval(name, metric), str(metric.n)))


def _ends(metrics: Sequence[MetricSummary]) -> Iterator[float]:
    for metric in metrics:
        if metric.mean is not None:
            yield metric.mean
        yield from metric.ci95 or ()


# --- beside what was published ---------------------------------------------------------------------------------------


def _published(summary: Summary) -> Plot:
    rows = [row for row in _near(summary) if row.slice]
    published_names = dict.fromkeys(name for row in rows for name in row.metrics)
    names = tables.chosen(
        {name: metric for name, metric in summary.metrics.items() if name in published_names}, METRICS
    )
    shared = [(name, name) for name in names if name in published_names and summary.metrics[name].mean is not None]
    shared += [
        (name, own_name)
        for name in published_names
        if name not in summary.metrics
        for own_name in _alike(summary, name)
    ]
    aspects = list(
        dict.fromkeys(
            aspect for row in rows for name, _ in shared if name in row.metrics for aspect in row.differs_in(name)
        )
    )
    panels = tuple(_against(summary, name, own_name, rows, aspects) for name, own_name in shared[:METRICS])
    return Plot("Beside published figures", panels, lines=tuple(_explained(summary, aspects)) if panels else ())


def _explained(summary: Summary, aspects: Sequence[str]) -> Iterator[str]:
    """`(1) n: it counts another number of queries …` for each aspect, in this order."""
    noun = "queries" if summary.task == "retrieval" else "samples"
    for number, name in enumerate(aspects, 1):
        yield f"({number}) {name}: {_LEGEND.get(name, name).format(noun=noun)}"


def _near(summary: Summary) -> list[PublishedRow]:
    """The rows of the run's own setting, and of these the ones of its query mode; all, where there are none.

    None for demo data, which is not the benchmark.
    """
    rows = [] if summary.data.demo else list(summary.published)
    for name, ours in (("setting", summary.setting), ("query", query_of(summary))):
        rows = [row for row in rows if (getattr(row, name) or None) == ours] or rows
    return rows


def _alike(summary: Summary, name: str) -> list[str]:
    """What of ours measures a published metric in another way: `rl_f[embedded].idk[embedded]` for `rl_f.idk`."""
    return [
        name_of_ours
        for name_of_ours, metric in summary.metrics.items()
        if metric.mean is not None and tables.untagged(name_of_ours) == name
    ]


def _against(summary: Summary, name: str, own_name: str, rows: Sequence[PublishedRow], aspects: Sequence[str]) -> Panel:
    """Our figure and theirs, slice by slice, best first; a ring is what may not be compared.

    Args:
        name: the published metric.
        own_name: ours, which is shown under its own name where it is another.
    """
    # A figure that was published in two tables is one figure.
    measured = list(
        {
            (row.slice, row.system, row.query, row.metrics[name], row.n): row
            for row in reversed(rows)
            if name in row.metrics
        }.values()
    )[::-1]
    order = sorted(measured, key=lambda row: len(row.differs_in(name)))[:SYSTEMS]
    groups: dict[str, list[PublishedRow]] = {}
    for row in measured:
        if row in order:
            groups.setdefault(row.slice or "", []).append(row)
    mine = {
        slice_name: entry
        for slice_name in groups
        if (entry := _of_slice(summary, slice_name).get(own_name)) is not None
    }
    on = plots.scale([*_ends(list(mine.values())), *(row.metrics[name] for row in order)], 4)
    plot_rows: list[PlotRow] = []
    for slice_name, group in groups.items():
        plot_rows.append(PlotRow("all" if slice_name == "all" else slice_name.replace("=", " "), "group"))
        if (own_metric := mine.get(slice_name)) is not None:
            drawing = plots.interval(own_metric.mean, own_metric.ci95, on, "ours")
            label = "this run" if own_name == name else own_name
            plot_rows.append(PlotRow(label, "ours", drawing, (tables.mean(name, own_metric), str(own_metric.n), "")))
        for row in sorted(group, key=lambda entry: -entry.metrics[name]):
            differences = row.differs_in(name)
            kind = "faint" if differences else "plain"
            numbers = ", ".join(str(aspects.index(aspect) + 1) for aspect in differences)
            comparable = f"no ({numbers})" if differences else "yes"
            cells = (f"{row.metrics[name]:g}", "-" if row.n is None else str(row.n), comparable)
            query = f", {row.query}" if row.query else ""
            plot_rows.append(
                PlotRow(f"{row.system}{query}", kind, plots.interval(row.metrics[name], None, on, kind), cells)
            )
    return Panel(name, tuple(plot_rows), plots.axis(on), ("value", "n", "comparable"))


def _of_slice(summary: Summary, slice_name: str) -> Metrics:
    dimension, _, value = slice_name.partition("=")
    return summary.metrics if slice_name == "all" else summary.breakdowns.get(dimension, {}).get(value, {})


# --- over k ----------------------------------------------------------------------------------------------------------


def _by_cutoff(summary: Summary) -> Plot:
    drawings = []
    for metric, heading in (("recall", "recall@k"), ("ndcg", "nDCG@k")):
        names = [f"{metric}@{k}" for k in CUTOFFS]
        own_metrics = [summary.metrics.get(name) for name in names]
        if not any(entry is not None and entry.mean is not None for entry in own_metrics):
            continue
        values = tuple(entry.mean if entry else None for entry in own_metrics)
        ours = Line("this run", values, tuple(entry.ci95 if entry else None for entry in own_metrics))
        published_lines = [
            Line(
                row.system, tuple(row.metrics.get(name) for name in names), kind="plain" if row.comparable else "faint"
            )
            for row in _over_all(summary, names)
        ]
        description = f"{heading} of this run: " + ", ".join(
            f"{tables.figure(name, value)} at {k}" for name, value, k in zip(names, values, CUTOFFS, strict=True)
        )
        drawings.append((heading, plots.lines([ours, *published_lines], [f"k = {k}" for k in CUTOFFS], description)))
    faint = any(not row.comparable for row in _over_all(summary, [f"recall@{k}" for k in CUTOFFS]))
    notes = ("dashed lines: published, and not comparable; the table beneath says why",) if drawings and faint else ()
    return Plot("Retrieval by k", drawings=tuple(drawings), lines=notes)


def _over_all(summary: Summary, names: Sequence[str]) -> list[PublishedRow]:
    """Published rows over all queries of ours, the nearest, one of each system."""
    rows = [row for row in _near(summary) if row.slice == "all" and sum(name in row.metrics for name in names) > 1]
    by_system: dict[str, PublishedRow] = {}
    for row in sorted(rows, key=lambda entry: (not entry.comparable, len(entry.differs))):
        by_system.setdefault(row.system, row)
    return list(by_system.values())[:_PUBLISHED_LINES]


# --- what it took ----------------------------------------------------------------------------------------------------


def costs(run: StoredRun) -> Costs:
    """What every sample of a run took. The samples are streamed; a few numbers are kept of each."""
    run_costs = Costs()
    if not (run.path / "predictions.jsonl").is_file():
        return run_costs
    for sample in samples(run.path):
        run_costs.n += 1
        phases = {name: value for name, value in sample.timings.items() if name != "total"}
        if sample.timings:
            run_costs.seconds.append(sample.timings.get("total", sum(phases.values())))
        for name, value in phases.items():
            run_costs.phases[name] = run_costs.phases.get(name, 0.0) + value
        if any(used.calls for used in sample.usage.values()):
            run_costs.tokens.append(
                sum(usage.prompt_tokens + usage.completion_tokens for usage in sample.usage.values())
            )
    return run_costs


def _spent(run_costs: Costs) -> Plot:
    drawings = []
    for title, values, unit in (
        ("Seconds a sample", run_costs.seconds, "s"),
        ("Tokens a sample", run_costs.tokens, ""),
    ):
        if values:
            ordered = sorted(values)
            middle, ninetieth = plots.quantile(ordered, 0.5), plots.quantile(ordered, 0.9)
            summary = (
                f"median {_short(middle)}{unit and ' '}{unit}, 90th percentile {_short(ninetieth)}{unit and ' '}{unit}"
            )
            drawings.append((f"{title}: {summary}", plots.histogram(values, unit, f"{title}: {summary}")))
    return Plot(
        "Latency and tokens", drawings=tuple(drawings), panels=tuple(_phases(run_costs)), lines=tuple(_told(run_costs))
    )


def _phases(run_costs: Costs) -> Iterator[Panel]:
    seconds = {name: value / run_costs.n for name, value in run_costs.phases.items() if value > 0}
    if len(seconds) > 1:
        on = plots.scale(seconds.values(), zero=True)
        rows = tuple(PlotRow(name, "plain", plots.bar(value, on), (_short(value),)) for name, value in seconds.items())
        yield Panel("where the time goes, seconds a sample", rows, plots.axis(on), ("seconds",))


def _told(run_costs: Costs) -> Iterator[str]:
    if run_costs.seconds and not run_costs.tokens:
        yield "no language model was asked"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 0.1 else f"{value:.3f}"
