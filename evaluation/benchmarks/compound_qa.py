"""Compound-QA's task (sections 3 and 4): several questions asked at once, all to be answered, from a context or not.

The contexts come with the data, so nothing is searched. Where there is a language model, a question with a context is
the assistant's turn with that context as evidence, and a closed-book one is put to the model by a prompt of ours. (The
paper's prompt, table 21, asks for an answer to which the context may be consulted; ours asks for one that rests on it.)
Without a language model the turn chooses sentences of the context for each part and joins them in the order asked;
closed-book questions get "I don't know".

Upstream the halves with and without a context are of different sources, so the dimension `context` tells them apart.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from assistant.generators.base import Generator
from assistant.memo import once
from assistant.prompts import load_prompt
from assistant.steps.answer import Embed
from assistant.steps.decide import decide
from assistant.steps.llm import written
from assistant.steps.split import split_questions
from assistant.steps.understand import understand
from assistant.steps.unknown import says_unknown
from assistant.types import GROUNDED
from corpora import compound_qa
from corpora.compound_qa import Task
from corpora.rows import Source
from corpora.text import strip_citations
from corpora.types import Passage, Problem
from evaluation.benchmarks.base import Item, Metric, Value
from evaluation.benchmarks.measures import (
    LEAD_METRICS,
    PASSAGE_METRICS,
    REFERENCE_METRICS,
    STYLE_METRICS,
    Answered,
    unknown,
)
from evaluation.benchmarks.turns import Parts, turn_sample, with_steps
from evaluation.metrics.parts import assign, part_coverage
from evaluation.records import Sample, SubAnswer
from evaluation.summary import Facts
from retrieval.given import cut, ranked_by

if TYPE_CHECKING:
    pass


class CompoundQA:
    """Compound-QA, streamed; see `evaluation.benchmarks.base.Benchmark`.

    Intervals resample contexts, which upstream several questions share; a closed-book question stands for itself.

    Args:
        domains: only these capabilities; empty: all that are there.

    Raises:
        RequestError: no such capability, or no file.
    """

    def __init__(self, source: Source, parts: Parts, domains: Collection[str] = ()) -> None:
        self.source, self.parts, self.domains = source, parts, tuple(domains)
        compound_qa.stream_tasks(source.root, self.domains)  # says what is wrong with the request; nothing is read yet
        self.metrics: Sequence[Metric[Answered]] = (
            _coverage(parts.embed),
            *REFERENCE_METRICS,
            *PASSAGE_METRICS,
            *LEAD_METRICS,
            *STYLE_METRICS,
        )

    def files(self) -> Mapping[str, Path]:
        """What is read, by name."""
        found = compound_qa.files(self.source.root)
        return {file.shown: file.path for file in found if not self.domains or file.capability in self.domains}

    def items(self) -> Iterator[Item | Problem]:
        """See `Benchmark.items`; the domain is the capability."""
        for task in compound_qa.stream_tasks(self.source.root, self.domains):
            yield task if isinstance(task, Problem) else Item(task.id, task, task.capability)

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """See `Benchmark.answer`."""
        task: Task = item.task
        if generator is None:
            return self._turn(item, task, None)
        sample = self._asked(item, task, generator) if task.closed_book else self._turn(item, task, generator)
        if self.parts.embed is None:
            return sample  # what answers which part is found by vectors
        parts = split_questions(task.question)
        said = strip_citations(with_steps(sample.prediction or "", sample.procedure))
        answers = ("",) * len(parts) if sample.decision == "unknown" else assign(parts, said, self.parts.embed)
        return sample.model_copy(update={"sub_answers": _paired(parts, answers)})

    def context(self, item: Item, sample: Sample) -> Answered:
        """See `Benchmark.context`."""
        task: Task = item.task
        said = with_steps(sample.prediction or "", sample.procedure)
        return Answered(
            raw=said,
            answer=strip_citations(said),
            reference=task.reference,
            passages=() if task.context is None else (task.context,),
            history=(task.question,),
            decision=sample.decision,
        )

    def facts(self, item: Item) -> Facts:
        """See `Benchmark.facts`."""
        task: Task = item.task
        labels = {
            "capability": (task.capability,),
            "type": (task.type,),
            "context": ("closed-book" if task.closed_book else "with",),
        }
        return Facts(cluster=hashlib.sha256(task.group.encode()).hexdigest()[:16], labels=labels)

    def rankings(self, item: Item, sample: Sample) -> Mapping[str, tuple[bool, float]]:  # noqa: ARG002
        """See `Benchmark.rankings`: none."""
        return {}

    def _turn(self, item: Item, task: Task, generator: Generator | None) -> Sample:
        """The assistant's turn over the context.

        Without a model the context is trusted for each part where it is near enough to the question as a whole.
        """
        parts = replace(self.parts, embed=once(self.parts.embed)) if self.parts.embed else self.parts
        hits = ranked_by(_passages(task), (task.question,), parts.embed)
        trusted = generator is not None or (
            decide(understand((), task.question), task.question, hits, embed=parts.embed).decision in GROUNDED
        )
        return turn_sample(item, (), task.question, generator, parts, hits, trusted, apart=generator is None)

    def _asked(self, item: Item, task: Task, generator: Generator) -> Sample:
        """The model's answer to a question that comes without a context.

        Raises:
            GeneratorError: no reply was to be had, or an empty one.
        """
        began = time.perf_counter()
        prompt = load_prompt("compound", self.parts.prompts).render(question=task.question)
        said = written(generator, prompt)
        return Sample(
            id=item.id,
            status="done",
            domain=item.domain,
            query=task.question,
            prediction=said.text,
            decision="unknown" if said.note is None and says_unknown(said.text) else "answer",
            notes=() if said.note is None else (f"the answer is not whole: it was ended by {said.finish_reason}",),
            usage={"answer": said.usage},
            timings={"answer": round(time.perf_counter() - began, 4)},
        )


def _passages(task: Task) -> list[Passage]:
    return [] if task.context is None else cut(task.id, "", task.context)


def _paired(parts: Sequence[str], answers: Sequence[str]) -> tuple[SubAnswer, ...]:
    pairs = zip(parts, answers, strict=True)
    return tuple(SubAnswer(question=part, answer=answer) for part, answer in pairs)


def _coverage(embed: Embed | None) -> Metric[Answered]:
    """`part_coverage`: the parts are those of `split_questions`; a reply that does not know answers none."""

    def measure(context: Answered) -> Mapping[str, Value]:
        if embed is None:
            return {}
        parts = split_questions(context.history[-1])
        return {"part_coverage": 0.0 if unknown(context) else part_coverage(parts, context.answer, embed)}

    name = getattr(embed, "name", "the embedder")
    return Metric(("part_coverage",), f"parts by rules, matched by {name}", measure, "it needs an embedder")
