"""`Plan`: a checked request of `eval` or `score`, with the source of its answers and the folder for its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.types import Usage
from turnmark.evaluation.records import RunManifest
from turnmark.evaluation.storage.run_folder import RunFolder
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.request import EvalRequest, select_items
from turnmark.evaluation.tasks.task import Task
from turnmark.retrieval.types import Retriever


@dataclass(frozen=True)
class CollectedAnswers:
    """The outcome of collecting the answers of a run, which are in its folder.

    Attributes:
        task: the task with the assistant that answered, or with the embedder for the metrics; it scores the samples.
        seconds: phase -> seconds.
        stopped: why not all samples were tried; empty if all were.
        gave_up: whether failures stopped the run.
        notes: notes for the report.
    """

    task: Task
    seconds: Mapping[str, float] = field(default_factory=dict)
    stopped: str = ""
    gave_up: bool = False
    notes: tuple[str, ...] = ()


class AnswerSource(Protocol):
    """Where the answers of a run come from: the assistant under test, batches of searches, or existing files."""

    def collect(self, plan: Plan, folder: RunFolder, pending: int) -> CollectedAnswers:
        """Write the missing samples to the folder of the run.

        Args:
            pending: number of samples still to be made.
        """
        ...


@dataclass(frozen=True)
class Plan:
    """A checked request: what will be done, and the folder for the results.

    Attributes:
        task: the opened task, without an assistant.
        domain_of_id: item id -> domain, for all items of the requested domains in the order of the data.
        chosen: ids of the selected items, or None for all of them.
        generator: the model under test, or None if no model answers.
        elsewhere: usage of other runs on the same budget.
        open_corpus: name of a corpus -> its retriever and the fingerprint of its index. If it is None, the index of
            the corpus's passage file is used, and built if it is missing.
    """

    request: EvalRequest
    task: Task
    manifest: RunManifest
    folder: Path
    notes: tuple[str, ...]
    began: float
    domain_of_id: Mapping[str, str | None]
    source: AnswerSource
    chosen: frozenset[str] | None = None
    generator: Generator | None = None
    elsewhere: Usage | None = None
    open_corpus: Callable[[str], tuple[Retriever, str]] | None = None

    @property
    def items(self) -> int:
        """Number of selected items."""
        return len(self.domain_of_id if self.chosen is None else self.chosen)

    @property
    def samples(self) -> int:
        """Number of samples of the run: items times repeats."""
        return self.items * self.manifest.repeat

    def selected(self, task: Task) -> Iterator[Item]:
        """Yield the selected items of the plan's task, or of a copy of it, in the order of the data."""
        return select_items(task.items(), self.chosen)
