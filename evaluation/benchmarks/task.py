"""A benchmark in one file: a `Task` that says how its rows are loaded, answered and scored.

    from turnmark.evaluation.benchmarks.task import Row, Task

    def load(data):
        yield Row(id="1", question="Who made the bell?", reference="A founder.", passages=("A founder made it.",))

    def benchmark():
        return Task(name="generation", load=load)

`turnmark eval python:my_module:benchmark` runs it: answered by the assistant's turn over each row's passages, scored
by overlap with the reference, resumed, judged, reported and compared as ours are. Ours are tasks too; where rows in
memory are not enough (streams, corpora to be searched, recorded passages), `open` takes the place of `load`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from turnmark.assistant.generators.base import Generator
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.rows import Source
from turnmark.corpora.types import Message, Record
from turnmark.evaluation.benchmarks import measures
from turnmark.evaluation.benchmarks.base import Benchmark, Case, Item, Material, Metric
from turnmark.evaluation.benchmarks.turns import Parts, turn_sample, unmarked, with_steps
from turnmark.evaluation.predictions import Answers, check_predictions
from turnmark.evaluation.records import CorpusUsed, DataUsed, Sample
from turnmark.evaluation.request import EvalRequest
from turnmark.evaluation.rundir import RunFolder, fingerprint
from turnmark.evaluation.summary import Facts
from turnmark.retrieval.task_passages import cut, ranked_by
from turnmark.retrieval.types import Retriever

if TYPE_CHECKING:
    from turnmark.evaluation.judging.rubrics import Rubric
    from turnmark.evaluation.published import Fact

Build = Callable[[Parts, Mapping[str, Retriever]], Benchmark[Any]]
OpenCorpus = Callable[[str], Retriever]
"""Name of a corpus -> what searches it; its index is built where it is not there yet."""

SCORERS: tuple[Metric[Case], ...] = (
    *measures.REFERENCE_METRICS,
    *measures.PASSAGE_METRICS,
    *measures.STYLE_METRICS,
)
"""What is measured where a task names nothing else."""


@dataclass(frozen=True)
class Prepared:
    """A task in one setting, checked before anything heavy is loaded, and ready to be built once there are parts.

    Attributes:
        build: parts, retrievers by corpus -> the benchmark.
        corpora: name -> passage file to be searched, or looked passages up in.
        searched: whether these files are searched; False: passages are recorded, or answers are there already.
        query: the query mode, where something is searched.
        found_by: what found the recorded passages, where that is known.
        inputs: role -> SHA-256 of files that were handed in.
        prompts: prompt -> hash, for the manifest; None: those of the assistant.
        counterfactual: items are there once more, with their passages hidden.
        stratum: of an item's id; what `--sample` draws of in equal shares; None: all are alike.
        retrieves: lists of passages are made and scored, and nothing is answered.
        selected: the benchmark's items are those asked for already.
        asks: specs of what a retrieval asks a language model for.
        deadline: seconds for a sample, where the task has a time of its own.
        search: searches for all queries, a batch at a time, in place of `answer`; gives seconds by phase.
        finish: writes further files of the run before it is scored; what to note.
    """

    data: DataUsed
    domains: tuple[str, ...]
    build: Build
    corpora: Mapping[str, Path] = field(default_factory=dict)
    corpora_used: Mapping[str, CorpusUsed] = field(default_factory=dict)
    searched: bool = False
    query: str | None = None
    found_by: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    prompts: Mapping[str, str] | None = None
    counterfactual: bool = False
    notes: tuple[str, ...] = ()
    stratum: Callable[[str], str] | None = None
    retrieves: bool = False
    selected: bool = False
    asks: Mapping[str, str] = field(default_factory=dict)
    deadline: float | None = None
    search: Callable[[RunFolder, OpenCorpus], Mapping[str, float]] | None = None
    finish: Callable[[RunFolder], list[str]] | None = None


OpenData = Callable[[EvalRequest, str | None], Prepared]
FLAGS: Mapping[str, str] = {
    "query": "it is for the MTRAG family, setting rag",
    "queries": "it is for the MTRAG family, setting rag",
    "passages": "it is for the MTRAG family, setting rag",
    "counterfactual": "it is for the MTRAG family, setting rag",
    "chain": "it is for kiwi, whose turns revise each other",
    "references": "it is for compound-qa, whose questions have parts",
    "types": "it is for compound-qa, whose questions have types",
}
"""Flags that single benchmarks have a use for."""


class Row(Record):
    """One thing to answer."""

    id: str
    question: str
    history: tuple[Message, ...] = Field(default=(), description="the turns before the question")
    reference: str = Field(default="", description="empty: the data has none")
    passages: tuple[str, ...] = Field(default=(), description="texts to answer from")
    domain: str | None = None
    labels: Mapping[str, tuple[str, ...]] = Field(default_factory=dict, description="dimension -> values")
    extra: Mapping[str, Any] = Field(default_factory=dict, description="whatever the task's own functions need")


def by_turn(row: Row, generator: Generator | None, parts: Parts) -> Sample:
    """Answer a row by the assistant's turn over its passages."""
    passages = [passage for n, text in enumerate(row.passages, 1) for passage in cut(f"{row.id}#{n}", "", text)]
    hits = ranked_by(passages, (row.question,), parts.embed)
    item = Item(row.id, row, row.domain)
    return turn_sample(item, row.history, row.question, generator, parts, hits, trusted=True)


def case_of(row: Row, sample: Sample) -> Case:
    """What a sample is scored by, its steps being part of the answer."""
    text = with_steps(sample.prediction or "", sample.procedure)
    return Case(
        question=row.question,
        answer=unmarked(text, sample).strip(),
        history=row.history,
        reference=row.reference,
        passages=row.passages,
        raw=sample.prediction or "",
        decision=sample.decision,
    )


@dataclass(frozen=True)
class Task:
    """One task of a benchmark.

    Attributes:
        name: of `--task`.
        load: `--data` (None: what ships with the benchmark) -> its rows; raises RequestError where it cannot.
        settings: of `--setting`, the default first; empty: there are none.
        solve: answers a row; called from many threads, and with no generator for the extractive form.
        scorers: what is measured of every sample, over `context`.
        context: row, sample -> what scorers look at; with rubrics a `Case`.
        rubrics: setting, embedder's spec -> what judges are asked: rubrics whose names end in `[embedded]` the embedded
            judge, the others language models; empty: the task has no judged metrics.
        brought: further judged metrics, whose rubrics a judge brings with it, without the model's name.
        cluster: of a row: rows of one cluster are resampled together; by default each stands for itself.
        published: figures to set beside ours.
        open: request, setting -> the task prepared, in place of `load` and what goes with it; raises RequestError.
        flags: those of `FLAGS` that the task has a use for.
        read: reads answers that are written already.
        unnamed: a setting that manifests leave out.
        measures_judges: a judge is not its instrument but what is measured.
    """

    name: str
    load: Callable[[Path | None], Iterable[Row]] = lambda _: ()
    settings: tuple[str, ...] = ()
    solve: Callable[[Row, Generator | None, Parts], Sample] = by_turn
    scorers: Sequence[Metric[Any]] = SCORERS
    context: Callable[[Row, Sample], Any] = case_of
    rubrics: Callable[[str | None, str], Sequence[Rubric]] = lambda _setting, _embedder: ()
    brought: tuple[str, ...] = ()
    cluster: Callable[[Row], str] = lambda row: row.id
    published: tuple[Fact, ...] = ()
    open: OpenData | None = None
    flags: tuple[str, ...] = ()
    read: Callable[[Sequence[Path], str], Answers] = check_predictions
    unnamed: str | None = None
    measures_judges: bool = False

    def prepare(self, request: EvalRequest, setting: str | None, errors: ErrorCollector) -> Prepared | None:
        """Find and check the data of a request; None where something was wrong, which is then taken down."""
        for flag, purpose in FLAGS.items():
            if flag not in self.flags and getattr(request, flag):
                errors.add(f"--{flag}: {request.benchmark} has no use for it; {purpose}")
        return errors.collect(self.open or self._open_rows, request, setting)

    def _open_rows(self, request: EvalRequest, setting: str | None) -> Prepared:
        loaded = list(self.load(request.data))
        domains = picked(dict.fromkeys(row.domain for row in loaded if row.domain), request.domains)
        rows = [row for row in loaded if not request.domains or row.domain in domains]
        digest = hashlib.sha256()
        for row in rows:
            digest.update(json.dumps(row.model_dump(mode="json"), sort_keys=True).encode())
        name = request.data.name if request.data else request.benchmark
        return Prepared(
            data=DataUsed(name=name, demo=False, fingerprint=digest.hexdigest()),
            domains=domains,
            build=lambda parts, _: TaskBenchmark(self, rows, replace(parts, setting=setting)),
        )


class TaskBenchmark(Benchmark[Any]):
    """A task over its rows."""

    def __init__(self, task: Task, rows: Sequence[Row], parts: Parts) -> None:
        self.metrics, self._task, self._rows, self._parts = task.scorers, task, rows, parts

    def items(self) -> Iterator[Item]:
        """See `Benchmark.items`."""
        return (Item(row.id, row, row.domain) for row in self._rows)

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """See `Benchmark.answer`."""
        return self._task.solve(item.task, generator, self._parts)

    def context(self, item: Item, sample: Sample) -> Any:
        """See `Benchmark.context`."""
        return self._task.context(item.task, sample)

    def facts(self, item: Item) -> Facts:
        """See `Benchmark.facts`."""
        row: Row = item.task
        labels = {"domain": (row.domain,)} if row.domain else {}
        return Facts(cluster=self._task.cluster(row), labels={**labels, **row.labels})

    def material(self, item: Item) -> Material:
        """See `Benchmark.material`."""
        row: Row = item.task
        texts = {f"{row.id}#{n}": ("", text) for n, text in enumerate(row.passages, 1)}
        return Material(row.question, row.reference, row.history, texts)

    def target(self, item: Item) -> Mapping[str, Any] | None:
        """See `Benchmark.target`."""
        row: Row = item.task
        return {"query": row.question, "prediction": row.reference} if row.reference.strip() else None


def picked(known_domains: Iterable[str], domains: Sequence[str]) -> tuple[str, ...]:
    """The domains that are asked for, in the order of the data; all of them where none is named.

    Raises:
        RequestError: those that there are not.
    """
    names = tuple(known_domains)
    known = ", ".join(names) or "none"
    if strange := [domain for domain in domains if domain not in names]:
        raise RequestError([f"--domains: no domain {domain!r} in the data; there are: {known}" for domain in strange])
    return tuple(domain for domain in names if not domains or domain in domains)


def used(source: Source, files: Mapping[str, Path]) -> DataUsed:
    """Which data it is, by the content of the files that are read."""
    return DataUsed(name=source.name, demo=source.demo, fingerprint=fingerprint(files))


def prompt_inputs(names: Sequence[str], prompts: Path | None) -> dict[str, str]:
    """The hashes of prompts, as a manifest's `inputs` have them.

    Raises:
        RequestError: one of one's own is wrong.
    """
    from turnmark.evaluation.prompts import JUDGES

    return {f"prompt {name}": content for name, content in JUDGES.hashes(names, prompts).items()}
