"""Score a run: measure every sample in the order of the data, and write scores and summary.

No question is answered in this pass, so a run can be scored again when a metric changes, and answers of other systems
are scored by the same code.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from turnmark.assistant.llm.prompts.context_budget import cut_material
from turnmark.assistant.types import Usage
from turnmark.core.console import Progress
from turnmark.core.untrusted import one_line
from turnmark.evaluation.calls.cost_estimates import add_usage
from turnmark.evaluation.judging.panel import ROLE, Judging
from turnmark.evaluation.metric_style import MetricStyle, styles_by_name
from turnmark.evaluation.records import Breakdowns, Metrics, RunManifest, Sample, Score, Summary
from turnmark.evaluation.report.sample_browser import note_samples
from turnmark.evaluation.scores.cluster_statistics import MIN_CLUSTERS
from turnmark.evaluation.scores.published_results import Extent, Fact, RunFacts, find_rows
from turnmark.evaluation.scores.published_results import facts as published_facts
from turnmark.evaluation.scores.score_tally import Facts, SampleHashes, ScoreTally, write_facts
from turnmark.evaluation.storage.corpus_passages import OFFICIAL_SEARCH
from turnmark.evaluation.storage.run_folder import RunFolder
from turnmark.evaluation.tasks.declarations import no_interval
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.metric import measure_sample
from turnmark.evaluation.tasks.registry import find_task
from turnmark.evaluation.tasks.task import Task

MISSING_KIND = "missing"


def now() -> str:
    """Return the current time in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def missing_sample(item: Item, cause: str, repeat: int = 0) -> Sample:
    """Return the failed sample of an item whose answer or material is missing."""
    return Sample(
        id=item.id,
        repeat=repeat,
        status="failed",
        kind=MISSING_KIND,
        reason=f"{MISSING_KIND}: {cause}",
        domain=item.domain,
    )


@dataclass
class ScoringTotals:
    """Totals of a scoring pass.

    Attributes:
        failures: kind of failure -> samples.
        cut: material that was cut from prompts -> samples.
        shortened: samples whose prompts were cut.
        answering: total seconds of answering.
        ids: hashes of the sample ids.
    """

    n: int = 0
    failed: int = 0
    skipped: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    cut: Counter[str] = field(default_factory=Counter)
    shortened: int = 0
    usage: dict[str, Usage] = field(default_factory=dict)
    answering: float = 0.0
    ids: SampleHashes = field(default_factory=SampleHashes)

    @property
    def tried(self) -> int:
        """Number of samples that were not skipped."""
        return self.n - self.skipped

    def count(self, sample: Sample) -> None:
        """Add a sample to the totals."""
        self.n += 1
        if sample.status == "failed":
            self.failed += 1
            self.failures[sample.kind or "error"] += 1
        elif sample.status == "skipped":
            self.skipped += 1
        material = cut_material(sample.notes)
        self.cut.update(material)
        if material:
            self.shortened += 1
        self.usage = add_usage(self.usage, sample.usage)
        self.answering += sample.timings.get("total", 0.0)


def score_run(
    run: RunFolder,
    benchmark: Task,
    items: Iterable[Item],
    *,
    notes: Sequence[str] = (),
    seconds: Mapping[str, float] | None = None,
    began: float | None = None,
    progress: Progress,
    judging: Judging | None = None,
) -> Summary:
    """Score every sample of a run, write `scores.jsonl` and `summary.json`.

    Judges (`turnmark.evaluation.judging`) are asked first, in a separate pass.

    Args:
        items: items of the run, in the order of the data; one without a sample is left out.
        notes: notes of the summary, before those of the scoring.
        seconds: phase -> seconds so far.
        began: start of the command, by `time.perf_counter()`; None: the start of the scoring.
    """
    began = time.perf_counter() if began is None else began
    if judging is not None:
        _judge(judging, run, benchmark, progress)
    manifest = run.manifest
    started = time.perf_counter()
    tally = ScoreTally(manifest.seed, _metric_styles(benchmark, judging))
    totals = ScoringTotals()
    order: list[tuple[str, int]] = []
    with write_facts(run.path) as write_fact:
        samples = _samples(run, note_samples(run, benchmark, items), progress)
        run.write_scores(_scores(benchmark, judging, samples, tally, totals, order, write_fact))
    run.samples.arrange(order)
    metrics, breakdowns = tally.metrics(), tally.breakdowns()
    ended = time.perf_counter()
    phase_seconds = dict(seconds or {})
    if judging is not None:
        judging.close()
        phase_seconds[ROLE] = judging.seconds
    if totals.answering:
        phase_seconds["sample_latency"] = totals.answering / totals.tried
    phase_seconds |= {"score": ended - started, "total": ended - began}
    summary = _summary(manifest, benchmark, judging, totals, metrics, breakdowns, notes, phase_seconds)
    run.finish(summary, now())
    return summary


def _summary(
    manifest: RunManifest,
    benchmark: Task,
    judging: Judging | None,
    totals: ScoringTotals,
    metrics: Metrics,
    breakdowns: Breakdowns,
    notes: Sequence[str],
    seconds: Mapping[str, float],
) -> Summary:
    """Return the summary of a scored run, including the usage, specs and notes of the judges."""
    specs, usage = dict(manifest.specs), totals.usage
    if judging is not None:
        lead = int(manifest.data.demo)  # the note about demo data is always the first
        notes = (*notes[:lead], *judging.warnings(), *notes[lead:], *judging.notes())
        if any(judge.has_model for judge in judging.judges):
            usage = add_usage(usage, {ROLE: judging.usage})
        if judging.judges:
            specs[ROLE] = ", ".join(judge.name for judge in judging.judges)
    return Summary(
        benchmark=manifest.benchmark,
        task=manifest.task,
        setting=manifest.setting,
        data=manifest.data,
        selection=manifest.selection,
        n=totals.n,
        failed=totals.failed,
        skipped=totals.skipped,
        metrics=metrics,
        breakdowns=breakdowns,
        published=find_rows(_run_facts(manifest, benchmark, metrics, breakdowns, judging), _published_facts(manifest)),
        usage={role: used.model_dump() for role, used in usage.items()},
        seconds={name: round(value, 3) for name, value in seconds.items()},
        notes=(*notes, *_total_notes(totals), *_few_clusters_note(manifest.benchmark, metrics)),
        specs=specs,
        judging=judging.panels() if judging else {},
        samples=totals.ids.hashes(),
        warnings=(*benchmark.warn_of(metrics), *(judging.warnings() if judging else ())),
    )


def _judge(judging: Judging, run: RunFolder, benchmark: Task, progress: Progress) -> None:
    """Ask the judges, and write their names and prompts to the manifest."""
    judge_metrics = {judge.name: ", ".join(sorted(judge.metrics or ())) or "all" for judge in judging.judges}
    run.update_manifest(judges=judge_metrics, judge_prompts=judging.prompt_hashes)
    judging.ask(run, benchmark, progress)
    progress.start(f"scoring {one_line(run.manifest.benchmark)}", len(run.samples) // max(1, run.manifest.repeat))


def _samples(run: RunFolder, items: Iterable[Item], progress: Progress) -> Iterator[tuple[Item, Sample]]:
    for item in items:
        for repeat in range(run.manifest.repeat):
            sample = run.samples.get((item.id, repeat))
            if sample is not None:
                yield item, sample
        progress.advance()


def _scores(
    benchmark: Task,
    judging: Judging | None,
    samples: Iterable[tuple[Item, Sample]],
    tally: ScoreTally,
    totals: ScoringTotals,
    order: list[tuple[str, int]],
    write_fact: Callable[[str, Facts], object],
) -> Iterator[Score]:
    latest: Item | None = None
    facts: Facts | None = None
    for item, sample in samples:
        metrics = [metric for metric in benchmark.metrics if metric.concerns(item)]
        scores = measure_sample(metrics, sample, partial(benchmark.context, item, sample))
        if facts is None or item is not latest:  # the repeats of an item follow each other
            latest, facts = item, item.facts
            write_fact(item.id, facts)
            totals.ids.add(item.id, facts)
        order.append(sample.key)
        if judging is not None:
            scores += judging.scores(benchmark, item, sample, scores)
        tally.add(scores, facts, benchmark.rankings(item, sample), sample.repeat)
        totals.count(sample)
        yield from scores


def _run_facts(
    manifest: RunManifest,
    benchmark: Task,
    headline: Metrics,
    breakdowns: Breakdowns,
    judging: Judging | None,
) -> RunFacts:
    extents: dict[str, Extent] = {name: corpus.extent for name, corpus in manifest.corpora.items()}
    if manifest.specs.get("passages") == OFFICIAL_SEARCH:
        extents = dict.fromkeys(manifest.domains, "full")
    variants = {name: metric.by for metric in benchmark.metrics for name in metric.names}
    if judging:
        variants |= judging.variants(benchmark.metrics)
    return RunFacts(
        benchmark=manifest.benchmark,
        task=manifest.task,
        setting=manifest.setting,
        query=manifest.specs.get("query"),
        domains=manifest.domains,
        corpora=extents,
        passages={name: benchmark.describe_corpus(name, corpus) for name, corpus in manifest.corpora.items()},
        variants=variants,
        judges=_raters(benchmark, judging),
        judged=judging.models() if judging else {},
        answered=judging.answered() if judging else {},
        demo=manifest.data.demo,
        doubts={} if manifest.data.demo else benchmark.doubts(),
        asked_as_paper=benchmark.asks_as_paper,
        metrics=headline,
        breakdowns=breakdowns,
    )


def _published_facts(manifest: RunManifest) -> tuple[Fact, ...]:
    """Return every published row, including those of a third-party benchmark."""
    task = find_task(manifest.benchmark, manifest.task)
    if task is None:
        return published_facts()
    return (*published_facts(), *task.published)


def _raters(benchmark: Task, judging: Judging | None) -> tuple[str, ...]:
    """Return the judges that are compared with the published ones: the task's raters, or judges with a model.

    Metrics of judges without a language model have other names, or no published judge.
    """
    if judging is None:
        return benchmark.raters
    return tuple(judge.name for judge in judging.judges if judge.has_model)


def _few_clusters_note(benchmark: str, headline: Metrics) -> list[str]:
    """Return a note if the samples are in so few clusters that no metric has an interval."""
    most = max((metric.clusters or 0 for metric in headline.values() if metric.n), default=0)
    return [no_interval(most, benchmark)] if 0 < most < MIN_CLUSTERS else []


def _metric_styles(benchmark: Task, judging: Judging | None) -> dict[str, MetricStyle]:
    """Return metric -> display style, from the records of metrics and rubrics."""
    shown: dict[str, MetricStyle] = {}
    for metric in benchmark.metrics:
        shown |= styles_by_name(metric.names, metric.shown)
    for rubric in judging.rubrics if judging else ():
        shown |= styles_by_name((rubric.name, *rubric.also), rubric.shown)
    return shown


def _total_notes(totals: ScoringTotals) -> list[str]:
    notes = []
    if totals.failures:
        kinds = ", ".join(f"{kind} {count}" for kind, count in totals.failures.most_common())
        notes.append(f"{totals.failed} of {totals.n} samples failed: {kinds}; no mean includes them")
    if totals.cut:
        material = ", ".join(f"{name} of {count}" for name, count in totals.cut.most_common())
        notes.append(
            f"the prompts of {totals.shortened} of {totals.n} samples were cut to fit the model's context: "
            f"{material}; the notes of the samples say by how much"
        )
    if totals.skipped:
        notes.append(f"{totals.skipped} of {totals.n} samples were not tried; the means are over the others only")
    return notes
