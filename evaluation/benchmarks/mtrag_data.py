"""The data of MTRAG runs: tasks, relevance labels, corpora, and the queries of every mode."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from turnmark.assistant.steps.understand_llm import MINIMAL
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.record import Record
from turnmark.corpora import mtrag
from turnmark.corpora.rows import RecordedQuery, Source, read_recorded
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.benchmarks.task import choose_domains
from turnmark.evaluation.records import CorpusUsed, DataUsed
from turnmark.evaluation.runs.rundir import fingerprint
from turnmark.retrieval.types import Query

NEARLY_ALL = 0.99
"""A corpus with this share of the published passages counts as the full one."""
SHOWN_PROBLEMS = 20
STANDALONE = ("standalone", "non-standalone")
"""Values of the dimension `standalone`."""
DEMO_NOTE = (
    "demo data: a small split that ships with Turnmark; its figures show that everything works and say nothing about "
    "quality (--data points at the real benchmark)"
)


class MtragData(Record):
    """Tasks, relevance labels and what could not be read, for the domains of a run."""

    benchmark: mtrag.Benchmark
    source: Source
    tasks: Mapping[str, mtrag.Task]
    qrels: Mapping[str, Mapping[str, Mapping[str, int]]]
    problems: tuple[Problem, ...]
    files: Mapping[str, Path]

    def used(self, other_files: Mapping[str, Path] | None = None) -> DataUsed:
        """Which data it is, `other_files` being further files that were read."""
        return DataUsed(
            name=self.source.name, demo=self.source.demo, fingerprint=fingerprint({**self.files, **(other_files or {})})
        )


def labelled_domains(benchmark: mtrag.Benchmark, source: Source) -> tuple[str, ...]:
    """The domains with relevance labels, sorted."""
    domains = mtrag.retrieval_domains(source.root, benchmark)
    if not domains:
        if benchmark == "mtrag-s":
            mtrag.load_qrels(source.root, benchmark, "clapnq")
        human = "mtrag-human/retrieval_tasks/<domain>/qrels/dev.tsv"
        expected = human if benchmark == "mtrag" else "mtragun-human/retrieval_tasks/qrels/<domain>.tsv"
        raise RequestError(
            f"{benchmark}: no relevance labels; expected {expected} in {str(source.root)!r}; "
            f"point --data at a clone of {mtrag.REPOSITORY} that has them"
        )
    return domains


def load_data(benchmark: mtrag.Benchmark, source: Source, domains: Sequence[str]) -> MtragData:
    """Load tasks and relevance labels of some domains, in the order of the data; of all if none is named."""
    problems: list[Problem] = []
    files: dict[str, Path] = {}
    tasks: Mapping[str, mtrag.Task] = {}
    try:
        loaded_tasks = mtrag.load_tasks(source.root, benchmark)
    except RequestError as error:
        # Part of a clone: labels and queries alone can be scored, only what the tasks say of a query is not known.
        problems.append(Problem(file="generation_tasks", what=f"no breakdown but by domain: {error}"))
    else:
        tasks = loaded_tasks.data
        problems.extend(loaded_tasks.problems)
        files["tasks"] = loaded_tasks.path
    qrels: dict[str, Mapping[str, Mapping[str, int]]] = {}
    for domain in choose_domains(labelled_domains(benchmark, source), domains):
        labels = mtrag.load_qrels(source.root, benchmark, domain)
        qrels[domain] = labels.data
        problems.extend(labels.problems)
        files[f"qrels/{domain}"] = labels.path
    return MtragData(
        benchmark=benchmark, source=source, tasks=tasks, qrels=qrels, problems=tuple(problems), files=files
    )


def only_domains(data: MtragData, domains: Iterable[str]) -> MtragData:
    names = set(domains)
    return data.model_copy(update={
        "qrels": {domain: labels for domain, labels in data.qrels.items() if domain in names},
        "files": {
            name: path for name, path in data.files.items()
            if not name.startswith("qrels/") or name.removeprefix("qrels/") in names
        },
    })  # fmt: skip


def task_item(task: mtrag.Task, domain: str) -> Item:
    """A task as an item. The conversation is the cluster; CONVERSATIONAL stays out of headlines."""
    labels: dict[str, tuple[str, ...]] = {
        "domain": (domain,),
        "turn": ("first" if task.turn == 1 else "later",),
        "answerability": (task.answerability,) if task.answerability else (),
        "question_type": task.question_types,
        "multi_turn": (task.multi_turn,) if task.multi_turn else (),
    }
    standalone = _standalone(task)
    if standalone is not None:
        labels["standalone"] = (STANDALONE[not standalone],)
    texts = {context.document_id: (context.title, context.text) for context in task.contexts}
    return Item(
        task.id,
        task,
        domain,
        question=task.question,
        history=task.history,
        reference=task.reference,
        passages=texts,
        relevant=frozenset(texts),
        labels=labels,
        cluster=task.conversation,
        headline=task.answerability != "CONVERSATIONAL",
    )


def _standalone(task: mtrag.Task) -> bool | None:
    """Whether a turn is standalone, as our labels say; as the data say if none of the conversation's turns has a label.

    The data mark 7 of the 423 tasks of its two domains: with ours, these would be another sample by another rule.
    """
    labels = standalone_labels()
    if task.id in labels:
        return labels[task.id]
    return None if task.conversation in _labelled_conversations() else task.standalone


@lru_cache(maxsize=1)
def standalone_labels() -> Mapping[str, bool]:
    """MTRAG task id -> whether the turn can be understood alone: 200 later turns, read and labelled one by one.

    `mtrag_standalone.tsv` says how they were drawn and labelled.
    """
    rows = Path(__file__).with_name("mtrag_standalone.tsv").read_text(encoding="utf-8").splitlines()
    _, *labelled = (row.split("\t") for row in rows if not row.startswith("#"))
    return MappingProxyType({task: label == STANDALONE[0] for task, label in labelled})


@lru_cache(maxsize=1)
def _labelled_conversations() -> frozenset[str]:
    return frozenset(map(mtrag.conversation_of, standalone_labels()))


def find_corpora(root: Path, domains: Iterable[str]) -> dict[str, Path]:
    errors = ErrorCollector()
    corpora: dict[str, Path] = {}
    for domain in domains:
        path = errors.collect(mtrag.corpus_path, root, domain)
        if path is not None:
            corpora[domain] = path
    if errors.problems:
        errors.add("or leave domains without passages out: --domains names the ones to use")
    errors.raise_all()
    return corpora


def corpora_there(root: Path, domains: Iterable[str]) -> dict[str, Path]:
    corpora = {}
    for domain in domains:
        with suppress(RequestError):
            corpora[domain] = mtrag.corpus_path(root, domain)
    return corpora


def corpus_used(domain: str, path: Path) -> CorpusUsed:
    """Size, checksum and extent of a corpus file, in one pass over it."""
    digest, passages = hashlib.sha256(), 0
    with open(path, "rb") as file:
        for line in file:
            digest.update(line)
            passages += not line.isspace()
    full = mtrag.FULL_PASSAGES.get(domain)
    extent = "other" if full is None else "full" if passages >= NEARLY_ALL * full else "partial"
    return CorpusUsed.model_validate({"passages": passages, "sha256": digest.hexdigest(), "extent": extent})


def extent_in_words(domain: str, corpus: CorpusUsed) -> str:
    """`12,647 of 183,408 passages`, or the number alone where nothing is published."""
    full = mtrag.FULL_PASSAGES.get(domain)
    return f"{corpus.passages:,} of {full:,} passages" if full else f"{corpus.passages:,} passages"


def corpus_notes(corpora: Mapping[str, CorpusUsed]) -> list[str]:
    """A line for each corpus that is not the full published one."""
    return [
        f"{domain}: pooled or partial corpus, {extent_in_words(domain, corpus)}; figures over it are not figures over "
        "the full corpus"
        for domain, corpus in corpora.items()
        if corpus.extent == "partial"
    ]


def problem_notes(problems: Sequence[Problem]) -> list[str]:
    """A line for each thing that was skipped; beyond twenty, how many more."""
    notes = [f"skipped: {problem}" for problem in problems[:SHOWN_PROBLEMS]]
    if len(problems) > SHOWN_PROBLEMS:
        notes.append(f"skipped: {len(problems) - SHOWN_PROBLEMS} more, {len(problems)} in all")
    return notes


def data_notes(data: DataUsed, problems: Sequence[Problem]) -> list[str]:
    """What a report says of its data first: that it is the demo's, and what was skipped."""
    return ([DEMO_NOTE] if data.demo else []) + problem_notes(problems)


# --- what is searched for at a turn: the query modes (MTRAG section 5.2, and ours) ------------------------------------

RECORDED: tuple[mtrag.Mode, ...] = ("last-turn", "rewrite", "questions")
_LAST = re.compile(r"^last-([1-9][0-9]{0,3})$")
MADE: Mapping[str, Callable[[mtrag.Task], Query]] = {
    "conversation": lambda task: Query(text="\n".join([*(turn.content for turn in task.history), task.question])),
    # What was typed, in its conversation: what the assistant's words, or a model's rewrite, are added to.
    "assistant": lambda task: Query(text=task.question, history=task.history),
    MINIMAL: lambda task: Query(text=task.question, history=task.history),
}
"""Modes that make their query from the conversation; so do `last-K`, and `last-turn` and `questions` where no file
records it."""
MODES: Mapping[str, str] = {
    "last-turn": "the recorded last message",
    "rewrite": "the recorded rewrite",
    "questions": "the recorded questions up to this one",
    "conversation": "all turns and answers",
    "last-K": "the last K turns of the user, such as last-3",
    "assistant": "what our own turn searches for, with the --generator's rewrite, parts and phrases",
    "minimal": "a language model's rewrite",
}
"""Every mode with what it searches for."""


class NoQuery(Exception):
    """There is nothing to search for with this task; the message says why."""


class QuerySource:
    """Gives each task its query in one mode.

    Args:
        mode: the mode in normal form, or `file` for recorded queries from elsewhere.
        recorded: task id -> what a file says, for modes that read it from one.
        origin: that file's name, for messages.
    """

    def __init__(
        self,
        mode: str,
        tasks: Mapping[str, mtrag.Task],
        recorded: Mapping[str, RecordedQuery] | None = None,
        origin: str = "",
        files: Mapping[str, Path] | None = None,
        problems: Sequence[Problem] = (),
    ) -> None:
        self.mode, self.recorded = mode, recorded
        self.files, self.problems = dict(files or {}), tuple(problems)
        self._tasks, self._origin = tasks, origin

    @property
    def fails_without_record(self) -> bool:
        """Whether a task that is not in the file has no query: two modes are made from the conversation instead."""
        return self.mode not in ("last-turn", "questions")

    def query(self, task_id: str) -> Query:
        """The query of a task; raises `NoQuery` if the file has none and it cannot be made from the conversation."""
        task = self._tasks.get(task_id)
        if self.recorded is not None and task_id in self.recorded:
            row = self.recorded[task_id]
            if row.variants is None:
                return Query(text=row.text)
            # With variants the text is the raw message, and the task knows the turns before that.
            return Query(text=row.text, history=task.history if task else (), variants=tuple(row.variants.values()))
        # The recorded queries are those of judged tasks alone; what these two are made of is there for all.
        if self.recorded is not None and self.fails_without_record:
            raise NoQuery(f"no query for it in {self._origin}")
        if task is None:
            raise NoQuery("no task with this id in the data, so there is no conversation to make a query from")
        query = self._made(task)
        if not query.text.strip():
            raise NoQuery("the task's text is empty")
        return query

    def _made(self, task: mtrag.Task) -> Query:
        if self.mode in MADE:
            return MADE[self.mode](task)
        match = _LAST.match(self.mode)
        turns = int(match[1]) if match else 0 if self.mode == "questions" else 1
        questions = [message.content for message in task.history if message.role == "user"] + [task.question]
        return Query(text="\n".join(questions[-turns:]))


def known_mode(mode: str) -> bool:
    return mode in RECORDED or mode in MADE or bool(_LAST.match(mode))


def check_mode(mode: str, benchmark: mtrag.Benchmark, asking: bool = False) -> str:
    """The mode, if the benchmark has it; one that asks a language model, only where `asking` it will do."""
    if not known_mode(mode):
        modes = ", ".join(f"{name} ({summary})" for name, summary in MODES.items())
        raise RequestError(f"--query: no mode is called {mode!r}; there are: {modes}")
    if mode == MINIMAL and not asking:
        raise RequestError(
            f"--query {mode}: it is for --task retrieval; where answers are written, the --generator rewrites by itself"
        )
    if benchmark != "mtrag" and mode in ("rewrite", "questions"):
        raise RequestError(
            f"--query {mode}: {benchmark} has no recorded queries; use last-turn, conversation, last-K, assistant, or "
            "--queries FILE with your own"
        )
    return mode


def open_queries(mode: str, data: MtragData, asking: bool = False) -> QuerySource:
    """The queries of a mode for every domain of the data; of one that asks a language model, without its wordings."""
    check_mode(mode, data.benchmark, asking)
    recorded = next((name for name in RECORDED if name == mode), None)
    if recorded is None or data.benchmark != "mtrag":
        if not data.tasks:
            loaded_tasks = mtrag.load_tasks(data.source.root, data.benchmark)
            first = f"; the first mistake in it: {loaded_tasks.problems[0]}" if loaded_tasks.problems else ""
            what = f"it is made from conversations, and {loaded_tasks.path.name} holds none{first}"
            raise RequestError(f"--query {mode}: {what}")
        return QuerySource(mode, data.tasks)
    texts: dict[str, RecordedQuery] = {}
    files: dict[str, Path] = {}
    problems: list[Problem] = []
    for domain in data.qrels:
        loaded = mtrag.load_queries(data.source.root, domain, recorded)
        texts |= {key: RecordedQuery(text=text) for key, text in loaded.data.items()}
        files[f"queries/{domain}"] = loaded.path
        problems.extend(loaded.problems)
    return QuerySource(mode, data.tasks, texts, f"the recorded {mode} queries", files, problems)


def read_query_file(path: Path, data: MtragData | None) -> QuerySource:
    """The queries of a file that was handed in; with `data`, at least one of them has to be of a task there."""
    try:
        loaded = read_recorded(path, path.name)
    except OSError as error:
        raise RequestError(f"--queries {str(path)!r} cannot be read: {error.strerror or error}") from error
    if loaded.problems:
        raise RequestError([f"--queries {problem}" for problem in loaded.problems])
    if data is not None:
        judged = {query for labels in data.qrels.values() for query in labels}
        if loaded.data.keys().isdisjoint(judged or data.tasks):
            raise RequestError(f"--queries {path.name}: none of its {len(loaded.data)} ids is a task of the data")
    return QuerySource("file", data.tasks if data else {}, loaded.data, path.name)
