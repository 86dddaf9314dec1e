"""Score a run: measure every sample in the order of the data, and write scores and summary.

No question is answered in this pass, so a run can be scored again when a metric changes, and answers of other systems
are scored by the same code.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

from turnmark.assistant.llm.prompts.context_budget import cut_material
from turnmark.assistant.types import Usage
from turnmark.core.console import NoProgress, Progress, shown_progress
from turnmark.core.untrusted import one_line
from turnmark.evaluation.calls.cost_estimates import add_usage
from turnmark.evaluation.judging.panel import ROLE, Judging
from turnmark.evaluation.metric_style import MetricStyle, styles_by_name
from turnmark.evaluation.records import Breakdowns, Metrics, RunManifest, Sample, Score, Summary
from turnmark.evaluation.report.sample_browser import note_samples
from turnmark.evaluation.runs.judge_setup import note_judges
from turnmark.evaluation.runs.plan import CollectedAnswers, Plan
from turnmark.evaluation.scores.cluster_statistics import MIN_CLUSTERS
from turnmark.evaluation.scores.published_results import Extent, RunFacts, find_rows, published_facts
from turnmark.evaluation.scores.score_tally import Facts, SampleHashes, ScoreTally, write_facts
from turnmark.evaluation.storage.corpus_passages import OFFICIAL_SEARCH
from turnmark.evaluation.storage.journal import SampleKey
from turnmark.evaluation.storage.run_folder import RunFolder
from turnmark.evaluation.tasks.declarations import no_interval
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.metric import measure_sample
from turnmark.evaluation.tasks.task import Task


@dataclass
class ScoringTotals:
    """Totals of a scoring pass.

    Attributes:
        failures: kind of failure -> samples.
        cut: material that was cut from prompts -> samples.
        shortened: samples whose prompts were cut.
        answering: total seconds of answering.
        order: the keys of the samples, in the order of the data.
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
    order: list[SampleKey] = field(default_factory=list)
    ids: SampleHashes = field(default_factory=SampleHashes)

    def count(self, sample: Sample) -> None:
        """Add a sample to the totals."""
        self.n += 1
        self.order.append(sample.key)
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


@dataclass(frozen=True)
class ScoredRun:
    """The scores of a run, from which its summary is made.

    Attributes:
        task: the task that scored the samples.
        judging: its judges, or None if nothing was judged.
        seconds: phase -> seconds.
    """

    task: Task
    judging: Judging | None
    totals: ScoringTotals
    metrics: Metrics
    breakdowns: Breakdowns
    seconds: Mapping[str, float]


def score_answers(plan: Plan, folder: RunFolder, task: Task, judging: Judging | None) -> ScoredRun:
    """Score every sample of a run and write `scores.jsonl`; judges are asked first, in a separate pass."""
    # Scoring ranked lists is too fast for a progress bar.
    shown = nullcontext(NoProgress()) if task.retrieves else shown_progress()
    with shown as progress:
        seconds: dict[str, float] = {}
        if judging is not None:
            metrics_of_judge = {judge.name: ", ".join(sorted(judge.metrics or ())) or "all" for judge in judging.judges}
            folder.update_manifest(judges=metrics_of_judge, judge_prompts=judging.prompt_hashes)
            judging.ask(folder, task, progress)
            seconds[ROLE] = judging.seconds
        progress.start(f"scoring {one_line(plan.manifest.benchmark)}", plan.items)
        started = time.perf_counter()
        tally, totals = ScoreTally(plan.manifest.seed, _metric_styles(task, judging)), ScoringTotals()
        with write_facts(folder.path) as write_fact:
            samples = _samples(folder, note_samples(folder, task, plan.selected(task)), progress)
            folder.write_scores(_scores(task, judging, samples, tally, totals, write_fact))
        folder.samples.arrange(totals.order)
        metrics, breakdowns = tally.metrics(), tally.breakdowns()
    ended = time.perf_counter()
    if judging is not None:
        judging.close()
    if totals.answering:
        seconds["sample_latency"] = totals.answering / (totals.n - totals.skipped)
    seconds |= {"score": ended - started, "total": ended - plan.began}
    return ScoredRun(task, judging, totals, metrics, breakdowns, seconds)


def summarize(plan: Plan, answers: CollectedAnswers, scored: ScoredRun) -> Summary:
    """Return the summary of a scored run, including the usage, specs and notes of its judges."""
    manifest, judging, totals = plan.manifest, scored.judging, scored.totals
    specs, usage = dict(manifest.specs), totals.usage
    notes = (*plan.notes, *note_judges(plan), *answers.notes)
    if judging is not None:
        lead = int(manifest.data.demo)  # the note about demo data is always the first
        notes = (*notes[:lead], *judging.warnings(), *notes[lead:], *judging.notes())
        if any(judge.has_model for judge in judging.judges):
            usage = add_usage(usage, {ROLE: judging.usage})
        if judging.judges:
            specs[ROLE] = ", ".join(judge.name for judge in judging.judges)
    published = (*published_facts(), *scored.task.published)  # those of a third-party benchmark too
    return Summary(
        benchmark=manifest.benchmark,
        task=manifest.task,
        setting=manifest.setting,
        data=manifest.data,
        selection=manifest.selection,
        n=totals.n,
        failed=totals.failed,
        skipped=totals.skipped,
        metrics=scored.metrics,
        breakdowns=scored.breakdowns,
        published=find_rows(_run_facts(manifest, scored), published),
        usage={role: used.model_dump() for role, used in usage.items()},
        seconds={name: round(value, 3) for name, value in {**answers.seconds, **scored.seconds}.items()},
        notes=(*notes, *_total_notes(totals), *_few_clusters_note(manifest.benchmark, scored.metrics)),
        specs=specs,
        judging=judging.panels() if judging else {},
        samples=totals.ids.hashes(),
        warnings=(*scored.task.warn_of(scored.metrics), *(judging.warnings() if judging else ())),
    )


def _samples(folder: RunFolder, items: Iterable[Item], progress: Progress) -> Iterator[tuple[Item, Sample]]:
    for item in items:
        for sample in folder.samples_of(item.id):
            yield item, sample
        progress.advance()


def _scores(
    task: Task,
    judging: Judging | None,
    samples: Iterable[tuple[Item, Sample]],
    tally: ScoreTally,
    totals: ScoringTotals,
    write_fact: Callable[[str, Facts], object],
) -> Iterator[Score]:
    latest: Item | None = None
    facts: Facts | None = None
    for item, sample in samples:
        metrics = [metric for metric in task.metrics if metric.concerns(item) and metric.suits(sample)]
        scores = measure_sample(metrics, sample, partial(task.context, item, sample))
        if facts is None or item is not latest:  # the repeats of an item follow each other
            latest, facts = item, item.facts
            write_fact(item.id, facts)
            totals.ids.add(item.id, facts)
        if judging is not None:
            scores += judging.scores(task, item, sample, scores)
        tally.add(scores, facts, task.rankings(item, sample), sample.repeat)
        totals.count(sample)
        yield from scores


def _run_facts(manifest: RunManifest, scored: ScoredRun) -> RunFacts:
    task, judging = scored.task, scored.judging
    extents: dict[str, Extent] = {name: corpus.extent for name, corpus in manifest.corpora.items()}
    if manifest.specs.get("passages") == OFFICIAL_SEARCH:
        extents = dict.fromkeys(manifest.domains, "full")
    variants = {name: metric.by for metric in task.metrics for name in metric.names}
    raters = task.raters
    if judging:
        variants |= judging.variants(task.metrics)
        # Metrics of judges without a language model have other names, or no published judge.
        raters = tuple(judge.name for judge in judging.judges if judge.has_model)
    return RunFacts(
        benchmark=manifest.benchmark,
        task=manifest.task,
        setting=manifest.setting,
        query=manifest.specs.get("query"),
        domains=manifest.domains,
        corpora=extents,
        passages={name: task.describe_corpus(name, corpus) for name, corpus in manifest.corpora.items()},
        variants=variants,
        judges=raters,
        judged=judging.models() if judging else {},
        answered=judging.answered() if judging else {},
        demo=manifest.data.demo,
        doubts={} if manifest.data.demo else task.doubts(),
        asked_as_paper=task.asks_as_paper,
        metrics=scored.metrics,
        breakdowns=scored.breakdowns,
    )


def _few_clusters_note(benchmark: str, headline: Metrics) -> list[str]:
    """Return a note if the samples are in so few clusters that no metric has an interval."""
    most = max((metric.clusters or 0 for metric in headline.values() if metric.n), default=0)
    return [no_interval(most, benchmark)] if 0 < most < MIN_CLUSTERS else []


def _metric_styles(task: Task, judging: Judging | None) -> dict[str, MetricStyle]:
    """Return metric -> display style, from the records of metrics and rubrics."""
    rubrics = judging.rubrics if judging else ()
    shown = [*((each.names, each.shown) for each in task.metrics), *((each.names, each.shown) for each in rubrics)]
    return {metric: style for styled in shown for metric, style in styles_by_name(*styled).items()}


def _total_notes(totals: ScoringTotals) -> Iterator[str]:
    if totals.failures:
        kinds = ", ".join(f"{kind} {count}" for kind, count in totals.failures.most_common())
        yield f"{totals.failed} of {totals.n} samples failed: {kinds}; no mean includes them"
    if totals.cut:
        material = ", ".join(f"{name} of {count}" for name, count in totals.cut.most_common())
        yield (
            f"the prompts of {totals.shortened} of {totals.n} samples were cut to fit the model's context: "
            f"{material}; the notes of the samples say by how much"
        )
    if totals.skipped:
        yield f"{totals.skipped} of {totals.n} samples were not tried; the means are over the others only"
