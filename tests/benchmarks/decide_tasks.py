"""What the decide step sees of every task of MTRAG and MTRAG-UN, and which tasks must be held out together.

The turn's own search with the default retriever, and once more with BM25 alone; and for each answerable or partial task
what is left when its relevant passages are hidden. Labels are kept beside the signals and are no part of them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from turnmark.assistant.steps.clarify import unclear
from turnmark.assistant.steps.decide import lacking
from turnmark.assistant.steps.evidence import signals_of
from turnmark.assistant.steps.retrieve import conversation_query
from turnmark.assistant.steps.understand import understand
from turnmark.corpora import mtrag
from turnmark.corpora.rows import Source
from turnmark.corpora.types import Record
from turnmark.evaluation.benchmarks.mtrag_data import load_data
from turnmark.retrieval.build import corpus_index
from turnmark.retrieval.registry import open_retriever
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Hit

BENCHMARKS: tuple[mtrag.Benchmark, ...] = ("mtrag", "mtrag-un")
PASSAGES = 5
FIRST = 3
"""A pair counts where a relevant passage was among so many, as in `hidden.auroc`."""
FORMS = ("all", "no sentences", "words")


class Seen(Record):
    """A task and what the decide step sees of it.

    Attributes:
        group: tasks of one group share a conversation, a first question or the question itself.
        signals: by the name of a form of `FORMS`.
        hidden: the same with relevant passages hidden; empty where there is no such pair.
    """

    id: str
    benchmark: str
    domain: str
    label: str
    group: int = 0
    signals: Mapping[str, Mapping[str, float]]
    hidden: Mapping[str, Mapping[str, float]] = Field(default_factory=dict)
    unclear: bool
    readings: int = 0
    missing: int = 0

    @property
    def unknown(self) -> bool:
        """Whether the documents do not hold the answer."""
        return self.label == "UNANSWERABLE"


def seen(file: Path | None) -> list[Seen]:
    """All tasks but conversational ones; read from `file` where it is there, else made and written to it."""
    if file and file.is_file():
        return [Seen.model_validate(row) for row in json.loads(file.read_text(encoding="utf-8"))]
    source = mtrag.locate(None)
    rows = grouped(source, [row for domain in _domains(source) for row in _of_domain(source, domain)])
    if file:
        file.write_text(json.dumps([row.model_dump(mode="json") for row in rows]), encoding="utf-8")
    return rows


def _tasks(source: Source) -> Iterator[tuple[mtrag.Benchmark, mtrag.Task]]:
    for benchmark in BENCHMARKS:
        for task in mtrag.load_tasks(source.root, benchmark).data.values():
            if task.answerability not in (None, "CONVERSATIONAL"):
                yield benchmark, task


def _domains(source: Source) -> list[str]:
    return list(dict.fromkeys(domain for row in BENCHMARKS for domain in load_data(row, source, ()).qrels))


def _of_domain(source: Source, domain: str) -> Iterator[Seen]:
    index = corpus_index(mtrag.corpus_path(source.root, domain), "conversational")
    ways = {name: open_retriever(name, index) for name in ("conversational", "bm25")}
    qrels = {name: load_data(name, source, (domain,)).qrels[domain] for name in BENCHMARKS}

    def embed(texts: Sequence[str]) -> object:
        return index.embedder.encode(texts, "passage")

    for benchmark, task in _tasks(source):
        if task.domain != domain:
            continue
        relevant = {*qrels[benchmark].get(task.id, ()), *(context.document_id for context in task.contexts)}
        query = conversation_query(task.history, task.question)
        hit_lists = {name: way.search([query], PASSAGES + len(relevant))[0] for name, way in ways.items()}
        yield _seen(benchmark, task, hit_lists, relevant, embed)  # type: ignore[arg-type]


def _seen(
    benchmark: str, task: mtrag.Task, hit_lists: Mapping[str, Sequence[Hit]], relevant: set[str], embed: Embed
) -> Seen:
    texts = list(dict.fromkeys((task.question, understand(task.history, task.question).rewrite)))

    def signals(hidden: set[str]) -> dict[str, dict[str, float]]:
        remaining = {
            name: [hit for hit in hits if hit.passage.id not in hidden][:PASSAGES] for name, hits in hit_lists.items()
        }
        return {
            "all": signals_of(texts, remaining["conversational"], embed),
            "no sentences": signals_of(texts, remaining["conversational"], None),
            "words": signals_of(texts, remaining["bm25"], None),
        }

    hits = hit_lists["conversational"][:PASSAGES]
    pair = task.answerability in ("ANSWERABLE", "PARTIAL") and {hit.passage.id for hit in hits[:FIRST]} & relevant
    open_ = unclear(task.question, task.history, hits, embed)
    sys.stderr.write(f"\r{benchmark} {task.id[:40]:40}")
    return Seen(
        id=task.id,
        benchmark=benchmark,
        domain=task.domain,
        label=task.answerability or "",
        signals=signals(set()),
        hidden=signals(relevant) if pair else {},
        unclear=open_ is not None,
        readings=len(open_.readings) if open_ else 0,
        missing=len(lacking(task.question, task.history, hits)),
    )


def grouped(source: Source, rows: Sequence[Seen]) -> list[Seen]:
    """The tasks with their groups: 15 tasks of MTRAG-UN begin as one of MTRAG does, which gives the other away."""
    tasks = {task.id: task for _, task in _tasks(source)}
    parent: dict[str, str] = {}

    def root(key: str) -> str:
        while parent.setdefault(key, key) != key:
            key = parent[key]
        return key

    for row in rows:
        task = tasks[row.id]
        opening = task.history[0].content if task.history else task.question
        for text in (opening, task.question):
            # "Why?" is asked in conversations that have nothing to do with each other.
            if text is opening or len(text.split()) > FIRST + 1:
                parent[root(" ".join(text.lower().split()))] = root(f"conversation {task.conversation}")
    numbers: dict[str, int] = {}
    return [
        row.model_copy(
            update={"group": numbers.setdefault(root(f"conversation {tasks[row.id].conversation}"), len(numbers))}
        )
        for row in rows
    ]
