"""What is known of a benchmark's generation task before anything heavy is loaded, for each of the benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpora import compound_qa, inscoqa, kiwi, mtrag
from corpora.errors import Mistakes, RequestError
from corpora.home import file_sha256, home
from corpora.rows import Source
from corpora.types import Problem
from evaluation.benchmarks import mtrag_data as bench
from evaluation.benchmarks.base import Benchmark
from evaluation.benchmarks.mtrag_queries import QuerySource, check_mode, open_queries, read_query_file
from evaluation.benchmarks.turns import Parts
from evaluation.passages import CorpusTexts, recorded
from evaluation.records import CorpusUsed, DataUsed
from evaluation.requests import GenerationRequest
from evaluation.run import fingerprint
from retrieval.types import Retriever

Build = Callable[[Parts, Mapping[str, Retriever]], Benchmark[Any]]

TASKS: Mapping[str, str] = {"kiwi": "revise"}
"""Benchmark -> what its generation task is called; `generation` where it is not here."""
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "mtrag": ("reference", "reference+rag", "rag"),
    "mtrag-un": ("reference", "reference+rag", "rag"),
    "mtrag-s": ("reference", "reference+rag", "rag"),
    "inscoqa": ("documents", "rag"),
    "compound-qa": (),
    "kiwi": (),
}
"""Benchmark -> its settings, the default first."""
SEARCHING = ("reference+rag", "rag")


@dataclass(frozen=True)
class Prepared:
    """A benchmark's task in one setting, ready to be built once there are parts.

    Attributes:
        corpora: name -> passage file to be searched, or looked passages up in.
        searched: whether these files are searched; False: passages are recorded, or answers are there already.
        query: the query mode, where something is searched.
        inputs: role -> SHA-256 of files that were handed in.
        build: parts, retrievers by corpus -> the benchmark.
    """

    data: DataUsed
    domains: tuple[str, ...]
    build: Build
    corpora: Mapping[str, Path] = field(default_factory=dict)
    corpora_used: Mapping[str, CorpusUsed] = field(default_factory=dict)
    searched: bool = False
    query: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def setting_of(benchmark: str, asked: str | None, mistakes: Mistakes) -> str | None:
    """The setting that is meant; None where the benchmark has none, or another was asked for."""
    there = SETTINGS.get(benchmark, ())
    if asked is not None and asked not in there:
        has = f"it has: {', '.join(there)}" if there else "it has no settings; leave it out"
        mistakes.add(f"--setting: {benchmark} has no setting {asked!r}; {has}")
        return None
    return asked or (there[0] if there else None)


def prepare(
    request: GenerationRequest, setting: str | None, mistakes: Mistakes, scoring: bool = False
) -> Prepared | None:
    """Find and check the data of a request.

    Args:
        scoring: answers are there already: corpora are wanted only to look passages up, and may be missing.

    Returns:
        None where something was wrong, which is then taken down.
    """
    if request.benchmark in ("mtrag", "mtrag-un", "mtrag-s"):
        return _mtrag(request, setting or "reference", mistakes, scoring)
    flags = ("query", "queries", "passages", "counterfactual")
    for flag in flags if request.benchmark != "inscoqa" else flags[1:]:
        if getattr(request, flag):
            mistakes.add(f"--{flag}: {request.benchmark} has no use for it; it is for the MTRAG family, setting rag")
    if request.benchmark == "inscoqa":
        return mistakes.caught(_inscoqa, request, setting or "documents")
    if request.benchmark == "compound-qa":
        return mistakes.caught(_compound, request)
    return mistakes.caught(_kiwi, request)


def _used(source: Source, files: Mapping[str, Path]) -> DataUsed:
    return DataUsed(name=source.name, demo=source.demo, fingerprint=fingerprint(files))


# --- the MTRAG family ------------------------------------------------------------------------------------------------


def _mtrag(request: GenerationRequest, setting: str, mistakes: Mistakes, scoring: bool) -> Prepared | None:
    name: mtrag.Benchmark = request.benchmark  # type: ignore[assignment]
    searching = setting in SEARCHING
    _check_search_flags(request, setting, mistakes)
    source = mistakes.caught(mtrag.locate, request.data)
    loaded = mistakes.caught(mtrag.load_tasks, source.root, name) if source else None
    kept = mistakes.caught(recorded, request.passages) if request.passages else None
    if source is None or loaded is None:
        return None
    there = tuple(sorted({task.domain for task in loaded.data.values()}))
    domains = _domains(there, request.domains, mistakes)
    tasks = {key: task for key, task in loaded.data.items() if task.domain in domains}
    data = bench.RetrievalData(
        benchmark=name, source=source, tasks=tasks, qrels=dict.fromkeys(domains, {}), problems=loaded.problems,
        files={"tasks": loaded.path},
    )  # fmt: skip
    corpora: dict[str, Path] = {}
    if searching and not scoring:
        corpora = mistakes.caught(bench.find_corpora, data, domains) or {}
    elif searching:
        corpora = _corpora_there(source.root, domains)
    mode = request.query or ("file" if request.queries else "assistant")
    queries = _queries(request, mode, data, mistakes) if searching and not scoring and not request.passages else None
    relevant = _relevant(source.root, name, domains) if request.counterfactual else {}
    texts = {domain: CorpusTexts(path) for domain, path in corpora.items()}
    files = dict(data.files) | (queries.files if queries else {})
    notes = [*_missing(kept, tasks), *bench.problem_notes(queries.problems if queries else ())]
    used = {domain: bench.corpus_used(domain, path) for domain, path in corpora.items()}

    def build(parts: Parts, retrievers: Mapping[str, Retriever]) -> Benchmark[Any]:
        from evaluation.benchmarks.mtrag_generation import Evidence, Mtrag

        evidence = Evidence(retrievers, texts, queries if mode != "assistant" else None, kept)
        return Mtrag(
            name, setting, tasks.values(), parts, evidence,
            problems=loaded.problems, relevant=relevant, counterfactual=request.counterfactual,
        )  # fmt: skip

    return Prepared(
        data=_used(source, files),
        domains=domains,
        build=build,
        corpora=corpora,
        corpora_used=used,
        searched=searching and not scoring and kept is None,
        query=(mode if kept is None else "recorded") if searching and not scoring else None,
        inputs=_inputs(request),
        notes=(*notes, *bench.corpus_notes(used)),
    )


def _check_search_flags(request: GenerationRequest, setting: str, mistakes: Mistakes) -> None:
    if setting not in SEARCHING:
        for flag in ("query", "queries", "passages"):
            if getattr(request, flag):
                mistakes.add(f"--{flag}: the setting {setting} searches for nothing; use --setting rag")
    if request.counterfactual and setting != "rag":
        mistakes.add("--counterfactual hides passages from the index: it needs --setting rag")
    if request.passages and (request.query or request.queries):
        mistakes.add("--passages answers from a recorded retrieval, so --query and --queries have no use beside it")
    if request.query and request.queries:
        mistakes.add("--query and --queries name two sources of queries; give one of them")


def _domains(there: Sequence[str], asked: Sequence[str], mistakes: Mistakes) -> tuple[str, ...]:
    for domain in asked:
        if domain not in there:
            mistakes.add(f"--domains: no domain {domain!r} in the data; there are: {', '.join(there)}")
    return tuple(domain for domain in there if not asked or domain in asked)


def _queries(
    request: GenerationRequest, mode: str, data: bench.RetrievalData, mistakes: Mistakes
) -> QuerySource | None:
    if request.queries:
        return mistakes.caught(read_query_file, request.queries, None)
    if mistakes.caught(check_mode, mode, data.benchmark) is None:
        return None
    return mistakes.caught(open_queries, mode, data)


def _corpora_there(root: Path, domains: Iterable[str]) -> dict[str, Path]:
    found = {}
    for domain in domains:
        try:
            found[domain] = mtrag.corpus_path(root, domain)
        except RequestError:
            continue
    return found


def _relevant(root: Path, name: mtrag.Benchmark, domains: Iterable[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for domain in set(domains) & set(mtrag.retrieval_domains(root, name)):
        for query, grades in mtrag.load_qrels(root, name, domain).data.items():
            found[query] = tuple(passage for passage, grade in grades.items() if grade > 0)
    return found


def _missing(kept: Mapping[str, object] | None, tasks: Mapping[str, object]) -> list[str]:
    lacking = sum(task not in kept for task in tasks) if kept is not None else 0
    return [f"--passages has nothing for {lacking} of {len(tasks)} tasks; they are answered from nothing"] * bool(
        lacking
    )


def _inputs(request: GenerationRequest) -> dict[str, str]:
    found = {"queries": file_sha256(request.queries)} if request.queries and request.queries.is_file() else {}
    if request.passages and request.passages.exists():
        inner = request.passages / "predictions.jsonl"
        file = inner if inner.is_file() else request.passages
        found |= {"passages": file_sha256(file)} if file.is_file() else {}
    return found


# --- the other three -------------------------------------------------------------------------------------------------

POOL = "pool"


def _inscoqa(request: GenerationRequest, setting: str) -> Prepared:
    from evaluation.benchmarks.inscoqa import InsCoQA, split_of, write_pool

    source = inscoqa.locate(request.data)
    files = InsCoQA(source, setting, Parts()).files()
    tasks = (task for task in inscoqa.stream_tasks(source.root, split_of(source)) if not isinstance(task, Problem))
    domains = _checked(sorted({task.domain for task in tasks}), request.domains)
    corpora: dict[str, Path] = {}
    if setting == "rag":
        path = home() / "cache" / f"inscoqa-{fingerprint(files)[:16]}.jsonl"
        if not path.is_file():
            write_pool(inscoqa.stream_tasks(source.root, split_of(source)), path)
        corpora[POOL] = path

    def build(parts: Parts, retrievers: Mapping[str, Retriever]) -> Benchmark[Any]:
        return InsCoQA(source, setting, parts.over(retrievers.get(POOL)), request.domains)

    return Prepared(
        data=_used(source, files), domains=domains, build=build, corpora=corpora,
        corpora_used={name: bench.corpus_used(name, path) for name, path in corpora.items()},
        searched=setting == "rag", query="assistant" if setting == "rag" else None,
    )  # fmt: skip


def _compound(request: GenerationRequest) -> Prepared:
    from evaluation.benchmarks.compound_qa import CompoundQA

    source = compound_qa.locate(request.data)
    files = {file.shown: file.path for file in compound_qa.files(source.root)}
    there = tuple(dict.fromkeys(file.capability for file in compound_qa.files(source.root)))
    domains = _checked(there, request.domains)

    def build(parts: Parts, _: Mapping[str, Retriever]) -> Benchmark[Any]:
        return CompoundQA(source, parts, request.domains)

    return Prepared(data=_used(source, files), domains=domains, build=build)


def _kiwi(request: GenerationRequest) -> Prepared:
    from evaluation.benchmarks.kiwi import Kiwi

    source = kiwi.locate(request.data)
    if request.domains:
        raise RequestError("--domains: kiwi has no domains; leave it out")

    def build(parts: Parts, _: Mapping[str, Retriever]) -> Benchmark[Any]:
        return Kiwi(source, parts)

    return Prepared(data=_used(source, Kiwi(source, Parts()).files()), domains=(), build=build)


def _checked(there: Sequence[str], asked: Sequence[str]) -> tuple[str, ...]:
    mistakes = Mistakes()
    found = _domains(there, asked, mistakes)
    mistakes.check()
    return found


def problems_of(benchmark: Benchmark[Any]) -> list[Problem]:
    """What of a benchmark's data could not be read."""
    return [item for item in benchmark.items() if isinstance(item, Problem)]
