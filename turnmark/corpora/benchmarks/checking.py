"""Checks a folder of benchmark data.

Its statistics are compared with those of the papers (`printed.json`). What is missing from a complete copy and each row
that cannot be read are listed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import get_args

from pydantic import Field

from turnmark.core.errors import RequestError
from turnmark.core.grouping import group_pairs
from turnmark.core.record import Record
from turnmark.corpora.benchmarks import compound_qa, inscoqa, kiwi, mtrag
from turnmark.corpora.jsonl_rows import Source
from turnmark.corpora.readers import read_rows
from turnmark.corpora.text.segmentation import count_words
from turnmark.corpora.types import Problem

PUBLISHED_STATISTICS = json.loads(Path(__file__).with_name("printed.json").read_text(encoding="utf-8"))
"""Benchmark -> source and published figures by name. MTRAG's Tables 4 and 15 differ in their numbers of queries."""
DOMAINS = ("clapnq", "fiqa", "govt", "cloud")
COMPLETE_DOMAINS: Mapping[mtrag.Benchmark, tuple[str, ...]] = {
    "mtrag": DOMAINS,
    "mtrag-un": (*DOMAINS, "banking", "telco"),
    "mtrag-s": DOMAINS,
}
"""The domains of a complete copy. MTRAG-UN's last two were announced, but not yet in its repository."""
QUERY_MODES: tuple[mtrag.Mode, ...] = ("last-turn", "rewrite", "questions")
BENCHMARK_NAMES: Mapping[mtrag.Benchmark, str] = {"mtrag": "MTRAG", "mtrag-un": "MTRAG-UN", "mtrag-s": "MTRAG-S"}

StatisticValues = dict[str, float | None]
"""Name of a figure -> its value here, or None if the files do not give it."""


class DataStatistic(Record):
    """One figure of the data, as counted here and as published."""

    what: str
    here: int | float | None = Field(description="None: the files do not give it")
    paper: int | float | None = Field(default=None, description="None: not published as a number")


class DataCheck(Record):
    """The result of checking one benchmark in a folder."""

    benchmark: str
    root: Path
    demo: bool = Field(description="True: the split that ships with Turnmark")
    source: str = Field(description="where the published figures are printed")
    figures: tuple[DataStatistic, ...]
    missing: tuple[str, ...] = Field(default=(), description="what is missing from a complete copy")
    problems: tuple[Problem, ...] = Field(default=(), description="rows and files that cannot be read")


def _compare(
    benchmark: str, source: Source, values: StatisticValues, missing: Iterable[str], problems: Iterable[Problem]
) -> DataCheck:
    """Return the figures of a benchmark, each next to the paper's. For a demo split nothing counts as missing."""
    printed = PUBLISHED_STATISTICS[benchmark]
    return DataCheck(
        benchmark=benchmark,
        root=source.root,
        demo=source.demo,
        source=printed["source"],
        figures=tuple(
            DataStatistic(what=name, here=value, paper=printed["figures"].get(name)) for name, value in values.items()
        ),
        missing=() if source.demo else tuple(missing),
        problems=tuple(problems),
    )


def list_deviations(benchmark: str, values: StatisticValues, names: Iterable[str]) -> list[str]:
    """Return the figures that differ from the published ones, e.g. `turns 12, published 1,260`.

    Args:
        values: the figures by name, as in `printed.json`.
        names: the figures to compare.
    """
    differing = []
    for name in names:
        here, printed = values.get(name), PUBLISHED_STATISTICS[benchmark]["figures"][name]
        digits = len(str(printed).partition(".")[2])
        if here is None or round(here, digits) != printed:
            differing.append(
                f"{name} {'unknown' if here is None else f'{round(here, digits):,}'}, published {printed:,}"
            )
    return differing


def _mean(values: Iterable[int]) -> float | None:
    numbers = list(values)
    return fmean(numbers) if numbers else None


# --- the MTRAG family


def check_mtrag(source: Source) -> DataCheck:
    """Check all data of the MTRAG family under a root."""
    values: StatisticValues = {}
    missing: list[str] = []
    problems: list[Problem] = []
    domains_of: dict[mtrag.Benchmark, set[str]] = {}
    for benchmark in get_args(mtrag.Benchmark):
        try:
            loaded = mtrag.load_tasks(source.root, benchmark)
        except RequestError:
            missing.append(f"{BENCHMARK_NAMES[benchmark]}: no tasks")
            continue
        tasks = list(loaded.data.values())
        problems += loaded.problems
        values |= {f"{BENCHMARK_NAMES[benchmark]}: {name}": value for name, value in _table_8(tasks).items()}
        total = PUBLISHED_STATISTICS["mtrag"]["figures"][f"{BENCHMARK_NAMES[benchmark]}: tasks"]
        if len(tasks) < total:
            missing.append(f"{BENCHMARK_NAMES[benchmark]}: {len(tasks):,} of {total:,} tasks")
        domains_of[benchmark] = {task.domain for task in tasks}
        missing += [
            f"{BENCHMARK_NAMES[benchmark]}: no tasks of {name}"
            for name in COMPLETE_DOMAINS[benchmark]
            if name not in domains_of[benchmark]
        ]
    passages = _check_passages(source.root, values, missing, problems)
    for labeled in ("mtrag", "mtrag-un"):
        _check_retrieval(source.root, labeled, passages, values, missing, problems)
    if "mtrag" not in domains_of and set[str]().union(*domains_of.values()).isdisjoint(COMPLETE_DOMAINS["mtrag-un"]):
        missing = []  # questions of one's own, in MTRAG's layout
    return _compare("mtrag", source, values, missing, problems)


def _table_8(tasks: Sequence[mtrag.MtragTask]) -> StatisticValues:
    """Return MTRAG's Table 8; responses and relevant passages are those of answerable and partial tasks."""
    conversations = group_pairs((task.conversation, task) for task in tasks)
    passages = [
        [context.document_id for task in turns for context in task.contexts] for turns in conversations.values()
    ]
    relevant = [task for task in tasks if task.answerability in ("ANSWERABLE", "PARTIAL")]
    by_domain = Counter(turns[0].domain for turns in conversations.values())
    return {
        "conversations": len(conversations),
        "tasks": len(tasks),
        "turns a conversation": _mean(max(task.turn for task in turns) for turns in conversations.values()),
        "unique passages a conversation": _mean(len(set(ids)) for ids in passages),
        "passages a conversation": _mean(map(len, passages)),
        "words a question": _mean(count_words(task.question) for task in tasks),
        "words a response": _mean(count_words(task.reference) for task in relevant if task.reference),
        "relevant passages a task": _mean(len(task.contexts) for task in relevant),
        **{f"conversations of {domain}": count for domain, count in by_domain.items()},
    }


def _check_retrieval(
    root: Path,
    benchmark: mtrag.Benchmark,
    passages: Mapping[str, set[str]],
    values: StatisticValues,
    missing: list[str],
    problems: list[Problem],
) -> None:
    """Add the number of queries and labels of each domain, and what is missing or cannot be read.

    Args:
        passages: domain -> the ids of its corpus.
    """
    name, domains = BENCHMARK_NAMES[benchmark], mtrag.retrieval_domains(root, benchmark)
    missing += [
        f"{name}: no relevance labels of {domain}" for domain in COMPLETE_DOMAINS[benchmark] if domain not in domains
    ]
    for domain in domains:
        labels = mtrag.load_qrels(root, benchmark, domain)
        problems += labels.problems
        values[f"{name}: queries with labels, {domain}"] = len(labels.data)
        labeled = mtrag.labeled_passages(labels.data)
        absent = labeled - passages[domain] if domain in passages else set()
        if absent:
            missing.append(
                f"{name}: {len(absent):,} of {len(labeled):,} labeled passages of {domain} are not in its corpus, such "
                f"as {min(absent)!r}"
            )
        for mode in QUERY_MODES if benchmark == "mtrag" else ():
            try:
                queries = mtrag.load_queries(root, domain, mode)
            except RequestError:
                missing.append(f"MTRAG: no recorded queries ({mode}) of {domain}")
                continue
            problems += queries.problems
            values[f"MTRAG: recorded queries ({mode}), {domain}"] = len(queries.data)


def _check_passages(
    root: Path, values: StatisticValues, missing: list[str], problems: list[Problem]
) -> dict[str, set[str]]:
    """Count the documents and passages in each corpus; return domain -> ids of its passages."""
    ids_of_domain: dict[str, set[str]] = {}
    names = {path.name.split(".")[0] for path in (root / "corpora/passage_level").glob("*.jsonl*")}
    missing += [f"corpora: no passages of {domain}" for domain in DOMAINS if domain not in names]
    for domain in sorted(names, key=[*DOMAINS, *sorted(names)].index):
        if not re.fullmatch(r"[a-z0-9]+", domain):
            continue
        path = mtrag.corpus_path(root, domain)
        ids: set[str] = set()
        for item in read_rows(path):
            if isinstance(item, Problem):
                problems.append(item.model_copy(update={"file": f"corpora/passage_level/{path.name}"}))
            else:
                ids.add(item.id)
        values[f"{domain}: documents"] = len(set(map(document_of, ids)))
        values[f"{domain}: passages"] = len(ids)
        ids_of_domain[domain] = ids
        expected = PUBLISHED_STATISTICS["mtrag"]["figures"].get(f"{domain}: passages", 0)
        if len(ids) < expected:
            missing.append(f"corpora: {len(ids):,} of {expected:,} passages of {domain}")
    return ids_of_domain


def document_of(passage: str) -> str:
    """Return the document id of a passage id: ClapNQ's ids are `<page>_<from>-<to>-<start>-<end>`, the others
    `<id>-<start>-<end>`.
    """
    return re.sub(r"_[0-9]+-[0-9]+$", "", re.sub(r"-[0-9]+-[0-9]+$", "", passage))


# --- the others


def check_inscoqa(source: Source) -> DataCheck:
    """Return InsCoQA's Tables 1 and 2, without token counts, because the paper does not name the tokenizer."""
    loaded = {split: inscoqa.load_tasks(source.root, split) for split in inscoqa.splits(source.root)}
    values: StatisticValues = {}
    for split, part in loaded.items():
        values |= count_inscoqa(split, list(part.data.values()))
    by_domain = group_pairs((task.domain, task) for part in loaded.values() for task in part.data.values())
    everything = [task for tasks in by_domain.values() for task in tasks]
    for domain, tasks in {**dict(sorted(by_domain.items())), "all domains": everything}.items():
        values |= {
            f"{domain}: documents a sample": _mean(len(task.documents) for task in tasks),
            f"{domain}: words of a sample's documents": _mean(
                sum(count_words(document.text) for document in task.documents) for task in tasks
            ),
            f"{domain}: rounds": _mean(task.rounds for task in tasks),
            f"{domain}: steps a procedure": _mean(len(task.procedure) for task in tasks),
        }
    missing = [f"no {split}.jsonl" for split in get_args(inscoqa.Split) if split not in loaded]
    problems = [problem for part in loaded.values() for problem in part.problems]
    return _compare("inscoqa", source, values, missing, problems)


def count_inscoqa(split: str, tasks: Sequence[inscoqa.InscoqaTask]) -> StatisticValues:
    """Return the figures of a split in Table 1."""
    counts = {
        "documents a sample": [len(task.documents) for task in tasks],
        "words a document": [count_words(document.text) for task in tasks for document in task.documents],
        "words a procedure": [count_words(" ".join(task.procedure)) for task in tasks],
        "steps a procedure": [len(task.procedure) for task in tasks],
    }
    values: StatisticValues = {"samples": len(tasks)}
    for label, numbers in counts.items():
        values[f"{label}, min"] = min(numbers, default=None)
        values[f"{label}, max"] = max(numbers, default=None)
        values[f"{label}, mean"] = _mean(numbers)
    return {f"{split}: {name}": value for name, value in values.items()}


def check_compound_qa(source: Source) -> DataCheck:
    """Return the number of Compound-QA's questions by capability and type.

    For some types, the repository contains more questions than the paper.
    """
    loaded = compound_qa.load_tasks(source.root)
    tasks = list(loaded.data.values())
    counts = Counter(f"{task.capability} {task.type}" for task in tasks)
    pairs = [name for name in PUBLISHED_STATISTICS["compound-qa"]["figures"] if name != "questions"]
    there = {f"{file.capability} {file.type}" for file in compound_qa.files(source.root)}
    values: StatisticValues = {"questions": len(tasks), **{pair: counts[pair] for pair in pairs if pair in there}}
    missing = [f"no file {pair}" for pair in pairs if pair not in there]
    return _compare("compound-qa", source, values, missing, loaded.problems)


def check_kiwi(source: Source) -> DataCheck:
    """Return the figures of KIWI's Table 2."""
    loaded = kiwi.load_sessions(source.root)
    printed = PUBLISHED_STATISTICS["kiwi"]["figures"]["sessions"]
    missing = [f"{len(loaded.data)} of {printed} sessions"] if len(loaded.data) < printed else []
    if kiwi.load_papers(source.root) is None:
        missing.append("no longform_sciqa.jsonl, the questions' cited papers")
    values = count_kiwi(loaded.data, () if source.demo else kiwi.MODELS)
    return _compare("kiwi", source, values, missing, loaded.problems)


def count_kiwi(sessions: Sequence[kiwi.Session], models: Iterable[str] = kiwi.MODELS) -> StatisticValues:
    """Return the figures of Table 2, in total and by model.

    Args:
        models: models that are listed even if they have no session.
    """
    by_model = group_pairs((kiwi.model_name(session.model), session) for session in sessions)
    values: StatisticValues = {"sessions": len(sessions), **_count_turns(sessions)}
    for name in dict.fromkeys([*models, *by_model]):
        values |= {f"{name}: {label}": value for label, value in _count_turns(by_model.get(name, [])).items()}
    return values


def _count_turns(sessions: Sequence[kiwi.Session]) -> StatisticValues:
    turns = [turn for session in sessions for turn in session.turns]
    seeking = _mean(turn.coarse == "information-seeking" for turn in turns if turn.coarse is not None)
    return {
        "turns": len(turns),
        "edited turns": sum(turn.edit is not None for turn in turns),
        "turns a session": _mean(len(session.turns) for session in sessions),
        "information-seeking, % of turns": None if seeking is None else 100 * seeking,
    }


# --- a folder

_BENCHMARKS: Mapping[str, tuple[Callable[[Path | None], Source], Callable[[Source], DataCheck]]] = {
    "mtrag": (mtrag.locate, check_mtrag),
    "inscoqa": (inscoqa.locate, check_inscoqa),
    "compound-qa": (compound_qa.locate, check_compound_qa),
    "kiwi": (kiwi.locate, check_kiwi),
}


def check_folders(folder: Path) -> Iterator[DataCheck]:
    """Check every benchmark in a folder, or in its children, in the order mtrag, inscoqa, compound-qa, kiwi."""
    if folder.is_file():
        raise RequestError(f"{str(folder)!r} is a file; unpack it, and name the folder")
    sources: dict[str, Source] = {}
    problems: list[str] = []
    for name, (locate, _) in _BENCHMARKS.items():
        try:
            sources[name] = locate(folder)
        except RequestError as error:
            problems += [problem.replace("--data: ", f"{name}: ", 1) for problem in error.problems]
    if not sources:
        raise RequestError(problems if folder.exists() else f"{str(folder)!r} is no folder")
    return (_BENCHMARKS[name][1](source) for name, source in sources.items())
