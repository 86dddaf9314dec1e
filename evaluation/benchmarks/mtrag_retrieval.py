"""MTRAG's retrieval task (section 5): our retrievers run on it, or a TREC run of another system, scored and set next
to the published tables. Queries with relevance labels only, which are those of answerable and partial tasks.

Where the query mode asks a language model, a query is searched as soon as its wordings are there, many queries being
reworded at once by the engine that answers samples: deadlines, pace, budget and resuming are its own. A wording that
does not come is left out and noted; the query is searched all the same. Only a key that is refused fails it: then none
of the queries would get a wording.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

from turnmark.assistant.assistant import Assistant
from turnmark.assistant.generators.base import Generator, GeneratorError
from turnmark.assistant.steps.understand_llm import MINIMAL, MINIMAL_SECONDS, minimal
from turnmark.assistant.types import Usage
from turnmark.core.console import inert, shown_progress
from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.core.home import file_sha256, write_atomic
from turnmark.corpora import mtrag
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks import mtrag_data as bench
from turnmark.evaluation.benchmarks.base import Item, Metric, Value
from turnmark.evaluation.benchmarks.mtrag_data import NoQuery, QuerySource, check_mode, open_queries, read_query_file
from turnmark.evaluation.benchmarks.task import Task, choose_domains
from turnmark.evaluation.records import ContextRef, Sample
from turnmark.evaluation.runs.limits import Bounded
from turnmark.evaluation.runs.predictions import Answers, format_trec, ranked, read_runs
from turnmark.evaluation.runs.request import select
from turnmark.evaluation.runs.rundir import RunFolder
from turnmark.evaluation.runs.scheduler import HOPELESS
from turnmark.evaluation.scores.metric_info import MetricStyle
from turnmark.retrieval.types import Hit, Query, Retriever

CUTOFFS = (1, 3, 5, 10)
NAMES = tuple(f"{name}@{k}" for name in ("recall", "ndcg") for k in CUTOFFS)
VARIANT = "pytrec_eval"
DEPTH = 10
"""Passages kept a query: what the metrics look at."""
BATCH = 64
QUERIES = "queries.jsonl"
"""The file of a run that holds what was searched for, as `--queries` takes it."""
SEARCHING = 300.0
"""Seconds beyond those for the rewrite in which a query must be searched: others may have to be searched before it."""
PROMPTS = ("rewrite", "json", "repair")
"""What a model is asked by: for a rewrite, as an object."""
Lists = tuple[Mapping[str, int], Sequence[ContextRef]]
"""Passage -> grade, and what was found."""


def score_lists(
    qrels: Mapping[str, Mapping[str, int]], lists: Mapping[str, Sequence[ContextRef]]
) -> dict[str, dict[str, float]]:
    """Every metric in `NAMES` for every query with a relevant passage: query id -> metric -> 0..1.

    A query of `qrels` that `lists` has nothing for scores 0; a list without relevance labels is left out.

    Args:
        qrels: query id -> passage id -> grade; a grade above 0 is relevant.
        lists: query id -> what was found. The order is by score, ties by document id descending.
    """
    import pytrec_eval

    judged = {query: dict(grades) for query, grades in qrels.items() if any(grade > 0 for grade in grades.values())}
    if not judged:
        return {}
    cuts = ",".join(map(str, CUTOFFS))
    evaluator = pytrec_eval.RelevanceEvaluator(judged, {f"recall.{cuts}", f"ndcg_cut.{cuts}"})
    run = {query: {c.document_id: float(c.score) for c in lists[query]} for query in judged if lists.get(query)}
    measured = evaluator.evaluate(run) if run else {}
    official = {name: name.replace("recall@", "recall_").replace("ndcg@", "ndcg_cut_") for name in NAMES}
    nothing = dict.fromkeys(official.values(), 0.0)
    return {
        query: {name: float(measured.get(query, nothing)[key]) for name, key in official.items()} for query in judged
    }


def _measured(context: Lists) -> Mapping[str, Value]:
    relevant, contexts = context
    return score_lists({"query": relevant}, {"query": contexts}).get("query", {})


# --- the benchmark ---------------------------------------------------------------------------------------------------


class Retrieval(Task):
    """The judged queries that are asked for, each with the list that a retriever finds."""

    name = "retrieval"
    flags = ("query", "queries")
    metrics: Sequence[Metric[Lists]] = (
        Metric(
            NAMES,
            VARIANT,
            _measured,
            shown={"recall@5": MetricStyle(headline=10), "ndcg@5": MetricStyle(headline=20)},
        ),
    )
    retrieves = True

    _data: bench.MtragData
    _ids: Mapping[str, str]
    """Query id -> domain, in the order of the data."""
    _queries: QuerySource | None = None
    """What is searched for; None: lists are scored that are there already."""
    _mode: str = "assistant"
    """The query mode, or `file`."""
    _seconds: float = MINIMAL_SECONDS
    """For the rewrite of one query in the mode `minimal`."""

    def open(self) -> None:
        errors, request = ErrorCollector(), self.request
        name = cast(mtrag.Benchmark, request.benchmark)
        if request.query and request.queries:
            errors.add("--query and --queries name two sources of queries; give one of them")
        known_mode = errors.collect(check_mode, request.query, name, True) if request.query else "assistant"
        if request.query == MINIMAL and not request.asks_model:
            errors.add(f"--query {MINIMAL} asks a language model; name it with --generator, see `turnmark list`")
        data = self._load(name, errors)
        if request.queries:
            self._queries = errors.collect(read_query_file, request.queries, data)
        elif data is not None and known_mode and not request.scoring:
            asked = bench.only_domains(data, self.domains)
            self._queries = errors.collect(open_queries, known_mode, asked, True)
        if data is not None:
            self._ids = self._select(data, errors)
            if not request.scoring:
                data = bench.only_domains(data, [domain for domain in self._ids.values() if domain in self.domains])
                self.corpora = errors.collect(bench.find_corpora, data.source.root, data.qrels) or {}
        errors.raise_all()
        assert data is not None, "errors.raise_all() raised otherwise"
        self._data = data
        self.data = data.used(self._queries.files if self._queries else {})
        self.domains = tuple(data.qrels)
        self.corpora_used = {domain: bench.corpus_used(domain, path) for domain, path in self.corpora.items()}
        self.notes = tuple(bench.corpus_notes(self.corpora_used))
        self.searched = not request.scoring
        self._mode = ("file" if request.queries else known_mode) or "assistant"
        self.specs = {"query": self._mode}
        self.inputs = {"queries": file_sha256(request.queries)} if request.queries else {}
        self.prompts = {}
        if self.searched and self._mode in (MINIMAL, "assistant") and request.asks_model:
            self._open_asking()
        self.batched = self.searched and self._mode not in (MINIMAL, "assistant")

    def _open_asking(self) -> None:
        """With what a model is asked: who, how long is waited for a rewrite, and by which prompts."""
        from turnmark.assistant.generators import GENERATORS
        from turnmark.evaluation.prompts import own_prompts

        request = self.request
        with suppress(RequestError):  # reported when the flags are checked
            self.specs = {**self.specs, "generator": str(GENERATORS.check(request.generator))}
            self.prompts = own_prompts(request.prompts)
            if self._mode == MINIMAL:
                self._seconds = MINIMAL_SECONDS if request.deadline is None else request.deadline
                self.deadline = self._seconds + SEARCHING
                self.specs = {**self.specs, "rewrite": f"within {self._seconds:g} s"}
                self.prompts = {name: self.prompts[name] for name in PROMPTS}

    def _load(self, name: mtrag.Benchmark, errors: ErrorCollector) -> bench.MtragData | None:
        """The data; that of all domains if --domains is wrong, so that the rest of the request can be checked."""
        source = errors.collect(mtrag.locate, self.request.data)
        known = errors.collect(bench.labelled_domains, name, source) if source else None
        if source is None or known is None:
            return None
        domains = errors.collect(choose_domains, known, self.request.domains)
        self.domains = domains or tuple(domain for domain in known if domain in self.request.domains)
        return errors.collect(bench.load_data, name, source, domains or ())

    def _select(self, data: bench.MtragData, errors: ErrorCollector) -> dict[str, str]:
        labels, queries = data.qrels, self._queries
        if self.request.queries and queries and queries.recorded is not None and not self.request.domains:
            recorded_ids = queries.recorded.keys()
            labels = {domain: judged for domain, judged in labels.items() if not recorded_ids.isdisjoint(judged)}
        ids = {query: domain for domain, judged in labels.items() for query in judged}
        return {query: ids[query] for query in select(self.request, list(ids), errors)}

    @classmethod
    def read(cls, paths: Sequence[Path], benchmark: str) -> Answers:  # noqa: ARG003
        lists = read_runs(paths)
        samples = (Sample(id=query, status="done", contexts=contexts[:DEPTH]) for query, contexts in lists.items())
        return Answers(tuple(samples), tuple(paths))

    def items(self) -> Iterator[Item | Problem]:
        yield from (*self._data.problems, *(self._queries.problems if self._queries else ()))
        for query, domain in self._ids.items():
            relevant, task = self._data.qrels[domain][query], self._data.tasks.get(query)
            if task is None:
                labels = {"domain": (domain,)}
                item = Item(query, domain=domain, labels=labels, cluster=mtrag.conversation_of(query))
            else:
                item = bench.task_item(task, domain)
            yield replace(item, task=relevant, relevant=frozenset(relevant))

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """See `Task.answer`; of the modes whose queries are made one by one. The others are searched by `search`."""
        query = self._query(item.id, item.domain)
        if isinstance(query, Sample):
            return query
        retriever = self.retrievers[item.domain or ""]
        if self._mode == MINIMAL:
            assert generator is not None, "a mode that asks a model is planned with one"
            return self._reworded(item, query, retriever, generator)
        return self._found_by_assistant(item, query, self.assistant.using(retriever, generator))

    def _found_by_assistant(self, item: Item, query: Query, assistant: Assistant) -> Sample:
        """What the assistant's turn finds at first: the message and, with a model, its rewrite, parts and phrases."""
        assert assistant.retriever is not None, "opened for every domain"
        findings = assistant.find(query.history, query.text, DEPTH)
        if findings.fallback in HOPELESS:
            raise GeneratorError("auth", "; ".join(findings.notes), sum(findings.usage.values(), Usage()))
        hits = findings.hits[:DEPTH]
        if len(findings.searches) > 1:  # the parts take turns, and their scores do not compare
            hits = tuple(hit.model_copy(update={"score": 1 / rank}) for rank, hit in enumerate(hits, 1))
        texts = (text for search in findings.searches for text in (search.query, *search.variants))
        variants = [text for text in dict.fromkeys(texts) if text != query.text]
        searched = query.model_copy(update={"variants": tuple(variants)})
        sample = _sample(item.id, item.domain, searched, contexts_of(assistant.retriever, hits))
        return sample.model_copy(update={
            "variants": {f"variant {number}": text for number, text in enumerate(variants, 1)},
            "left_out": {"assistant": findings.fallback} if findings.fallback else {},
            "notes": findings.notes,
            "usage": {role: usage for role, usage in findings.usage.items() if usage != Usage()},
            "timings": dict(findings.timings),
        })  # fmt: skip

    def _reworded(self, item: Item, query: Query, retriever: Retriever, generator: Generator) -> Sample:
        """What the message finds together with a model's rewrite of it."""
        seconds = self._seconds
        began = time.monotonic()
        bounded = Bounded(generator, began + seconds, seconds)
        wordings = minimal(bounded, query.history, query.text, self.request.prompts)
        if not HOPELESS.isdisjoint(wordings.left_out.values()):
            raise GeneratorError("auth", "; ".join(wordings.notes), wordings.usage)
        worded = time.monotonic()
        full_query = query.model_copy(update={"variants": tuple(wordings.variants.values())})
        contexts = contexts_of(retriever, retriever.search([full_query], DEPTH)[0])
        return _sample(item.id, item.domain, full_query, contexts).model_copy(update={
            "variants": wordings.variants,
            "left_out": wordings.left_out,
            "notes": wordings.notes,
            "usage": {"rewrite": wordings.usage} if wordings.usage != Usage() else {},
            "timings": {"rewrite": worded - began, "search": time.monotonic() - worded},
        })  # fmt: skip

    def _query(self, task_id: str, domain: str | None) -> Query | Sample:
        """What is searched for or, where no query can be made, the failed sample that says so."""
        assert self._queries is not None, "lists that are there already are not searched for"
        try:
            return self._queries.query(task_id)
        except NoQuery as error:
            return Sample(id=task_id, status="failed", kind="no_query", reason=str(error), domain=domain)

    def search(self, run: RunFolder, open_corpus: Callable[[str], Retriever]) -> Mapping[str, float]:
        """Search for every query that has no finished sample yet; every batch is on file before the next begins."""
        seconds: Counter[str] = Counter()
        for domain in self._data.qrels:
            pending: list[tuple[str, Query]] = []
            for task_id, its_domain in self._ids.items():
                if its_domain == domain and not run.samples.finished((task_id, 0)):
                    query = self._query(task_id, domain)
                    if isinstance(query, Sample):
                        run.append(query)
                    else:
                        pending.append((task_id, query))
            if pending:
                began = time.perf_counter()
                retriever = open_corpus(domain)
                opened = time.perf_counter()
                _search(run, domain, pending, retriever)
                seconds.update({"index": opened - began, "search": time.perf_counter() - opened})
        return seconds

    def finish(self, run: RunFolder) -> list[str]:
        """Write the lists as a TREC run and, where a model was asked, what was searched for; what to note."""
        run.samples.arrange((query, 0) for query in self._ids)
        samples = [sample for query in self._ids if (sample := run.samples.get((query, 0)))]
        notes = []
        if "generator" in self.specs:
            done = [sample for sample in samples if sample.status == "done"]
            rows = ({"_id": sample.id, "text": sample.query, "variants": dict(sample.variants)} for sample in done)
            write_atomic(run.path / QUERIES, "".join(json.dumps(row) + "\n" for row in rows))
            bare = [sample for sample in done if sample.left_out]
            reasons = Counter(reason.replace("_", " ") for sample in bare for reason in set(sample.left_out.values()))
            if bare:
                why = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
                notes.append(f"{len(bare)} of {len(done)} queries were searched without the model's words: {why}")
        try:
            lists = {sample.id: sample.contexts for sample in samples if sample.status == "done"}
            write_atomic(run.path / "run.trec", format_trec(lists, "turnmark"))
        except ValueError as error:
            notes.append(f"run.trec is not written: {error}")
        return notes

    def context(self, item: Item, sample: Sample) -> Lists:
        return item.task, sample.contexts


def _search(run: RunFolder, domain: str, pending: Sequence[tuple[str, Query]], retriever: Retriever) -> None:
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
                sample = _sample(task_id, domain, query, contexts_of(retriever, hits))
                run.append(sample.model_copy(update={"timings": {"search": seconds}}))
            progress.advance(len(batch))


def _sample(task_id: str, domain: str | None, query: Query, contexts: tuple[ContextRef, ...]) -> Sample:
    rewrite = "\n".join(query.variants) or None
    return Sample(id=task_id, status="done", domain=domain, query=query.text, rewrite=rewrite, contexts=contexts)


def contexts_of(retriever: Retriever, hits: Sequence[Hit]) -> tuple[ContextRef, ...]:
    """What a sample keeps of the passages that were found."""
    distinct = {hit.passage.id for hit in hits}
    if len(distinct) < len(hits) or not all(math.isfinite(hit.score) for hit in hits):
        raise TurnmarkError(f"retriever {retriever.name!r} found a passage twice, or gave it no number")
    return tuple(ranked([ContextRef(document_id=hit.passage.id, score=hit.score) for hit in hits])[:DEPTH])
