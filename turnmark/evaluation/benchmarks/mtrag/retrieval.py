"""MTRAG's retrieval task (section 5): run our retrievers, or score a TREC run of another system.

Only queries with relevance labels count, which are those of answerable and partial tasks.

If the query mode asks a language model, the code that runs answers also makes the queries, with its deadlines,
concurrency, budget and resuming. Each query is searched as soon as its rewrite arrives. A missing rewrite is noted, and
the query is searched without it. Only a refused API key fails the query, because then no query would get a rewrite.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

from turnmark.assistant.llm.calls.protocols import Generator, GeneratorError
from turnmark.assistant.llm.calls.thread_pool import PERMANENT_FAILURES
from turnmark.assistant.llm.generators.registry import GENERATORS
from turnmark.assistant.steps.understand.understand_llm import MINIMAL_QUERY, MINIMAL_QUERY_SECONDS, rewrite_minimally
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.types import Search, Usage
from turnmark.core.console import shown_progress
from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.core.flags import flag_of, flags_of
from turnmark.core.grouping import batched
from turnmark.core.home import file_sha256, write_atomic
from turnmark.core.untrusted import one_line
from turnmark.corpora.benchmarks import mtrag
from turnmark.corpora.benchmarks.task_ids import conversation_of
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.mtrag import data as bench
from turnmark.evaluation.benchmarks.mtrag.data import NoQuery, QuerySource, check_mode, open_queries, read_query_file
from turnmark.evaluation.benchmarks.mtrag.options import MAX_CUTOFF, RetrievalOptions
from turnmark.evaluation.calls.generator_wrappers import DeadlineGenerator
from turnmark.evaluation.metric_style import MetricStyle
from turnmark.evaluation.prompts import own_prompts
from turnmark.evaluation.records import ContextRef, CorpusUsed, Sample
from turnmark.evaluation.storage.predictions import Answers, format_trec, note_ties, read_runs, sort_passages
from turnmark.evaluation.storage.run_folder import RunFolder
from turnmark.evaluation.storage.submission_format import note_submission
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.metric import Metric, Value
from turnmark.evaluation.tasks.request import EvalRequest, select
from turnmark.evaluation.tasks.task import Task, choose_domains
from turnmark.retrieval.types import Hit, Query, Retriever

CUTOFFS = (1, 3, 5, 10)
CUT_MEASURES = {"recall": "recall", "ndcg": "ndcg_cut", "precision": "P"}
"""Metric with a cut-off -> its measure in trec_eval."""
METRIC_NAMES = (*(f"{name}@{k}" for name in CUT_MEASURES for k in CUTOFFS), "map@10", "mrr@10")
INSTRUMENT = "pytrec_eval"
LIST_LENGTH = 10
"""Number of passages kept for each query, unless `--at` names a larger rank."""
MIN_RECIPROCAL_RANK = 1 / LIST_LENGTH
BATCH_SIZE = 64
QUERIES = "queries.jsonl"
"""File in the run folder with the queries that were searched, in the format of `--queries`."""
SEARCH_SECONDS = 300.0
"""Seconds for the search after the rewrite's deadline; they include the wait for the searches of other queries."""
REWRITE_PROMPTS = ("rewrite", "json", "repair")
"""Names of the prompts that ask a model for a rewrite as a JSON object."""
Lists = tuple[Mapping[str, int], Sequence[ContextRef]]
"""Passage id -> grade, and the retrieved passages."""


def score_lists(
    qrels: Mapping[str, Mapping[str, int]], lists: Mapping[str, Sequence[ContextRef]], at: Sequence[int] = ()
) -> dict[str, dict[str, float]]:
    """Compute every metric in `METRIC_NAMES` for every query with a relevant passage: query id -> metric -> 0..1.

    A query of `qrels` without passages in `lists` scores 0; a list without relevance labels is left out.

    Args:
        qrels: query id -> passage id -> grade; a grade above 0 is relevant.
        lists: query id -> retrieved passages. They are sorted by score, ties by document id descending.
        at: further cut-offs of `CUT_MEASURES`.
    """
    import pytrec_eval

    judged = {query: dict(grades) for query, grades in qrels.items() if any(grade > 0 for grade in grades.values())}
    if not judged:
        return {}
    cutoffs = (*CUTOFFS, *at)
    measures = {f"{name}.{','.join(map(str, cutoffs))}" for name in CUT_MEASURES.values()}
    evaluator = pytrec_eval.RelevanceEvaluator(judged, measures | {"map_cut.10", "recip_rank"})
    first = {query: sort_passages(lists[query])[: max(cutoffs)] for query in judged if lists.get(query)}
    run = {query: {ref.document_id: float(ref.score) for ref in refs} for query, refs in first.items()}
    evaluated: Mapping[str, Mapping[str, float]] = evaluator.evaluate(run) if run else {}
    scores: dict[str, dict[str, float]] = {}
    for query in judged:
        values = evaluated.get(query, {})
        reciprocal = values.get("recip_rank", 0.0)
        scores[query] = {
            **{f"{name}@{k}": values.get(f"{trec}_{k}", 0.0) for name, trec in CUT_MEASURES.items() for k in cutoffs},
            "map@10": values.get("map_cut_10", 0.0),
            "mrr@10": reciprocal if reciprocal >= MIN_RECIPROCAL_RANK else 0.0,
        }
    return scores


def judged_share(grades: Mapping[str, int], contexts: Sequence[ContextRef], cutoff: int) -> float | None:
    """Return the share of the first passages that have a relevance label, or None without passages.

    All other metrics count passages without a label as not relevant. A shorter list counts with its own length.
    """
    first = sort_passages(contexts)[:cutoff]
    return sum(passage.document_id in grades for passage in first) / len(first) if first else None


def retrieval_metrics(at: Sequence[int]) -> tuple[Metric[Lists], Metric[Lists]]:
    """Return the metrics of a ranked list, also at the cut-offs `at`."""
    further = [k for k in dict.fromkeys(at) if k not in CUTOFFS]

    def measure(context: Lists) -> Mapping[str, Value]:
        relevant, contexts = context
        return score_lists({"query": relevant}, {"query": contexts}, further).get("query", {})

    cutoffs_judged = sorted({5, *at})
    return (
        Metric(
            names=(*METRIC_NAMES, *(f"{name}@{k}" for name in CUT_MEASURES for k in further)),
            by=INSTRUMENT,
            measure=measure,
            shown={"recall@5": MetricStyle(headline=10), "ndcg@5": MetricStyle(headline=20)},
        ),
        Metric(
            names=tuple(f"judged@{k}" for k in cutoffs_judged),
            by="passages with a relevance label; the other metrics count those without as not relevant",
            measure=lambda context: {f"judged@{k}": judged_share(*context, k) for k in cutoffs_judged},
            without="nothing was found",
        ),
    )


# --- the benchmark ---------------------------------------------------------------------------------------------------


CALL_FIELDS = frozenset({"generator", "prompts", "concurrency", "deadline", "max_failures", "budget"})
"""Options of the calls of a model; a retrieval accepts them if its query mode asks a model."""
RETRIEVAL_FIELDS = frozenset({
    "typed", "benchmark", "predictions", "data", "task", "domains", "retriever", "embedder", "query", "queries", "at",
    "suite", "limit", "sample", "only", "seed", "out", "dry_run", "full", "as_json", "answered_only", "command",
})  # fmt: skip


class Retrieval(Task):
    """The task `retrieval`: find passages for each query that has relevance labels."""

    name = "retrieval"
    options_type = RetrievalOptions
    options: RetrievalOptions
    metrics: Sequence[Metric[Lists]] = retrieval_metrics(())
    retrieves = True

    _data: bench.MtragData
    _ids: Mapping[str, str]
    """Query id -> domain, in the order of the data."""
    _queries: QuerySource | None = None
    """The queries to search, or None if lists of another system are scored."""
    _mode: str = "assistant"
    """The query mode, or `file`."""
    _seconds: float = MINIMAL_QUERY_SECONDS
    """Deadline in seconds for the rewrite of one query in the mode `minimal`."""
    _length: int = LIST_LENGTH
    """Number of passages that a search finds."""

    def open(self) -> None:
        errors, request = ErrorCollector(), self.request
        cutoffs = [int(rank) for rank in self.options.at]
        self.metrics = retrieval_metrics(cutoffs)
        self._length = max(LIST_LENGTH, *cutoffs, 0)
        name = cast(mtrag.Benchmark, request.benchmark)
        if self.options.query and self.options.queries:
            errors.add("--query and --queries name two sources of queries; give only one")
        known_mode = errors.collect(check_mode, self.options.query, name, True) if self.options.query else "assistant"
        if self.options.query == MINIMAL_QUERY and not request.asks_model:
            errors.add(f"--query {MINIMAL_QUERY} asks a language model; name it with --generator, see `turnmark list`")
        data = self._load(name, errors)
        if self.options.queries:
            self._queries = errors.collect(read_query_file, self.options.queries, data)
        elif data is not None and known_mode and not request.scoring:
            data_of_domains = bench.only_domains(data, self.domains)
            self._queries = errors.collect(open_queries, known_mode, data_of_domains, True)
        label_notes: list[str] = []
        if data is not None:
            self._ids = self._select(data, errors)
            if not request.scoring:
                data = bench.only_domains(data, set(self._ids.values()).intersection(self.domains))
                self.corpora = errors.collect(bench.find_corpora, data.source.root, data.qrels) or {}
                label_notes = errors.collect(bench.label_notes, self.corpora, data.qrels) or []
        errors.raise_all()
        assert data is not None, "errors.raise_all() raised otherwise"
        self._data = data
        self.data = data.used(self._queries.files if self._queries else {})
        self.domains = tuple(data.qrels)
        self.corpora_used = {domain: bench.corpus_used(domain, path) for domain, path in self.corpora.items()}
        self.notes = (*bench.corpus_notes(self.corpora_used), *label_notes)
        self.searched = not request.scoring
        self._mode = ("file" if self.options.queries else known_mode) or "assistant"
        self.specs = {"query": self._mode}
        if self.searched and self._length > LIST_LENGTH:
            self.specs = {**self.specs, "list": f"{self._length} passages"}
        self.inputs = {"queries": file_sha256(self.options.queries)} if self.options.queries else {}
        self.prompts = {}
        if self.searched and self._mode in (MINIMAL_QUERY, "assistant") and request.asks_model:
            self._open_generator()
        self.batched = self.searched and self._mode not in (MINIMAL_QUERY, "assistant")

    def _open_generator(self) -> None:
        """Record the generator, its prompts and the deadline of a rewrite."""
        request = self.request
        with suppress(RequestError):  # reported when the flags are checked
            self.specs = {**self.specs, "generator": str(GENERATORS.check(request.assistant.generator))}
            self.prompts = own_prompts(request.assistant.prompts)
            if self._mode == MINIMAL_QUERY:
                self._seconds = MINIMAL_QUERY_SECONDS if request.deadline is None else request.deadline
                self.deadline = self._seconds + SEARCH_SECONDS
                self.specs = {**self.specs, "rewrite": f"within {self._seconds:g} s"}
                self.prompts = {name: self.prompts[name] for name in REWRITE_PROMPTS}

    def _load(self, name: mtrag.Benchmark, errors: ErrorCollector) -> bench.MtragData | None:
        """Load the data. If `--domains` is wrong, load all domains, so that the rest of the request can be checked."""
        source = errors.collect(mtrag.locate, self.request.data)
        known = errors.collect(bench.labeled_domains, name, source) if source else None
        if source is None or known is None:
            return None
        domains = errors.collect(choose_domains, known, self.request.domains)
        self.domains = domains or tuple(domain for domain in known if domain in self.request.domains)
        return errors.collect(bench.load_data, name, source, domains or ())

    def _select(self, data: bench.MtragData, errors: ErrorCollector) -> dict[str, str]:
        """Return query id -> domain of the queries that the request selects."""
        labels, queries = data.qrels, self._queries
        if self.options.queries and queries and queries.recorded is not None and not self.request.domains:
            recorded_ids = queries.recorded.keys()
            labels = {domain: judged for domain, judged in labels.items() if not recorded_ids.isdisjoint(judged)}
        domain_of = {query: domain for domain, judged in labels.items() for query in judged}
        self.available = len(domain_of)
        return {query: domain_of[query] for query in select(self.request, list(domain_of), errors)}

    @classmethod
    def fit(cls, request: EvalRequest, errors: ErrorCollector) -> EvalRequest:
        """See `Task.fit`. Options of a model's calls apply if the query mode asks a model."""
        options = cast(RetrievalOptions, request.options)
        by_assistant = options.query in (None, "assistant") and not options.queries and not request.scoring
        asks_model = options.query == MINIMAL_QUERY or (by_assistant and request.asks_model)
        used = RETRIEVAL_FIELDS | (CALL_FIELDS if asks_model else set())
        if by_assistant:
            used |= {"generator", "steps"}
        if request.scoring:
            used -= {"embedder"}
        unused = [name for name in flags_of(type(request)) if name not in used]
        for name in unused:
            flag = flag_of(type(request), name)
            if name in request.typed and (name not in CALL_FIELDS or request.scoring):
                errors.add(f"{flag} belongs to generation; leave it out")
            elif name in request.typed and (options.query is None or bench.known_mode(options.query)):
                errors.add(
                    f"{flag} is for the calls of a model: generation, --query assistant or {MINIMAL_QUERY}; "
                    "leave it out"
                )
        return request.reset(unused)

    @classmethod
    def read(cls, paths: Sequence[Path], benchmark: str) -> Answers:  # noqa: ARG003
        """Read TREC runs."""
        lists = read_runs(paths)
        samples = (Sample(id=query, status="done", contexts=contexts[:MAX_CUTOFF]) for query, contexts in lists.items())
        return Answers(tuple(samples), tuple(paths), note_ties(lists))

    def items(self) -> Iterator[Item | Problem]:
        yield from self._data.problems
        if self._queries is not None:
            yield from self._queries.problems
        for query, domain in self._ids.items():
            relevant, task = self._data.qrels[domain][query], self._data.tasks.get(query)
            if task is None:
                labels = {"domain": (domain,)}
                item = Item(query, domain=domain, labels=labels, cluster=conversation_of(query))
            else:
                item = bench.task_item(task, domain)
            yield replace(item, task=relevant, relevant=frozenset(relevant))

    def note_files(self, paths: Sequence[Path]) -> Iterable[str]:
        return note_submission(paths, "A", self._data.tasks)

    def describe_corpus(self, name: str, corpus: CorpusUsed) -> str:
        return bench.extent_in_words(name, corpus)

    def doubts(self) -> Mapping[str, str]:
        return bench.doubts_of_queries(self.request.benchmark, self._data.qrels)

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """See `Task.answer`. Only for the query modes `assistant` and `minimal`; `search` handles the others."""
        query = self._query(item.id, item.domain)
        if isinstance(query, Sample):
            return query
        retriever = self.retrievers[item.domain or ""]
        if self._mode == MINIMAL_QUERY:
            assert generator is not None, "a query mode that asks a model always has a generator"
            return self._search_with_rewrite(item, query, retriever, generator)
        return self._search_by_assistant(item, query, self.assistant.using(retriever, generator))

    def _search_by_assistant(self, item: Item, query: Query, assistant: Assistant) -> Sample:
        """Search as the assistant's turn does: for the message and, with a model, its rewrite, parts and phrases."""
        assert assistant.retriever is not None, "opened for every domain"
        findings = assistant.find(query.history, query.text, self._length)
        if findings.fallback in PERMANENT_FAILURES:
            raise GeneratorError("auth", "; ".join(findings.notes), sum(findings.usage.values(), Usage()))
        hits = findings.hits[: self._length]
        if len(findings.searches) > 1:  # the hits of the parts alternate, and their scores are not comparable
            hits = tuple(hit.model_copy(update={"score": 1 / rank}) for rank, hit in enumerate(hits, 1))
        variants = [text for text in searched_texts(findings.searches) if text != query.text]
        full_query = query.model_copy(update={"variants": tuple(variants)})
        sample = _sample(item.id, item.domain, full_query, contexts_of(assistant.retriever, hits, self._length))
        return sample.model_copy(update={
            "variants": {f"variant {number}": text for number, text in enumerate(variants, 1)},
            "left_out": {"assistant": findings.fallback} if findings.fallback else {},
            "notes": findings.notes,
            "usage": {role: usage for role, usage in findings.usage.items() if usage != Usage()},
            "timings": dict(findings.timings),
        })  # fmt: skip

    def _search_with_rewrite(self, item: Item, query: Query, retriever: Retriever, generator: Generator) -> Sample:
        """Search for the message together with a model's rewrite of it."""
        began = time.monotonic()
        bounded = DeadlineGenerator(generator, self._seconds)
        rewrite = rewrite_minimally(bounded, query.history, query.text, self.request.assistant.prompts)
        if rewrite.failure in PERMANENT_FAILURES:
            raise GeneratorError("auth", "; ".join(rewrite.notes), rewrite.usage)
        rewritten = time.monotonic()
        full_query = query.model_copy(update={"variants": (rewrite.text,) if rewrite.text else ()})
        contexts = contexts_of(retriever, retriever.search([full_query], self._length)[0], self._length)
        return _sample(item.id, item.domain, full_query, contexts).model_copy(update={
            "variants": {MINIMAL_QUERY: rewrite.text} if rewrite.text else {},
            "left_out": {MINIMAL_QUERY: rewrite.failure} if rewrite.failure else {},
            "notes": rewrite.notes,
            "usage": {"rewrite": rewrite.usage} if rewrite.usage != Usage() else {},
            "timings": {"rewrite": rewritten - began, "search": time.monotonic() - rewritten},
        })  # fmt: skip

    def _query(self, task_id: str, domain: str | None) -> Query | Sample:
        """Return the query of a task, or a failed sample with the reason why it has no query."""
        assert self._queries is not None, "recorded lists are not searched"
        try:
            return self._queries.query(task_id)
        except NoQuery as error:
            return Sample(id=task_id, status="failed", kind="no_query", reason=str(error), domain=domain)

    def search(self, run: RunFolder, open_corpus: Callable[[str], Retriever]) -> Mapping[str, float]:
        """Search for every query without a finished sample; each batch is written before the next one begins."""
        seconds: Counter[str] = Counter()
        for domain in self._data.qrels:
            pending: list[tuple[str, Query]] = []
            for task_id, query_domain in self._ids.items():
                if query_domain != domain or run.samples.finished((task_id, 0)):
                    continue
                query = self._query(task_id, domain)
                if isinstance(query, Sample):
                    run.append(query)
                else:
                    pending.append((task_id, query))
            if pending:
                began = time.perf_counter()
                retriever = open_corpus(domain)
                opened = time.perf_counter()
                _search(run, domain, pending, retriever, self._length)
                seconds.update({"index": opened - began, "search": time.perf_counter() - opened})
        return seconds

    def finish(self, run: RunFolder) -> list[str]:
        """Write the lists as a TREC run and, if a model was asked, the queries; return notes for the report."""
        run.samples.arrange((query, 0) for query in self._ids)
        samples = filter(None, (run.samples.get((query, 0)) for query in self._ids))
        done = [sample for sample in samples if sample.status == "done"]
        notes: list[str] = []
        if "generator" in self.specs:
            rows = ({"_id": sample.id, "text": sample.query, "variants": dict(sample.variants)} for sample in done)
            write_atomic(run.path / QUERIES, "".join(json.dumps(row) + "\n" for row in rows))
            notes += _rewrite_notes(done)
        try:
            lists = {sample.id: sample.contexts for sample in done}
            write_atomic(run.path / "run.trec", format_trec(lists, "turnmark"))
        except ValueError as error:
            notes.append(f"run.trec is not written: {error}")
        return notes

    def context(self, item: Item, sample: Sample) -> Lists:
        return item.task, sample.contexts


def _rewrite_notes(done: Sequence[Sample]) -> list[str]:
    """Note how many queries were searched without a model's rewrite, and why."""
    without_rewrite = [sample for sample in done if sample.left_out]
    if not without_rewrite:
        return []
    reasons: Counter[str] = Counter()
    for sample in without_rewrite:
        reasons.update(reason.replace("_", " ") for reason in set(sample.left_out.values()))
    counts = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
    return [f"{len(without_rewrite)} of {len(done)} queries were searched without the model's rewrite: {counts}"]


def searched_texts(searches: Iterable[Search]) -> list[str]:
    """Return the distinct texts that a turn searched for, in order."""
    return list(dict.fromkeys(text for search in searches for text in (search.query, *search.variants)))


def _search(
    run: RunFolder, domain: str, pending: Sequence[tuple[str, Query]], retriever: Retriever, length: int
) -> None:
    with shown_progress() as progress:
        progress.start(f"searching {one_line(domain)}", len(pending))
        for batch in batched(pending, BATCH_SIZE):
            began = time.perf_counter()
            results = retriever.search([query for _, query in batch], length)
            seconds = (time.perf_counter() - began) / len(batch)
            if len(results) != len(batch):
                raise TurnmarkError(
                    f"retriever {retriever.name!r} returned {len(results)} lists for {len(batch)} queries"
                )
            for (task_id, query), hits in zip(batch, results, strict=True):
                sample = _sample(task_id, domain, query, contexts_of(retriever, hits, length))
                run.append(sample.model_copy(update={"timings": {"search": seconds}}))
            progress.advance(len(batch))


def _sample(task_id: str, domain: str | None, query: Query, contexts: tuple[ContextRef, ...]) -> Sample:
    rewrite = "\n".join(query.variants) or None
    return Sample(id=task_id, status="done", domain=domain, query=query.text, rewrite=rewrite, contexts=contexts)


def contexts_of(retriever: Retriever, hits: Sequence[Hit], length: int) -> tuple[ContextRef, ...]:
    """Return the ids and scores of retrieved passages, for a sample: at most `length`, best first.

    Raises:
        TurnmarkError: a passage occurs twice, or a score is not finite.
    """
    distinct = {hit.passage.id for hit in hits}
    if len(distinct) < len(hits) or not all(math.isfinite(hit.score) for hit in hits):
        raise TurnmarkError(f"retriever {retriever.name!r} returned a passage twice, or a score that is not finite")
    return tuple(sort_passages([ContextRef(document_id=hit.passage.id, score=hit.score) for hit in hits])[:length])
