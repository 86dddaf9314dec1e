"""The data of one MTRAG retrieval run: relevance labels, tasks, corpora, and what is known of every query."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from turnmark.corpora import mtrag
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.rows import Source
from turnmark.corpora.types import Problem, Record
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.benchmarks.task import choose_domains
from turnmark.evaluation.records import CorpusUsed, DataUsed
from turnmark.evaluation.rundir import fingerprint

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
    """Load tasks and relevance labels; domains are in the order of the data.

    Args:
        domains: those wanted; empty for all that are there.
    """
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
    """The same data without the other domains."""
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
    """The passage files of the domains."""
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
    """The passage files of those domains that have one."""
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
