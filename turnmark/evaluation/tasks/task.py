"""The base class of benchmark tasks. A benchmark can be one file with a class that yields its items:

    from turnmark.evaluation.tasks.items import Item
    from turnmark.evaluation.tasks.task import Task

    class Bells(Task):
        def items(self):
            yield Item("1", question="Who made the bell?", reference="A founder.", passages={"b": ("", "A founder.")})

`turnmark eval python:my_module:Bells` runs it. The assistant's turn answers each item from its passages; metrics of
overlap with the reference score the answers. Resuming, judges, reports and comparisons work as for our benchmarks,
whose tasks derive from the same class.
"""

from __future__ import annotations

import copy
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.turn.assistant import Assistant
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.corpora.jsonl_rows import Source
from turnmark.corpora.types import Problem
from turnmark.evaluation.prompts import JUDGES
from turnmark.evaluation.records import CorpusUsed, DataUsed, Metrics, Sample
from turnmark.evaluation.scores.published_results import PublishedFact
from turnmark.evaluation.scores.score_tally import RankedOutcome
from turnmark.evaluation.storage.predictions import Answers, check_predictions
from turnmark.evaluation.storage.run_folder import RunFolder, fingerprint
from turnmark.evaluation.tasks import standard_metrics
from turnmark.evaluation.tasks.items import Case, Item
from turnmark.evaluation.tasks.metric import Metric
from turnmark.evaluation.tasks.rating_form import RatingForm
from turnmark.evaluation.tasks.request import EvalRequest, TaskOptions
from turnmark.evaluation.tasks.rubric import Rubric
from turnmark.evaluation.tasks.turn_samples import strip_marks, turn_sample, with_steps
from turnmark.retrieval.embedding.vector_cache import Embed
from turnmark.retrieval.search.task_passages import cut_passages, ranked_by
from turnmark.retrieval.types import Retriever

if TYPE_CHECKING:
    Rubrics = staticmethod[[str | None, str], Sequence[Rubric]]
    """Function from the setting and the embedder's spec to the rubrics of the judges."""


class Task(ABC):
    """One task of a benchmark. The class describes the task; an instance is a request with its opened data.

    Class attributes:
        name: value of `--task`.
        settings: values of `--setting`, the default first; empty if the task has no settings.
        options_type: the options of the task.
        metrics: the metrics of every sample; they measure what `context` returns.
        rubrics: the rubrics by setting and embedder. Those whose names end in `[embedded]` are for the embedded judge,
            the others for language models.
        brought: names (without a model's name) of judged metrics whose rubrics come with the judge, such as BERTScore.
        published: published figures to compare with ours.
        raters: who rated, for published figures that come from ratings without a judge.
        measures_judges: whether the judge is the system under test instead of the instrument.
        rating_form: the form on which people rate the answers.
        has_evaluations: whether the task has official files with several systems' answers and human ratings.
        retrieves: whether the task makes and scores ranked lists of passages, without answers.

    Instance attributes that `open` sets:
        data: name and fingerprint of the data.
        domains: the domains of this run; empty if the data have no domains.
        corpora: name -> passage file that is searched, or in which passages are looked up by id.
        corpora_used: name -> size and checksum of that file, for the manifest.
        searched: whether these files are searched. If False, passages are recorded, or answers are scored.
        specs: further specs for the manifest, such as the query mode.
        inputs: role -> SHA-256 of the user's files and of prompts.
        prompts: name -> hash of prompts, for the manifest, or None for the assistant's prompts.
        notes: notes for the report.
        deadline: seconds for a sample, or None for the request's deadline.
        batched: whether `search` makes the samples instead of `answer`.
        protocol: how the system is asked: `turn` (by the assistant's turn) or `paper` (by the paper's prompts).
        counterfactual: whether items are repeated with their relevant passages hidden.
        recorded: whether the user gave recorded passages, so that nothing is searched.
        sequential: whether items wait for the sample of an earlier item.
        available: number of items before `open` selected some of them, or None if it selects none.
        passages: number of passages that the protocol shows, or None for as many as the assistant uses.
    """

    name: ClassVar[str] = "generation"
    settings: ClassVar[tuple[str, ...]] = ()
    options_type: ClassVar[type[TaskOptions]] = TaskOptions
    rubrics: ClassVar[Rubrics] = staticmethod(lambda _setting, _embedder: ())
    brought: ClassVar[tuple[str, ...]] = ()
    published: ClassVar[tuple[PublishedFact, ...]] = ()
    raters: ClassVar[tuple[str, ...]] = ()
    measures_judges: ClassVar[bool] = False
    retrieves: ClassVar[bool] = False
    rating_form: ClassVar[RatingForm] = RatingForm()
    has_evaluations: ClassVar[bool] = False

    metrics: Sequence[Metric[Any]] = (
        *standard_metrics.REFERENCE_METRICS,
        *standard_metrics.PASSAGE_METRICS,
        *standard_metrics.STYLE_METRICS,
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
    protocol = "turn"
    counterfactual = False
    recorded = False
    sequential = False
    available: int | None = None
    passages: int | None = None
    options: TaskOptions

    def __init__(self, request: EvalRequest, setting: str | None = None) -> None:
        fields = self.options_type.model_fields
        self.options = self.options_type.model_validate(
            {name: value for name, value in dict(request.options).items() if name in fields}
        )
        self.request, self.setting = request, setting or next(iter(self.settings), None)
        self.assistant = Assistant.from_parts(AssistantConfig())
        self.embed: Embed | None = None
        self.retrievers: Mapping[str, Retriever] = {}
        errors = ErrorCollector()
        errors.collect(self.open)
        errors.raise_all()

    def using(self, assistant: Assistant, retrievers: Mapping[str, Retriever] | None = None) -> Self:
        """Copy the task for an assistant that answers it.

        Args:
            retrievers: name of a corpus -> its retriever.
        """
        task = self.with_embedder(assistant.embed)
        task.assistant = assistant
        task.retrievers = retrievers or {}
        return task

    def with_embedder(self, embed: Embed | None) -> Self:
        """Copy the task for metrics that embed texts; scoring needs no other part of an assistant."""
        task = copy.copy(self)
        task.embed = embed
        return task

    def open(self) -> None:
        """Find and check the data, and set the attributes that depend on it; by default from `items`.

        Raises:
            RequestError: the data are missing or wrong, or the flags do not fit the task.
        """
        digest = hashlib.sha256()
        domains: dict[str, None] = {}  # a set in the order of the data
        for item in self.items():
            if isinstance(item, Problem):
                continue
            history = [message.model_dump() for message in item.history]
            row = [item.id, item.question, history, item.reference, dict(item.passages), dict(item.labels)]
            digest.update(json.dumps(row).encode())
            if item.domain:
                domains[item.domain] = None
        self.domains = choose_domains(domains, self.request.domains)
        name = self.request.data.name if self.request.data else self.request.benchmark
        self.data = DataUsed(name=name, demo=False, fingerprint=digest.hexdigest())

    @abstractmethod
    def items(self) -> Iterator[Item | Problem]:
        """Yield every item in the order of the data, and a `Problem` for each unreadable row. May be called again."""

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """Answer an item; return a sample with the status `done`. Called from many threads at once.

        Args:
            generator: the language model, with the sample's deadline, or None to answer by the extractive forms.
        """
        passages = [part for name, text in item.passages.items() for part in cut_passages(name, *text)]
        assistant = self.assistant.using(None, generator)
        hits = ranked_by(passages, (item.question,), self.embed)
        return turn_sample(assistant, item, item.history, item.question, hits, trusted=True)

    def context(self, item: Item, sample: Sample) -> Any:
        """Make the input of the metrics; a `Case` if the task has judged metrics, because judges read it too.

        The steps of a procedure are part of the answer.
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
    def fit(cls, request: EvalRequest, errors: ErrorCollector) -> EvalRequest:  # noqa: ARG003
        """Reset the options that the task does not use. An unused option on the command line is added to `errors`."""
        return request

    @classmethod
    def options_for(cls, options: TaskOptions, setting: str | None, answers: Answers) -> TaskOptions:  # noqa: ARG003
        """Return the options with which answers of another system or an earlier run are scored."""
        return options

    @classmethod
    def read(cls, paths: Sequence[Path], benchmark: str) -> Answers:
        """Read the predictions of another system (`score --predictions`)."""
        return check_predictions(paths, benchmark)

    def note_files(self, paths: Sequence[Path]) -> Iterable[str]:  # noqa: ARG002
        """Return what `score --dry-run` notes about files of predictions, besides mistakes that refuse them."""
        return ()

    @property
    def asks_as_paper(self) -> bool:
        """Whether the system is asked by the paper's own prompts."""
        return False

    def describe_corpus(self, name: str, corpus: CorpusUsed) -> str:  # noqa: ARG002
        """State the size of a corpus, and of the published one if it is known: `12,647 of 183,408 passages`."""
        return f"{corpus.passages:,} passages"

    def doubts(self) -> Mapping[str, str]:
        """Return part of the data (domain or split; empty: all) -> why it is not known to be the published data.

        Published rows may be comparable where there is no doubt.
        """
        return {}

    def stratum(self, item_id: str) -> str:  # noqa: ARG002
        """Return the sampling stratum of an item; `--sample` draws the same share of each stratum."""
        return ""

    def unit(self, item_id: str) -> str:
        """Return what `--sample` and `--limit` count instead of single items; by default the item itself."""
        return item_id

    def note_items(self, ids: Collection[str]) -> Iterator[str]:  # noqa: ARG002
        """Yield notes on the selected items, before any of them is answered.

        Raises:
            RequestError: the flags do not fit these items.
        """
        return iter(())

    def warn_of(self, metrics: Metrics) -> Iterator[str]:  # noqa: ARG002
        """Yield warnings about the headline metrics of a run, for the lines before its figures."""
        return iter(())

    def rankings(self, item: Item, sample: Sample) -> Mapping[str, RankedOutcome]:  # noqa: ARG002
        """Return AUROC metric -> whether the sample is positive, and its score; empty if the sample does not count."""
        return {}

    def found(self, item: Item) -> Sample:
        """Return a sample with the passages that the setting finds for an item, and perhaps an answer."""
        return self.answer(item, None) if self.searched else Sample(id=item.id, status="done", domain=item.domain)

    def target(self, item: Item) -> Mapping[str, Any] | None:
        """Return the fields of a sample that answers an item with its reference, or None if there is no reference."""
        return {"query": item.question, "prediction": item.reference} if item.reference.strip() else None

    def search(self, run: RunFolder, open_corpus: Callable[[str], Retriever]) -> Mapping[str, float]:  # noqa: ARG002
        """Make all samples by batches of searches; called instead of `answer` if `batched`.

        Args:
            open_corpus: opens the retriever of a corpus by the corpus's name, and builds its index if it is missing.

        Returns:
            Seconds by phase.
        """
        return {}

    def finish(self, run: RunFolder) -> list[str]:  # noqa: ARG002
        """Write further files of the run before it is scored; return notes for the report."""
        return []


def choose_domains(known_domains: Iterable[str], domains: Sequence[str]) -> tuple[str, ...]:
    """Return the requested domains in the order of the data; all of them if none is requested.

    Raises:
        RequestError: a requested domain is not in the data.
    """
    names = tuple(known_domains)
    unknown = [domain for domain in domains if domain not in names]
    if unknown:
        known = ", ".join(names) or "none"
        raise RequestError([f"--domains: no domain {domain!r} in the data; there are: {known}" for domain in unknown])
    return tuple(domain for domain in names if not domains or domain in domains)


def data_used(source: Source, files: Mapping[str, Path]) -> DataUsed:
    """Describe the data for the manifest; the fingerprint is over the content of the files."""
    return DataUsed(name=source.name, demo=source.demo, fingerprint=fingerprint(files))


def hash_prompts(names: Sequence[str], prompts: Path | None) -> dict[str, str]:
    """Return `prompt NAME` -> hash of the prompt, for a manifest's `inputs`."""
    return {f"prompt {name}": content for name, content in JUDGES.hashes(names, prompts).items()}
