"""What is known of an MTRAG generation task before anything heavy is loaded: tasks, corpora, queries, lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnmark.corpora import mtrag
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.home import file_sha256
from turnmark.corpora.rows import Source
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks import mtrag_data as bench
from turnmark.evaluation.benchmarks.base import Benchmark
from turnmark.evaluation.benchmarks.mtrag_evidence import Evidence
from turnmark.evaluation.benchmarks.mtrag_generation import Mtrag, takes_part
from turnmark.evaluation.benchmarks.mtrag_queries import QuerySource, check_mode, open_queries, read_query_file
from turnmark.evaluation.benchmarks.prepared import SEARCHING, Prepared, picked, used
from turnmark.evaluation.benchmarks.turns import PASSAGES, Parts
from turnmark.evaluation.passages import OFFICIAL, OFFICIAL_SEARCH, CorpusTexts, is_official, recorded, samples_file
from turnmark.evaluation.records import ContextRef
from turnmark.evaluation.request import EvalRequest
from turnmark.retrieval.types import Retriever

Lists = Mapping[str, Sequence[ContextRef]]


@dataclass(frozen=True)
class _Relevant:
    """Passages labelled relevant by task, and what was read for them."""

    passages: Mapping[str, tuple[str, ...]]
    files: Mapping[str, Path]
    problems: tuple[Problem, ...]


def prepare_mtrag(
    request: EvalRequest, setting: str | None, errors: ErrorCollector, scoring: bool = False
) -> Prepared | None:
    """See `turnmark.evaluation.benchmarks.registry.prepare`, for the MTRAG family."""
    setting = setting or "reference"
    name: mtrag.Benchmark = request.benchmark  # type: ignore[assignment]
    searching = setting in SEARCHING
    if request.setting is None or request.setting == setting:  # else what is meant is not known
        _check_search_flags(request, setting, errors)
    source = errors.collect(mtrag.locate, request.data)
    loaded = errors.collect(mtrag.load_tasks, source.root, name) if source else None
    passages = _passages(request, name, setting, source, errors) if not scoring else None
    recorded_lists = errors.collect(recorded, passages) if passages else None
    official = source is not None and passages is not None and _is_setting_file(passages, source.root, name, setting)
    if source is None or loaded is None:
        if request.query:
            errors.collect(check_mode, request.query, name)
        return None
    known_domains = tuple(sorted({task.domain for task in loaded.data.values()}))
    domains = picked(known_domains, request.domains, errors)
    tasks = {key: task for key, task in loaded.data.items() if task.domain in domains}
    data = bench.RetrievalData(
        benchmark=name, source=source, tasks=tasks, qrels={key: {} for key in domains}, problems=loaded.problems,
        files={"tasks": loaded.path},
    )  # fmt: skip
    corpora: dict[str, Path] = {}
    if searching:
        needed = not scoring and not (recorded_lists is not None and official)
        corpora = _corpora(data, domains, errors) if needed else _corpora_there(source.root, domains)
    mode = request.query or ("file" if request.queries else "assistant")
    asking = searching and not scoring and not passages
    queries = _queries(request, mode, data, errors) if asking else None
    relevant = _relevant(source.root, name, domains) if request.counterfactual else _Relevant({}, {}, ())
    texts = {domain: CorpusTexts(path) for domain, path in corpora.items()}
    if request.counterfactual and not scoring and corpora:
        _check_hidden(tasks.values(), relevant.passages, texts, errors)
    setting_tasks = {key: task for key, task in tasks.items() if takes_part(task, setting)}
    notes = [
        *bench.problem_notes((*relevant.problems, *(queries.problems if queries else ()))),
        *_unasked(queries, mode, setting_tasks),
        *_unrecorded(recorded_lists, setting_tasks, texts, request.counterfactual, errors),
        *_unread(domains, corpora, scoring and searching),
    ]
    prompts = _prompts(request, scoring, errors)
    corpora_used = {} if official else {domain: bench.corpus_used(domain, path) for domain, path in corpora.items()}

    def build(parts: Parts, retrievers: Mapping[str, Retriever]) -> Benchmark[Any]:
        complete = passages is not None and is_official(passages)
        evidence = Evidence(retrievers, texts, queries if mode != "assistant" else None, recorded_lists, complete)
        return Mtrag(
            name, setting, tasks.values(), parts, evidence,
            problems=loaded.problems, relevant=relevant.passages, counterfactual=request.counterfactual,
            prompted=request.protocol == "paper",
        )  # fmt: skip

    return Prepared(
        data=used(source, {**data.files, **(queries.files if queries else {}), **relevant.files}),
        domains=domains,
        build=build,
        corpora=corpora,
        corpora_used=corpora_used,
        searched=searching and not scoring and recorded_lists is None,
        query=(mode if recorded_lists is None else "rewrite" if official else "recorded")
        if searching and not scoring
        else None,
        found_by=OFFICIAL_SEARCH if official else None,
        inputs=_inputs(request, passages) | {f"prompt {name}": content for name, content in prompts.items()},
        counterfactual=request.counterfactual,
        notes=(*notes, *bench.corpus_notes(corpora_used)),
    )


def _passages(
    request: EvalRequest, name: mtrag.Benchmark, setting: str, source: Source | None, errors: ErrorCollector
) -> Path | None:
    """The recorded passages that are answered from; of the clone's own file where it is asked for.

    The paper's protocol takes that file where it is there and no other source of passages is named.
    """
    official = request.passages is not None and str(request.passages) == OFFICIAL
    if request.passages is not None and not official:
        return request.passages
    file = mtrag.setting_file(source.root, name, setting) if source is not None else None
    if official and source is not None and file is None and setting in SEARCHING:
        errors.add(
            f"--passages {OFFICIAL}: expected {mtrag.setting_file_name(name, setting)} in {str(source.root)!r}; point "
            f"--data at a clone of {mtrag.REPOSITORY} that has it, or name a file"
        )
    return file if official or (request.protocol == "paper" and not request.query and not request.queries) else None


def _is_setting_file(path: Path, root: Path, name: mtrag.Benchmark, setting: str) -> bool:
    file = mtrag.setting_file(root, name, setting)
    return file is not None and path.resolve() == file.resolve()


def _prompts(request: EvalRequest, scoring: bool, errors: ErrorCollector) -> dict[str, str]:
    """Prompt -> hash, of those of the paper's protocol, where it is asked for."""
    if request.protocol != "paper" or scoring:
        return {}
    from turnmark.evaluation.benchmarks.mtrag_generation import NEEDS_MODEL, PROMPTS
    from turnmark.evaluation.prompts import prompt_hashes

    if request.generator.startswith("extractive"):
        errors.add(NEEDS_MODEL)
    if request.steps:
        errors.add("--step is for the steps of the turn, which --protocol paper does without; give one of them")
    return errors.collect(prompt_hashes, (PROMPTS[request.benchmark],), request.prompts) or {}


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


def _queries(request: EvalRequest, mode: str, data: bench.RetrievalData, errors: ErrorCollector) -> QuerySource | None:
    if request.queries:
        source = errors.collect(read_query_file, request.queries, data)
        if source is not None and source.recorded is not None and source.recorded.keys().isdisjoint(data.tasks):
            n = len(source.recorded)
            errors.add(f"--queries {request.queries.name}: none of its {n} ids is a task of the data")
        return source
    if errors.collect(check_mode, mode, data.benchmark) is None:
        return None
    return errors.collect(open_queries, mode, data)


def _corpora(data: bench.RetrievalData, domains: Sequence[str], errors: ErrorCollector) -> dict[str, Path]:
    return errors.collect(bench.find_corpora, data, domains) or {}


def _corpora_there(root: Path, domains: Iterable[str]) -> dict[str, Path]:
    corpora = {}
    for domain in domains:
        try:
            corpora[domain] = mtrag.corpus_path(root, domain)
        except RequestError:
            continue
    return corpora


def _relevant(root: Path, name: mtrag.Benchmark, domains: Sequence[str]) -> _Relevant:
    passages: dict[str, tuple[str, ...]] = {}
    files: dict[str, Path] = {}
    problems: list[Problem] = []
    labelled = mtrag.retrieval_domains(root, name)
    for domain in (domain_name for domain_name in domains if domain_name in labelled):
        loaded = mtrag.load_qrels(root, name, domain)
        files[f"qrels/{domain}"] = loaded.path
        problems += loaded.problems
        for query, grades in loaded.data.items():
            passages[query] = tuple(passage for passage, grade in grades.items() if grade > 0)
    return _Relevant(passages, files, tuple(problems))


def _check_hidden(
    tasks: Iterable[mtrag.Task],
    relevant: Mapping[str, tuple[str, ...]],
    texts: Mapping[str, CorpusTexts],
    errors: ErrorCollector,
) -> None:
    """MTRAG-S, for one, names passages of FiQA by hashes that no corpus has: nothing could be hidden."""
    for task in tasks:
        corpus = texts.get(task.domain, ())
        if any(
            name in corpus for name in (*relevant.get(task.id, ()), *(context.document_id for context in task.contexts))
        ):
            return
    errors.add("--counterfactual: no passage of the tasks is in the corpora under its id, so none can be hidden")


def _unasked(queries: QuerySource | None, mode: str, tasks: Mapping[str, mtrag.Task]) -> list[str]:
    """Tasks for which a mode that is recorded has no query: the recorded queries are those of judged tasks alone."""
    if queries is None or queries.recorded is None:
        return []
    lacking = [task for key, task in tasks.items() if key not in queries.recorded]
    if not lacking or mode in ("last-turn", "questions"):  # these are made from the conversation where they lack
        return []
    flag = "--queries" if mode == "file" else f"--query {mode}"
    return [
        f"{flag}: nothing is recorded for {len(lacking)} of {len(tasks)} tasks ({_by_label(lacking)}); they fail, "
        "since a query of another kind would tell an unanswerable task from the others"
    ]


def _unrecorded(
    lists: Lists | None,
    tasks: Mapping[str, mtrag.Task],
    texts: Mapping[str, CorpusTexts],
    hiding: bool,
    errors: ErrorCollector,
) -> list[str]:
    """Tasks without a recorded list, and recorded passages whose text is not known."""
    if lists is None:
        return []
    if lists.keys().isdisjoint(tasks):
        errors.add(f"--passages: none of its {len(lists)} queries is a task of the data")
        return []
    notes = []
    if lacking := [task for key, task in tasks.items() if key not in lists]:
        notes.append(
            f"--passages has no list for {len(lacking)} of {len(tasks)} tasks ({_by_label(lacking)}); they fail, "
            "since no passages would tell an unanswerable task from the others"
        )
    limit = None if hiding else PASSAGES
    references = [(ref, task.domain) for key, task in tasks.items() for ref in lists.get(key, ())[:limit]]
    unknown = sum(ref.text is None and ref.document_id not in texts.get(domain, ()) for ref, domain in references)
    if unknown:
        notes.append(
            f"--passages: {unknown} of {len(references)} passages are not in the corpora here; the next ones of their "
            "lists stand in for them"
        )
    return notes


def _unread(domains: Sequence[str], corpora: Mapping[str, Path], looking: bool) -> list[str]:
    lacking = [domain for domain in domains if domain not in corpora] if looking else []
    return [
        f"{domain}: no corpus in the data; where the predictions do not hold the texts of their passages, "
        "k_precision is not applicable"
        for domain in lacking
    ]


def _by_label(tasks: Iterable[mtrag.Task]) -> str:
    counts = Counter(task.answerability or "no label" for task in tasks)
    return ", ".join(f"{label} {count}" for label, count in sorted(counts.items()))


def _inputs(request: EvalRequest, passages: Path | None) -> dict[str, str]:
    digests = {"queries": file_sha256(request.queries)} if request.queries and request.queries.is_file() else {}
    if passages:
        file = samples_file(passages)
        digests |= {"passages": file_sha256(file)} if file.is_file() else {}
    return digests
