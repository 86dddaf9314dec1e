"""`browse.jsonl`: what a reader of samples wants to see with them, in the order of the data, one line a sample.

`predictions.jsonl` names a task and its passages by their ids; a page that shows the conversation, the texts and the
reference must not depend on the data still being where they were. They are written down while a run is scored, when
each item is at hand anyway, and cut to what anybody reads. Nothing is scored from this file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from pydantic import Field, FiniteFloat

from turnmark.corpora.types import Record
from turnmark.evaluation.benchmarks.base import Case, Item, attempted
from turnmark.evaluation.benchmarks.task import Task
from turnmark.evaluation.benchmarks.turns import headed
from turnmark.evaluation.journal import json_line, open_atomic
from turnmark.evaluation.records import Sample
from turnmark.evaluation.rundir import RunFolder
from turnmark.retrieval.task_passages import cut_passages

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
    rank: int | None = Field(default=None, description="1-based rank among what was found; None: not found")
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


def note_samples(run: RunFolder, benchmark: Task, items: Iterable[Item]) -> Iterator[Item]:
    """Pass items on, and write down what is to be seen of their samples; the file is there when all were passed on.

    Raises:
        OSError: it cannot be written.
    """
    with open_atomic(run.path / FILE) as file:
        for item in items:
            for repeat in range(run.manifest.repeat):
                sample = run.samples.get((item.id, repeat))
                if sample is not None:
                    file.write(json_line(browsed(benchmark, item, sample)))
            yield item


def browsed(benchmark: Task, item: Item, sample: Sample) -> Browsed:
    """The line of a sample."""
    # What it throws is reported by the metrics, which meet it too. Passages are in the order of the sample's contexts.
    case = attempted(partial(benchmark.context, item, sample))[0]
    texts = case.passages or () if isinstance(case, Case) else ()
    return Browsed(
        id=sample.id,
        repeat=sample.repeat,
        labels=dict(item.labels),
        history=tuple(Said(role=message.role, text=clip_text(message.content)) for message in item.history),
        question=clip_text(item.question or sample.query or ""),
        reference=clip_text(item.reference),
        passages=tuple(_passages(sample, item, texts))[:PASSAGES],
    )


def _passages(sample: Sample, item: Item, texts: tuple[str, ...]) -> Iterator[SeenPassage]:
    refs = sample.contexts
    known_texts = _texts_of(item, {ref.document_id for ref in refs})
    if len(texts) != len(refs):
        texts = ()
    for rank, ref in enumerate(refs, 1):
        title, text = known_texts.get(ref.document_id, (ref.title or "", ref.text))
        if text is None and texts:
            text = texts[rank - 1]
        yield SeenPassage(
            id=ref.document_id,
            title=title,
            text=None if text is None else clip_text(text),
            rank=rank,
            score=ref.score,
            relevant=None if item.relevant is None else ref.document_id in item.relevant,
        )
    found_ids = {ref.document_id for ref in refs}
    for name in sorted((item.relevant or frozenset()) - found_ids):
        title, text = known_texts.get(name, ("", None))
        yield SeenPassage(id=name, title=title, text=None if text is None else clip_text(text), relevant=True)


def _texts_of(item: Item, ids: set[str]) -> dict[str, tuple[str, str]]:
    """Id -> title and text of what comes with an item: passages, or the documents that passages are cut from."""
    texts = dict(item.passages)
    for name, (title, text) in item.passages.items() if not ids <= texts.keys() else ():
        texts |= {passage.id: (headed(passage), passage.text) for passage in cut_passages(name, title, text)}
    return texts


def clip_text(text: str) -> Text:
    """A text, or as much of it as is kept."""
    return Text(text=text[:TEXT], left_out=max(0, len(text) - TEXT))
