"""The statistics of the MTRAG family: Tables 2 and 8 and Figure 2 of the paper, from the files at hand.

Published figures: MTRAG, Tables 2, 4, 8 and 15 and sections 3.2 and 4.4; MTRAG-UN, Tables 1 to 3 (arXiv 2602.23184).
Figure 2 is a picture: how the tasks divide among its dimensions cannot be read from the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import get_args

from turnmark.corpora import mtrag
from turnmark.corpora.errors import RequestError
from turnmark.corpora.readers.beir import read_rows
from turnmark.corpora.rows import Source
from turnmark.corpora.statistics import NOT_RECOVERABLE, Checked, Line, Sheet, counted, length, lengths, mean
from turnmark.corpora.types import Problem, Record

DOMAINS = ("clapnq", "fiqa", "govt", "cloud")
ALL: Mapping[mtrag.Benchmark, tuple[str, ...]] = {
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
_TURN_TYPES = ("Follow-up", "Clarification", "N/A")
_RELEVANT = ("ANSWERABLE", "PARTIAL")
_ONE_A_CONVERSATION = "one task a conversation"


class _Corpus(Record):
    """The passages of a domain."""

    ids: frozenset[str]
    documents: int
    words: float | None
    problems: tuple[Problem, ...]


def check(source: Source) -> Checked:
    """The statistics of everything of the MTRAG family under a root.

    Raises:
        RequestError: a file that is there cannot be opened.
    """
    sheets: list[Sheet] = []
    problems: list[Problem] = []
    missing: list[str] = []
    corpora = _corpora(source.root)
    for corpus in corpora.values():
        problems += corpus.problems
    for benchmark in get_args(mtrag.Benchmark):
        try:
            loaded = mtrag.load_tasks(source.root, benchmark)
        except RequestError:
            missing.append(f"{NAMES[benchmark]}: no tasks")
            continue
        tasks = list(loaded.data.values())
        problems += loaded.problems
        sheets += [_table_8(benchmark, tasks), _figure_2(benchmark, tasks), _sizes(benchmark, tasks)]
        if len(tasks) < TASKS[benchmark]:
            missing.append(f"{NAMES[benchmark]}: {len(tasks):,} of {TASKS[benchmark]:,} tasks")
        missing += [
            f"{NAMES[benchmark]}: no tasks of {domain}"
            for domain in ALL[benchmark]
            if not any(task.domain == domain for task in tasks)
        ]
    labelled: tuple[mtrag.Benchmark, ...] = ("mtrag", "mtrag-un")
    for benchmark in labelled:
        sheet = _retrieval(source.root, benchmark, corpora, problems, missing)
        sheets += [sheet] if sheet.lines else []
    sheets += [_table_2(corpora)] if corpora else []
    missing += _missing_passages(corpora)
    return Checked(
        benchmark="mtrag",
        root=source.root,
        demo=source.demo,
        sheets=tuple(sheets),
        missing=() if source.demo else tuple(missing),
        problems=tuple(problems),
    )


def _here(benchmark: mtrag.Benchmark, tasks: Iterable[mtrag.Task]) -> str:
    found = sorted({task.domain for task in tasks})
    if set(found) == set(ALL[benchmark]):
        return ""
    return f"here: {', '.join(found)}; the published figures are over {', '.join(ALL[benchmark])}"


def _table_8(benchmark: mtrag.Benchmark, tasks: list[mtrag.Task]) -> Sheet:
    paper = _TABLE_8[benchmark]
    by: dict[str, list[mtrag.Task]] = {}
    for task in tasks:
        by.setdefault(task.conversation, []).append(task)
    shown = {name: [context.document_id for task in its for context in task.contexts] for name, its in by.items()}
    relevant = [task for task in tasks if task.answerability in _RELEVANT]
    one = _ONE_A_CONVERSATION if benchmark == "mtrag-un" else ""

    def line(what: str, here: float | None, name: str, note: str = "") -> Line:
        return Line(what=what, here=here, paper=paper.get(name), note=note)

    return Sheet(
        title=f"{NAMES[benchmark]}: conversations and tasks",
        source="MTRAG, Table 8" if benchmark != "mtrag-un" else "the repository's README",
        lines=(
            line("conversations", len(by), "conversations"),
            Line(what="tasks", here=len(tasks), paper=TASKS[benchmark]),
            line("turns a conversation", mean(max(task.turn for task in its) for its in by.values()), "turns", one),
            line("unique passages a conversation", mean(len(set(ids)) for ids in shown.values()), "unique", one),
            line(
                "passages a conversation, in all",
                mean(map(len, shown.values())),
                "total",
                "section 3.2" if "total" in paper else one,
            ),
            *(
                [line("edited responses a conversation", None, "edited", "the tasks do not say what was edited")]
                if "edited" in paper
                else []
            ),
            line("words a question", mean(length(task.question) for task in tasks), "question"),
            line(
                "words a response *",
                mean(length(task.reference) for task in relevant if task.reference),
                "response",
            ),
            line("relevant passages a task *", mean(len(task.contexts) for task in relevant), "relevant"),
        ),
        note="; ".join(filter(None, ["* answerable and partial tasks", _here(benchmark, tasks)])),
    )


def _figure_2(benchmark: mtrag.Benchmark, tasks: list[mtrag.Task]) -> Sheet:
    note = NOT_RECOVERABLE if benchmark == "mtrag" else ""
    conversations = {task.conversation: task.domain for task in tasks}
    lines = [
        *counted(
            conversations.values(),
            DOMAINS,
            CONVERSATIONS if benchmark == "mtrag" else None,
            before="conversations of ",
        ),
        *counted((task.domain for task in tasks), DOMAINS, note=note, before="tasks of "),
        *counted(
            (task.answerability or "no label" for task in tasks),
            get_args(mtrag.Answerability),
            note=note,
            before="answerability ",
        ),
        *counted((kind for task in tasks for kind in task.question_types), note=note, before="question type "),
        *counted((task.multi_turn or "no label" for task in tasks), _TURN_TYPES, note=note, before="multi-turn "),
    ]
    marked = sum(task.standalone is not None for task in tasks)
    return Sheet(
        title=f"{NAMES[benchmark]}: dimensions",
        source="MTRAG, Figure 2; conversations: section 4.4" if benchmark == "mtrag" else "",
        lines=(*lines, Line(what="tasks marked standalone or not", here=marked)),
        note="a task may have several question types",
    )


def _sizes(benchmark: mtrag.Benchmark, tasks: list[mtrag.Task]) -> Sheet:
    return Sheet(
        title=f"{NAMES[benchmark]}: lengths",
        lines=(
            *lengths("question", (task.question for task in tasks)),
            *lengths("reference", (task.reference for task in tasks if task.reference)),
            *lengths("passage shown", (context.text for task in tasks for context in task.contexts)),
            *lengths("conversation before", ("\n".join(m.content for m in task.history) for task in tasks)),
            Line(what="passages a task, mean", here=mean(len(task.contexts) for task in tasks)),
            Line(what="passages a task, most", here=max((len(task.contexts) for task in tasks), default=None)),
            Line(what="tasks without a passage", here=sum(not task.contexts for task in tasks)),
        ),
    )


def _retrieval(
    root: Path,
    benchmark: mtrag.Benchmark,
    corpora: Mapping[str, _Corpus],
    problems: list[Problem],
    missing: list[str],
) -> Sheet:
    """Queries and labels by domain; what is wrong and what is not there is added to the two lists."""
    lines: list[Line] = []
    there = mtrag.retrieval_domains(root, benchmark)
    missing += [
        f"{NAMES[benchmark]}: no relevance labels of {domain}" for domain in ALL[benchmark] if domain not in there
    ]
    for domain in there:
        labels = mtrag.load_qrels(root, benchmark, domain)
        problems += labels.problems
        paper = QUERIES.get(domain) if benchmark == "mtrag" else None
        note = {"govt": "Table 15: 203", "cloud": "Table 15: 189"}.get(domain, "") if paper else ""
        pairs = [passage for grades in labels.data.values() for passage in grades]
        lines += [
            Line(what=f"{domain}: queries with labels", here=len(labels.data), paper=paper, note=note),
            Line(what=f"{domain}: relevant passages a query", here=mean(map(len, labels.data.values()))),
        ]
        if domain in corpora:
            lost = sum(passage not in corpora[domain].ids for passage in pairs)
            lines.append(Line(what=f"{domain}: labels of passages that are not here", here=lost))
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
        yield Line(what=f"{domain}: recorded queries, {mode}", here=len(queries.data), note=note)


def _corpora(root: Path) -> dict[str, _Corpus]:
    names = {path.name.split(".")[0] for path in (root / "corpora/passage_level").glob("*.jsonl*")}
    order = [*DOMAINS, *sorted(names - set(DOMAINS))]
    found = {}
    for domain in order:
        if domain in names and re.fullmatch(r"[a-z0-9]+", domain):
            found[domain] = _corpus(root, domain)
    return found


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
        counted_by = "counted by passage ids" if corpus else note
        lines += [
            Line(what=f"{domain}: documents", here=corpus and corpus.documents, paper=documents, note=counted_by),
            Line(what=f"{domain}: passages", here=len(corpus.ids) if corpus else None, paper=passages, note=note),
            Line(
                what=f"{domain}: passages a document",
                here=len(corpus.ids) / corpus.documents if corpus and corpus.documents else None,
                paper=round(passages / documents, 1) if passages and documents else None,
            ),
            *([Line(what=f"{domain}: words a passage", here=corpus.words)] if corpus else []),
        ]
    return Sheet(
        title="Corpora, passage level", source="MTRAG, Table 2; banking, telco: MTRAG-UN, Table 1", lines=tuple(lines)
    )


def _missing_passages(corpora: Mapping[str, _Corpus]) -> list[str]:
    found = [f"corpora: no passages of {domain}" for domain in DOMAINS if domain not in corpora]
    for domain, corpus in corpora.items():
        whole = PASSAGES.get(domain, 0)
        if len(corpus.ids) < whole:
            found.append(f"corpora: {len(corpus.ids):,} of {whole:,} passages of {domain}")
    return found
