"""Which plots a run has: its means by what was asked, beside what was published, over k, and what answering took."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from turnmark.evaluation.metric_info import metric_info
from turnmark.evaluation.records import Metrics, MetricSummary, PublishedRow, Summary
from turnmark.evaluation.report import beside, plots, tables
from turnmark.evaluation.report.plots import Line, Scale
from turnmark.evaluation.report.stored import StoredRun, samples

CUTOFFS = (1, 3, 5, 10)
METRICS = 4
SYSTEMS = 22
"""Published systems that a plot shows."""
_OTHERS = 3  # published lines in a plot over k
_CLASSES = {
    "95% interval": "figure wide number", "comparable": "told", "n": "figure count number", "best first": "told order",
}  # fmt: skip


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
    made = []
    for name in tables.chosen(summary.metrics, METRICS):
        metric = summary.metrics[name]
        whole = metric_info(name).direction is not None and 0 <= (metric.mean or 0) <= 1
        drawing = plots.interval(metric.mean, metric.ci95, Scale(0, 1, (0, 0.5, 1)), "ours") if whole else ""
        counts = [f"n {metric.n}"] + [f"{metric.failed} failed"] * bool(metric.failed)
        made.append(
            Headline(name, tables.mean(name, metric), tables.interval(name, metric), ", ".join(counts), drawing)
        )
    return tuple(made)


def figures(run: StoredRun) -> tuple[Plot, ...]:
    """The plots of a run, those that there is something for."""
    found = costs(run)
    made = (_published(run.summary), _breakdowns(run.summary), _by_cutoff(run.summary), _spent(found))
    return tuple(plot for plot in made if plot.panels or plot.drawings)


# --- by what is asked ------------------------------------------------------------------------------------------------


def _breakdowns(summary: Summary) -> Plot:
    names = tables.chosen(summary.metrics, METRICS)
    made = [_breakdown(summary, name) for name in names]
    return Plot("By what is asked", tuple(panel for panel in made if panel is not None))


def _breakdown(summary: Summary, name: str) -> Panel | None:
    there = [
        (dimension, [(value, metrics[name]) for value, metrics in values.items() if name in metrics])
        for dimension, values in summary.breakdowns.items()
    ]
    known = [metric for _, values in there for _, metric in values if metric.mean is not None]
    if not known:
        return None
    overall = summary.metrics[name]
    on = plots.scale(_ends([overall, *known]), 4)
    rows = [_row("all", name, overall, on, "ours")]
    for dimension, values in there:
        shown = [(value, metric) for value, metric in values if metric.mean is not None]
        if shown:
            rows.append(PlotRow(dimension, "group"))
            rows += [_row(value, name, metric, on, "plain") for value, metric in shown]
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
    rows = [row for row in beside.near(summary) if row.slice]
    there = dict.fromkeys(name for row in rows for name in row.metrics)
    names = tables.chosen({name: one for name, one in summary.metrics.items() if name in there}, METRICS)
    shared = [(name, name) for name in names if name in there and summary.metrics[name].mean is not None]
    shared += [(name, own) for name in there if name not in summary.metrics for own in _alike(summary, name)]
    aspects = list(
        dict.fromkeys(
            aspect for row in rows for name, _ in shared if name in row.metrics for aspect in row.differs_in(name)
        )
    )
    panels = tuple(_against(summary, name, own, rows, aspects) for name, own in shared[:METRICS])
    return Plot(beside.TITLE, panels, lines=tuple(beside.explained(summary, aspects)) if panels else ())


def _alike(summary: Summary, name: str) -> list[str]:
    """What of ours measures a published metric in another way: `rl_f[embedded].idk[embedded]` for `rl_f.idk`."""
    return [own for own, metric in summary.metrics.items() if metric.mean is not None and tables.untagged(own) == name]


def _against(summary: Summary, name: str, own: str, rows: Sequence[PublishedRow], aspects: Sequence[str]) -> Panel:
    """Our figure and theirs, slice by slice, best first; a ring is what may not be compared.

    Args:
        name: the published metric.
        own: ours, which is shown under its own name where it is another.
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
    mine = {where: one for where in groups if (one := _of_slice(summary, where).get(own)) is not None}
    on = plots.scale([*_ends(list(mine.values())), *(row.metrics[name] for row in order)], 4)
    made: list[PlotRow] = []
    for where, group in groups.items():
        made.append(PlotRow("all" if where == "all" else where.replace("=", " "), "group"))
        if (found := mine.get(where)) is not None:
            drawing = plots.interval(found.mean, found.ci95, on, "ours")
            label = "this run" if own == name else own
            made.append(PlotRow(label, "ours", drawing, (tables.mean(name, found), str(found.n), "")))
        for row in sorted(group, key=lambda one: -one.metrics[name]):
            apart = row.differs_in(name)
            kind = "faint" if apart else "plain"
            numbers = ", ".join(str(aspects.index(aspect) + 1) for aspect in apart)
            told = f"no ({numbers})" if apart else "yes"
            cells = (f"{row.metrics[name]:g}", "-" if row.n is None else str(row.n), told)
            query = f", {row.query}" if row.query else ""
            made.append(PlotRow(f"{row.system}{query}", kind, plots.interval(row.metrics[name], None, on, kind), cells))
    return Panel(name, tuple(made), plots.axis(on), ("value", "n", "comparable"))


def _of_slice(summary: Summary, where: str) -> Metrics:
    dimension, _, value = where.partition("=")
    return summary.metrics if where == "all" else summary.breakdowns.get(dimension, {}).get(value, {})


# --- over k ----------------------------------------------------------------------------------------------------------


def _by_cutoff(summary: Summary) -> Plot:
    drawings = []
    for metric, heading in (("recall", "recall@k"), ("ndcg", "nDCG@k")):
        names = [f"{metric}@{k}" for k in CUTOFFS]
        own = [summary.metrics.get(name) for name in names]
        if not any(one is not None and one.mean is not None for one in own):
            continue
        values = tuple(one.mean if one else None for one in own)
        ours = Line("this run", values, tuple(one.ci95 if one else None for one in own))
        others = [
            Line(
                row.system, tuple(row.metrics.get(name) for name in names), kind="plain" if row.comparable else "faint"
            )
            for row in _over_all(summary, names)
        ]
        said = f"{heading} of this run: " + ", ".join(
            f"{tables.figure(name, value)} at {k}" for name, value, k in zip(names, values, CUTOFFS, strict=True)
        )
        drawings.append((heading, plots.lines([ours, *others], [f"k = {k}" for k in CUTOFFS], said)))
    faint = any(not row.comparable for row in _over_all(summary, [f"recall@{k}" for k in CUTOFFS]))
    told = ("dashed lines: published, and not comparable; the table beneath says why",) if drawings and faint else ()
    return Plot("Retrieval by k", drawings=tuple(drawings), lines=told)


def _over_all(summary: Summary, names: Sequence[str]) -> list[PublishedRow]:
    """Published rows over all queries of ours, the nearest, one of each system."""
    rows = [
        row for row in beside.near(summary) if row.slice == "all" and sum(name in row.metrics for name in names) > 1
    ]
    found: dict[str, PublishedRow] = {}
    for row in sorted(rows, key=lambda one: (not one.comparable, len(one.differs))):
        found.setdefault(row.system, row)
    return list(found.values())[:_OTHERS]


# --- what it took ----------------------------------------------------------------------------------------------------


def costs(run: StoredRun) -> Costs:
    """What every sample of a run took. The samples are streamed; a few numbers are kept of each."""
    found = Costs()
    if not (run.path / "predictions.jsonl").is_file():
        return found
    for sample in samples(run.path):
        found.n += 1
        phases = {name: value for name, value in sample.timings.items() if name != "total"}
        if sample.timings:
            found.seconds.append(sample.timings.get("total", sum(phases.values())))
        for name, value in phases.items():
            found.phases[name] = found.phases.get(name, 0.0) + value
        if any(used.calls for used in sample.usage.values()):
            found.tokens.append(sum(one.prompt_tokens + one.completion_tokens for one in sample.usage.values()))
    return found


def _spent(found: Costs) -> Plot:
    drawings = []
    for what, values, unit in (("Seconds a sample", found.seconds, "s"), ("Tokens a sample", found.tokens, "")):
        if values:
            ordered = sorted(values)
            middle, most = plots.quantile(ordered, 0.5), plots.quantile(ordered, 0.9)
            told = f"median {_short(middle)}{unit and ' '}{unit}, 90th percentile {_short(most)}{unit and ' '}{unit}"
            drawings.append((f"{what}: {told}", plots.histogram(values, unit, f"{what}: {told}")))
    return Plot("Latency and tokens", drawings=tuple(drawings), panels=tuple(_phases(found)), lines=tuple(_told(found)))


def _phases(found: Costs) -> Iterator[Panel]:
    counted = {name: value / found.n for name, value in found.phases.items() if value > 0}
    if len(counted) > 1:
        on = plots.scale(counted.values(), zero=True)
        rows = tuple(PlotRow(name, "plain", plots.bar(value, on), (_short(value),)) for name, value in counted.items())
        yield Panel("where the time goes, seconds a sample", rows, plots.axis(on), ("seconds",))


def _told(found: Costs) -> Iterator[str]:
    if found.seconds and not found.tokens:
        yield "no language model was asked"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 0.1 else f"{value:.3f}"
