"""InsCoQA's task (section 5): answer the last question of a conversation from several instructional documents.

A system writes a plain-text response and a procedure as a flat list of steps (appendix D); section 5.2 compares only
the response with the reference. In every sample `prediction` is the full text and `procedure` the steps. The settings:

- `documents`: the assistant's turn answers from the documents; its text includes the steps.
- `prompt`: a model is asked by the paper's prompt with the documents in it (section 5.3). `prediction` is its reply as
  written, which is parsed when it is scored. `format_ok` is the share of replies that pass a strict check of the form.
- `rag`: the documents of all samples form one pool that is searched. The paper has no such setting, so no published
  value is comparable.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.steps.retrieve.retrieve_sections import conversation_query
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.home import home, write_atomic
from turnmark.corpora.benchmarks import inscoqa
from turnmark.corpora.benchmarks.checking import PUBLISHED_STATISTICS, count_inscoqa, list_deviations
from turnmark.corpora.benchmarks.inscoqa import InscoqaTask, InstructionalDocument, Split
from turnmark.corpora.downloads.small_models import MULTILINGUAL
from turnmark.corpora.jsonl_rows import Source
from turnmark.corpora.text.function_words import language_of
from turnmark.corpora.types import Passage, Problem
from turnmark.evaluation.benchmarks.inscoqa.options import InscoqaOptions
from turnmark.evaluation.benchmarks.inscoqa.paper_prompt import PROMPT, has_two_parts, read_reply
from turnmark.evaluation.benchmarks.inscoqa.rubrics import REFERENCE_STEP, STEP, inscoqa_rubrics
from turnmark.evaluation.records import Sample
from turnmark.evaluation.storage.corpus_size import measure_corpus
from turnmark.evaluation.storage.run_folder import fingerprint
from turnmark.evaluation.tasks.items import Case, Item
from turnmark.evaluation.tasks.metric import Metric, metric
from turnmark.evaluation.tasks.standard_metrics import (
    CHARACTER_METRICS,
    LEAD_METRICS,
    PASSAGE_METRICS,
    REFERENCE_METRICS,
    STYLE_METRICS,
)
from turnmark.evaluation.tasks.task import Task, choose_domains, data_used, hash_prompts
from turnmark.evaluation.tasks.turn_samples import heading_of, prompted_sample, strip_marks, turn_sample
from turnmark.retrieval.embedding.choose_embedder import foreign_languages
from turnmark.retrieval.embedding.vector_cache import Embed, cache_by_list
from turnmark.retrieval.search.task_passages import cut_passages, ranked_by

SETTINGS = ("documents", "prompt", "rag")
NEEDS_MODEL = "--setting prompt asks a language model as the paper does: add --generator, or leave it out"
POOL = "pool"


@dataclass(frozen=True)
class InstructionalCase(Case):
    """A reply with its steps and the reference's steps in `more`; the judge of appendix E sees no documents."""

    passages_judged: ClassVar[bool] = False
    format_ok: bool | None = None
    """Whether the reply has the form of appendix D, or None if that form was not requested, or the raw reply was not
    kept."""


@metric(by="appendix D's form, read strictly", without="no reply in the two parts of appendix D was requested")
def format_ok(case: InstructionalCase) -> float | None:
    """Measure whether the reply has the form of appendix D."""
    return None if case.format_ok is None else float(case.format_ok)


def pool(tasks: Iterable[InscoqaTask | Problem]) -> Iterator[Passage]:
    """Yield the passages of all distinct documents of the tasks, in the order of first occurrence, with unique ids.

    `rag` searches the pool of the full split (`turnmark.corpora.benchmarks.inscoqa.stream_tasks`), even with
    `--domains`. If documents with different content share an id, the first keeps it; the others get a hash of their
    content appended.
    """
    content_of_name: dict[str, str] = {}
    for task in tasks:
        if isinstance(task, Problem):
            continue
        for document in task.documents:
            content = _content_hash(document)
            name = document.id
            if content_of_name.get(name, content) != content:
                name = f"{document.id}~{content[:8]}"
            if name not in content_of_name:
                content_of_name[name] = content
                yield from cut_passages(name, document.title, document.text)


def write_pool(tasks: Iterable[InscoqaTask | Problem], path: Path) -> int:
    """Write `pool` as a BEIR corpus (`_id`, `title`, `text`). The file is replaced atomically.

    The title is the document's title with the headings above the passage. Only this file contains the passage ids.

    Returns:
        Number of passages written.
    """
    rows = ({"_id": passage.id, "title": heading_of(passage), "text": passage.text} for passage in pool(tasks))
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    write_atomic(path, "".join(lines))
    return len(lines)


def _content_hash(document: InstructionalDocument) -> str:
    return hashlib.sha256(f"{document.title}\0{document.text}".encode()).hexdigest()


def _embedder_notes(embedder: str, languages: Mapping[str, int]) -> tuple[str, ...]:
    """Return a note if the embedder that ranks the passages does not know the languages of the questions."""
    foreign = foreign_languages(embedder, languages)
    if not foreign:
        return ()
    advice = f"--embedder {MULTILINGUAL.name} knows more languages (turnmark model get {MULTILINGUAL.name})"
    return (f"the embedder {embedder} does not know the language of the data ({', '.join(foreign)}); {advice}",)


class InsCoQA(Task):
    """A split of InsCoQA in one setting.

    The bootstrap resamples source documents: samples belong to one cluster if the smallest content hash among their
    documents is the same. Samples with the same documents always share a cluster, whatever the order and ids; samples
    with some documents in common share one with a probability that grows with their number. The id of the first
    document would not work: some data number the documents of each sample from 1, which would put all samples into one
    cluster.
    """

    settings = SETTINGS
    options_type = InscoqaOptions
    rubrics = staticmethod(inscoqa_rubrics)

    source: Source
    split: Split

    def open(self) -> None:
        """See `Task.open`. In `rag`, write the pool to the cache unless the cache already contains it."""
        errors, request = ErrorCollector(), self.request
        self.metrics: Sequence[Metric[Any]] = (
            *REFERENCE_METRICS,
            *CHARACTER_METRICS,
            *PASSAGE_METRICS,
            *LEAD_METRICS,
            *STYLE_METRICS,
        )
        if self.setting == "prompt":
            self.metrics = (format_ok, *self.metrics)
        asks = self.setting == "prompt" and not request.scoring
        if asks and not request.asks_model:
            errors.add(NEEDS_MODEL)
        if asks and request.assistant.steps:
            errors.add("--step is for the steps of the turn, and --setting prompt runs none; give only one of them")
        self.inputs = errors.collect(hash_prompts, (PROMPT,) if asks else (), request.assistant.prompts) or {}
        source = errors.collect(inscoqa.locate, request.data)
        errors.raise_all()
        assert source is not None, "errors.raise_all() raised otherwise"
        self.source = source
        splits = inscoqa.splits(source.root) or ("test",)
        self.split = inscoqa.split_named(request.data) or splits[-1]  # `test` comes last
        files = {f"{self.split}.jsonl": source.root / f"{self.split}.jsonl"}
        domains: set[str] = set()
        languages: Counter[str] = Counter()
        for row in inscoqa.stream_tasks(source.root, self.split):
            if not isinstance(row, Problem):
                domains.add(row.domain)
                languages[language_of(row.question)] += 1
        self.domains = choose_domains(sorted(domains), request.domains)
        if self.setting != "prompt" and not request.scoring:
            self.notes = _embedder_notes(request.embedder, languages)
        self.data = data_used(source, files)
        if self.setting == "rag":
            path = home() / "cache" / f"inscoqa-{fingerprint(files)[:16]}.jsonl"
            if not path.is_file():
                write_pool(inscoqa.stream_tasks(source.root, self.split), path)
            self.corpora, self.corpora_used = {POOL: path}, {POOL: measure_corpus(path)}
            self.searched, self.specs = not request.scoring, {"query": "assistant"}

    def items(self) -> Iterator[Item | Problem]:
        for row in inscoqa.stream_tasks(self.source.root, self.split):
            yield row if isinstance(row, Problem) else self._item(row)

    def _item(self, row: InscoqaTask) -> Item:
        smallest_hash = min(map(_content_hash, row.documents))
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
            cluster=f"documents {smallest_hash[:16]}",
        )

    def doubts(self) -> Mapping[str, str]:
        """See `Task.doubts`. The data are not public, so a split is recognized by the numbers of Table 1, without the
        word counts."""
        rows = [row for row in inscoqa.stream_tasks(self.source.root, self.split) if not isinstance(row, Problem)]
        of_split = [name for name in PUBLISHED_STATISTICS["inscoqa"]["figures"] if name.startswith(f"{self.split}: ")]
        counts = [name for name in of_split if ": words " not in name]
        differing = list_deviations("inscoqa", count_inscoqa(self.split, rows), counts)
        return {self.split: differing[0]} if differing else {}

    @cached_property
    def _embed(self) -> Embed | None:
        return cache_by_list(self.embed) if self.embed else None

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """See `Task.answer`. In `documents` the evidence is all passages, ranked by question and rewrite."""
        task: InscoqaTask = item.task
        if self.setting == "prompt":
            if generator is None:
                raise RequestError(NEEDS_MODEL)
            return self._prompt(item, generator)
        evidence = None
        if self.setting == "documents":
            passages = [
                passage
                for document in task.documents
                for passage in cut_passages(document.id, document.title, document.text)
            ]
            query = conversation_query(task.history, task.question)
            evidence = ranked_by(passages, (query.text, *query.variants), self._embed)
        assistant = self.assistant.using(self.retrievers.get(POOL), generator)
        return turn_sample(assistant, item, task.history, task.question, evidence, trusted=evidence is not None)

    def _prompt(self, item: Item, generator: Generator) -> Sample:
        """Ask a model by the paper's prompt; `prediction` is the reply as written, `procedure` its parsed steps."""
        sample = prompted_sample(item, PROMPT, list(item.passages.values()), generator, self.assistant.config.prompts)
        reply = read_reply(sample.prediction or "")
        notes = () if reply.in_form else ("the reply is not in the form that was asked for",)
        steps = tuple({"step": step, "citations": []} for step in reply.steps)
        return sample.model_copy(update={"procedure": steps, "notes": (*sample.notes, *notes), "decision": None})

    def context(self, item: Item, sample: Sample) -> InstructionalCase:
        """See `Task.context`. The passages are the task's documents, or in `rag` the passages found in the pool.

        An unparsed reply, from the setting `prompt` or from another system's file, is parsed.
        """
        task: InscoqaTask = item.task
        text = sample.prediction or ""
        steps = [str(step["step"]) for step in sample.procedure]
        reply = read_reply(text)
        format_ok: bool | None = None
        as_written = self.setting == "prompt" and (not steps or tuple(steps) == reply.steps)
        if has_two_parts(text) or as_written:
            text, format_ok = reply.answer, reply.in_form
            steps = steps or list(reply.steps)
        documents = tuple(document.text for document in task.documents)
        steps_without_marks = [strip_marks(step, sample).strip() for step in steps]
        judged_steps = [(STEP, step) for step in steps_without_marks if step]
        reference_steps = [(REFERENCE_STEP, step) for step in task.procedure]
        return InstructionalCase(
            question=task.question,
            answer=strip_marks(text, sample),
            history=task.history,
            reference=task.answer,
            passages=self._found_texts(sample) if self.setting == "rag" else documents,
            more=(*judged_steps, *reference_steps),
            raw=text,
            decision=sample.decision,
            format_ok=format_ok,
        )

    def target(self, item: Item) -> Mapping[str, Any]:
        row: InscoqaTask = item.task
        steps = tuple({"step": step, "citations": []} for step in row.procedure)
        return {"query": row.question, "prediction": row.answer, "procedure": steps}

    @cached_property
    def _pool(self) -> Mapping[str, str]:
        return {passage.id: passage.text for passage in pool(inscoqa.stream_tasks(self.source.root, self.split))}

    def _found_texts(self, sample: Sample) -> tuple[str, ...]:
        """Return the texts of the retrieved passages: from the sample if it has them, else from the pool."""
        texts = (context.text or self._pool.get(context.document_id, "") for context in sample.contexts)
        return tuple(filter(None, texts))
