"""The second pass: every sample of a run, in the data's order, measured, summed up and reported.

Nothing is answered here, so a run may be scored again whenever a metric changes, and answers of other systems are
scored by the same code.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from turnmark.assistant.budget import cut_material
from turnmark.assistant.types import Usage
from turnmark.core.console import Progress, inert
from turnmark.evaluation.benchmarks.base import Item, measured
from turnmark.evaluation.benchmarks.mtrag_data import extent_in_words
from turnmark.evaluation.benchmarks.registry import find_task
from turnmark.evaluation.benchmarks.task import Task
from turnmark.evaluation.judging.judged import ROLE, Judging
from turnmark.evaluation.records import Breakdowns, Metrics, RunManifest, Sample, Score, Summary
from turnmark.evaluation.report.browse import note_samples
from turnmark.evaluation.runs.budget import add_usage
from turnmark.evaluation.runs.passages import OFFICIAL_SEARCH
from turnmark.evaluation.runs.rundir import RunFolder
from turnmark.evaluation.scores.metric_info import MetricStyle, by_name
from turnmark.evaluation.scores.published import Extent, Fact, Ran, find_rows
from turnmark.evaluation.scores.published import facts as published_facts
from turnmark.evaluation.scores.summary import Facts, SampleHashes, ScoreTally, no_interval, write_facts

MISSING = "missing"


def now() -> str:
    """The time in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def missing(item: Item, cause: str, repeat: int = 0) -> Sample:
    """The failed sample of an item that there is nothing to score, or to answer from, for."""
    return Sample(
        id=item.id, repeat=repeat, status="failed", kind=MISSING, reason=f"{MISSING}: {cause}", domain=item.domain
    )


@dataclass
class Scoring:
    """Totals of a scoring pass."""

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
        """Samples that were tried, whatever came of it."""
        return self.n - self.skipped

    def count(self, sample: Sample) -> None:
        """Take a sample into the totals."""
        self.n += 1
        self.failed += sample.status == "failed"
        self.skipped += sample.status == "skipped"
        if sample.status == "failed":
            self.failures[sample.kind or "error"] += 1
        material = cut_material(sample.notes)
        self.cut.update(material)
        self.shortened += bool(material)
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
        items: those of the run, in the data's order; one without a sample is left out.
        notes: of the summary, before those of the scoring.
        seconds: phase -> seconds so far.
        began: when the command began, by `time.perf_counter()`; None: with the scoring.
    """
    began = time.perf_counter() if began is None else began
    if judging is not None:
        _judge(judging, run, benchmark, progress)
    manifest, started = run.manifest, time.perf_counter()
    tally, gathered = ScoreTally(manifest.seed, _shown(benchmark, judging)), Scoring()
    order: list[tuple[str, int]] = []
    with write_facts(run.path) as note:
        samples = _samples(run, note_samples(run, benchmark, items), progress)
        run.write_scores(_scores(benchmark, judging, samples, tally, gathered, order, note))
    run.samples.arrange(order)
    headline, breakdowns = tally.metrics(), tally.breakdowns()
    ended = time.perf_counter()
    if judging is not None:
        judging.close()
        seconds = {**(seconds or {}), ROLE: judging.seconds}
        lead = int(manifest.data.demo)  # the note about demo data is always the first
        notes = (*notes[:lead], *judging.warnings(), *notes[lead:], *judging.notes())
        if any(judge.has_model for judge in judging.judges):
            gathered.usage = add_usage(gathered.usage, {ROLE: judging.usage})
    took = {
        **(seconds or {}),
        **({"sample_latency": gathered.answering / gathered.tried} if gathered.answering else {}),
        "score": ended - started,
        "total": ended - began,
    }
    summary = Summary(
        benchmark=manifest.benchmark,
        task=manifest.task,
        setting=manifest.setting,
        data=manifest.data,
        n=gathered.n,
        failed=gathered.failed,
        skipped=gathered.skipped,
        metrics=headline,
        breakdowns=breakdowns,
        published=find_rows(_ran(manifest, benchmark, headline, breakdowns, judging), _known(manifest)),
        usage={role: used.model_dump() for role, used in gathered.usage.items()},
        seconds={name: round(value, 3) for name, value in took.items()},
        notes=(*notes, *_found(gathered), *_of_one(manifest.benchmark, headline)),
        specs=manifest.specs
        | ({ROLE: ", ".join(judge.name for judge in judging.judges)} if judging and judging.judges else {}),
        judging=judging.panels() if judging else {},
        samples=gathered.ids.hashes(),
        warnings=tuple(judging.warnings()) if judging else (),
    )
    run.finish(summary, now())
    return summary


def _judge(judging: Judging, run: RunFolder, benchmark: Task, progress: Progress) -> None:
    """Ask the judges, and write down who they are."""
    judge_metrics = {judge.name: ", ".join(sorted(judge.metrics or ())) or "all" for judge in judging.judges}
    run.update_manifest(judges=judge_metrics, judge_prompts=judging.prompt_hashes)
    judging.ask(run, benchmark, progress)
    progress.start(f"scoring {inert(run.manifest.benchmark)}", len(run.samples) // max(1, run.manifest.repeat))


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
    gathered: Scoring,
    order: list[tuple[str, int]],
    note: Callable[[str, Facts], object],
) -> Iterator[Score]:
    latest: Item | None = None
    facts: Facts | None = None
    for item, sample in samples:
        scores = measured(benchmark.metrics, sample, partial(benchmark.context, item, sample))
        if facts is None or item is not latest:  # the repeats of an item follow each other
            latest, facts = item, item.facts
            note(item.id, facts)
            gathered.ids.add(item.id, facts)
        order.append(sample.key)
        if judging is not None:
            scores += judging.scores(benchmark, item, sample, scores)
        tally.add(scores, facts, benchmark.rankings(item, sample), sample.repeat)
        gathered.count(sample)
        yield from scores


def _ran(
    manifest: RunManifest,
    benchmark: Task,
    headline: Metrics,
    breakdowns: Breakdowns,
    judging: Judging | None,
) -> Ran:
    extents: dict[str, Extent] = {name: corpus.extent for name, corpus in manifest.corpora.items()}
    if manifest.specs.get("passages") == OFFICIAL_SEARCH:
        extents = dict.fromkeys(manifest.domains, "full")
    return Ran(
        benchmark=manifest.benchmark,
        task=manifest.task,
        setting=manifest.setting,
        query=manifest.specs.get("query"),
        domains=manifest.domains,
        corpora=extents,
        passages={name: extent_in_words(name, corpus) for name, corpus in manifest.corpora.items()},
        variants={name: metric.by for metric in benchmark.metrics for name in metric.names}
        | (judging.variants(benchmark.metrics) if judging else {}),
        judges=_raters(benchmark, judging),
        judged=judging.models() if judging else {},
        answered=judging.answered() if judging else {},
        demo=manifest.data.demo,
        doubts={} if manifest.data.demo else benchmark.doubts(),
        asked_as_paper=benchmark.asks_as_paper,
        metrics=headline,
        breakdowns=breakdowns,
    )


def _known(manifest: RunManifest) -> tuple[Fact, ...]:
    """Every published row, with those that a benchmark of somebody else's brings along."""
    task = find_task(manifest.benchmark, manifest.task)
    return (*published_facts(), *(task.published if task is not None else ()))


def _raters(benchmark: Task, judging: Judging | None) -> tuple[str, ...]:
    """Whose judgement the published one is held against: of judges without a language model the metrics have a name
    of their own, or no judge was published for them."""
    if judging is None:
        return benchmark.raters
    return tuple(judge.name for judge in judging.judges if judge.has_model)


def _of_one(benchmark: str, headline: Metrics) -> list[str]:
    """That all samples depend on each other, where they do."""
    counts = {metric.clusters for metric in headline.values() if metric.n}
    return [no_interval(benchmark)] if counts == {1} else []


def _shown(benchmark: Task, judging: Judging | None) -> dict[str, MetricStyle]:
    """Metric -> how it is shown, from the records of the metrics and of what judges are asked for."""
    shown: dict[str, MetricStyle] = {}
    for metric in benchmark.metrics:
        shown |= by_name(metric.names, metric.shown)
    for rubric in judging.rubrics if judging else ():
        shown |= by_name((rubric.name, *rubric.also), rubric.shown)
    return shown


def _found(gathered: Scoring) -> list[str]:
    notes = []
    if gathered.failures:
        kinds = ", ".join(f"{kind} {count}" for kind, count in gathered.failures.most_common())
        notes.append(f"{gathered.failed} of {gathered.n} samples failed: {kinds}; they are in no mean")
    if gathered.cut:
        material = ", ".join(f"{name} of {count}" for name, count in gathered.cut.most_common())
        notes.append(
            f"the prompts of {gathered.shortened} of {gathered.n} samples were cut to fit the model's context: "
            f"{material}; the notes of the samples say how far"
        )
    if gathered.skipped:
        notes.append(f"{gathered.skipped} of {gathered.n} samples were not tried; the means are over the others alone")
    return notes
