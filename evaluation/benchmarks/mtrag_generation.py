"""MTRAG's generation task (section 6.1) in its three settings, for MTRAG, MTRAG-UN and MTRAG-S.

`reference`: the passages that the annotators chose; a task without any (unanswerable, conversational) has none.
`reference+rag`: on tasks with at most two of them, topped up to five with what the retriever finds. `rag`: the five
passages that the retriever finds. The conversation before the question is the recorded one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from assistant.generators.base import Generator
from assistant.steps.understand import understand
from corpora import mtrag
from corpora.text import strip_citations
from corpora.types import Passage, Problem
from evaluation.benchmarks import measures
from evaluation.benchmarks.base import Item, Metric, Value
from evaluation.benchmarks.measures import Answered
from evaluation.benchmarks.mtrag_data import task_facts
from evaluation.benchmarks.mtrag_queries import NoQuery, QuerySource
from evaluation.benchmarks.turns import Parts, turn_sample, with_steps
from evaluation.metrics.decisions import clarify_label, sample_values, unknown_label
from evaluation.passages import HIDDEN, CorpusTexts, Without
from evaluation.records import ContextRef, Sample
from evaluation.scoring import missing
from evaluation.summary import Facts, Ranked
from retrieval.given import hits_of, ranked_by
from retrieval.types import Hit, Query, Retriever

SETTINGS = ("reference", "reference+rag", "rag")
MOST_REFERENCES = 10
"""Passages that the reference setting shows at most: MTRAG-UN has tasks with more."""
TOPPED_UP = 2
"""`reference+rag` is for tasks with so many references at most (section 6.1)."""
FIRST = 3
"""A pair is in `hidden.auroc` where a relevant passage was among so many that were found before it was hidden."""
ALWAYS = "[always-unknown]"
NOTHING = "it adds nothing to this figure"


@dataclass(frozen=True)
class Turn:
    """An item's task, and what is hidden from the index at it."""

    task: mtrag.Task
    hidden: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Evidence:
    """Where passages come from, in the settings that search.

    Attributes:
        retrievers: domain -> retriever.
        texts: domain -> the corpus's passages by id.
        queries: what is searched for; None: what the assistant's turn searches for.
        recorded: task id -> passages that an earlier run found, instead of searching.
    """

    retrievers: Mapping[str, Retriever] = field(default_factory=dict)
    texts: Mapping[str, CorpusTexts] = field(default_factory=dict)
    queries: QuerySource | None = None
    recorded: Mapping[str, Sequence[ContextRef]] | None = None


@dataclass(frozen=True)
class Judged(Answered):
    """An answer and how its task is labelled."""

    answerability: str | None = None


def takes_part(task: mtrag.Task, setting: str) -> bool:
    """Whether a task is one of those of a setting."""
    return setting != "reference+rag" or len(task.contexts) <= TOPPED_UP


class Mtrag:
    """The generation task of one of the three benchmarks; see `evaluation.benchmarks.base.Benchmark`.

    Args:
        tasks: in the order of the data, those of the domains asked for.
        problems: what could not be read.
        relevant: task id -> passages labelled relevant: what `counterfactual` hides, beside the references.
        counterfactual: every answerable or partial task once more with its relevant passages hidden (setting `rag`).
    """

    def __init__(
        self,
        benchmark: mtrag.Benchmark,
        setting: str,
        tasks: Iterable[mtrag.Task],
        parts: Parts,
        evidence: Evidence,
        *,
        problems: Sequence[Problem] = (),
        relevant: Mapping[str, Iterable[str]] | None = None,
        counterfactual: bool = False,
    ) -> None:
        self._tasks = tuple(tasks)
        self._setting, self._parts, self._evidence, self._problems = setting, parts, evidence, tuple(problems)
        self._relevant, self._counterfactual = relevant or {}, counterfactual
        self._whole: dict[tuple[str, int], float] = {}  # confidence, where a relevant passage was among the first
        self.metrics: tuple[Metric[Judged], ...] = (
            *measures.REFERENCE_METRICS,
            *measures.LEAD_METRICS,
            *measures.PASSAGE_METRICS,
            *measures.STYLE_METRICS,
            *((_detection("unknown", _unknown, unknown_label), _always_unknown()) if setting == "rag" else ()),
            *((_detection("clarify", _clarify, clarify_label),) if benchmark == "mtrag-un" else ()),
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
        if self._setting == "reference":
            hits = self._given(task) if generator else self._weighed(task, self._given(task))
            return turn_sample(item, task.history, task.question, generator, parts, hits, trusted=True)
        if self._evidence.recorded is not None:
            return self._from_recorded(item, turn, generator)
        retriever = self._evidence.retrievers[task.domain]
        if turn.hidden:
            retriever = Without(retriever, turn.hidden)
        if self._setting == "reference+rag":
            retriever = _ToppedUp(retriever, self._weighed(task, self._given(task)), parts.passages)
        if self._evidence.queries is None:
            return turn_sample(item, task.history, task.question, generator, parts.over(retriever))
        try:
            query = self._query(task)
        except NoQuery as error:
            # With a query of another kind, only these tasks, the unanswerable ones, would be searched for differently.
            return missing(item, str(error))
        hits = retriever.search([query], parts.passages)[0]
        made = turn_sample(item, task.history, task.question, generator, parts, hits)
        searched = "\n".join(text for text in (query.text, *query.variants) if text != task.question)
        return made.model_copy(update={"rewrite": searched or None})

    def _from_recorded(self, item: Item, turn: Turn, generator: Generator | None) -> Sample:
        """An answer from recorded passages, weighed as those of a retriever of ours would be."""
        task, parts = turn.task, self._parts
        if task.id not in (self._evidence.recorded or {}):
            # Answered from nothing, only tasks that nobody retrieved for, the unanswerable ones, would be "unknown".
            return missing(item, "the recorded retrieval has no list for it")
        hits = self._weighed(task, [_hit(passage, ref) for ref, passage in self._recorded(turn)])
        if self._setting == "reference+rag":
            hits = _topped_up(self._weighed(task, self._given(task)), hits, parts.passages)
        trusted = generator is not None and parts.embed is None  # without vectors, the model judges for itself
        return turn_sample(item, task.history, task.question, generator, parts, hits, trusted=trusted)

    def _query(self, task: mtrag.Task) -> Query:
        """The query of the mode. Recorded ones are there for judged tasks alone, what they are made of is for all.

        Raises:
            NoQuery: there is none, and the conversation does not say what it would be.
        """
        queries = self._evidence.queries
        assert queries is not None, "asked for only with a mode"
        try:
            return queries.query(task.id)
        except NoQuery:
            if queries.mode not in ("last-turn", "questions"):
                raise
            earlier = [message.content for message in task.history if message.role == "user"]
            asked = earlier if queries.mode == "questions" else []
            return Query(text="\n".join((*asked, task.question)))

    def _given(self, task: mtrag.Task) -> list[Hit]:
        return hits_of([_passage(context) for context in task.contexts[:MOST_REFERENCES]])

    def _weighed(self, task: mtrag.Task, hits: list[Hit]) -> list[Hit]:
        """Passages that no retriever of ours found, with their cosines: what the turn decides by."""
        if self._parts.embed is None or not hits:
            return hits
        asked = list(dict.fromkeys((task.question, understand(task.history, task.question).rewrite)))
        ranked = {hit.passage.id: hit for hit in ranked_by([hit.passage for hit in hits], asked, self._parts.embed)}
        return [hit.model_copy(update={"found": ranked[hit.passage.id].found}) for hit in hits]

    def _recorded(self, turn: Turn) -> Iterator[tuple[ContextRef, Passage]]:
        """The passages that were recorded for a task, without hidden ones."""
        assert self._evidence.recorded is not None, "asked for only with --passages"
        texts = self._evidence.texts.get(turn.task.domain)
        left = self._parts.passages
        for ref in self._evidence.recorded.get(turn.task.id, ()):
            passage = _written(ref) if ref.text is not None else texts.get(ref.document_id) if texts else None
            if passage is not None and ref.document_id not in turn.hidden and left:
                left -= 1
                yield ref, passage

    def context(self, item: Item, sample: Sample) -> Judged:
        """See `Benchmark.context`. Steps count as a part of the answer."""
        turn: Turn = item.task
        task = turn.task
        raw = with_steps(sample.prediction or "", sample.procedure)
        return Judged(
            raw=sample.prediction or "",
            answer=strip_citations(raw).strip(),
            reference="" if turn.hidden else task.reference,
            passages=self._texts(task, sample),
            history=[*(message.content for message in task.history), task.question],
            decision=sample.decision,
            answerability="UNANSWERABLE" if turn.hidden else task.answerability,
        )

    def _texts(self, task: mtrag.Task, sample: Sample) -> list[str]:
        """The texts that the system was given: as its file says, else looked up, else the references.

        None at all where one of them is not known: an answer is not held against a part of what it rests on.
        """
        if not sample.contexts and self._setting == "reference":
            return [context.text for context in task.contexts[:MOST_REFERENCES]]
        shown = {context.document_id: context.text for context in task.contexts}
        corpus = self._evidence.texts.get(task.domain)
        texts: list[str] = []
        for ref in sample.contexts:
            text = ref.text if ref.text is not None else shown.get(ref.document_id)
            if text is None:
                passage = corpus.get(ref.document_id) if corpus is not None else None
                if passage is None:
                    return []
                text = passage.text
            texts.append(text)
        return texts

    def facts(self, item: Item) -> Facts:
        """See `Benchmark.facts`. Hidden tasks stay out of the headline, as CONVERSATIONAL ones do."""
        turn: Turn = item.task
        if turn.hidden:
            return Facts(cluster=turn.task.conversation, labels={"counterfactual": ("hidden",)}, headline=False)
        return task_facts(turn.task, turn.task.domain)

    def rankings(self, item: Item, sample: Sample) -> Mapping[str, Ranked]:
        """See `Benchmark.rankings`: `unknown.auroc` and, over pairs, `hidden.auroc`; low confidence means unknown.

        A pair takes part with its second half, so that none is there alone.
        """
        turn: Turn = item.task
        if self._setting != "rag" or sample.confidence is None or sample.status != "done":
            return {}
        place, key = -sample.confidence, (turn.task.id, sample.repeat)
        if turn.hidden:
            whole = self._whole.pop(key, None)
            return {} if whole is None else {"hidden.auroc": [(False, -whole), (True, place)]}
        first = {context.document_id for context in sample.contexts[:FIRST]}
        if self._counterfactual and first & self._relevant_of(turn.task):
            self._whole[key] = sample.confidence
        positive = unknown_label(turn.task.answerability)
        return {} if positive is None else {"unknown.auroc": (positive, place)}


class _ToppedUp:
    """The references first, then what the retriever finds beside them."""

    def __init__(self, retriever: Retriever, given: list[Hit], passages: int) -> None:
        self.name = retriever.name
        self._retriever, self._given, self._passages = retriever, given, passages

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever.search`."""
        found = self._retriever.search(queries, k + len(self._given))
        return [_topped_up(self._given, hits, k) for hits in found]


def _topped_up(given: list[Hit], found: Sequence[Hit], passages: int) -> list[Hit]:
    known = {hit.passage.id for hit in given}
    places = {hit.passage.id: hit.found for hit in found}
    kept = [hit.model_copy(update={"found": places.get(hit.passage.id) or hit.found}) for hit in given]
    more = [hit for hit in found if hit.passage.id not in known]
    return kept + more[: max(0, passages - len(kept))]


def _passage(context: mtrag.Context) -> Passage:
    name = context.document_id
    return Passage(id=name, document=name, title=context.title, text=context.text, start=0, end=len(context.text))


def _written(ref: ContextRef) -> Passage:
    """A passage whose text the record itself holds."""
    name, text = ref.document_id, ref.text or ""
    return Passage(id=name, document=name, title=ref.title or "", text=text, start=0, end=len(text))


def _hit(passage: Passage, ref: ContextRef) -> Hit:
    return Hit(passage=passage, score=ref.score)


def _unknown(context: Judged) -> bool:
    return measures.unknown(context)


def _clarify(context: Judged) -> bool:
    return context.decision == "clarify"


def _figures(name: str, positive: bool | None, predicted: bool, mark: str = "") -> dict[str, Value]:
    """Precision, recall and F1 of one sample, each a value whose weighted mean over all samples is that figure."""
    if positive is None:
        return {}
    values = sample_values(positive, predicted)
    return {f"{name}.{key}{mark}": (value[0], float(len(value))) for key, value in values.items() if value}


def _detection(
    name: str, predicted: Callable[[Judged], bool], label: Callable[[str | None], bool | None]
) -> Metric[Judged]:
    names = tuple(f"{name}.{key}" for key in ("precision", "recall", "f1"))

    def measure(context: Judged) -> Mapping[str, Value]:
        if name == "clarify" and context.decision is None:
            return {}
        return _figures(name, label(context.answerability), predicted(context))

    return Metric(names, measures.DECISION, measure, f"{'no decision is recorded, or ' * (name == 'clarify')}{NOTHING}")


def _always_unknown() -> Metric[Judged]:
    names = tuple(f"unknown.{key}{ALWAYS}" for key in ("precision", "recall", "f1"))

    def measure(context: Judged) -> Mapping[str, Value]:
        return _figures("unknown", unknown_label(context.answerability), True, ALWAYS)

    return Metric(names, "a system that always says unknown", measure, NOTHING)
