"""Read published figures (`published.json` of each benchmark), and decide whether ours are comparable with them.

A published figure is comparable only if data, domains, subset, number of samples, setting, judge and the metric's
variant all agree and, for retrieval, also the documents and the query mode. An aspect that the source does not state
never agrees; neither does data that is not known to be the published one. Other figures are shown with the differences
in words. A row is comparable if all shared metrics are; `differs_by_metric` has the differences of each figure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field, TypeAdapter

from turnmark.core.grouping import group_pairs
from turnmark.core.record import Record
from turnmark.evaluation.benchmark_files import benchmark_files
from turnmark.evaluation.metrics.idk_conditioning import ACCURACY, ASKS_BACK, IDK, IDK_SUFFIX, UNDERSPECIFIED_SUFFIX
from turnmark.evaluation.model_names import model_key, with_snapshots
from turnmark.evaluation.records import Breakdowns, Metrics, MetricSummary, PublishedFigures, PublishedRow

Extent = Literal["full", "partial", "other", "unknown"]

RERUN = "rerun, TREC runs over the full corpora"
"""Source of figures that no paper printed: recorded runs of known systems, scored by Turnmark."""


class Instrument(Record):
    """The library or definition, and the judges, behind a published metric."""

    by: str = Field(description="the metric's variant: a library, a definition")
    judges: tuple[str, ...] = Field(default=(), description="models, or `human`; empty if it is not judged")
    same: tuple[str, ...] = Field(default=(), description="our instruments (a score's `by`) that compute the same")


class PublishedFact(PublishedFigures):
    """A published row, as printed, in the units of our metrics."""

    benchmark: str
    task: str
    also: tuple[str, ...] = Field(default=(), description="further tasks of ours that measure the same")
    settings: tuple[str, ...] = Field(default=(), description="further settings of ours that give the same passages")
    corpus: Literal["full"] | None = Field(default=None, description="extent of the searched corpora, if any")
    part: Mapping[str, str] = Field(
        default_factory=dict,
        description="dimension -> value: the subset in terms of our breakdowns; if empty, all samples",
    )
    instruments: Mapping[str, Instrument] = Field(description="metric -> instrument that measured it")
    note: str | None = None
    model: str | None = Field(
        default=None, description="identifier of the model in the paper, or None without an identified model"
    )
    always: Mapping[str, str] = Field(
        default_factory=dict, description="aspect -> difference from every run of Turnmark, in words"
    )


class RunFacts(Record):
    """The properties of a run that decide whether a published row is comparable with it."""

    benchmark: str
    task: str
    setting: str | None = None
    query: str | None = Field(
        description="query mode, or None if nothing is searched or if another system's file does not say"
    )
    domains: tuple[str, ...] = Field(description="empty: the benchmark has none")
    corpora: Mapping[str, Extent] = Field(
        default_factory=dict, description="domain -> searched extent of its published corpus"
    )
    passages: Mapping[str, str] = Field(default_factory=dict, description="domain -> `N of M passages`")
    variants: Mapping[str, str] = Field(description="metric -> instrument that measured it, a score's `by`")
    judges: tuple[str, ...] = Field(default=(), description="specs of the judges, or `human`")
    judged: Mapping[str, tuple[str, ...]] = Field(
        default_factory=dict, description="judged measure -> its judges; a measure not listed: all judges"
    )
    answered: Mapping[str, tuple[str, ...]] = Field(
        default_factory=dict, description="alias of a judge -> the dated snapshots that answered"
    )
    asked_as_paper: bool = Field(default=False, description="whether the paper's prompts were used")
    demo: bool = Field(default=False, description="True: the demo split, with which nothing is comparable")
    doubts: Mapping[str, str] = Field(
        default_factory=dict,
        description="part of the data (domain, split; empty: all) -> why it is not known to be the published one",
    )
    metrics: Metrics
    breakdowns: Breakdowns


@lru_cache(maxsize=1)
def published_facts() -> tuple[PublishedFact, ...]:
    """Return every published row. The rows of a benchmark are in the order of its file.

    For each benchmark, a file states once the instruments and the differences from every run (`always`). A row can
    name other judges for its instruments, and add further differences.
    """
    rows = []
    for path in benchmark_files("published.json"):
        content = json.loads(path.read_text(encoding="utf-8"))
        rows += [_complete_row(row, content) for row in content["facts"]]
    return TypeAdapter(tuple[PublishedFact, ...]).validate_python(rows)


def _complete_row(row: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the file with the instruments and differences of its benchmark."""
    complete = dict(row)
    judges = {"judges": complete.pop("judges")} if "judges" in row else {}
    instruments = content["instruments"][row["benchmark"]]
    complete["instruments"] = {metric: {**instruments[metric], **judges} for metric in row["metrics"]}
    complete["always"] = {**content["always"].get(row["benchmark"], {}), **row.get("always", {})}
    return complete


def find_rows(ran: RunFacts, rows: Sequence[PublishedFact] | None = None) -> tuple[PublishedRow, ...]:
    """Return the published rows of the run's benchmark and task, those of its setting first.

    Rows over a single domain that is not in the run are left out, and so are rows over a value of a breakdown that has
    only other values in the run.

    Args:
        rows: the published rows, or None for those of our benchmarks.
    """
    relevant = [fact for fact in (published_facts() if rows is None else rows) if _relevant(fact, ran)]
    relevant.sort(key=lambda fact: not _same_setting(fact, ran))
    return tuple(_row(fact, ran) for fact in relevant)


def _relevant(fact: PublishedFact, ran: RunFacts) -> bool:
    if fact.benchmark != ran.benchmark or ran.task not in (fact.task, *fact.also):
        return False
    if len(fact.domains) == 1 and ran.domains and fact.domains[0] not in ran.domains:
        return False
    return all(value in ran.breakdowns.get(dimension, {value: {}}) for dimension, value in fact.part.items())


def _row(fact: PublishedFact, ran: RunFacts) -> PublishedRow:
    part_name, ours = _slice(fact, ran)
    differences = dict(_differences(fact, ran, part_name, ours))
    instruments = fact.instruments.items()
    judges = {metric: ", ".join(instrument.judges) for metric, instrument in instruments if instrument.judges}
    variants = {metric: instrument.by for metric, instrument in instruments}
    differs_by_metric = {
        metric: tuple(dict(_differences(_only(fact, metric), ran, part_name, ours))) for metric in fact.metrics
    }
    shared = {name: value for name, value in fact if name in PublishedRow.model_fields}
    return PublishedRow(
        **shared,
        judge=_in_words(judges, len(fact.metrics)),
        variant=_in_words(variants, len(fact.metrics)),
        comparable=not differences,
        differs=tuple(differences),
        why="; ".join(differences.values()) or None,
        differs_by_metric=differs_by_metric,
        slice=part_name,
    )


def _only(fact: PublishedFact, metric: str) -> PublishedFact:
    """Return the row with only one of its metrics."""
    return fact.model_copy(update={"metrics": {metric: fact.metrics[metric]}})


def _in_words(by_metric: Mapping[str, str], total: int) -> str | None:
    """Return `metrics: text` for each text, only the text if all metrics share it, or None if there are no texts."""
    texts = group_pairs((text, metric) for metric, text in by_metric.items())
    if len(texts) == 1 and len(by_metric) == total:
        return next(iter(texts))
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in texts.items()) or None


def _same_setting(fact: PublishedFact, ran: RunFacts) -> bool:
    return ran.setting in (fact.setting, *fact.settings)


def _same_domains(fact: PublishedFact, ran: RunFacts) -> bool:
    return not fact.domains or not ran.domains or set(fact.domains) == set(ran.domains)


def _slice(fact: PublishedFact, ran: RunFacts) -> tuple[str | None, Metrics | None]:
    """Return the name and the metrics of our slice with the same samples, or None if there is none."""
    part = dict(fact.part)
    if not _same_domains(fact, ran):
        if len(fact.domains) > 1 or part:
            return None, None
        part = {"domain": fact.domains[0]}
    for dimension, value in fact.part.items():
        # A dimension in which all samples of the run have this value needs no slice.
        if len(part) > 1 and set(ran.breakdowns.get(dimension, {})) == {value}:
            del part[dimension]
    if not part:
        return "all", ran.metrics
    if len(part) > 1:  # a joint dimension, if the run has it
        part = {"+".join(part): ", ".join(part.values())}
    ((dimension, value),) = part.items()
    ours = ran.breakdowns.get(dimension, {}).get(value)
    return (f"{dimension}={value}", ours) if ours else (None, None)


def _differences(
    fact: PublishedFact, ran: RunFacts, part_name: str | None, ours: Metrics | None
) -> Iterator[tuple[str, str]]:
    """Yield each aspect that differs, once, with the difference in words."""
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
        yield "subset", f"subset: published {fact.subset}, here there are no figures for it alone"
    yield from _count(fact, ours)
    if fact.query is not None and _same_setting(fact, ran):
        yield from _search(fact, ran)
    yield from _judge(fact, ran)
    yield from _metric(fact, ran)


def _data(fact: PublishedFact, ran: RunFacts) -> Iterator[tuple[str, str]]:
    """Yield a difference if the data is not known to be that of the paper."""
    if ran.demo:
        yield "data", "data: the demo split is not the benchmark"
        return
    parts = [name for name in fact.domains if name in ran.domains] or [*fact.part.values()]
    doubts = [ran.doubts[name] for name in parts if name in ran.doubts]
    if len(fact.domains) != 1 and _same_domains(fact, ran) and "" in ran.doubts:
        doubts.append(ran.doubts[""])
    if "data" in fact.always:
        doubts.append(fact.always["data"])
    if doubts:
        yield "data", f"data: not known to be the paper's: {', '.join(doubts)}"


def _count(fact: PublishedFact, ours: Metrics | None) -> Iterator[tuple[str, str]]:
    if ours is None:
        return
    counts = {samples_of(name, metric) for name, metric in ours.items() if name in fact.metrics}
    if not counts:
        # Without a shared metric, the number of samples is that of the metric with the most.
        counts = {max((metric.n for metric in ours.values()), default=0)} - {0}
    count_text = " or ".join(map(str, sorted(counts))) or "none"
    unit = "queries" if fact.task == "retrieval" else "samples"
    if fact.n is None:
        yield "n", f"n: the source does not say how many {unit}, here {count_text}"
    elif counts != {fact.n}:
        yield "n", f"n: published {fact.n} {unit}, here {count_text}"


def samples_of(name: str, metric: MetricSummary) -> int:
    """Return the number of samples of a figure. Ratios such as recall include samples to which they do not apply."""
    is_ratio = name.partition("[")[0].rpartition(".")[2] in ("precision", "recall", "f1")
    return metric.n + metric.not_applicable if is_ratio else metric.n


def _search(fact: PublishedFact, ran: RunFacts) -> Iterator[tuple[str, str]]:
    """Yield differences in the searched documents and the query mode."""
    shared = [domain for domain in fact.domains if domain in ran.domains]
    short = [domain for domain in shared if ran.corpora.get(domain, "unknown") in ("partial", "other")]
    silent = [domain for domain in shared if ran.corpora.get(domain, "unknown") == "unknown"]
    if short:
        amounts = ", ".join(f"{domain} {ran.passages.get(domain, 'in part')}" for domain in short)
        yield "documents", f"documents: published over the full corpora, here {amounts}"
    elif silent:
        yield "documents", "documents: published over the full corpora, and the run file does not say what was searched"
    elif fact.domains and not shared:
        yield "documents", "documents: others were searched here"
    if ran.query is None:
        yield "query", f"query: published with {fact.query}, and the run file does not say what was searched for"
    elif ran.query != fact.query:
        yield "query", f"query: published with {fact.query}, here {ran.query}"


def _judge(fact: PublishedFact, ran: RunFacts) -> Iterator[tuple[str, str]]:
    """Yield differences in the judges of the shared metrics; without a shared metric, of all published ones."""
    shared = [metric for metric in fact.metrics if metric in ran.metrics] or list(fact.metrics)
    published: dict[str, None] = {}
    here: dict[str, None] = {}
    for metric in shared:
        published_judges = fact.instruments[metric].judges
        our_judges = _judges(ran, metric)
        same = [(name, judge) for name in published_judges for judge in our_judges if _same_judge(name, judge, ran)]
        all_published = {name for name, _ in same} == set(published_judges)
        all_ours = {judge for _, judge in same} == set(our_judges)
        if published_judges and not (all_published and all_ours):
            published |= dict.fromkeys(published_judges)
            here |= dict.fromkeys(with_snapshots(judge, ran.answered) for judge in our_judges)
    if published:
        yield "judge", f"judge: published with {', '.join(published)}, here {', '.join(here) or 'none'}"


def _same_judge(published_name: str, judge: str, ran: RunFacts) -> bool:
    """Return whether a judge is the published model, by its name or by the only snapshot that answered for an alias."""
    snapshots = ran.answered.get(judge, ())
    return len(snapshots) <= 1 and model_key(published_name) in map(model_key, (judge, *snapshots))


def _judges(ran: RunFacts, metric: str) -> tuple[str, ...]:
    """Return the judges of a metric of a run, including those whose verdict it is conditioned on."""
    name, _, condition = metric.partition(".")
    measures = [name]
    if name == ACCURACY:
        measures = [IDK]
    elif metric.endswith(UNDERSPECIFIED_SUFFIX):
        measures += [IDK, ASKS_BACK]
    elif f".{condition}" == IDK_SUFFIX:
        measures.append(IDK)
    judges = dict.fromkeys(judge for measure in measures for judge in ran.judged.get(measure, ()))
    return tuple(judges) or ran.judges


def _metric(fact: PublishedFact, ran: RunFacts) -> Iterator[tuple[str, str]]:
    shared = [metric for metric in fact.metrics if metric in ran.metrics]
    if not shared:
        yield "metric", f"metric: published {', '.join(fact.metrics)}; not measured here"
        return
    differing: dict[str, str] = {}
    for metric in shared:
        instrument = fact.instruments[metric]
        our_instrument = ran.variants.get(metric, "an unnamed instrument")
        if our_instrument not in (instrument.by, *instrument.same):
            differing[metric] = f"published by {instrument.by}, here by {our_instrument}"
    if differing:
        yield "metric", f"metric: {_in_words(differing, len(shared))}"
