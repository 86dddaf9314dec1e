"""MTRAG's retrieval task (section 5): our retrievers run on it, or a TREC run of another system, scored and set beside
the published tables. Queries with relevance labels only, which are those of answerable and partial tasks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from turnmark.corpora.console import NoProgress, inert, shown_progress
from turnmark.corpora.errors import TurnmarkError
from turnmark.corpora.home import write_atomic
from turnmark.evaluation.benchmarks import mtrag_data as bench
from turnmark.evaluation.benchmarks.base import Item, Metric, Value
from turnmark.evaluation.benchmarks.mtrag_plan import Plan
from turnmark.evaluation.benchmarks.mtrag_queries import NoQuery
from turnmark.evaluation.metrics import retrieval as metrics
from turnmark.evaluation.records import ContextRef, Sample, Summary
from turnmark.evaluation.report.page import write_page
from turnmark.evaluation.rundir import RunFolder, open_run, say_resumed
from turnmark.evaluation.scoring import score_run
from turnmark.evaluation.summary import Facts, Ranked
from turnmark.evaluation.trec import format_trec, ranked
from turnmark.retrieval.types import Hit, Query, Retriever

if TYPE_CHECKING:
    from turnmark.assistant.generators.base import Generator
    from turnmark.retrieval.index import Index
    from turnmark.retrieval.manifest import BuildSettings

DEPTH = 10
"""Passages kept a query: what the metrics look at."""
BATCH = 64
Opener = Callable[[Path, str, str], tuple[Retriever, str]]
"""(corpus file, retriever spec, embedder spec) -> the retriever over it, and the fingerprint of its index."""
Kept = Callable[[str, str, str], Sequence[str]]
"""(SHA-256 of a corpus file, retriever spec, embedder spec) -> fingerprints of the indexes over it that are there."""


def open_corpus(corpus: Path, retriever: str, embedder: str) -> tuple[Retriever, str]:
    """The retriever over a passage file, whose index is built once and then kept; and that index's fingerprint."""
    from turnmark.retrieval.build import corpus_index
    from turnmark.retrieval.registry import build_settings, open_retriever

    index = corpus_index(corpus, retriever, embedder)
    settings = build_settings(retriever, embedder)
    # Loading a model takes longer than a search, and is none.
    if settings.embedder:
        index.embedder.encode(["load the model"], "query")
    if settings.splade:
        index.splade_encoder.encode(["load the model"], "query")
    return open_retriever(retriever, index), _fingerprint(index, settings)


def kept_indexes(corpus: str, retriever: str, embedder: str) -> tuple[str, ...]:
    """Fingerprints of the kept indexes that would be searched; nothing is built, and none may be there.

    Args:
        corpus: SHA-256 of the passage file.
    """
    from turnmark.retrieval.build import cached_indexes
    from turnmark.retrieval.index import Index, indexes_folder
    from turnmark.retrieval.registry import build_settings

    settings = build_settings(retriever, embedder)
    fingerprints = (
        _fingerprint(Index(indexes_folder() / manifest.name, manifest), settings)
        for manifest in cached_indexes(corpus, settings)
    )
    return tuple(dict.fromkeys(fingerprints))


def _fingerprint(index: Index, settings: BuildSettings) -> str:
    """The fingerprint of what is searched: an index with vectors serves BM25 too, and then its vectors do not count."""
    unused = {part: None for part in ("embedder", "splade") if not getattr(settings, part)}
    return type(index)(index.folder, index.manifest.model_copy(update=unused)).fingerprint


Lists = tuple[Mapping[str, int], Sequence[ContextRef]]
"""Passage -> grade, and what was found."""


def measured_list(context: Lists) -> Mapping[str, Value]:
    """The metrics of one query."""
    relevant, contexts = context
    return metrics.score_lists({"query": relevant}, {"query": contexts}).get("query", {})


class Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what is done inside towards `name`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began


def run_eval(plan: Plan, opener: Opener | None = None, kept_for_corpus: Kept | None = None) -> tuple[Summary, Path]:
    """Search for every query that has no finished sample yet, score all, write the run.

    Args:
        opener: brings the retriever over a corpus; ours where it is not given.
        kept_for_corpus: fingerprints of indexes that are there already; ours where neither it nor an opener is given.

    Returns:
        The summary and the folder it is in.

    Raises:
        RequestError: finished samples come from another index than would be searched now.
        TurnmarkError: the folder is in use, or a retriever answers nonsense.
    """
    assert plan.asking is None, "what asks a language model is for mtrag_rewriting.run_asking"
    clock, spec = Clock(), plan.manifest.specs["retriever"]
    kept_for_corpus = kept_for_corpus or (kept_indexes if opener is None else None)
    with open_run(plan.folder, plan.manifest) as run:
        resumed = resume(plan, run, kept_for_corpus)
        for domain, corpus in plan.corpora.items():
            pending = queries_of(plan, run, domain)
            if not pending:
                continue
            with clock.phase("index"):
                retriever, index = (opener or open_corpus)(corpus, spec, plan.embedder)
                run.searches(domain, index)
            with clock.phase("search"):
                _search(run, domain, pending, retriever)
        summary = finish(plan, run, clock, resumed)
    write_page(plan.folder)
    return summary, plan.folder


def resume(plan: Plan, run: RunFolder, kept_for_corpus: Kept | None) -> int:
    """Get a run that was opened ready for what is left of its queries; how many are finished.

    Raises:
        RequestError: finished samples come from another index than would be searched now.
    """
    finished = sum(run.samples.finished((query, 0)) for query in plan.ids)
    run.reopen(len(plan.ids) - finished)
    say_resumed(run)
    if kept_for_corpus and finished:
        spec, corpora = plan.manifest.specs["retriever"], plan.manifest.corpora
        fingerprints = {name: kept_for_corpus(corpus.sha256, spec, plan.embedder) for name, corpus in corpora.items()}
        run.check_indexes({domain: indexes for domain, indexes in fingerprints.items() if indexes})
    return finished


def run_score(plan: Plan) -> tuple[Summary, Path]:
    """Score the lists of a TREC run, write the run folder.

    Raises:
        TurnmarkError: the folder is in use.
    """
    assert plan.trec is not None, "a plan of plan_score has a TREC run"
    with open_run(plan.folder, plan.manifest) as run:
        run.reopen(sum(not run.samples.finished((query, 0)) for query in plan.ids))
        say_resumed(run)
        for query, domain in plan.ids.items():
            if not run.samples.finished((query, 0)):
                contexts = plan.trec.lists.get(query, ())[:DEPTH]
                run.append(Sample(id=query, status="done", domain=domain, contexts=contexts))
        summary = finish(plan, run, Clock(), 0)
    write_page(plan.folder)
    return summary, plan.folder


def queries_of(plan: Plan, run: RunFolder, domain: str) -> list[tuple[str, Query]]:
    """The queries of a domain still to be searched; those that cannot be made are written down as failed."""
    assert plan.queries is not None, "a plan of plan_eval has queries"
    pending: list[tuple[str, Query]] = []
    for task_id, its_domain in plan.ids.items():
        if its_domain != domain or run.samples.finished((task_id, 0)):
            continue
        try:
            pending.append((task_id, plan.queries.query(task_id)))
        except NoQuery as error:
            run.append(Sample(id=task_id, status="failed", kind="no_query", reason=str(error), domain=domain))
    return pending


def _search(run: RunFolder, domain: str, pending: Sequence[tuple[str, Query]], retriever: Retriever) -> None:
    """Search in batches; every batch is on file before the next begins."""
    with shown_progress() as progress:
        progress.start(f"searching {inert(domain)}", len(pending))
        for start in range(0, len(pending), BATCH):
            batch = pending[start : start + BATCH]
            began = time.perf_counter()
            results = retriever.search([query for _, query in batch], DEPTH)
            seconds = (time.perf_counter() - began) / len(batch)
            if len(results) != len(batch):
                raise TurnmarkError(f"retriever {retriever.name!r} gave {len(results)} lists for {len(batch)} queries")
            for (task_id, query), hits in zip(batch, results, strict=True):
                run.append(Sample(
                    id=task_id,
                    status="done",
                    domain=domain,
                    query=query.text,
                    rewrite="\n".join(query.variants) or None,
                    contexts=contexts_of(retriever, hits),
                    timings={"search": seconds},
                ))  # fmt: skip
            progress.advance(len(batch))


def contexts_of(retriever: Retriever, hits: Sequence[Hit]) -> tuple[ContextRef, ...]:
    """What a sample keeps of the passages that were found.

    Raises:
        TurnmarkError: a passage was found twice, or its score is no number.
    """
    distinct = {hit.passage.id for hit in hits}
    if len(distinct) < len(hits) or not all(math.isfinite(hit.score) for hit in hits):
        raise TurnmarkError(f"retriever {retriever.name!r} found a passage twice, or gave it no number")
    return tuple(ranked([ContextRef(document_id=hit.passage.id, score=hit.score) for hit in hits])[:DEPTH])


def finish(plan: Plan, run: RunFolder, clock: Clock, resumed: int, extra_notes: Sequence[str] = ()) -> Summary:
    """Score what the folder holds, and write scores, summary and TREC run.

    Args:
        resumed: how many samples an earlier call made.
        extra_notes: what else the summary notes.
    """
    notes = [*plan.notes, *run.resumed, *bench.problem_notes(run.samples.problems), *extra_notes]
    run.arrange((query, 0) for query in plan.ids)
    samples = [sample for query in plan.ids if (sample := run.samples.get((query, 0)))]
    try:
        lists = {sample.id: sample.contexts for sample in samples if sample.status == "done"}
        write_atomic(run.path / "run.trec", format_trec(lists, plan.trec.tags[0] if plan.trec else "turnmark"))
    except ValueError as error:
        notes.append(f"run.trec is not written: {error}")
    if resumed:
        notes.append(f"{resumed} of {len(samples)} queries were searched by an earlier call; seconds are of this call")
    benchmark = Retrieval(plan)
    return score_run(
        run, benchmark, benchmark.items(), notes=notes, seconds=clock.seconds, began=plan.began, progress=NoProgress()
    )


class Retrieval:
    """The lists of a run as a benchmark's samples; see `turnmark.evaluation.benchmarks.base.Benchmark`."""

    metrics: Sequence[Metric[Lists]] = (Metric(metrics.NAMES, metrics.VARIANT, measured_list),)

    def __init__(self, plan: Plan) -> None:
        self._plan, self.query = plan, plan.query

    def items(self) -> Iterator[Item]:
        """See `Benchmark.items`: the judged queries, whose task is what the data says of them."""
        for query, domain in self._plan.ids.items():
            yield Item(query, bench.JudgedQuery(self._plan.data.tasks.get(query), self._relevant(query)), domain)

    def _relevant(self, query: str) -> Mapping[str, int]:
        return self._plan.data.qrels[self._plan.ids[query]][query]

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """See `Benchmark.answer`: lists are made a batch at a time, or by `mtrag_rewriting`."""
        raise NotImplementedError

    def context(self, item: Item, sample: Sample) -> Lists:
        """See `Benchmark.context`."""
        return item.task.relevant, sample.contexts

    def facts(self, item: Item) -> Facts:
        """See `Benchmark.facts`."""
        return bench.facts_of(self._plan.data, item.id, item.domain or "")

    def rankings(self, item: Item, sample: Sample) -> Mapping[str, Ranked]:  # noqa: ARG002
        """See `Benchmark.rankings`: none."""
        return {}
