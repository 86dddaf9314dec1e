"""What has been published, as facts (`published.json`), and whether a figure of ours may be set against it.

A published figure is comparable only where data, domains, subset, number of samples, setting, judge and the metric's
variant all agree and, where something was searched, the documents and the query mode too. What the source does not say
agrees with nothing, and neither do data that are not known to be the published ones. Everything else is shown with the
differences in words. A row is comparable where all metrics that both have are; `differs_by_metric` says it for each
figure alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, TypeAdapter

from turnmark.core.record import Record
from turnmark.evaluation.judging.judge import model_key, with_snapshots
from turnmark.evaluation.metrics.idk import ACCURACY, ASKS_BACK, IDK, MARK, UNDERSPECIFIED
from turnmark.evaluation.records import Breakdowns, Metrics, MetricSummary, PublishedRow

Extent = Literal["full", "partial", "other", "unknown"]

RERUN = "rerun, TREC runs over the full corpora"
"""The source of figures that no paper printed: recorded runs of known systems, scored by Turnmark."""


class Instrument(Record):
    """What a published metric was measured with."""

    by: str = Field(description="the metric's variant: a library, a definition")
    judges: tuple[str, ...] = Field(default=(), description="models, or `human`; empty: no judge takes part")
    same: tuple[str, ...] = Field(default=(), description="what of ours, as in a score's `by`, computes the same")


class Fact(Record):
    """One published row, as printed, in the units of our metrics."""

    system: str
    benchmark: str
    task: str
    also: tuple[str, ...] = Field(default=(), description="further tasks of ours that measure the same")
    setting: str | None = None
    settings: tuple[str, ...] = Field(default=(), description="further settings of ours that give the same material")
    query: str | None = Field(default=None, description="query mode; None: nothing was searched")
    corpus: Literal["full"] | None = Field(default=None, description="what was searched of the corpora, if anything")
    domains: tuple[str, ...] = Field(default=(), description="empty: all, or the benchmark has none")
    subset: str = Field(description="which samples of these domains, in words")
    part: Mapping[str, str] = Field(
        default_factory=dict,
        description="dimension -> value, the subset as our breakdowns would have it; empty: all samples",
    )
    n: int | None = Field(default=None, description="None: the source does not say")
    metrics: dict[str, float]
    instruments: Mapping[str, Instrument] = Field(description="metric -> what measured it")
    source: str = Field(description="paper, table and section; the texts at hand have no page numbers")
    note: str | None = None
    model: str | None = Field(
        default=None, description="identifier of the model that the paper names; None: it names none, or not which"
    )
    always: Mapping[str, str] = Field(
        default_factory=dict, description="aspect -> what of it differs from every run that can be made here, in words"
    )


class Ran(Record):
    """What of a run decides whether a published row may be compared with it."""

    benchmark: str
    task: str
    setting: str | None = None
    query: str | None = Field(
        description="query mode; None: nothing was searched, or a file of another system is silent"
    )
    domains: tuple[str, ...] = Field(description="empty: the benchmark has none")
    corpora: Mapping[str, Extent] = Field(
        default_factory=dict, description="domain -> how much of its published corpus was searched"
    )
    passages: Mapping[str, str] = Field(default_factory=dict, description="domain -> `N of M passages`")
    variants: Mapping[str, str] = Field(description="metric -> what measured it, as in a score's `by`")
    judges: tuple[str, ...] = Field(default=(), description="specs of the judges, or `human`")
    judged: Mapping[str, tuple[str, ...]] = Field(
        default_factory=dict, description="judged measure -> its judges, where not all judges are asked for all"
    )
    answered: Mapping[str, tuple[str, ...]] = Field(
        default_factory=dict, description="judge that is an alias -> the dated snapshots that answered"
    )
    asked_as_paper: bool = Field(default=False, description="what is measured was asked by the paper's own prompts")
    demo: bool = Field(default=False, description="the split that ships with Turnmark: nothing is comparable")
    doubts: Mapping[str, str] = Field(
        default_factory=dict,
        description="part of the data (domain, split; empty: all) -> why it is not known to be the published one",
    )
    metrics: Metrics
    breakdowns: Breakdowns


@lru_cache(maxsize=1)
def facts() -> tuple[Fact, ...]:
    """Every published row that Turnmark knows, in the order of the file.

    The file gives the instruments once for each benchmark and metric; a row's own `judges` replace them. So it does
    with what of a benchmark's rows differs from every run.
    """
    content = json.loads(Path(__file__).with_name("published.json").read_text(encoding="utf-8"))
    return TypeAdapter(tuple[Fact, ...]).validate_python([_whole(row, content) for row in content["facts"]])


def _whole(row: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    judges = {"judges": row["judges"]} if "judges" in row else {}
    instruments = content["instruments"][row["benchmark"]]
    always = {**content["always"].get(row["benchmark"], {}), **row.get("always", {})}
    used = {metric: {**instruments[metric], **judges} for metric in row["metrics"]}
    return {**{key: value for key, value in row.items() if key != "judges"}, "instruments": used, "always": always}


def find_rows(ran: Ran, published_facts: Sequence[Fact] | None = None) -> tuple[PublishedRow, ...]:
    """The published rows for what ran: those of its benchmark and task, the ones of its setting first.

    Rows over a single domain that did not run are left out, and so are those over a part of a breakdown that has
    other parts here.
    """
    relevant = [fact for fact in (facts() if published_facts is None else published_facts) if _relevant(fact, ran)]
    return tuple(_row(fact, ran) for fact in sorted(relevant, key=lambda fact: not _same_setting(fact, ran)))


def _relevant(fact: Fact, ran: Ran) -> bool:
    if fact.benchmark != ran.benchmark or ran.task not in (fact.task, *fact.also):
        return False
    if len(fact.domains) == 1 and ran.domains and fact.domains[0] not in ran.domains:
        return False
    return all(value in ran.breakdowns.get(dimension, {value: {}}) for dimension, value in fact.part.items())


def _row(fact: Fact, ran: Ran) -> PublishedRow:
    part_name, ours = _slice(fact, ran)
    differences = dict(_differences(fact, ran, part_name, ours))
    judges = {metric: ", ".join(instrument.judges) for metric, instrument in fact.instruments.items()}
    return PublishedRow(
        system=fact.system,
        metrics=fact.metrics,
        source=fact.source,
        n=fact.n,
        subset=fact.subset,
        domains=fact.domains,
        setting=fact.setting,
        query=fact.query,
        judge=_in_words({metric: names for metric, names in judges.items() if names}, len(fact.metrics)),
        variant=_in_words({metric: tool.by for metric, tool in fact.instruments.items()}, len(fact.metrics)),
        note=fact.note,
        model=fact.model,
        comparable=not differences,
        differs=tuple(differences),
        why="; ".join(differences.values()) or None,
        differs_by_metric={
            metric: tuple(dict(_differences(_only(fact, metric), ran, part_name, ours))) for metric in fact.metrics
        },
        slice=part_name,
    )


def _only(fact: Fact, metric: str) -> Fact:
    """The row with one of its metrics."""
    return fact.model_copy(update={"metrics": {metric: fact.metrics[metric]}})


def _in_words(by_metric: Mapping[str, str], total: int) -> str | None:
    """`metrics: text` for each text, or the text alone where it holds for all metrics; None if there is nothing."""
    texts: dict[str, list[str]] = {}
    for metric, text in by_metric.items():
        texts.setdefault(text, []).append(metric)
    if len(texts) == 1 and len(by_metric) == total:
        return next(iter(texts))
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in texts.items()) or None


def _same_setting(fact: Fact, ran: Ran) -> bool:
    return ran.setting in (fact.setting, *fact.settings)


def _same_domains(fact: Fact, ran: Ran) -> bool:
    return not fact.domains or not ran.domains or set(fact.domains) == set(ran.domains)


def _slice(fact: Fact, ran: Ran) -> tuple[str | None, Metrics | None]:
    """Our figures for the same samples: the name of the slice and its figures; None where we have none."""
    part = dict(fact.part)
    if not _same_domains(fact, ran):
        if len(fact.domains) > 1 or part:
            return None, None
        part = {"domain": fact.domains[0]}
    for dimension, value in fact.part.items():
        # Where all that ran has one value, it needs no separate slice.
        if len(part) > 1 and set(ran.breakdowns.get(dimension, {})) == {value}:
            del part[dimension]
    if not part:
        return "all", ran.metrics
    if len(part) > 1:  # a joint dimension, if the run has it
        part = {"+".join(part): ", ".join(part.values())}
    ((dimension, value),) = part.items()
    ours = ran.breakdowns.get(dimension, {}).get(value)
    return (f"{dimension}={value}", ours) if ours else (None, None)


def _differences(fact: Fact, ran: Ran, part_name: str | None, ours: Metrics | None) -> Iterator[tuple[str, str]]:
    """Aspect and what differs, in words; each aspect once."""
    yield from _data(fact, ran)
    for aspect, difference in fact.always.items():
        if aspect != "data" and not (aspect == "prompt" and ran.asked_as_paper):
            yield aspect, f"{aspect}: {difference}"
    if not _same_setting(fact, ran):
        yield "setting", f"setting: published {fact.setting or 'without one'}, here {ran.setting or 'without one'}"
    same_domains = _same_domains(fact, ran)
    if part_name is None and not same_domains:
        yield "domains", f"domains: published {', '.join(fact.domains)}, here {', '.join(ran.domains)}"
    if part_name is None and same_domains:
        yield "subset", f"subset: published {fact.subset}, here no figures are for these alone"
    yield from _count(fact, ours)
    if fact.query is not None and _same_setting(fact, ran):
        yield from _search(fact, ran)
    yield from _judge(fact, ran)
    yield from _metric(fact, ran)


def _data(fact: Fact, ran: Ran) -> Iterator[tuple[str, str]]:
    """Whether the data are those of the paper: by their content where that is known here, else by their size."""
    if ran.demo:
        yield "data", "data: the demo split is not the benchmark"
        return
    parts = [name for name in fact.domains if name in ran.domains] or [*fact.part.values()]
    doubts = [ran.doubts[name] for name in parts if name in ran.doubts]
    if len(fact.domains) != 1 and _same_domains(fact, ran):
        doubts += [ran.doubts[""]] if "" in ran.doubts else []
    doubts += [fact.always["data"]] if "data" in fact.always else []
    if doubts:
        yield "data", f"data: not known to be the paper's: {', '.join(doubts)}"


def _count(fact: Fact, ours: Metrics | None) -> Iterator[tuple[str, str]]:
    if ours is None:
        return
    counts = {samples_of(name, metric) for name, metric in ours.items() if name in fact.metrics}
    if not counts:  # other metrics were measured here: as many samples as any of them has
        counts = {max((metric.n for metric in ours.values()), default=0)} - {0}
    count_text = " or ".join(map(str, sorted(counts))) or "none"
    unit = "queries" if fact.task == "retrieval" else "samples"
    if fact.n is None:
        yield "n", f"n: the source does not say how many {unit}, here {count_text}"
    elif counts != {fact.n}:
        yield "n", f"n: published {fact.n} {unit}, here {count_text}"


def samples_of(name: str, metric: MetricSummary) -> int:
    """How many samples a figure is over. Recall, say, is a share of the positive ones, and is over all the same."""
    ratio = name.partition("[")[0].rpartition(".")[2] in ("precision", "recall", "f1")
    return metric.n + metric.not_applicable if ratio else metric.n


def _search(fact: Fact, ran: Ran) -> Iterator[tuple[str, str]]:
    """What was searched, and for what."""
    shared = [domain for domain in fact.domains if domain in ran.domains]
    short = [domain for domain in shared if ran.corpora.get(domain, "unknown") in ("partial", "other")]
    silent = [domain for domain in shared if ran.corpora.get(domain, "unknown") == "unknown"]
    if short:
        amounts = ", ".join(f"{domain} {ran.passages.get(domain, 'in part')}" for domain in short)
        yield "documents", f"documents: published over the full corpora, here {amounts}"
    elif silent:
        yield "documents", "documents: published over the full corpora, the run file does not say what was searched"
    elif fact.domains and not shared:
        yield "documents", "documents: other ones were searched here"
    if ran.query is None:
        yield "query", f"query: published with {fact.query}, the run file does not say what was searched for"
    elif ran.query != fact.query:
        yield "query", f"query: published with {fact.query}, here {ran.query}"


def _judge(fact: Fact, ran: Ran) -> Iterator[tuple[str, str]]:
    """The judges of the metrics that both have; of all published ones if there is no such metric."""
    shared = [metric for metric in fact.metrics if metric in ran.metrics] or list(fact.metrics)
    published: dict[str, None] = {}
    here: dict[str, None] = {}
    for metric in shared:
        theirs, ours = fact.instruments[metric].judges, _judges(ran, metric)
        pairs = [(name, judge) for name in theirs for judge in ours if _same_judge(name, judge, ran)]
        if theirs and ({name for name, _ in pairs} != set(theirs) or {judge for _, judge in pairs} != set(ours)):
            published |= dict.fromkeys(theirs)
            here |= dict.fromkeys(with_snapshots(judge, ran.answered) for judge in ours)
    if published:
        yield "judge", f"judge: published with {', '.join(published)}, here {', '.join(here) or 'none'}"


def _same_judge(published_name: str, judge: str, ran: Ran) -> bool:
    """Whether a judge is the published model: by its name or, of an alias, by the one snapshot that answered."""
    names = {model_key(judge), *map(model_key, ran.answered.get(judge, ())[:1])}
    return model_key(published_name) in names and len(ran.answered.get(judge, ())) < 2


def _judges(ran: Ran, metric: str) -> tuple[str, ...]:
    """The judges of a metric of a run; of a conditioned one, also those whose verdict it is conditioned on."""
    name, _, condition = metric.partition(".")
    verdicts = (IDK, ASKS_BACK) if metric.endswith(UNDERSPECIFIED) else (IDK,) if f".{condition}" == MARK else ()
    judged = (IDK,) if name == ACCURACY else (name, *verdicts)
    return tuple(dict.fromkeys(judge for metric in judged for judge in ran.judged.get(metric, ()))) or ran.judges


def _metric(fact: Fact, ran: Ran) -> Iterator[tuple[str, str]]:
    shared = [metric for metric in fact.metrics if metric in ran.metrics]
    if not shared:
        yield "metric", f"metric: published {', '.join(fact.metrics)}; not measured here"
        return
    differing: dict[str, str] = {}
    for metric in shared:
        tool, tool_here = fact.instruments[metric], ran.variants.get(metric, "something that is not named")
        if tool_here not in (tool.by, *tool.same):
            differing[metric] = f"published by {tool.by}, here by {tool_here}"
    if differing:
        yield "metric", f"metric: {_in_words(differing, len(shared))}"
