"""The tasks of MTRAG, MTRAG-UN and MTRAG-S, and what a request means of their generation task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from turnmark.corpora import mtrag
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.home import file_sha256
from turnmark.corpora.mtrag import Benchmark as Name
from turnmark.evaluation.benchmarks import mtrag_data as bench
from turnmark.evaluation.benchmarks.mtrag_evidence import (
    SEARCHING,
    Evidence,
    Relevant,
    check_hidden,
    is_setting_file,
    recorded_file,
    relevant_passages,
    unasked,
    unread,
    unrecorded,
)
from turnmark.evaluation.benchmarks.mtrag_generation import PROMPTS, Mtrag, takes_part
from turnmark.evaluation.benchmarks.mtrag_queries import QuerySource, check_mode, open_queries, read_query_file
from turnmark.evaluation.benchmarks.mtrag_retrieval import open_retrieval, trec_answers
from turnmark.evaluation.benchmarks.task import Prepared, Task, picked, prompt_inputs
from turnmark.evaluation.benchmarks.turns import Parts
from turnmark.evaluation.judging.mtrag import rubrics, un_rubrics
from turnmark.evaluation.judging.rubrics import BERT
from turnmark.evaluation.passages import OFFICIAL_SEARCH, CorpusTexts, is_official, recorded, samples_file
from turnmark.evaluation.records import ContextRef
from turnmark.evaluation.request import EvalRequest
from turnmark.retrieval.types import Retriever

NEEDS_MODEL = "--protocol paper asks a language model by the paper's prompt: add --generator, or leave it out"
SETTINGS = ("reference", *SEARCHING)


def tasks() -> tuple[Task, ...]:
    """The tasks of MTRAG and MTRAG-S."""
    return (
        Task("generation", settings=SETTINGS, open=open_generation, rubrics=rubrics, brought=BERT,
             flags=("query", "queries", "passages", "counterfactual")),
        Task("retrieval", open=open_retrieval, flags=("query", "queries"), read=trec_answers),
    )  # fmt: skip


def un_tasks() -> tuple[Task, ...]:
    """The tasks of MTRAG-UN, in which judges also say whether a reply asks back."""
    generation, retrieval = tasks()
    return replace(generation, rubrics=un_rubrics), retrieval


def open_generation(request: EvalRequest, setting: str | None) -> Prepared:
    """Find the tasks, corpora, queries and lists of a request.

    Raises:
        RequestError: everything that is wrong with it, at once.
    """
    errors = ErrorCollector()
    setting = setting or "reference"
    data, passages, lists = _load(request, setting, errors)
    name, root, domains, tasks = data.benchmark, data.source.root, tuple(data.qrels), data.tasks
    official = passages is not None and is_setting_file(passages, root, name, setting)
    searching = setting in SEARCHING
    corpora: dict[str, Path] = {}
    if searching and (request.scoring or (lists is not None and official)):
        corpora = bench.corpora_there(root, domains)
    elif searching:
        corpora = errors.collect(bench.find_corpora, data, domains) or {}
    mode = request.query or ("file" if request.queries else "assistant")
    asking = searching and not request.scoring and not passages
    queries = _queries(request, mode, data, errors) if asking else None
    relevant = relevant_passages(root, name, domains) if request.counterfactual else Relevant()
    texts = {domain: CorpusTexts(path) for domain, path in corpora.items()}
    if request.counterfactual and not request.scoring and corpora:
        check_hidden(tasks.values(), relevant.passages, texts, errors)
    setting_tasks = {key: task for key, task in tasks.items() if takes_part(task, setting)}
    notes = [
        *bench.problem_notes((*relevant.problems, *(queries.problems if queries else ()))),
        *unasked(queries, mode, setting_tasks),
        *unrecorded(lists, setting_tasks, texts, request.counterfactual, errors),
        *(unread(domains, corpora) if request.scoring and searching else ()),
    ]
    prompts = _prompts(request, errors)
    errors.raise_all()
    corpora_used = {} if official else {domain: bench.corpus_used(domain, path) for domain, path in corpora.items()}

    def build(parts: Parts, retrievers: Mapping[str, Retriever]) -> Mtrag:
        complete = passages is not None and is_official(passages)
        evidence = Evidence(retrievers, texts, queries if mode != "assistant" else None, lists, complete)
        return Mtrag(
            name, setting, tasks.values(), parts, evidence,
            problems=data.problems, relevant=relevant.passages, counterfactual=request.counterfactual,
            prompted=request.protocol == "paper",
        )  # fmt: skip

    query = mode if lists is None else "rewrite" if official else "recorded"
    return Prepared(
        data=data.used({**(queries.files if queries else {}), **relevant.files}), domains=domains, build=build,
        corpora=corpora, corpora_used=corpora_used, searched=searching and not request.scoring and lists is None,
        query=query if searching and not request.scoring else None, found_by=OFFICIAL_SEARCH if official else None,
        inputs=_inputs(request, passages) | prompts, counterfactual=request.counterfactual,
        notes=(*notes, *bench.corpus_notes(corpora_used)),
    )  # fmt: skip


def _load(
    request: EvalRequest, setting: str, errors: ErrorCollector
) -> tuple[bench.RetrievalData, Path | None, Mapping[str, Sequence[ContextRef]] | None]:
    """The tasks of the domains that are asked for; the file with recorded passages, where one is, and what it holds.

    Raises:
        RequestError: there are no tasks.
    """
    name: Name = request.benchmark  # type: ignore[assignment]
    if request.setting is None or request.setting == setting:  # else what is meant is not known
        _check_search_flags(request, setting, errors)
    source = errors.collect(mtrag.locate, request.data)
    loaded = errors.collect(mtrag.load_tasks, source.root, name) if source else None
    passages = None if request.scoring else recorded_file(request, name, setting, source, errors)
    lists = errors.collect(recorded, passages) if passages else None
    if loaded is None and request.query:
        errors.collect(check_mode, request.query, name)
    if source is None or loaded is None:
        raise RequestError(errors.problems)
    domains = errors.collect(picked, sorted({task.domain for task in loaded.data.values()}), request.domains) or ()
    data = bench.RetrievalData(
        benchmark=name, source=source, tasks={key: task for key, task in loaded.data.items() if task.domain in domains},
        qrels={key: {} for key in domains}, problems=loaded.problems, files={"tasks": loaded.path},
    )  # fmt: skip
    return data, passages, lists


def _check_search_flags(request: EvalRequest, setting: str, errors: ErrorCollector) -> None:
    if setting not in SEARCHING:
        for flag in ("query", "queries", "passages"):
            if getattr(request, flag):
                errors.add(f"--{flag}: the setting {setting} searches for nothing; use --setting rag")
    if request.counterfactual and setting != "rag":
        errors.add("--counterfactual hides passages from the index: it needs --setting rag")
    if request.passages and (request.query or request.queries):
        errors.add("--passages answers from a recorded retrieval, so --query and --queries have no use beside it")
    if request.query and request.queries:
        errors.add("--query and --queries name two sources of queries; give one of them")


def _prompts(request: EvalRequest, errors: ErrorCollector) -> dict[str, str]:
    """Hashes of the prompts of the paper's protocol, where it is asked for."""
    if request.protocol != "paper" or request.scoring:
        return {}
    if not request.asks_model:
        errors.add(NEEDS_MODEL)
    if request.steps:
        errors.add("--step is for the steps of the turn, which --protocol paper does without; give one of them")
    return errors.collect(prompt_inputs, (PROMPTS[request.benchmark],), request.prompts) or {}


def _queries(request: EvalRequest, mode: str, data: bench.RetrievalData, errors: ErrorCollector) -> QuerySource | None:
    if request.queries:
        source = errors.collect(read_query_file, request.queries, data)
        if source is not None and source.recorded is not None and source.recorded.keys().isdisjoint(data.tasks):
            n = len(source.recorded)
            errors.add(f"--queries {request.queries.name}: none of its {n} ids is a task of the data")
        return source
    return errors.collect(open_queries, mode, data)


def _inputs(request: EvalRequest, passages: Path | None) -> dict[str, str]:
    files = {"queries": request.queries, "passages": samples_file(passages) if passages else None}
    return {name: file_sha256(file) for name, file in files.items() if file and file.is_file()}
