"""The data of MTRAG runs: tasks, relevance labels, corpora, and the queries of every query mode."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import cast

from turnmark.assistant.steps.understand.understand_llm import MINIMAL_QUERY
from turnmark.core.errors import ErrorCollector, RequestError, unknown_name
from turnmark.core.grouping import group_pairs
from turnmark.core.record import Record
from turnmark.corpora.benchmarks import mtrag
from turnmark.corpora.benchmarks.checking import BENCHMARK_NAMES, PUBLISHED_STATISTICS
from turnmark.corpora.benchmarks.task_ids import conversation_of
from turnmark.corpora.jsonl_rows import RecordedQuery, Source, read_recorded
from turnmark.corpora.types import Problem
from turnmark.evaluation.records import CorpusUsed, DataUsed
from turnmark.evaluation.storage.corpus_size import measure_corpus
from turnmark.evaluation.storage.run_folder import fingerprint
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.task import choose_domains
from turnmark.retrieval.types import Query

QUERIES_ROLE = "queries/"
"""Beginning of the roles of files of recorded queries."""
STANDALONE = ("standalone", "non-standalone")
"""Values of the dimension `standalone`."""


class MtragData(Record):
    """The data of a run's domains.

    Attributes:
        tasks: task id -> task.
        qrels: domain -> query id -> passage id -> grade.
        problems: rows that cannot be read.
        files: role -> file that was read.
    """

    benchmark: mtrag.Benchmark
    source: Source
    tasks: Mapping[str, mtrag.MtragTask]
    qrels: Mapping[str, Mapping[str, Mapping[str, int]]]
    problems: tuple[Problem, ...]
    files: Mapping[str, Path]

    def used(self, other_files: Mapping[str, Path] | None = None) -> DataUsed:
        """Describe the data for the manifest.

        Args:
            other_files: further files that were read, for the fingerprint.
        """
        files = {**self.files, **(other_files or {})}
        without_queries = {role: path for role, path in files.items() if not role.startswith(QUERIES_ROLE)}
        return DataUsed(
            name=self.source.name,
            demo=self.source.demo,
            fingerprint=fingerprint(files),
            tasks=fingerprint(without_queries) if without_queries.keys() != files.keys() else "",
        )


def labeled_domains(benchmark: mtrag.Benchmark, source: Source) -> tuple[str, ...]:
    """Return the domains with relevance labels, sorted.

    Raises:
        RequestError: the data have no relevance labels.
    """
    domains = mtrag.retrieval_domains(source.root, benchmark)
    if not domains:
        if benchmark == "mtrag-s":
            mtrag.load_qrels(source.root, benchmark, "clapnq")
        expected = "mtragun-human/retrieval_tasks/qrels/<domain>.tsv"
        if benchmark == "mtrag":
            expected = "mtrag-human/retrieval_tasks/<domain>/qrels/dev.tsv"
        raise RequestError(
            f"{benchmark}: no relevance labels; expected {expected} in {str(source.root)!r}; "
            f"point --data at a clone of {mtrag.REPOSITORY} that has them"
        )
    return domains


def load_data(benchmark: mtrag.Benchmark, source: Source, domains: Sequence[str]) -> MtragData:
    """Load tasks and relevance labels of some domains, in the order of the data; of all domains if none is named."""
    problems: list[Problem] = []
    files: dict[str, Path] = {}
    tasks: Mapping[str, mtrag.MtragTask] = {}
    try:
        loaded_tasks = mtrag.load_tasks(source.root, benchmark)
    except RequestError as error:
        # A partial clone: labels and queries are enough to score; only the tasks' dimensions are missing.
        problems.append(Problem(file="generation_tasks", what=f"no breakdown but by domain: {error}"))
    else:
        tasks = loaded_tasks.data
        problems.extend(loaded_tasks.problems)
        files["tasks"] = loaded_tasks.path
    qrels: dict[str, Mapping[str, Mapping[str, int]]] = {}
    for domain in choose_domains(labeled_domains(benchmark, source), domains):
        labels = mtrag.load_qrels(source.root, benchmark, domain)
        qrels[domain] = labels.data
        problems.extend(labels.problems)
        files[f"qrels/{domain}"] = labels.path
    return MtragData(
        benchmark=benchmark, source=source, tasks=tasks, qrels=qrels, problems=tuple(problems), files=files
    )


def only_domains(data: MtragData, domains: Iterable[str]) -> MtragData:
    """Return the data with the relevance labels of only these domains."""
    names = set(domains)
    qrels = {domain: labels for domain, labels in data.qrels.items() if domain in names}
    dropped = {f"qrels/{domain}" for domain in data.qrels.keys() - qrels.keys()}
    files = {role: path for role, path in data.files.items() if role not in dropped}
    return data.model_copy(update={"qrels": qrels, "files": files})


def task_item(task: mtrag.MtragTask, domain: str) -> Item:
    """Make an item of a task. Its cluster is the conversation; CONVERSATIONAL tasks do not count in the headline."""
    labels: dict[str, tuple[str, ...]] = {
        "domain": (domain,),
        "turn": ("first" if task.turn == 1 else "later",),
        "answerability": (task.answerability,) if task.answerability else (),
        "question_type": task.question_types,
        "multi_turn": (task.multi_turn,) if task.multi_turn else (),
    }
    standalone = _standalone(task)
    if standalone is not None:
        labels["standalone"] = (STANDALONE[0] if standalone else STANDALONE[1],)
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


def _standalone(task: mtrag.MtragTask) -> bool | None:
    """Return whether a turn is standalone: by our labels; by the data's label if the conversation has none of ours.

    The data label 7 of the 423 tasks of two domains. In conversations that we labeled, they would mix two labeling
    rules.
    """
    labels = standalone_labels()
    if task.id in labels:
        return labels[task.id]
    return None if task.conversation in _labeled_conversations() else task.standalone


@lru_cache(maxsize=1)
def standalone_labels() -> Mapping[str, bool]:
    """Return MTRAG task id -> whether the turn is standalone, for 200 later turns labeled by hand.

    A standalone turn can be understood without the conversation.

    The head of `standalone.tsv` says how they were sampled and labeled.
    """
    lines = Path(__file__).with_name("standalone.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    rows_without_header = rows[1:]
    return MappingProxyType({task: label == STANDALONE[0] for task, label in rows_without_header})


@lru_cache(maxsize=1)
def _labeled_conversations() -> frozenset[str]:
    return frozenset(map(conversation_of, standalone_labels()))


def find_corpora(root: Path, domains: Iterable[str]) -> dict[str, Path]:
    """Return domain -> passage file.

    Raises:
        RequestError: the file of a domain is missing.
    """
    errors = ErrorCollector()
    found = {domain: errors.collect(mtrag.corpus_path, root, domain) for domain in domains}
    if errors.problems:
        errors.add("or leave out domains without passages: name the ones to use with --domains")
    errors.raise_all()
    return {domain: path for domain, path in found.items() if path is not None}


def available_corpora(root: Path, domains: Iterable[str]) -> dict[str, Path]:
    """Return domain -> passage file, of the domains that have one."""
    found = {domain: ErrorCollector().collect(mtrag.corpus_path, root, domain) for domain in domains}
    return {domain: path for domain, path in found.items() if path is not None}


def corpus_used(domain: str, path: Path) -> CorpusUsed:
    """Describe the corpus of a domain, compared with the published one."""
    return measure_corpus(path, mtrag.FULL_PASSAGES.get(domain))


def extent_in_words(domain: str, corpus: CorpusUsed) -> str:
    """Return `12,647 of 183,408 passages`, or only the first number if the size of the corpus is not published."""
    full = mtrag.FULL_PASSAGES.get(domain)
    return f"{corpus.passages:,} of {full:,} passages" if full else f"{corpus.passages:,} passages"


def label_notes(corpora: Mapping[str, Path], qrels: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[str]:
    """Return a note for each corpus that lacks some of the relevant passages.

    Raises:
        RequestError: it lacks all of them, so that nothing can be found.
    """
    notes: list[str] = []
    errors = ErrorCollector()
    for domain, path in corpora.items():
        labeled = mtrag.labeled_passages(qrels[domain])
        absent = mtrag.absent_passages(path, labeled)
        count = f"{len(absent):,} of {len(labeled):,} labeled passages"
        if absent and len(absent) == len(labeled):
            errors.add(
                f"{domain}: none of the {len(labeled):,} labeled passages (such as {min(absent)!r}) is in "
                f"{str(path)!r}; the labels belong to another version of the corpus"
            )
        elif absent:
            notes.append(f"{domain}: {count} are not in the corpus and count as not found, such as {min(absent)!r}")
    errors.raise_all()
    return notes


def corpus_notes(corpora: Mapping[str, CorpusUsed]) -> list[str]:
    """Return a note for each corpus that is only a part of the published one."""
    return [
        f"{domain}: pooled or partial corpus, {extent_in_words(domain, corpus)}; figures over it are not figures over "
        "the full corpus"
        for domain, corpus in corpora.items()
        if corpus.extent == "partial"
    ]


# --- whether the data is that of the published values ----------------------------------------------------------------


@lru_cache(maxsize=1)
def _known_data() -> Mapping[str, Mapping[str, Mapping[str, Mapping[str, str | int]]]]:
    """Return benchmark -> `tasks` or `queries` -> domain -> their number `n`, and `sha256` (`known.json`).

    Made from the official files of the two domains that were available.
    """
    known: dict[str, dict[str, dict[str, dict[str, str | int]]]] = json.loads(
        Path(__file__).with_name("known.json").read_text(encoding="utf-8")
    )
    return known


def tasks_hash(tasks: Iterable[mtrag.MtragTask]) -> str:
    """Return the SHA-256 over ids, questions and references, independent of order, spaces and line ends."""
    return _hash((task.id, task.question, task.reference) for task in tasks)


def labels_hash(labels: Mapping[str, Mapping[str, int]]) -> str:
    """Return the SHA-256 over the queries of a domain with their relevant passages, independent of order."""
    relevant = {query: sorted(name for name, grade in grades.items() if grade > 0) for query, grades in labels.items()}
    return _hash((query, *names) for query, names in relevant.items())


def _hash(rows: Iterable[Sequence[str]]) -> str:
    lines = sorted(json.dumps([" ".join(text.split()) for text in row]) for row in rows)
    return hashlib.sha256("\n".join(lines).encode("ascii")).hexdigest()


def doubts_of_tasks(benchmark: str, tasks: Iterable[mtrag.MtragTask]) -> dict[str, str]:
    """See `Task.doubts`: of each domain, and under an empty name of all domains together."""
    by_domain = group_pairs((task.domain, task) for task in tasks)
    name = BENCHMARK_NAMES[cast(mtrag.Benchmark, benchmark)]
    printed: dict[str, int] = PUBLISHED_STATISTICS["mtrag"]["figures"]
    doubts: dict[str, str] = {}
    for domain, mine in by_domain.items():
        known = _known_data()[benchmark]["tasks"].get(domain)
        conversations = printed.get(f"{name}: conversations of {domain}")
        here = len({task.conversation for task in mine})
        if known is not None and tasks_hash(mine) != known["sha256"]:
            doubts[domain] = _other(domain, "tasks", len(mine), known["n"])
        elif known is None and conversations is not None and here != conversations:
            doubts[domain] = _other(domain, "conversations", here, conversations)
    total, published = sum(map(len, by_domain.values())), printed[f"{name}: tasks"]
    return doubts | ({} if total == published else {"": f"{total:,} tasks here, published {published:,}"})


def doubts_of_queries(benchmark: str, qrels: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, str]:
    """See `Task.doubts`: of each domain."""
    printed: dict[str, int] = PUBLISHED_STATISTICS["mtrag"]["figures"]
    doubts: dict[str, str] = {}
    for domain, labels in qrels.items():
        known = _known_data()[benchmark]["queries"].get(domain)
        number = printed.get(f"{BENCHMARK_NAMES[cast(mtrag.Benchmark, benchmark)]}: queries with labels, {domain}")
        if known is not None and labels_hash(labels) != known["sha256"]:
            doubts[domain] = _other(domain, "queries", len(labels), known["n"])
        elif known is None and number is not None and len(labels) != number:
            doubts[domain] = _other(domain, "queries", len(labels), number)
    return doubts


def _other(domain: str, what: str, here: int, published: object) -> str:
    if here == published:
        return f"{domain} has the published number of {what}, but different ones"
    return f"{domain} has {here} {what}, published {published}"


# --- the query modes: MTRAG section 5.2, and ours ---------------------------------------------------------------------

RECORDED_MODES: tuple[mtrag.Mode, ...] = ("last-turn", "rewrite", "questions")
_LAST_TURNS = re.compile(r"^last-([1-9][0-9]{0,3})$")
QUERY_MAKERS: Mapping[str, Callable[[mtrag.MtragTask], Query]] = {
    "conversation": lambda task: Query(text="\n".join([*(turn.content for turn in task.history), task.question])),
    # The message in its conversation; the assistant's texts or a model's rewrite are added to it later.
    "assistant": lambda task: Query(text=task.question, history=task.history),
    MINIMAL_QUERY: lambda task: Query(text=task.question, history=task.history),
}
"""Modes that make the query from the conversation. So do `last-K` and, without a recorded query, `last-turn` and
`questions`."""
MODE_DESCRIPTIONS: Mapping[str, str] = {
    "last-turn": "the recorded last message",
    "rewrite": "the recorded rewrite",
    "questions": "the recorded questions up to this one",
    "conversation": "all turns and answers",
    "last-K": "the last K turns of the user, such as last-3",
    "assistant": "what our own turn searches for, with the --generator's rewrite, parts and phrases",
    "minimal": "a language model's rewrite",
}
"""Query mode -> a description of its query."""


class NoQuery(Exception):
    """A task has no query; the message says why."""


class QuerySource:
    """The source of the query of each task, in one mode.

    Args:
        mode: the query mode, or `file` for queries from `--queries`.
        recorded: task id -> recorded query, for modes that read queries from a file.
        origin: the name of that file, for messages.
        files: role -> file that was read.
        problems: rows that cannot be read.
    """

    def __init__(
        self,
        mode: str,
        tasks: Mapping[str, mtrag.MtragTask],
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
        """Whether a task without a recorded query has no query; two modes make it from the conversation instead."""
        return self.mode not in ("last-turn", "questions")

    def query(self, task_id: str) -> Query:
        """Return the query of a task.

        Raises:
            NoQuery: the file has no query for it, and none can be made from the conversation.
        """
        task = self._tasks.get(task_id)
        if self.recorded is not None and task_id in self.recorded:
            row = self.recorded[task_id]
            if row.variants is None:
                return Query(text=row.text)
            # With variants, the text is the raw message, so the earlier turns belong to the query.
            return Query(text=row.text, history=task.history if task else (), variants=tuple(row.variants.values()))
        # Queries are recorded only for tasks with relevance labels; conversations are there for all tasks.
        if self.recorded is not None and self.fails_without_record:
            raise NoQuery(f"no query for it in {self._origin}")
        if task is None:
            raise NoQuery("no task with this id in the data, so there is no conversation to make a query from")
        query = self._from_conversation(task)
        if not query.text.strip():
            raise NoQuery("the task's text is empty")
        return query

    def _from_conversation(self, task: mtrag.MtragTask) -> Query:
        if self.mode in QUERY_MAKERS:
            return QUERY_MAKERS[self.mode](task)
        questions = [message.content for message in task.history if message.role == "user"]
        questions.append(task.question)
        match = _LAST_TURNS.match(self.mode)
        if match:
            questions = questions[-int(match[1]) :]
        elif self.mode != "questions":
            questions = questions[-1:]
        return Query(text="\n".join(questions))


def known_mode(mode: str) -> bool:
    """Return whether a query mode exists."""
    return mode in RECORDED_MODES or mode in QUERY_MAKERS or bool(_LAST_TURNS.match(mode))


def check_mode(mode: str, benchmark: mtrag.Benchmark, retrieval: bool = False) -> str:
    """Check that the benchmark has a query mode, and return the mode.

    Args:
        retrieval: whether the task is `retrieval`, which alone has the mode `minimal`.

    Raises:
        RequestError: the mode does not exist, or the task or benchmark does not have it.
    """
    if not known_mode(mode):
        unknown = unknown_name("query mode", mode, MODE_DESCRIPTIONS)
        raise RequestError(f"--query: {unknown} (`turnmark list queries` describes them)")
    if mode == MINIMAL_QUERY and not retrieval:
        raise RequestError(
            f"--query {mode} is only for --task retrieval; in other tasks, the --generator rewrites without it"
        )
    if benchmark != "mtrag" and mode in ("rewrite", "questions"):
        raise RequestError(
            f"--query {mode}: {benchmark} has no recorded queries; use last-turn, conversation, last-K, assistant, or "
            "--queries FILE with your own"
        )
    return mode


def open_queries(mode: str, data: MtragData, retrieval: bool = False) -> QuerySource:
    """Open the queries of a mode for every domain of the data; a model's rewrites are added later.

    Args:
        retrieval: see `check_mode`.

    Raises:
        RequestError: the task or benchmark does not have the mode, or the data lack what its queries are made from.
    """
    check_mode(mode, data.benchmark, retrieval)
    recorded = next((name for name in RECORDED_MODES if name == mode), None)
    if recorded is None or data.benchmark != "mtrag":
        if not data.tasks:
            loaded_tasks = mtrag.load_tasks(data.source.root, data.benchmark)
            first = f"; the first mistake in it: {loaded_tasks.problems[0]}" if loaded_tasks.problems else ""
            what = f"it is made from conversations, and {loaded_tasks.path.name} contains none{first}"
            raise RequestError(f"--query {mode}: {what}")
        return QuerySource(mode, data.tasks)
    texts: dict[str, RecordedQuery] = {}
    files: dict[str, Path] = {}
    problems: list[Problem] = []
    for domain in data.qrels:
        loaded = mtrag.load_queries(data.source.root, domain, recorded)
        texts |= {key: RecordedQuery(text=text) for key, text in loaded.data.items()}
        files[f"{QUERIES_ROLE}{domain}"] = loaded.path
        problems.extend(loaded.problems)
    return QuerySource(mode, data.tasks, texts, f"the recorded {mode} queries", files, problems)


def read_query_file(path: Path, data: MtragData | None) -> QuerySource:
    """Read the queries of `--queries`.

    Raises:
        RequestError: the file cannot be read, or none of its ids is a task of `data`.
    """
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
