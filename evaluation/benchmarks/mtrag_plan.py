"""A request to score MTRAG retrieval, checked as a whole before anything is built or written."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from turnmark.corpora import mtrag
from turnmark.corpora.errors import ErrorCollector
from turnmark.corpora.home import file_sha256
from turnmark.evaluation.benchmarks import mtrag_data as bench
from turnmark.evaluation.benchmarks.mtrag_data import RetrievalData
from turnmark.evaluation.benchmarks.mtrag_queries import (
    Asking,
    QuerySource,
    asking_of,
    check_mode,
    open_queries,
    read_query_file,
)
from turnmark.evaluation.records import RunManifest
from turnmark.evaluation.request import (
    EvalRequest,
    ScoreRequest,
    Selection,
    failures,
    reranked_by,
    retriever_specs,
    weighed,
)
from turnmark.evaluation.rundir import check_folder, default_folder, read_folder, version_of, versions
from turnmark.evaluation.scoring import now
from turnmark.evaluation.trec import TrecRun, read_runs

TASK = "retrieval"
_SEARCHING = ("bm25s", "PyStemmer", "chromadb", "sentence-transformers", "torch")
"""Packages that a search depends on; the first two where no vectors are asked for."""
Specs = Callable[[str, str], tuple[str, str]]


@dataclass(frozen=True)
class Plan:
    """A request that was found to be in order: what will be done, and where it will be written down."""

    data: RetrievalData
    ids: dict[str, str]  # query id -> domain, in the order of the data
    manifest: RunManifest
    folder: Path
    notes: tuple[str, ...]
    query: str | None
    began: float
    queries: QuerySource | None = None
    corpora: dict[str, Path] = field(default_factory=dict)
    embedder: str = ""  # as asked for; the manifest names one only where it takes part
    trec: TrecRun | None = None
    asking: Asking | None = None  # of a mode that asks a language model

    def describe(self, estimated: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What `--dry-run` says, with what a mode that asks a model would take."""
        counts: dict[str, int] = {}
        for domain in self.ids.values():
            counts[domain] = counts.get(domain, 0) + 1
        return {
            "dry_run": True,
            "benchmark": self.manifest.benchmark,
            "task": TASK,
            "data": self.manifest.data.model_dump(),
            "specs": self.manifest.specs,
            "domains": counts,
            "n": len(self.ids),
            **({"estimated": estimated} if estimated else {}),
            "run": str(self.folder),
            "notes": list(self.notes),
        }


def plan_eval(request: EvalRequest, specs: Specs | None = None) -> Plan:
    """Check a request to search and score.

    Args:
        specs: brings retriever and embedder spec into normal form; ours where it is not given.

    Raises:
        RequestError: everything that is wrong with it, at once.
    """
    began = time.perf_counter()
    errors = ErrorCollector()
    mode = request.query or ("file" if request.queries else "assistant")
    retriever, known_mode, asking = check_flags(request, errors, specs)
    data, domain_names = _load(request, errors)
    queries: QuerySource | None = None
    if request.queries:
        queries = errors.collect(read_query_file, request.queries, data)
    elif data is not None and known_mode:
        queries = errors.collect(open_queries, mode, bench.only_domains(data, domain_names), True)
    ids: dict[str, str] = {}
    corpora: dict[str, Path] = {}
    if data is not None:
        ids = _selected(data, request, queries, errors)
        data = bench.only_domains(data, [domain for domain in ids.values() if domain in domain_names])
        corpora = errors.collect(bench.find_corpora, data, list(data.qrels)) or {}
    errors.raise_all()
    if asking:
        max_failures = failures(request, len(ids), ErrorCollector())
        asking = replace(asking, limits=replace(asking.limits, max_failures=max_failures))
    assert data is not None, "errors.raise_all() raised otherwise"
    assert queries is not None, "errors.raise_all() raised otherwise"
    assert retriever is not None, "errors.raise_all() raised otherwise"
    used = {domain: bench.corpus_used(domain, path) for domain, path in corpora.items()}
    manifest = RunManifest(
        benchmark=request.benchmark,
        task=TASK,
        specs={
            "retriever": retriever[0],
            "embedder": retriever[1],
            "query": mode,
            **({} if specs else weighed(retriever[0])),
            **(asking.specs() if asking else {}),
        },
        prompts=dict(asking.hashes) if asking else {},
        inputs=({"queries": file_sha256(request.queries)} if request.queries else {}) | reranked_by(retriever[0]),
        data=data.used(queries.files),
        domains=tuple(data.qrels),
        corpora=used,
        limit=request.limit,
        sample=request.sample,
        only=tuple(sorted(set(request.only))),
        **_common(request, _SEARCHING if retriever[1] else _SEARCHING[:2]),
    )
    folder = _folder(request.out, manifest)
    domain_names = f"file {request.queries.name}" if request.queries else mode
    notes = bench.data_notes(manifest.data, (*data.problems, *queries.problems)) + bench.corpus_notes(used)
    return Plan(
        data, ids, manifest, folder, tuple(notes), domain_names, began,
        queries=queries, corpora=corpora, embedder=request.embedder, asking=asking,
    )  # fmt: skip


def plan_score(request: ScoreRequest) -> Plan:
    """Check a request to score TREC runs.

    Raises:
        RequestError: everything that is wrong with it, at once: every wrong line of every file included.
    """
    began = time.perf_counter()
    errors = ErrorCollector()
    _check_more(request, errors)
    trec = errors.collect(read_runs, request.predictions)
    data, _ = _load(request, errors)
    answered: list[str] = []
    if data is not None and trec is not None:
        answered = [domain for domain, labels in data.qrels.items() if not trec.lists.keys().isdisjoint(labels)]
        if not answered:
            first = next(iter(trec.lists))
            errors.add(
                f"--predictions: none of the {len(trec.lists)} queries (the first is {first!r}) has relevance labels "
                f"in {request.benchmark} of {data.source.name!r}, domains {', '.join(data.qrels)}; is it a run on this "
                "data?"
            )
    errors.raise_all()
    assert data is not None, "errors.raise_all() raised otherwise"
    assert trec is not None, "errors.raise_all() raised otherwise"
    if not request.domains:
        data = bench.only_domains(data, answered)
    # Neither the order of the files nor where they lie changes a result; two may have the same name.
    files = sorted((path.name, file_sha256(path)) for path in request.predictions)
    ids = {query: domain for domain, labels in data.qrels.items() for query in labels}
    manifest = RunManifest(
        benchmark=request.benchmark,
        task=TASK,
        specs={"predictions": ", ".join(name for name, _ in files)},
        inputs={f"predictions/{number}/{name}": content for number, (name, content) in enumerate(files, 1)},
        data=data.used(),
        domains=tuple(data.qrels),
        **_common(request, ()),
    )
    notes = bench.data_notes(manifest.data, data.problems)
    missing = sum(query not in trec.lists for query in ids)
    extra = sum(query not in ids for query in trec.lists)
    if missing:
        notes.append(f"{missing} of {len(ids)} queries have no entry in the run and count as 0")
    if extra:
        notes.append(f"{extra} queries of the run have no relevance labels in these domains and are left out")
    return Plan(data, ids, manifest, _folder(request.out, manifest), tuple(notes), None, began, trec=trec)


def name_of(request: EvalRequest | ScoreRequest) -> mtrag.Benchmark:
    """Which of the three benchmarks is asked for; others have no such task."""
    return cast(mtrag.Benchmark, request.benchmark)


def check_flags(
    request: EvalRequest, errors: ErrorCollector, specs: Specs | None = None
) -> tuple[tuple[str, str] | None, bool, Asking | None]:
    """Take down what is wrong with the flags of `eval` by themselves, whatever the data.

    Returns:
        Retriever and embedder in normal form, if both are in order; whether the query mode is; what it asks a language
        model for, if it does.
    """
    if request.query and request.queries:
        errors.add("--query and --queries name two sources of queries; give one of them")
    _selection(request).check(errors)
    both_specs = errors.collect(specs or retriever_specs, request.retriever, request.embedder)
    mode = errors.collect(check_mode, request.query, name_of(request), True) if request.query else "its default"
    asking = asking_of(request, errors)
    _check_more(request, errors)
    return both_specs, mode is not None, asking


def check_score_flags(request: ScoreRequest, errors: ErrorCollector) -> None:
    """Take down what is wrong with the flags of `score` by themselves, whatever is in the files."""
    for path in request.predictions:
        if not path.is_file():
            errors.add(f"--predictions {str(path)!r} cannot be read: no such file")
    _check_more(request, errors)


def _check_more(request: EvalRequest | ScoreRequest, errors: ErrorCollector) -> None:
    if request.seed < 0:
        errors.add(f"--seed {request.seed}: a number from 0 was expected")
    if request.out is not None:
        errors.collect(read_folder, request.out)


def _load(request: EvalRequest | ScoreRequest, errors: ErrorCollector) -> tuple[RetrievalData | None, Sequence[str]]:
    """The data of a request, and which of its domains are asked for.

    Where --domains is wrong the data is that of all domains, so that the rest of the request can be checked.
    """
    source = errors.collect(mtrag.locate, request.data)
    known_domains = errors.collect(bench.labelled, name_of(request), source) if source else None
    if source is None or known_domains is None:
        return None, ()
    unknown = [domain for domain in request.domains if domain not in known_domains]
    for domain in unknown:
        errors.add(f"--domains: no domain {domain!r} in the data; there are: {', '.join(known_domains)}")
    domain_names = [domain for domain in known_domains if not request.domains or domain in request.domains]
    return errors.collect(bench.load_data, name_of(request), source, () if unknown else domain_names), domain_names


def _common(request: EvalRequest | ScoreRequest, packages: Sequence[str]) -> dict[str, Any]:
    return {
        "seed": request.seed,
        "version": version_of("turnmark"),
        "versions": versions(["pytrec_eval-terrier", "numpy", *packages]),
        "command": request.command,
        "started": now(),
    }


def _folder(out: Path | None, manifest: RunManifest) -> Path:
    folder = out or default_folder(manifest)
    check_folder(folder, manifest)
    return folder


def _selected(
    data: RetrievalData, request: EvalRequest, queries: QuerySource | None, errors: ErrorCollector
) -> dict[str, str]:
    """Query id -> domain of what is asked for, in the order of the data."""
    labels = data.qrels
    if request.queries and queries and queries.recorded is not None and not request.domains:
        recorded_ids = queries.recorded.keys()
        labels = {domain: judged for domain, judged in labels.items() if not recorded_ids.isdisjoint(judged)}
    ids = {query: domain for domain, judged in labels.items() for query in judged}
    ids_taken = _selection(request).of(list(ids), errors)
    return {query: ids[query] for query in ids_taken}


def _selection(request: EvalRequest) -> Selection:
    return Selection(only=request.only, sample=request.sample, limit=request.limit, seed=request.seed)
