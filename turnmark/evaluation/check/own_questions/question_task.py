"""The task of answering a person's own questions, scored by what the person says a right reply contains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.core.home import file_sha256
from turnmark.corpora.types import Message, exchange
from turnmark.evaluation.benchmarks import index_questions
from turnmark.evaluation.check.own_questions.facts import find_facts
from turnmark.evaluation.check.own_questions.question_file import OwnQuestion, is_document, read_questions
from turnmark.evaluation.check.request import MAX_FOUND_RANK
from turnmark.evaluation.records import DataUsed, Sample
from turnmark.evaluation.storage.corpus_passages import span_of
from turnmark.evaluation.tasks.items import Case, Item
from turnmark.evaluation.tasks.metric import Metric
from turnmark.evaluation.tasks.standard_metrics import REFERENCE_METRICS, says_unknown
from turnmark.evaluation.tasks.task import Task
from turnmark.evaluation.tasks.turn_samples import EarlierTurn, turn_sample

BENCHMARK = "questions"
CORPUS = "index"


@dataclass(frozen=True)
class QuestionCase(Case):
    """A reply, with its question in the file and the documents of the first passages."""

    own: OwnQuestion | None = None
    documents: tuple[str, ...] = ()


def measure_conditions(case: QuestionCase) -> dict[str, float]:
    """Return for each condition of a question whether its reply meets it, 1 or 0; conditions not given are missing.

    A refusal of a question that the documents answer meets no condition but that of its document.
    """
    own = case.own
    assert own is not None, "every case of this task has its question"
    refused = says_unknown(case)
    stated = all(find_facts(own.facts, case.raw)) and not any(find_facts(own.wrong, case.raw))
    met = {
        "facts": stated and not refused,
        "document": any(is_document(name, own.document) for name in case.documents),
        "unknown": refused,
    }
    return {name: float(met[name]) for name in own.conditions if name in met}


CONDITIONS = Metric[QuestionCase](
    names=("facts", "document", "unknown"),
    by="the conditions in the file of questions",
    measure=measure_conditions,
    without="the file says nothing about it",
)


class OwnQuestions(Task):
    """The questions of a file, asked of the assistant over an index; later turns follow the assistant's own replies.

    Attributes:
        text_of: id of a passage or section -> its text, for judges.
    """

    metrics = (CONDITIONS, *REFERENCE_METRICS)
    rubrics = staticmethod(index_questions.rubrics)
    searched = True
    sequential = True
    text_of: Callable[[str], str | None] = staticmethod(lambda _: None)

    def open(self) -> None:
        """See `Task.open`."""
        path = self.request.data
        assert path is not None, "the request names the file"
        self.questions = read_questions(path)
        self.corpora = {} if self.request.scoring else {CORPUS: path}
        self.searched = not self.request.scoring
        self.data = DataUsed(name=path.name, demo=False, fingerprint=file_sha256(path))

    def items(self) -> Iterator[Item]:
        """See `Task.items`."""
        previous: dict[str, str] = {}  # conversation -> its previous item
        for own in self.questions:
            name = own.id
            kinds = ("unanswerable",) if own.unanswerable else ("answerable",)
            yield Item(
                name,
                task=own,
                after=previous.get(own.conversation) if own.conversation else None,
                question=own.question,
                reference=own.answer,
                labels={"question": kinds, "turn": ("later" if own.conversation in previous else "first",)},
                cluster=own.conversation or name,
                headline=bool(own.conditions),
            )
            if own.conversation:
                previous[own.conversation] = name

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """See `Task.answer`."""
        history: tuple[Message, ...] = ()
        if item.earlier is not None:
            if item.earlier.status != "done" or item.earlier.prediction is None:
                raise EarlierTurn(f"{item.after} has no answer to continue from: {item.earlier.reason}")
            history = (*(item.earlier.history or ()), *exchange(item.earlier.query or "", item.earlier.prediction))
        assistant = self.assistant.using(self.retrievers[CORPUS], generator)
        sample = turn_sample(assistant, item, history, item.question)
        return sample.model_copy(update={"history": history})

    def context(self, item: Item, sample: Sample) -> QuestionCase:
        """See `Task.context`."""
        fields: dict[str, Any] = vars(super().context(item, sample)) | {"history": sample.history or ()}
        texts = tuple(text for ref in sample.contexts if (text := ref.text or self.text_of(ref.document_id)))
        return QuestionCase(
            **fields | {"passages": texts or None, "own_history": True},
            own=item.task,
            documents=first_documents(sample),
        )


def first_documents(sample: Sample) -> tuple[str, ...]:
    """Return the documents of the first passages that were found, the best first."""
    ranked = sorted(sample.contexts, key=lambda ref: -ref.score)[:MAX_FOUND_RANK]
    spans = (span_of(ref.document_id) for ref in ranked)
    return tuple(dict.fromkeys(span.document for span in spans if span))
