"""A benchmark in one file: a class `Task` that says which items there are, how they are answered and how scored.

    from turnmark.evaluation.benchmarks.base import Item
    from turnmark.evaluation.benchmarks.task import Task

    class Bells(Task):
        def items(self):
            yield Item("1", question="Who made the bell?", reference="A founder.", passages={"b": ("", "A founder.")})

`turnmark eval python:my_module:Bells` runs it: answered by the assistant's turn over each item's passages, scored by
overlap with the reference, resumed, judged, reported and compared as ours are, which are tasks in the same way.
"""

from __future__ import annotations

import copy
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from turnmark.assistant.assistant import Assistant
from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.generators.base import Generator
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.corpora.rows import Source
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks import measures
from turnmark.evaluation.benchmarks.base import Case, Item, Metric
from turnmark.evaluation.benchmarks.turns import strip_marks, turn_sample, with_steps
from turnmark.evaluation.records import CorpusUsed, DataUsed, Sample
from turnmark.evaluation.runs.predictions import Answers, check_predictions
from turnmark.evaluation.runs.request import EvalRequest
from turnmark.evaluation.runs.rundir import RunFolder, fingerprint
from turnmark.evaluation.scores.summary import Ranked
from turnmark.retrieval.task_passages import cut_passages, ranked_by
from turnmark.retrieval.types import Retriever

if TYPE_CHECKING:
    from turnmark.evaluation.judging.rubrics import Rubric
    from turnmark.evaluation.scores.published import Fact

    Rubrics = staticmethod[[str | None, str], Sequence[Rubric]]
    """Setting, embedder's spec -> what judges are asked."""

FLAGS: Mapping[str, str] = {
    "query": "it is for the MTRAG family, setting rag",
    "queries": "it is for the MTRAG family, setting rag",
    "passages": "it is for the MTRAG family, setting rag",
    "counterfactual": "it is for the MTRAG family, setting rag",
    "chain": "it is for kiwi, whose turns revise each other",
    "references": "it is for compound-qa, whose questions have parts",
    "types": "it is for compound-qa, whose questions have types",
}
"""Flags that only single benchmarks take."""


class Task(ABC):
    """One task of a benchmark. The class says what it is; an object of it is one request, opened and checked.

    Class attributes:
        name: of `--task`.
        settings: of `--setting`, the default first; empty: there are none.
        flags: those of `FLAGS` that the task takes.
        metrics: what is measured of every sample, over `context`.
        rubrics: what judges are asked, by setting and embedder: rubrics whose names end in `[embedded]` the embedded
            judge, the others language models.
        brought: judged metrics whose rubrics a judge brings with it, without the model's name.
        published: figures to compare with ours.
        raters: whose ratings the figures are of if no judge is asked.
        measures_judges: a judge is not its instrument but what is measured.
        retrieves: lists of passages are made and scored, and nothing is answered.

    What `open` finds:
        data: which data it is.
        domains: those that take part; empty: the data have none.
        corpora: name -> passage file that is searched, or looked passages up in.
        corpora_used: the same for the manifest.
        searched: whether these files are searched; False: passages are recorded, or answers are there already.
        specs: further specs of the manifest, such as the query mode.
        inputs: role -> SHA-256 of files that were handed in, and of prompts.
        prompts: prompt -> hash, for the manifest; None: those of the assistant.
        notes: for the report.
        deadline: seconds for a sample; None: the request's.
        batched: `search` makes the samples, not `answer`.
        passages: how many are shown by the protocol; None: as many as the assistant looks at.
    """

    name: ClassVar[str] = "generation"
    settings: ClassVar[tuple[str, ...]] = ()
    flags: ClassVar[tuple[str, ...]] = ()
    rubrics: ClassVar[Rubrics] = staticmethod(lambda _setting, _embedder: ())
    brought: ClassVar[tuple[str, ...]] = ()
    published: ClassVar[tuple[Fact, ...]] = ()
    raters: ClassVar[tuple[str, ...]] = ()
    measures_judges: ClassVar[bool] = False
    retrieves: ClassVar[bool] = False

    metrics: Sequence[Metric[Any]] = (
        *measures.REFERENCE_METRICS,
        *measures.PASSAGE_METRICS,
        *measures.STYLE_METRICS,
    )
    data: DataUsed
    domains: tuple[str, ...] = ()
    corpora: Mapping[str, Path] = {}
    corpora_used: Mapping[str, CorpusUsed] = {}
    searched = False
    specs: Mapping[str, str] = {}
    inputs: Mapping[str, str] = {}
    prompts: Mapping[str, str] | None = None
    notes: tuple[str, ...] = ()
    deadline: float | None = None
    batched = False
    passages: int | None = None

    def __init__(self, request: EvalRequest, setting: str | None = None) -> None:
        self.request, self.setting = request, setting or next(iter(self.settings), None)
        self.assistant = Assistant(AssistantConfig())
        self.retrievers: Mapping[str, Retriever] = {}
        errors = ErrorCollector()
        for flag, purpose in FLAGS.items():
            if flag not in self.flags and getattr(request, flag):
                errors.add(f"--{flag}: {request.benchmark} has no use for it; {purpose}")
        errors.collect(self.open)
        errors.raise_all()

    def using(self, assistant: Assistant, retrievers: Mapping[str, Retriever] | None = None) -> Self:
        """The same task, answered by an assistant.

        Args:
            retrievers: name of a corpus -> what searches it.
        """
        other = copy.copy(self)
        other.assistant, other.retrievers = assistant, retrievers or {}
        return other

    def open(self) -> None:
        """Find and check the data; here, by the items themselves."""
        digest, domains = hashlib.sha256(), dict[str, None]()
        for item in self.items():
            if isinstance(item, Item):
                history = [message.model_dump() for message in item.history]
                row = [item.id, item.question, history, item.reference, dict(item.passages), dict(item.labels)]
                digest.update(json.dumps(row).encode())
                domains |= {item.domain: None} if item.domain else {}
        self.domains = choose_domains(domains, self.request.domains)
        name = self.request.data.name if self.request.data else self.request.benchmark
        self.data = DataUsed(name=name, demo=False, fingerprint=digest.hexdigest())

    @abstractmethod
    def items(self) -> Iterator[Item | Problem]:
        """Every item in the order of the data, and a Problem for each row that cannot be read. May be asked again."""

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """The sample for an item, its status `done`. Called from many threads at once.

        Args:
            generator: what calls the language model, its deadline being that of the sample; None: the extractive forms.
        """
        texts = item.passages.items()
        passages = [passage for name, (title, text) in texts for passage in cut_passages(name, title, text)]
        assistant = self.assistant.using(None, generator)
        hits = ranked_by(passages, (item.question,), assistant.embed)
        return turn_sample(assistant, item, item.history, item.question, hits, trusted=True)

    def context(self, item: Item, sample: Sample) -> Any:
        """What the metrics look at; of a task with judged metrics a `Case`, which judges look at, too.

        Steps are a part of the answer.
        """
        text = with_steps(sample.prediction or "", sample.procedure)
        return Case(
            question=item.question,
            answer=strip_marks(text, sample).strip(),
            history=item.history,
            reference=item.reference,
            passages=tuple(text for _, text in item.passages.values()),
            raw=sample.prediction or "",
            decision=sample.decision,
            hedged=sample.hedged,
        )

    @classmethod
    def read(cls, paths: Sequence[Path], benchmark: str) -> Answers:
        return check_predictions(paths, benchmark)

    @property
    def asks_as_paper(self) -> bool:
        """Whether what is measured is asked by the very prompts of the paper."""
        return False

    def stratum(self, item_id: str) -> str:  # noqa: ARG002
        """What `--sample` draws of in equal shares."""
        return ""

    def rankings(self, item: Item, sample: Sample) -> Mapping[str, Ranked]:  # noqa: ARG002
        """Name of an AUROC metric -> whether the sample is positive, and its score; empty: it takes no part."""
        return {}

    def target(self, item: Item) -> Mapping[str, Any] | None:
        """Fields of a sample that answers an item with its reference; None if the data have none."""
        return {"query": item.question, "prediction": item.reference} if item.reference.strip() else None

    def search(self, run: RunFolder, open_corpus: Callable[[str], Retriever]) -> Mapping[str, float]:  # noqa: ARG002
        """Make all samples, a batch of searches at a time; see `batched`.

        Args:
            open_corpus: name of a corpus -> what searches it; its index is built if it is not there yet.

        Returns:
            Seconds by phase.
        """
        return {}

    def finish(self, run: RunFolder) -> list[str]:  # noqa: ARG002
        """Write further files of the run before it is scored; what to note."""
        return []


def choose_domains(known_domains: Iterable[str], domains: Sequence[str]) -> tuple[str, ...]:
    names = tuple(known_domains)
    known = ", ".join(names) or "none"
    if unknown := [domain for domain in domains if domain not in names]:
        raise RequestError([f"--domains: no domain {domain!r} in the data; there are: {known}" for domain in unknown])
    return tuple(domain for domain in names if not domains or domain in domains)


def data_used(source: Source, files: Mapping[str, Path]) -> DataUsed:
    """Which data it is, by the content of the files that are read."""
    return DataUsed(name=source.name, demo=source.demo, fingerprint=fingerprint(files))


def hash_prompts(names: Sequence[str], prompts: Path | None) -> dict[str, str]:
    """The hashes of prompts, as a manifest's `inputs` have them."""
    from turnmark.evaluation.prompts import JUDGES

    return {f"prompt {name}": content for name, content in JUDGES.hashes(names, prompts).items()}
