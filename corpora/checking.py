"""What a folder of benchmark data holds, benchmark by benchmark; and the figures of the MTRAG family.

Published figures: MTRAG, Tables 2, 4, 8 and 15 and sections 3.2 and 4.4; MTRAG-UN, Tables 1 to 3 (arXiv 2602.23184).
Figure 2 is a picture: how the tasks divide among its dimensions cannot be read from the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import get_args

from turnmark.corpora import compound_qa, inscoqa, kiwi, mtrag
from turnmark.corpora.errors import RequestError
from turnmark.corpora.readers import read_rows
from turnmark.corpora.rows import Source
from turnmark.corpora.statistics import (
    Checked,
    Line,
    Sheet,
    check_compound_qa,
    check_inscoqa,
    check_kiwi,
    checked,
    counted,
    length,
    line,
    mean,
)
from turnmark.corpora.types import Problem, Record

DOMAINS = ("clapnq", "fiqa", "govt", "cloud")
COMPLETE: Mapping[mtrag.Benchmark, tuple[str, ...]] = {
    "mtrag": DOMAINS,
    "mtrag-un": (*DOMAINS, "banking", "telco"),
    "mtrag-s": DOMAINS,
}
"""The domains of a complete copy. MTRAG-UN's last two were announced and not yet in the repository when it was read."""
MODES: tuple[mtrag.Mode, ...] = ("last-turn", "rewrite", "questions")
NAMES: Mapping[mtrag.Benchmark, str] = {"mtrag": "MTRAG", "mtrag-un": "MTRAG-UN", "mtrag-s": "MTRAG-S"}
CONVERSATIONS = {"clapnq": 29, "fiqa": 27, "govt": 28, "cloud": 26}
"""Section 4.4."""
TASKS: Mapping[mtrag.Benchmark, int] = {"mtrag": 842, "mtrag-un": 666, "mtrag-s": 1181}
"""Table 8; MTRAG-UN: the repository's README."""
QUERIES = {"clapnq": 208, "fiqa": 180, "govt": 201, "cloud": 188}
"""Table 4; Table 15 has 203 and 189 for the last two, and 780 instead of 777 for all."""
DOCUMENTS = {"clapnq": 4293, "fiqa": 57638, "govt": 7661, "cloud": 8578, "banking": 4497, "telco": 4616}
PASSAGES = {**mtrag.FULL_PASSAGES, "banking": 33380, "telco": 52350}
"""Table 2; banking and telco: the repository's README of MTRAG-UN."""

_TABLE_8: Mapping[mtrag.Benchmark, Mapping[str, float]] = {
    "mtrag": {
        "turns": 7.7, "unique": 16.9, "edited": 7.3, "question": 8.6, "response": 97.2, "relevant": 2.8,
        "conversations": 110, "total": 20.9,
    },
    "mtrag-s": {
        "turns": 5.9, "unique": 4.6, "question": 13.7, "response": 72.4, "relevant": 4.1, "conversations": 200,
    },
    "mtrag-un": {"conversations": 666},
}  # fmt: skip
_RELEVANT = ("ANSWERABLE", "PARTIAL")
_ONE_A_CONVERSATION = "one task a conversation"


class _Corpus(Record):
    """The passages of a domain."""

    ids: frozenset[str]
    documents: int
    words: float | None
    problems: tuple[Problem, ...]


def check_mtrag(source: Source) -> Checked:
    """The statistics of everything of the MTRAG family under a root.

    Raises:
        RequestError: a file that is there cannot be opened.
    """
    sheets: list[Sheet] = []
    missing: list[str] = []
    corpora = _corpora(source.root)
    problems = [problem for corpus in corpora.values() for problem in corpus.problems]
    for benchmark in get_args(mtrag.Benchmark):
        try:
            loaded = mtrag.load_tasks(source.root, benchmark)
        except RequestError:
            missing.append(f"{NAMES[benchmark]}: no tasks")
            continue
        tasks = list(loaded.data.values())
        problems += loaded.problems
        sheets += [_table_8(benchmark, tasks), _figure_2(benchmark, tasks)]
        if len(tasks) < TASKS[benchmark]:
            missing.append(f"{NAMES[benchmark]}: {len(tasks):,} of {TASKS[benchmark]:,} tasks")
        domains = {task.domain for task in tasks}
        missing += [f"{NAMES[benchmark]}: no tasks of {name}" for name in COMPLETE[benchmark] if name not in domains]
    labelled: tuple[mtrag.Benchmark, ...] = ("mtrag", "mtrag-un")
    for benchmark in labelled:
        sheet = _retrieval(source.root, benchmark, corpora, problems, missing)
        sheets += [sheet] if sheet.lines else []
    sheets += [_table_2(corpora)] if corpora else []
    missing += _missing_passages(corpora)
    return checked("mtrag", source, sheets, missing, problems)


def _here(benchmark: mtrag.Benchmark, tasks: Iterable[mtrag.Task]) -> str:
    domains = sorted({task.domain for task in tasks})
    if set(domains) == set(COMPLETE[benchmark]):
        return ""
    return f"here: {', '.join(domains)}; the published figures are over {', '.join(COMPLETE[benchmark])}"


def _table_8(benchmark: mtrag.Benchmark, tasks: list[mtrag.Task]) -> Sheet:
    paper = _TABLE_8[benchmark]
    conversations: dict[str, list[mtrag.Task]] = {}
    for task in tasks:
        conversations.setdefault(task.conversation, []).append(task)
    passages = [
        [context.document_id for task in turns for context in task.contexts] for turns in conversations.values()
    ]
    relevant = [task for task in tasks if task.answerability in _RELEVANT]
    note_of_un = _ONE_A_CONVERSATION if benchmark == "mtrag-un" else ""
    total_note = "section 3.2" if "total" in paper else note_of_un
    turns_each = mean(max(task.turn for task in turns) for turns in conversations.values())
    words_each = mean(length(task.reference) for task in relevant if task.reference)
    figures: list[tuple[str, float | None, str, str]] = [
        ("conversations", len(conversations), "conversations", ""),
        ("tasks", len(tasks), "tasks", ""),
        ("turns a conversation", turns_each, "turns", note_of_un),
        ("unique passages a conversation", mean(len(set(ids)) for ids in passages), "unique", note_of_un),
        ("passages a conversation, in all", mean(map(len, passages)), "total", total_note),
        ("edited responses a conversation", None, "edited", "the tasks do not say what was edited"),
        ("words a question", mean(length(task.question) for task in tasks), "question", ""),
        ("words a response *", words_each, "response", ""),
        ("relevant passages a task *", mean(len(task.contexts) for task in relevant), "relevant", ""),
    ]  # fmt: skip
    published = {**paper, "tasks": TASKS[benchmark]}
    return Sheet(
        title=f"{NAMES[benchmark]}: conversations and tasks",
        source="MTRAG, Table 8" if benchmark != "mtrag-un" else "the repository's README",
        lines=tuple(
            line(label, value, published.get(key), note)
            for label, value, key, note in figures
            if key != "edited" or key in paper
        ),
        note="; ".join(filter(None, ["* answerable and partial tasks", _here(benchmark, tasks)])),
    )


def _figure_2(benchmark: mtrag.Benchmark, tasks: list[mtrag.Task]) -> Sheet:
    is_mtrag = benchmark == "mtrag"
    domains = {task.conversation: task.domain for task in tasks}
    return Sheet(
        title=f"{NAMES[benchmark]}: dimensions",
        source="conversations: MTRAG, section 4.4; Figure 2 is a picture" if is_mtrag else "",
        lines=(
            *counted("conversations of", domains.values(), CONVERSATIONS if is_mtrag else None),
            *counted("answerability", (task.answerability or "no label" for task in tasks)),
            *counted("question type", (kind for task in tasks for kind in task.question_types)),
            *counted("multi-turn", (task.multi_turn or "no label" for task in tasks)),
        ),
        note="a task may have several question types",
    )


def _retrieval(
    root: Path, benchmark: mtrag.Benchmark, corpora: Mapping[str, _Corpus], problems: list[Problem], missing: list[str]
) -> Sheet:
    """Queries and labels by domain; what is wrong and what is not there is added to the two lists."""
    lines: list[Line] = []
    domains = mtrag.retrieval_domains(root, benchmark)
    missing += [
        f"{NAMES[benchmark]}: no relevance labels of {name}" for name in COMPLETE[benchmark] if name not in domains
    ]
    for domain in domains:
        labels = mtrag.load_qrels(root, benchmark, domain)
        problems += labels.problems
        paper = QUERIES.get(domain) if benchmark == "mtrag" else None
        note = {"govt": "Table 15: 203", "cloud": "Table 15: 189"}.get(domain, "") if paper else ""
        lines += [
            line(f"{domain}: queries with labels", len(labels.data), paper, note),
            line(f"{domain}: relevant passages a query", mean(map(len, labels.data.values()))),
        ]
        if domain in corpora:
            missing_labels = sum(
                passage not in corpora[domain].ids for grades in labels.data.values() for passage in grades
            )
            lines.append(line(f"{domain}: labels of passages that are not here", missing_labels))
        if benchmark == "mtrag":
            lines += _recorded(root, domain, set(labels.data), problems, missing)
    return Sheet(
        title=f"{NAMES[benchmark]}: queries and relevance labels",
        source="MTRAG, Table 4" if benchmark == "mtrag" else "",
        lines=tuple(lines),
    )


def _recorded(
    root: Path, domain: str, labelled: set[str], problems: list[Problem], missing: list[str]
) -> Iterable[Line]:
    for mode in MODES:
        try:
            queries = mtrag.load_queries(root, domain, mode)
        except RequestError:
            missing.append(f"MTRAG: no recorded queries ({mode}) of {domain}")
            continue
        problems += queries.problems
        without = len(labelled - queries.data.keys())
        note = f"{without} queries with labels are not among them" if without else ""
        yield line(f"{domain}: recorded queries, {mode}", len(queries.data), note=note)


def _corpora(root: Path) -> dict[str, _Corpus]:
    names = {path.name.split(".")[0] for path in (root / "corpora/passage_level").glob("*.jsonl*")}
    order = [*DOMAINS, *sorted(names - set(DOMAINS))]
    return {domain: _corpus(root, domain) for domain in order if domain in names and re.fullmatch(r"[a-z0-9]+", domain)}


def _corpus(root: Path, domain: str) -> _Corpus:
    path = mtrag.corpus_path(root, domain)
    ids: list[str] = []
    words = 0
    problems: list[Problem] = []
    for item in read_rows(path):
        if isinstance(item, Problem):
            problems.append(item.model_copy(update={"file": f"corpora/passage_level/{path.name}"}))
        else:
            ids.append(item.id)
            words += length(item.text)
    return _Corpus(
        ids=frozenset(ids),
        documents=len(set(map(document_of, ids))),
        words=words / len(ids) if ids else None,
        problems=tuple(problems),
    )


def document_of(passage: str) -> str:
    """The document that a passage id was cut from.

    ClapNQ's ids are `<page>_<from>-<to>-<start>-<end>`, the others' `<id>-<start>-<end>`.
    An id of another form is a document of its own.
    """
    return re.sub(r"_[0-9]+-[0-9]+$", "", re.sub(r"-[0-9]+-[0-9]+$", "", passage))


def _table_2(corpora: Mapping[str, _Corpus]) -> Sheet:
    """Every corpus of the paper, those that are not here with the printed figures alone, and any other."""
    lines: list[Line] = []
    for domain in dict.fromkeys((*PASSAGES, *corpora)):
        corpus, passages, documents = corpora.get(domain), PASSAGES.get(domain), DOCUMENTS.get(domain)
        note = "not here" if corpus is None else "a part" if passages and len(corpus.ids) < passages else ""
        passages_each = len(corpus.ids) / corpus.documents if corpus and corpus.documents else None
        paper = round(passages / documents, 1) if passages and documents else None
        lines += [
            line(
                f"{domain}: documents",
                corpus.documents if corpus else None,
                documents,
                "counted by passage ids" if corpus else note,
            ),
            line(f"{domain}: passages", len(corpus.ids) if corpus else None, passages, note),
            line(f"{domain}: passages a document", passages_each, paper),
            *([line(f"{domain}: words a passage", corpus.words)] if corpus else []),
        ]
    return Sheet(
        title="Corpora, passage level", source="MTRAG, Table 2; banking, telco: MTRAG-UN, Table 1", lines=tuple(lines)
    )


def _missing_passages(corpora: Mapping[str, _Corpus]) -> Iterator[str]:
    yield from (f"corpora: no passages of {domain}" for domain in DOMAINS if domain not in corpora)
    for domain, corpus in corpora.items():
        expected = PASSAGES.get(domain, 0)
        if len(corpus.ids) < expected:
            yield f"corpora: {len(corpus.ids):,} of {expected:,} passages of {domain}"


# --- all benchmarks

_BENCHMARKS: Mapping[str, tuple[Callable[[Path | None], Source], Callable[[Source], Checked]]] = {
    "mtrag": (mtrag.locate, check_mtrag),
    "inscoqa": (inscoqa.locate, check_inscoqa),
    "compound-qa": (compound_qa.locate, check_compound_qa),
    "kiwi": (kiwi.locate, check_kiwi),
}


def located(folder: Path) -> dict[str, Source]:
    """The benchmarks that a folder is, or has as children, and where.

    Raises:
        RequestError: there is none; what each of them would need.
    """
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
    return sources


def check(folder: Path) -> tuple[Checked, ...]:
    """The statistics of every benchmark in a folder, in the order mtrag, inscoqa, compound-qa, kiwi.

    Raises:
        RequestError: there is none, or a file that is there cannot be opened.
    """
    return tuple(_BENCHMARKS[name][1](source) for name, source in located(folder).items())
