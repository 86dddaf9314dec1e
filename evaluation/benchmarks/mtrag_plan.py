"""A request to score MTRAG retrieval, checked as a whole before anything is built or written."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from corpora import mtrag
from corpora.errors import RequestError
from corpora.types import Problem
from evaluation.benchmarks import mtrag_data as bench
from evaluation.benchmarks.mtrag_data import RetrievalData
from evaluation.benchmarks.mtrag_queries import QuerySource, check_mode, open_queries, read_query_file
from evaluation.records import DataUsed, RunManifest
from evaluation.requests import EvalRequest, Mistakes, ScoreRequest
from evaluation.run import check_folder, default_folder, sha256_of
from evaluation.trec import TrecRun, read_runs
from evaluation.versions import version_of, versions

TASK = "retrieval"
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

    def describe(self) -> dict[str, Any]:
        """What `--dry-run` says."""
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
    mistakes = Mistakes()
    mode = request.query or ("file" if request.queries else "assistant")
    if request.query and request.queries:
        mistakes.add("--query and --queries name two sources of queries; give one of them")
    if request.limit is not None and request.limit < 1:
        mistakes.add(f"--limit {request.limit}: a number from 1 was expected")
    retriever = mistakes.caught(specs or retriever_specs, request.retriever, request.embedder)
    if request.query:
        mistakes.caught(check_mode, request.query, request.benchmark)
    source = mistakes.caught(mtrag.locate, request.data)
    data = mistakes.caught(bench.load_data, request.benchmark, source, request.domains) if source else None
    queries: QuerySource | None = None
    ids: dict[str, str] = {}
    corpora: dict[str, Path] = {}
    if data is not None:
        if request.queries:
            queries = mistakes.caught(read_query_file, request.queries, data)
        elif not request.query or not mistakes.problems:
            queries = mistakes.caught(open_queries, mode, data)
        ids = _selected(data, request, queries, mistakes)
        data = bench.only_domains(data, ids.values())
        corpora = mistakes.caught(bench.find_corpora, data, list(data.qrels)) or {}
    mistakes.check()
    assert data is not None, "mistakes.check() raised otherwise"
    assert queries is not None, "mistakes.check() raised otherwise"
    assert retriever is not None, "mistakes.check() raised otherwise"
    used = {domain: bench.corpus_used(domain, path) for domain, path in corpora.items()}
    manifest = RunManifest(
        benchmark=request.benchmark,
        task=TASK,
        specs={"retriever": retriever[0], "embedder": retriever[1], "query": mode},
        inputs={"queries": sha256_of(request.queries)} if request.queries else {},
        data=data.used(queries.files),
        domains=tuple(data.qrels),
        corpora=used,
        limit=request.limit,
        only=request.only,
        **_common(request),
    )
    folder = _folder(request.out, manifest)
    named = f"file {request.queries.name}" if request.queries else mode
    notes = _data_notes(manifest.data, (*data.problems, *queries.problems)) + bench.corpus_notes(used)
    return Plan(
        data, ids, manifest, folder, tuple(notes), named, began,
        queries=queries, corpora=corpora, embedder=request.embedder,
    )  # fmt: skip


def plan_score(request: ScoreRequest) -> Plan:
    """Check a request to score TREC runs.

    Raises:
        RequestError: everything that is wrong with it, at once: every wrong line of every file included.
    """
    began = time.perf_counter()
    mistakes = Mistakes()
    trec = mistakes.caught(read_runs, request.predictions)
    source = mistakes.caught(mtrag.locate, request.data)
    data = mistakes.caught(bench.load_data, request.benchmark, source, request.domains) if source else None
    mistakes.check()
    assert data is not None, "mistakes.check() raised otherwise"
    assert trec is not None, "mistakes.check() raised otherwise"
    answered = [domain for domain, labels in data.qrels.items() if not trec.lists.keys().isdisjoint(labels)]
    if not answered:
        first = next(iter(trec.lists))
        raise RequestError(
            f"--predictions: none of the {len(trec.lists)} queries (the first is {first!r}) has relevance labels in "
            f"{request.benchmark} of {data.source.name!r}, domains {', '.join(data.qrels)}; is it a run on this data?"
        )
    if not request.domains:
        data = bench.only_domains(data, answered)
    ids = {query: domain for domain, labels in data.qrels.items() for query in labels}
    manifest = RunManifest(
        benchmark=request.benchmark,
        task=TASK,
        specs={"predictions": ", ".join(path.name for path in request.predictions)},
        inputs={f"predictions/{path.name}": sha256_of(path) for path in request.predictions},
        data=data.used(),
        domains=tuple(data.qrels),
        **_common(request),
    )
    notes = _data_notes(manifest.data, data.problems)
    missing = sum(query not in trec.lists for query in ids)
    extra = sum(query not in ids for query in trec.lists)
    if missing:
        notes.append(f"{missing} of {len(ids)} queries have no entry in the run and count as 0")
    if extra:
        notes.append(f"{extra} queries of the run have no relevance labels in these domains and are left out")
    return Plan(data, ids, manifest, _folder(request.out, manifest), tuple(notes), None, began, trec=trec)


def _common(request: EvalRequest | ScoreRequest) -> dict[str, Any]:
    packages = ["pytrec_eval-terrier", "numpy"]
    if isinstance(request, EvalRequest):
        packages += ["bm25s", "chromadb", "sentence-transformers", "torch"]
    return {
        "seed": request.seed,
        "version": version_of("turnwise"),
        "versions": versions(packages),
        "command": request.command,
        "started": now(),
    }


def now() -> str:
    """The time in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def retriever_specs(retriever: str, embedder: str) -> tuple[str, str]:
    """Both specs in normal form; no embedder where none takes part.

    Raises:
        RequestError: unknown names or options.
    """
    from retrieval.registry import RETRIEVERS, build_settings

    settings = build_settings(retriever, embedder)
    return str(RETRIEVERS.check(retriever)), settings.embedder


def _folder(out: Path | None, manifest: RunManifest) -> Path:
    folder = out or default_folder(manifest)
    check_folder(folder, manifest)
    return folder


def _data_notes(data: DataUsed, problems: Sequence[Problem]) -> list[str]:
    return ([bench.DEMO_NOTE] if data.demo else []) + bench.problem_notes(problems)


def _selected(
    data: RetrievalData, request: EvalRequest, queries: QuerySource | None, mistakes: Mistakes
) -> dict[str, str]:
    """Query id -> domain of what is asked for, in the order of the data."""
    labels = data.qrels
    if request.queries and queries and queries.recorded is not None and not request.domains:
        known = queries.recorded.keys()
        labels = {domain: judged for domain, judged in labels.items() if not known.isdisjoint(judged)}
    ids = {query: domain for domain, judged in labels.items() for query in judged}
    for query in request.only:
        if query not in ids:
            mistakes.add(f"--only {query!r}: no query with relevance labels has this id")
    if request.only:
        ids = {query: domain for query, domain in ids.items() if query in request.only}
    if request.limit is not None and request.limit > 0:
        ids = dict(list(ids.items())[: request.limit])
    return ids
