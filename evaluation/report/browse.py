"""`browse.jsonl`: what a reader of samples wants to see beside them, in the order of the data, one line a sample.

`predictions.jsonl` names a task and its passages by their ids; a page that shows the conversation, the texts and the
reference must not depend on the data still being where they were. They are written down while a run is scored, when
each item is at hand anyway, and cut to what anybody reads. Nothing is scored from this file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import Field, FiniteFloat

from turnmark.corpora import compound_qa, inscoqa, kiwi, mtrag
from turnmark.corpora.types import Message, Record
from turnmark.evaluation.benchmarks.base import Benchmark, Item
from turnmark.evaluation.benchmarks.task import Row
from turnmark.evaluation.journal import json_line, written_whole
from turnmark.evaluation.records import Sample
from turnmark.evaluation.rundir import RunFolder

FILE = "browse.jsonl"
TEXT = 4_000
"""Characters that are kept of a text."""
PASSAGES = 20
"""Passages that are kept of a sample."""


class Text(Record):
    """A text, or its beginning."""

    text: str
    left_out: int = Field(default=0, ge=0, description="characters after it")


class SeenPassage(Record):
    """A passage of a sample: found, or relevant and not found."""

    id: str
    title: str = ""
    text: Text | None = Field(default=None, description="None: nobody knows it any more")
    rank: int | None = Field(default=None, description="1-based place among what was found; None: not found")
    score: FiniteFloat | None = None
    relevant: bool | None = Field(default=None, description="None: the data does not say")


class Said(Record):
    """One utterance before the question."""

    role: str
    text: Text


class Browsed(Record):
    """One line of `browse.jsonl`."""

    id: str
    repeat: int = 0
    labels: Mapping[str, tuple[str, ...]] = Field(default_factory=dict, description="dimension -> values")
    history: tuple[Said, ...] = ()
    question: Text
    reference: Text
    passages: tuple[SeenPassage, ...] = ()

    @property
    def key(self) -> tuple[str, int]:
        """What identifies the sample in its run."""
        return self.id, self.repeat


@dataclass(frozen=True)
class Material:
    """What a task shows beside the question.

    Attributes:
        texts: passage id -> title and text, of those that come with the task.
        relevant: ids that the data calls relevant; None: it does not say.
    """

    question: str = ""
    reference: str = ""
    history: tuple[Message, ...] = ()
    texts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    relevant: frozenset[str] | None = None


def noted(run: RunFolder, benchmark: Benchmark[Any], items: Iterable[Item]) -> Iterator[Item]:
    """Pass items on, and write down what is to be seen of their samples; the file is there when all were passed on.

    Raises:
        OSError: it cannot be written.
    """
    with written_whole(run.path / FILE) as file:
        for item in items:
            for repeat in range(run.manifest.repeat):
                sample = run.samples.get((item.id, repeat))
                if sample is not None:
                    file.write(json_line(browsed(benchmark, item, sample)))
            yield item


def browsed(benchmark: Benchmark[Any], item: Item, sample: Sample) -> Browsed:
    """The line of a sample."""
    try:
        # In the order of the sample's contexts, where all of their texts are known.
        texts = tuple(getattr(benchmark.context(item, sample), "passages", ()))
    except Exception:  # told by the metrics, which meet it too
        texts = ()
    return _line(sample, material_of(item.task), benchmark.facts(item).labels, texts)


def _line(sample: Sample, material: Material, labels: Mapping[str, tuple[str, ...]], texts: tuple[str, ...]) -> Browsed:
    return Browsed(
        id=sample.id,
        repeat=sample.repeat,
        labels=dict(labels),
        history=tuple(Said(role=message.role, text=cut(message.content)) for message in material.history),
        question=cut(material.question or sample.query or ""),
        reference=cut(material.reference),
        passages=tuple(_passages(sample, material, texts))[:PASSAGES],
    )


def _passages(sample: Sample, material: Material, texts: tuple[str, ...]) -> Iterator[SeenPassage]:
    refs = sample.contexts
    if len(texts) != len(refs):
        texts = ()
    for rank, ref in enumerate(refs, 1):
        title, text = material.texts.get(ref.document_id, (ref.title or "", ref.text))
        if text is None and texts:
            text = texts[rank - 1]
        yield SeenPassage(
            id=ref.document_id,
            title=title,
            text=None if text is None else cut(text),
            rank=rank,
            score=ref.score,
            relevant=None if material.relevant is None else ref.document_id in material.relevant,
        )
    found_ids = {ref.document_id for ref in refs}
    for name in sorted((material.relevant or frozenset()) - found_ids):
        title, text = material.texts.get(name, ("", None))
        yield SeenPassage(id=name, title=title, text=None if text is None else cut(text), relevant=True)


def cut(text: str) -> Text:
    """A text, or as much of it as is kept."""
    return Text(text=text[:TEXT], left_out=max(0, len(text) - TEXT))


# --- what each benchmark's tasks hold --------------------------------------------------------------------------------


def material_of(task: Any) -> Material:
    """What a task of any benchmark shows; nothing, of a kind that is not known here."""
    if (judged := getattr(task, "relevant", None)) is not None:  # a query that lists are made for
        return replace(material_of(task.task), relevant=frozenset(judged))
    # Benchmarks hand the loader's task in a record of their own: with what is hidden from it, with its session.
    hidden = bool(getattr(task, "hidden", ()))
    session, turn, task = getattr(task, "session", None), getattr(task, "turn", None), getattr(task, "task", task)
    if isinstance(task, mtrag.Task):
        passages = {context.document_id: (context.title, context.text) for context in task.contexts}
        reference = "" if hidden else task.reference
        return Material(task.question, reference, tuple(task.history), passages, frozenset(passages))
    if isinstance(task, inscoqa.Task):
        steps = "\n".join(f"{number}. {step}" for number, step in enumerate(task.procedure, 1))
        passages = {
            name: text for context in task.documents for name, text in _pieces(context.id, context.title, context.text)
        }
        return Material(task.question, f"{task.answer}\n\n{steps}", tuple(task.history), passages)
    if isinstance(task, compound_qa.Task):
        passages = {} if task.context is None else dict(_pieces(task.id, "", task.context))
        return Material(task.question, task.reference, (), passages)
    if isinstance(session, kiwi.Session) and isinstance(turn, kiwi.Turn):
        question = Message(role="user", content=session.question)
        previous = Message(role="assistant", content=turn.previous)
        return Material(turn.instruction, turn.edit or turn.answer, (question, previous), _of_session(session, turn))
    if isinstance(task, Row):
        passages = {f"{task.id}#{n}": ("", text) for n, text in enumerate(task.passages, 1)}
        return Material(task.question, task.reference, task.history, passages)
    return Material()


def _pieces(identity: str, title: str, text: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """The passages that a text of a task is searched as."""
    from turnmark.retrieval.task_passages import cut as pieces

    for passage in pieces(identity, title, text):
        yield passage.id, (" › ".join(filter(None, (passage.title, passage.section))), passage.text)


def _of_session(session: kiwi.Session, turn: kiwi.Turn) -> dict[str, tuple[str, str]]:
    """KIWI's passages under the ids that its samples name them by."""
    paragraphs = session.papers.paragraphs if session.papers else ()
    places = ((f"{turn.id}#passage", turn.passages), (f"{session.index}#passage", session.passages),
              (f"{session.index}#paragraph", paragraphs))  # fmt: skip
    return {
        f"{place}-{index}": (entry.title, entry.text) for place, group in places for index, entry in enumerate(group, 1)
    }
