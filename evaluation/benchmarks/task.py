"""A benchmark in one file: a `Task` that says how its rows are loaded, answered and scored.

    from turnmark.evaluation.benchmarks.task import Row, Task

    def load(data):
        yield Row(id="1", question="Who made the bell?", reference="A founder.", passages=("A founder made it.",))

    def benchmark():
        return Task(name="generation", load=load)

`turnmark eval python:my_module:benchmark` runs it: answered by the assistant's turn over each row's passages, scored
by overlap with the reference, resumed, judged, reported and compared as ours are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from turnmark.assistant.generators.base import Generator
from turnmark.corpora.errors import ErrorCollector
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Message, Problem, Record
from turnmark.evaluation.benchmarks import measures
from turnmark.evaluation.benchmarks.base import Item, Metric
from turnmark.evaluation.benchmarks.measures import Answered
from turnmark.evaluation.benchmarks.prepared import Prepared
from turnmark.evaluation.benchmarks.turns import Parts, turn_sample, with_steps
from turnmark.evaluation.records import DataUsed, Sample
from turnmark.evaluation.summary import Facts, Ranked
from turnmark.retrieval.task_passages import cut, ranked_by

if TYPE_CHECKING:
    from turnmark.evaluation.judging.rubrics import JudgedTask
    from turnmark.evaluation.published import Fact
    from turnmark.evaluation.request import EvalRequest

SCORERS: tuple[Metric[Answered], ...] = (
    *measures.REFERENCE_METRICS,
    *measures.PASSAGE_METRICS,
    *measures.STYLE_METRICS,
)
"""What is measured where a task names nothing else."""


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


def answered(row: Row, sample: Sample) -> Answered:
    """What the metrics of answers look at."""
    text = with_steps(sample.prediction or "", sample.procedure)
    return Answered(
        raw=sample.prediction or "",
        answer=strip_citations(text).strip(),
        reference=row.reference,
        passages=row.passages,
        history=[*(message.content for message in row.history), row.question],
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
        context: row, sample -> what scorers look at.
        rubrics: setting, embedder's spec -> what judges are asked; None: the task has no judged metrics.
        cluster: of a row: rows of one cluster are resampled together; by default each stands for itself.
        published: figures to set beside ours.
    """

    name: str
    load: Callable[[Path | None], Iterable[Row]]
    settings: tuple[str, ...] = ()
    solve: Callable[[Row, Generator | None, Parts], Sample] = by_turn
    scorers: Sequence[Metric[Any]] = SCORERS
    context: Callable[[Row, Sample], Any] = answered
    rubrics: Callable[[str | None, str], JudgedTask] | None = None
    cluster: Callable[[Row], str] = lambda row: row.id
    published: tuple[Fact, ...] = ()

    def prepare(
        self,
        request: EvalRequest,
        setting: str | None,
        errors: ErrorCollector,
        scoring: bool,  # noqa: ARG002
    ) -> Prepared | None:
        """See `turnmark.evaluation.benchmarks.registry.AnyTask.prepare`."""
        for flag in ("query", "queries", "passages", "counterfactual", "chain", "references", "types"):
            if getattr(request, flag):
                errors.add(f"--{flag}: {request.benchmark} has no use for it")
        loaded = errors.collect(lambda data: list(self.load(data)), request.data)
        if loaded is None:
            return None
        known_domains = tuple(dict.fromkeys(row.domain for row in loaded if row.domain))
        strange = [domain for domain in request.domains if domain not in known_domains]
        for domain in strange:
            errors.add(f"--domains: no domain {domain!r} in the data; there are: {', '.join(known_domains) or 'none'}")
        rows = [row for row in loaded if not request.domains or row.domain in request.domains]
        digest = hashlib.sha256()
        for row in rows:
            digest.update(json.dumps(row.model_dump(mode="json"), sort_keys=True).encode())
        name = request.data.name if request.data else request.benchmark
        return Prepared(
            data=DataUsed(name=name, demo=False, fingerprint=digest.hexdigest()),
            domains=tuple(domain for domain in known_domains if not request.domains or domain in request.domains),
            build=lambda parts, _: TaskBenchmark(self, rows, replace(parts, setting=setting)),
        )


class TaskBenchmark:
    """A task over its rows; see `turnmark.evaluation.benchmarks.base.Benchmark`."""

    def __init__(self, task: Task, rows: Sequence[Row], parts: Parts) -> None:
        self.metrics, self._task, self._rows, self._parts = task.scorers, task, rows, parts

    def items(self) -> Iterator[Item | Problem]:
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

    def rankings(self, item: Item, sample: Sample) -> Mapping[str, Ranked]:  # noqa: ARG002
        """See `Benchmark.rankings`: none."""
        return {}
