"""InsCoQA's task (section 5): answer the last question of a conversation from several instructional documents.

A system writes a plain-text response and the procedure as a flat list of steps (appendix D); section 5.2 compares the
response alone with the reference. The sample holds the two in the same way, whoever wrote it: `prediction` is the full
text, `procedure` the steps; in the setting `prompt` `prediction` is the reply as the model wrote it, which is taken
apart when it is scored. The assistant's text holds its steps.

Section 5.3 puts the documents into the prompt. In the setting `documents` the assistant's turn answers from them; in
`prompt` a model is asked as the paper asks, and replies in one text, whose form is checked strictly and counted
(`format_ok`); what can be read of it is read whatever its form. In `rag` the documents of all samples are one pool that
is searched, which the paper does not do, so nothing published is comparable.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.steps.retrieve import conversation_query
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.home import home, write_atomic
from turnmark.corpora import inscoqa
from turnmark.corpora.inscoqa import InstructionalDocument, Split
from turnmark.corpora.inscoqa import Task as Row
from turnmark.corpora.rows import Source
from turnmark.corpora.types import Passage, Problem
from turnmark.evaluation.benchmarks.base import Case, Item, Metric
from turnmark.evaluation.benchmarks.inscoqa_prompt import PROMPT, has_two_parts, read_reply
from turnmark.evaluation.benchmarks.measures import (
    CHARACTER_METRICS,
    LEAD_METRICS,
    PASSAGE_METRICS,
    REFERENCE_METRICS,
    STYLE_METRICS,
)
from turnmark.evaluation.benchmarks.mtrag_data import corpus_used
from turnmark.evaluation.benchmarks.task import Task, choose_domains, data_used, hash_prompts
from turnmark.evaluation.benchmarks.turns import headed, prompted_sample, strip_marks, turn_sample
from turnmark.evaluation.judging.inscoqa import REFERENCE_STEP, STEP, inscoqa_rubrics
from turnmark.evaluation.records import Sample
from turnmark.evaluation.runs.rundir import fingerprint
from turnmark.retrieval.task_passages import Embed, by_list, cut_passages, ranked_by

SETTINGS = ("documents", "prompt", "rag")
NEEDS_MODEL = "--setting prompt asks a language model as the paper does: add --generator, or leave it out"
POOL = "pool"


@dataclass(frozen=True)
class InstructionalCase(Case):
    """A reply with its steps, in `more` with those of the reference; appendix E's judge is shown no documents."""

    passages_judged: ClassVar[bool] = False
    format_ok: bool | None = None
    """The reply is in the form of appendix D; None: it was not asked for, or is not there as written."""


FORMAT_METRIC: Metric[InstructionalCase] = Metric(
    ("format_ok",),
    "appendix D's form, read strictly",
    lambda case: {"format_ok": None if case.format_ok is None else float(case.format_ok)},
    "no reply was asked for in the two parts of appendix D",
)


def pool(tasks: Iterable[Row | Problem]) -> Iterator[Passage]:
    """The passages of all distinct documents of the tasks, in the order in which they first occur; all ids differ.

    `rag` searches those of the full split (`turnmark.corpora.inscoqa.stream_tasks`), whatever domains are asked about.
    Of several documents with one id, the first keeps it; to the others' a hash of their content is added.
    """
    contents: dict[str, str] = {}
    for task in tasks:
        for document in () if isinstance(task, Problem) else task.documents:
            content = _content(document)
            name = document.id if contents.get(document.id, content) == content else f"{document.id}~{content[:8]}"
            if name not in contents:
                contents[name] = content
                yield from cut_passages(name, document.title, document.text)


def write_pool(tasks: Iterable[Row | Problem], path: Path) -> int:
    """Write `pool` as a BEIR corpus (`_id`, `title`, `text`), a reader seeing the old file or all of the new one.

    The title is the document's with the headings above the passage. Ids are in the file and nowhere else.

    Returns:
        Passages written.
    """
    rows = ({"_id": passage.id, "title": headed(passage), "text": passage.text} for passage in pool(tasks))
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    write_atomic(path, "".join(lines))
    return len(lines)


def _content(document: InstructionalDocument) -> str:
    return hashlib.sha256(f"{document.title}\0{document.text}".encode()).hexdigest()


class InsCoQA(Task):
    """A split of InsCoQA in one setting.

    Intervals resample source documents: samples share a cluster when the least of their documents' content hashes is
    the same. Samples made from the same documents always do, in whatever order and under whatever ids; of samples that
    share some, the more likely the more they share. The first document's id would not do: data may number the documents
    of each sample anew, and then all samples were one cluster.
    """

    settings = SETTINGS
    flags = ("query",)
    rubrics = staticmethod(inscoqa_rubrics)

    source: Source
    split: Split

    def open(self) -> None:
        """See `Task.open`. In `rag` the pool that is searched is written, once."""
        errors, request = ErrorCollector(), self.request
        self.metrics: Sequence[Metric[Any]] = (
            *((FORMAT_METRIC,) if self.setting == "prompt" else ()),
            *REFERENCE_METRICS,
            *CHARACTER_METRICS,
            *PASSAGE_METRICS,
            *LEAD_METRICS,
            *STYLE_METRICS,
        )
        asks = self.setting == "prompt" and not request.scoring
        if asks and not request.asks_model:
            errors.add(NEEDS_MODEL)
        if asks and request.steps:
            errors.add("--step is for the steps of the turn, which --setting prompt does without; give one of them")
        self.inputs = errors.collect(hash_prompts, (PROMPT,) if asks else (), request.prompts) or {}
        source = errors.collect(inscoqa.locate, request.data)
        errors.raise_all()
        assert source is not None, "errors.raise_all() raised otherwise"
        self.source, splits = source, inscoqa.splits(source.root) or ("test",)
        self.split = inscoqa.split_named(request.data) or splits[-1]  # test, where it is there
        files = {f"{self.split}.jsonl": source.root / f"{self.split}.jsonl"}
        rows = (row for row in inscoqa.stream_tasks(source.root, self.split) if not isinstance(row, Problem))
        self.domains = choose_domains(sorted({row.domain for row in rows}), request.domains)
        self.data = data_used(source, files)
        if self.setting == "rag":
            path = home() / "cache" / f"inscoqa-{fingerprint(files)[:16]}.jsonl"
            if not path.is_file():
                write_pool(inscoqa.stream_tasks(source.root, self.split), path)
            self.corpora, self.corpora_used = {POOL: path}, {POOL: corpus_used(POOL, path)}
            self.searched, self.specs = not request.scoring, {"query": "assistant"}

    def items(self) -> Iterator[Item | Problem]:
        for row in inscoqa.stream_tasks(self.source.root, self.split):
            yield row if isinstance(row, Problem) else self._item(row)

    def _item(self, row: Row) -> Item:
        least_hash = min(map(_content, row.documents))
        labels = {"domain": row.domain, "turn": "later" if row.history else "first", "split": self.split}
        steps = "\n".join(f"{number}. {step}" for number, step in enumerate(row.procedure, 1))
        return Item(
            row.id,
            row,
            row.domain,
            question=row.question,
            history=row.history,
            reference=f"{row.answer}\n\n{steps}",
            passages={document.id: (document.title, document.text) for document in row.documents},
            labels={name: (value,) for name, value in labels.items()},
            cluster=f"documents {least_hash[:16]}",
        )

    @cached_property
    def _embed(self) -> Embed | None:
        return by_list(self.assistant.embed) if self.assistant.embed else None

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """See `Task.answer`. In `documents` all passages are evidence, ranked for the message and its rewrite."""
        task: Row = item.task
        if self.setting == "prompt":
            if generator is None:
                raise RequestError(NEEDS_MODEL)
            return self._prompt(item, generator)
        evidence = None
        if self.setting == "documents":
            query = conversation_query(task.history, task.question)
            passages = [
                passage
                for document in task.documents
                for passage in cut_passages(document.id, document.title, document.text)
            ]
            evidence = ranked_by(passages, (query.text, *query.variants), self._embed)
        assistant = self.assistant.using(self.retrievers.get(POOL), generator)
        return turn_sample(assistant, item, task.history, task.question, evidence, trusted=evidence is not None)

    def _prompt(self, item: Item, generator: Generator) -> Sample:
        """Ask a model as the paper does: the reply as written in `prediction`, its steps in `procedure`."""
        sample = prompted_sample(item, PROMPT, list(item.passages.values()), generator, self.assistant.config.prompts)
        reply = read_reply(sample.prediction or "")
        notes = () if reply.in_form else ("the reply is not in the form that was asked for",)
        steps = tuple({"step": step, "citations": []} for step in reply.steps)
        return sample.model_copy(update={"procedure": steps, "notes": (*sample.notes, *notes), "decision": None})

    def context(self, item: Item, sample: Sample) -> InstructionalCase:
        """See `Task.context`. The passages are the sample's documents, or in `rag` what was found in the pool.

        A reply that is as a model wrote it, in the setting `prompt` or in another system's file, is taken apart.
        """
        task: Row = item.task
        text, steps = sample.prediction or "", [str(step["step"]) for step in sample.procedure]
        reply, format_ok = read_reply(text), None
        if has_two_parts(text) or (self.setting == "prompt" and tuple(steps) in ((), reply.steps)):
            text, steps, format_ok = reply.answer, steps or list(reply.steps), reply.in_form
        documents = tuple(document.text for document in task.documents)
        steps = list(filter(None, (strip_marks(step, sample).strip() for step in steps)))
        return InstructionalCase(
            question=task.question,
            answer=strip_marks(text, sample),
            history=task.history,
            reference=task.answer,
            passages=self._found(sample) if self.setting == "rag" else documents,
            more=(*((STEP, step) for step in steps), *((REFERENCE_STEP, step) for step in task.procedure)),
            raw=text,
            decision=sample.decision,
            format_ok=format_ok,
        )

    def target(self, item: Item) -> Mapping[str, Any]:
        row: Row = item.task
        steps = tuple({"step": step, "citations": []} for step in row.procedure)
        return {"query": row.question, "prediction": row.answer, "procedure": steps}

    @cached_property
    def _pool(self) -> Mapping[str, str]:
        return {passage.id: passage.text for passage in pool(inscoqa.stream_tasks(self.source.root, self.split))}

    def _found(self, sample: Sample) -> tuple[str, ...]:
        """The texts of what was found: from the sample where another system gave them, else from the pool."""
        texts = (context.text or self._pool.get(context.document_id, "") for context in sample.contexts)
        return tuple(filter(None, texts))
