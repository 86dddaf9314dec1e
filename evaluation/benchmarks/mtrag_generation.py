"""MTRAG's generation task (section 6.1) in its three settings, for MTRAG, MTRAG-UN and MTRAG-S.

`reference`: the passages that the annotators chose; a task without any (unanswerable, conversational) has none.
`reference+rag`: on tasks with at most two of them, topped up to five with what the retriever finds, shuffled by the
task's id. `rag`: the five passages that the retriever finds. The conversation before the question is the recorded one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from turnmark.assistant.generators.base import Generator, GeneratorError
from turnmark.assistant.steps.llm import write_text
from turnmark.assistant.steps.marks import says_unknown
from turnmark.assistant.structured import merge_roles
from turnmark.assistant.types import Decision
from turnmark.corpora import mtrag
from turnmark.corpora.mtrag import Benchmark as Name
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks import measures
from turnmark.evaluation.benchmarks import mtrag_data as bench
from turnmark.evaluation.benchmarks.base import Benchmark, Case, Item, Material, Metric
from turnmark.evaluation.benchmarks.mtrag_evidence import MOST_REFERENCES, Evidence, Shown, Turn
from turnmark.evaluation.benchmarks.mtrag_queries import NoQuery
from turnmark.evaluation.benchmarks.turns import Parts, fit_question, turn_sample, unmarked, with_steps
from turnmark.evaluation.metrics.decisions import unknown_label
from turnmark.evaluation.passages import HIDDEN
from turnmark.evaluation.records import ContextRef, Sample
from turnmark.evaluation.scoring import missing
from turnmark.evaluation.summary import Facts, Ranked
from turnmark.retrieval.types import Hit

PROMPTS: Mapping[str, str] = {"mtrag": "mtrag-answer", "mtrag-s": "mtrag-answer", "mtrag-un": "mtrag-un-answer"}
"""Benchmark -> the prompt: MTRAG-UN's has a sentence more, on underspecified questions (section 3.3 of its paper)."""
TOPPED_UP = 2
"""`reference+rag` is for tasks with so many references at most (section 6.1)."""
FEW_REFERENCES = {"references": ("at most two",)}
"""The label of these tasks in the other settings: MTRAG Table 5 has all three on them, conversational ones left out."""
FIRST = 3
"""A pair is in `hidden.auroc` where a relevant passage was among so many that were found before it was hidden."""


def takes_part(task: mtrag.Task, setting: str) -> bool:
    """Whether a task is one of those of a setting."""
    return setting != "reference+rag" or len(task.contexts) <= TOPPED_UP


class Mtrag(Benchmark[Case]):
    """The generation task of one of the three benchmarks.

    Args:
        tasks: in the order of the data, those of the domains asked for.
        problems: what could not be read.
        relevant: task id -> passages labelled relevant: what `counterfactual` hides, beside the references.
        counterfactual: every answerable or partial task once more with its relevant passages hidden (setting `rag`).
        prompted: a model is asked by the paper's prompt, without the assistant's turn.
    """

    def __init__(
        self,
        benchmark: Name,
        setting: str,
        tasks: Iterable[mtrag.Task],
        parts: Parts,
        evidence: Evidence,
        *,
        problems: Sequence[Problem] = (),
        relevant: Mapping[str, Iterable[str]] | None = None,
        counterfactual: bool = False,
        prompted: bool = False,
    ) -> None:
        self._benchmark, self._prompted = benchmark, prompted
        self._shown = Shown(setting, evidence, parts)
        self._tasks = tuple(tasks)
        self._setting, self._parts, self._evidence, self._problems = setting, parts, evidence, tuple(problems)
        self._few = benchmark == "mtrag" and setting != "reference+rag"  # which has no other tasks
        self._relevant, self._counterfactual = relevant or {}, counterfactual
        self._whole: dict[tuple[str, int], float] = {}  # confidence, where a relevant passage was among the first
        self.metrics: tuple[Metric[Any], ...] = (
            *measures.REFERENCE_METRICS,
            *measures.LEAD_METRICS,
            *measures.PASSAGE_METRICS,
            *measures.STYLE_METRICS,
            *(measures.UNKNOWN_METRICS if setting == "rag" else ()),
            *(measures.CLARIFY_METRICS if benchmark == "mtrag-un" else ()),
        )

    def items(self) -> Iterator[Item | Problem]:
        """See `Benchmark.items`."""
        yield from self._problems
        for task in self._tasks:
            if not takes_part(task, self._setting):
                continue
            yield Item(task.id, Turn(task), task.domain)
            hidden = self._relevant_of(task) if self._counterfactual else frozenset()
            if hidden and task.answerability in ("ANSWERABLE", "PARTIAL"):
                yield Item(task.id + HIDDEN, Turn(task, hidden), task.domain)

    def _relevant_of(self, task: mtrag.Task) -> frozenset[str]:
        return frozenset(self._relevant.get(task.id, ())) | {context.document_id for context in task.contexts}

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """See `Benchmark.answer`."""
        turn: Turn = item.task
        task, parts = turn.task, self._parts
        retriever = self._shown.retriever(turn)
        if retriever is not None and self._evidence.queries is None and not self._prompted:
            return turn_sample(item, task.history, task.question, generator, parts.over(retriever))
        try:
            hits, query = self._shown.hits(turn, retriever, generator)
        except NoQuery as error:
            # With other passages than asked for, only these tasks, the unanswerable ones, would be told from the rest.
            return missing(item, str(error))
        if self._prompted and generator is not None:
            sample = prompted_sample(item, task, hits, generator, self._benchmark, parts.prompts)
        else:
            sample = turn_sample(item, task.history, task.question, generator, parts, hits, self._trusted(generator))
        if self._evidence.recorded is not None:
            sample = sample.model_copy(update={"contexts": self._with_texts(task, sample.contexts)})
        if query is None:
            return sample
        searched = "\n".join(text for text in (query.text, *query.variants) if text != task.question)
        return sample.model_copy(update={"rewrite": searched or None})

    def _trusted(self, generator: Generator | None) -> bool:
        """Whether a turn tries passages that it was given, however little they look like the question."""
        if self._setting == "reference":
            return True
        # Of recorded ones a model judges for itself where there are no vectors.
        return self._evidence.recorded is not None and generator is not None and self._parts.embed is None

    def context(self, item: Item, sample: Sample) -> Case:
        """See `Benchmark.context`. Steps count as a part of the answer."""
        turn: Turn = item.task
        task = turn.task
        text = with_steps(sample.prediction or "", sample.procedure)
        return Case(
            question=task.question,
            answer=unmarked(text, sample).strip(),
            history=tuple(task.history),
            reference="" if turn.hidden else task.reference,
            passages=self._texts(task, sample),
            answerability="UNANSWERABLE" if turn.hidden else task.answerability,
            raw=sample.prediction or "",
            decision=sample.decision,
        )

    def _texts(self, task: mtrag.Task, sample: Sample) -> tuple[str, ...] | None:
        """The texts that the system was given: as its file says, else looked up, else the references.

        None where one of them is not known: an answer is not held against a part of what it rests on. Nor are they
        where another system's file names no passages: it may have been shown some all the same.
        """
        if not sample.contexts:
            if self._setting == "reference":
                return tuple(context.text for context in task.contexts[:MOST_REFERENCES])
            return None if sample.decision is None else ()
        text_of_id = {context.document_id: context.text for context in task.contexts}
        corpus = self._evidence.texts.get(task.domain)
        texts: list[str] = []
        for ref in sample.contexts:
            text = ref.text if ref.text is not None else text_of_id.get(ref.document_id)
            if text is None:
                passage = corpus.get(ref.document_id) if corpus is not None else None
                if passage is None:
                    return None
                text = passage.text
            texts.append(text)
        return tuple(texts)

    def facts(self, item: Item) -> Facts:
        """See `Benchmark.facts`. Hidden tasks stay out of the headline, as CONVERSATIONAL ones do."""
        turn: Turn = item.task
        if turn.hidden:
            return Facts(cluster=turn.task.conversation, labels={"counterfactual": ("hidden",)}, headline=False)
        facts = bench.task_facts(turn.task, turn.task.domain)
        if self._few and facts.headline and takes_part(turn.task, "reference+rag"):
            facts = facts.model_copy(update={"labels": {**facts.labels, **FEW_REFERENCES}})
        return facts

    def material(self, item: Item) -> Material:
        """See `Benchmark.material`."""
        return bench.task_material(item.task.task, bool(item.task.hidden))

    def rankings(self, item: Item, sample: Sample) -> Mapping[str, Ranked]:
        """See `Benchmark.rankings`: `unknown.auroc` and, over pairs, `hidden.auroc`; low confidence means unknown.

        A pair takes part with its second half, so that none is there alone.
        """
        turn: Turn = item.task
        if self._setting != "rag" or sample.confidence is None or sample.status != "done":
            return {}
        place, key = -sample.confidence, (turn.task.id, sample.repeat)
        if turn.hidden:
            confidence = self._whole.pop(key, None)
            return {} if confidence is None else {"hidden.auroc": [(False, -confidence), (True, place)]}
        first = {context.document_id for context in sample.contexts[:FIRST]}
        if self._counterfactual and first & self._relevant_of(turn.task):
            self._whole[key] = sample.confidence
        positive = unknown_label(turn.task.answerability)
        return {} if positive is None else {"unknown.auroc": (positive, place)}

    def target(self, item: Item) -> Mapping[str, Any] | None:
        """See `Benchmark.target`."""
        turn: Turn = item.task
        reference = "" if turn.hidden else turn.task.reference
        if not reference.strip():
            return None
        target: dict[str, Any] = {"query": turn.task.question, "prediction": reference}
        if self._setting != "reference" and self._evidence.recorded is not None:
            with suppress(NoQuery):  # without a list nothing says what was shown
                contexts = [_ref(hit) for hit in self._shown.listed(turn)]
                target["contexts"] = self._with_texts(turn.task, contexts)
        return target

    def _with_texts(self, task: mtrag.Task, contexts: Sequence[ContextRef]) -> tuple[ContextRef, ...]:
        """Recorded passages with the texts that their file gave them: the data need not have these."""
        recorded = {ref.document_id: ref for ref in (self._evidence.recorded or {}).get(task.id, ()) if ref.text}
        return tuple(
            ref.model_copy(update={"title": source.title, "text": source.text})
            if (source := recorded.get(ref.document_id)) is not None
            else ref
            for ref in contexts
        )


def _ref(hit: Hit) -> ContextRef:
    return ContextRef(document_id=hit.passage.id, score=round(hit.score, 4))


def prompted_sample(
    item: Item,
    task: mtrag.Task,
    hits: Sequence[Hit],
    generator: Generator,
    benchmark: Name = "mtrag",
    prompts: Path | None = None,
) -> Sample:
    """Ask a model as the paper does, and take down its reply.

    Args:
        hits: the passages of the setting, best first.
        prompts: folder with prompts of one's own.

    Raises:
        GeneratorError: no reply was to be had, or an empty one; or the question does not fit into the model's context.
    """
    began = time.perf_counter()
    texts = [(hit.passage.title, hit.passage.text) for hit in hits]
    prompt = fit_question(PROMPTS[benchmark], texts, task.history, task.question, generator, prompts)
    if prompt is None:
        raise GeneratorError("bad_request", "the question does not fit into the model's context")
    reply = write_text(generator, merge_roles(prompt.messages))
    decision: Decision | None = "unknown" if reply.note is None and says_unknown(reply.text) else "answer"
    if benchmark == "mtrag-un":
        decision = None  # whether a text asks back is for a judge to say, and not to be taken for an answer until then
    return Sample(
        id=item.id,
        status="done",
        domain=item.domain,
        query=task.question,
        contexts=tuple(map(_ref, hits)),
        prediction=reply.text,
        decision=decision,
        notes=(*prompt.notes, *([reply.note] if reply.note else [])),
        usage={"answer": reply.usage},
        timings={"answer": round(time.perf_counter() - began, 4)},
    )
