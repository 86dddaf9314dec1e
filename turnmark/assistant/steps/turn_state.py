"""The state of one turn, which its steps read and write, and the reply that is made from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, Protocol

from turnmark.assistant.citations.cited_places import cited_page, cited_pictures
from turnmark.assistant.config import DEFAULT_TOP_K, AssistantConfig
from turnmark.assistant.llm.calls.cancellation import ON_WAIT
from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.llm.calls.repetition import ON_REPETITION
from turnmark.assistant.llm.prompts.tool_definitions import LOOK_ID, is_computed
from turnmark.assistant.types import (
    GROUNDED_DECISIONS,
    Checks,
    Citation,
    Decision,
    Draft,
    Event,
    Judgment,
    Reply,
    Search,
    SearchHit,
    SubQuestion,
    ToolUse,
    Trace,
    Understanding,
    Usage,
)
from turnmark.assistant.wording.phrases import is_same_wording
from turnmark.corpora.text.function_words import language_of
from turnmark.corpora.text.languages import ENGLISH
from turnmark.corpora.types import Message
from turnmark.retrieval.embedding.vector_cache import Embed
from turnmark.retrieval.search.task_passages import nearest_among
from turnmark.retrieval.tables.table_records import QueryResult
from turnmark.retrieval.types import Hit, Query, Retriever

EMPTY_JUDGMENT = Judgment(decision="unknown", confidence=0.0, reason="nothing was asked")
"""The judgment of a turn before the decide step."""
_EMPTY_UNDERSTANDING = Understanding(rewrite="", sub_questions=())
_EMPTY_DRAFT = Draft(text="")


class Step(Protocol):
    """A step of the turn in one of its forms, which is called with the turn and reads and writes its state.

    Attributes:
        name: the name under which it is timed and traced: understand, retrieve, decide, answer or verify.
        rounds: optional attribute of a retrieve step: maximum rounds of searching per part; 1 without it.
    """

    name: str

    def __call__(self, turn: Turn) -> None: ...


class Computation(NamedTuple):
    """A SELECT that the model ran over tables, and its result."""

    statement: str
    result: QueryResult

    @property
    def values(self) -> list[float]:
        """The numbers of the result."""
        return [value for row in self.result.rows for value in row if isinstance(value, int | float)]


@dataclass
class Part:
    """A question to answer: a sub-question, or the message if it is not compound.

    Attributes:
        text: the wording of the message.
        question: the question, complete without the conversation.
        phrases: search phrases in the words of documents.
        hits: its evidence, best first.
        tables: further hits in the documents of `hits`, whose tables may have a row that answers; only without a model.
        judgment: the judgment of its evidence.
        narrower_query: the query for a second round of searching; "": no second round is needed.
    """

    text: str
    question: str
    phrases: tuple[str, ...] = ()
    hits: list[Hit] = field(default_factory=list)
    tables: list[Hit] = field(default_factory=list)
    judgment: Judgment = EMPTY_JUDGMENT
    narrower_query: str = ""


@dataclass
class Turn:
    """The state of one turn.

    Set when the turn begins:

    Attributes:
        config: configuration of the assistant; `top_k` is not None.
        retriever: None: nothing can be searched.
        generator: language model; None: the extractive forms.
        embed: function from texts to unit vectors; None: texts are compared by words only.
        evidence: passages to answer from, best first; None: the retrieve step searches.
        trusted: whether the evidence is known to be about the question.
        languages: languages of the documents, the most frequent first.
        forms: step -> name of the form that runs; a step that falls back to another form changes it.
        notify: called with each event.
        span: returns the context in which a step runs (tracing).

    Written by the steps:

    Attributes:
        asked: by `understand`: the question of the message in the spelling of the documents; by default the message.
        understanding: by `understand`.
        fallback: by `understand`: why it fell back to rules, a `FailureKind`; "": it did not.
        parts: by `understand`: the questions to answer, with their evidence.
        round, rounds_left: number of the current round of searching, from 1, and how many may follow.
        message_hits: by `retrieve`: hits of a compound message searched as one, best first.
        hits: by `retrieve`: all evidence; a citation `[n]` is the n-th, from 1.
        searches: by `retrieve` and `revise`: all searches, for the trace.
        search_on: by `retrieve`: lets the model answer while it searches with tools, and returns False if it cannot.
        calls: by `answer`: the tool calls of the model, for the trace.
        computed: by `answer`: the computations among the evidence, by the id of the passage that shows the result.
        judgment: by `decide`, for all parts; `answer` may correct it.
        draft: by `answer` or `revise`.
        reasoning: by `answer` or `revise`: what the model wrote for itself before the draft.
        checks, sub_questions: by `verify`. A turn with checks is settled: no further step runs.
    """

    message: str
    history: tuple[Message, ...] = ()
    _: KW_ONLY
    config: AssistantConfig = field(default_factory=lambda: AssistantConfig(top_k=DEFAULT_TOP_K))
    retriever: Retriever | None = None
    generator: Generator | None = None
    embed: Embed | None = None
    evidence: Sequence[Hit] | None = None
    trusted: bool = False
    languages: tuple[str, ...] = ()
    forms: dict[str, str] = field(default_factory=dict)
    notify: Callable[[Event], None] = lambda _: None
    span: Callable[[str], AbstractContextManager[object]] = lambda _: nullcontext()

    asked: str = ""
    understanding: Understanding = _EMPTY_UNDERSTANDING
    fallback: str = ""
    parts: list[Part] = field(default_factory=list)
    round: int = 1
    rounds_left: int = 0
    message_hits: list[Hit] = field(default_factory=list)
    hits: list[Hit] = field(default_factory=list)
    searches: list[Search] = field(default_factory=list)
    search_on: Callable[[Turn], bool] = lambda _: False
    calls: list[ToolUse] = field(default_factory=list)
    computed: dict[str, Computation] = field(default_factory=dict)
    judgment: Judgment = EMPTY_JUDGMENT
    draft: Draft = _EMPTY_DRAFT
    reasoning: str = ""
    checks: Checks | None = None
    sub_questions: tuple[SubQuestion, ...] = ()

    usage: dict[str, Usage] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.asked = self.asked or self.message

    @property
    def model(self) -> Generator:
        """The language model, for a form that needs one."""
        assert self.generator is not None, "checked when the forms were chosen"
        return self.generator

    @cached_property
    def language(self) -> str:
        """The language of the message; if it does not tell, that of the conversation, or else of the documents."""
        questions = [message.content for message in self.history if message.role == "user"]
        for text in (self.message, *reversed(questions)):
            if language := language_of(text, self.languages):
                return language
        return next(iter(self.languages), ENGLISH)

    @property
    def prompts(self) -> Path | None:
        """The folder with prompts that replace the built-in ones."""
        return self.config.prompts

    @property
    def top_k(self) -> int:
        """Number of passages to retrieve for each part."""
        assert self.config.top_k is not None, "set by the assistant"
        return self.config.top_k

    # -- running steps

    def run(self, step: Step) -> None:
        """Run a step and add its seconds to `timings`; do nothing if the turn is settled."""
        if self.checks is not None:
            return
        began = time.perf_counter()
        token = ON_WAIT.set(lambda line: self.report("wait", line))
        repetition = ON_REPETITION.set(self.note)
        try:
            with self.span(step.name):
                step(self)
        finally:
            ON_WAIT.reset(token)
            ON_REPETITION.reset(repetition)
            seconds = time.perf_counter() - began
            self.timings[step.name] = round(self.timings.get(step.name, 0.0) + seconds, 4)

    def understood(self, understanding: Understanding, form: str) -> None:
        """Store and report how the message was understood, and set its parts.

        Args:
            form: name of the form of the understand step that found it.
        """
        self.understanding = understanding
        self.forms["understand"] = form
        texts = understanding.asked or understanding.sub_questions
        phrases: Iterable[tuple[str, ...]] = understanding.phrases or ((),) * len(texts)
        if len(texts) == 1:
            texts = (self.asked,)
        self.parts = [
            Part(text, question, part_phrases)
            for text, question, part_phrases in zip(texts, understanding.sub_questions, phrases, strict=True)
        ]
        # A rewrite by rules only serves the search; a model's rewrite is worth showing.
        shows_rewrite = not understanding.topic and not is_same_wording(understanding.rewrite, self.message)
        self.report(
            "understand",
            understanding.rewrite if shows_rewrite else "",
            kind=understanding.kind,
            parts=list(understanding.sub_questions),
            phrases=[phrase for part in self.parts for phrase in part.phrases],
        )

    def rounds(self, retrieve: Step) -> Iterator[None]:
        """Yield once per round of searching and judging, while a part has a narrower query and the step allows it."""
        rounds = getattr(retrieve, "rounds", 1)
        for self.round in range(1, rounds + 1):
            self.rounds_left = rounds - self.round
            yield
            if not any(part.narrower_query for part in self.parts):
                break

    def decide(self, judgment: Judgment | None = None) -> None:
        """Store and report the decision for all parts; None: derive it from the judgments of the parts."""
        if judgment is None:
            judgment = self._judgment_of_parts()
        self.judgment = judgment
        self.report("decide", f"{judgment.decision}: {judgment.reason}", confidence=judgment.confidence)

    def _judgment_of_parts(self) -> Judgment:
        """Combine the judgments of the parts: `partial` if only some can be answered, or one only in part."""
        if len(self.parts) == 1:
            return self.parts[0].judgment
        decisions = [part.judgment.decision for part in self.parts]
        grounded = sum(decision in GROUNDED_DECISIONS for decision in decisions)
        decision: Decision
        if all(decision == "answer" for decision in decisions):
            decision = "answer"
        elif grounded:
            decision = "partial"
        else:
            decision = "unknown"
        return Judgment(
            decision=decision,
            confidence=fmean(part.judgment.confidence for part in self.parts),
            reason=f"{grounded} of {len(self.parts)} parts are covered",
        )

    # -- evidence

    def number(self, hits: Iterable[Hit]) -> list[int]:
        """Return the citation numbers of hits; new ones are added to the evidence."""
        numbers = {hit.passage.id: number for number, hit in enumerate(self.hits, 1)}
        hit_numbers = []
        for hit in hits:
            if hit.passage.id not in numbers:
                self.hits.append(hit)
                numbers[hit.passage.id] = len(self.hits)
            hit_numbers.append(numbers[hit.passage.id])
        return hit_numbers

    def searched(self, query: Query, hits: Sequence[Hit], reason: str, part: int | None = None) -> None:
        """Record a search for the trace.

        Args:
            part: 0-based part that it was for; None: the message.
        """
        rows = []
        for hit in hits:
            similarity = None if hit.similarity is None else round(hit.similarity, 4)
            score = round(hit.score, 4)
            rows.append(SearchHit(id=hit.passage.id, title=hit.passage.title, score=score, similarity=similarity))
        search = Search(
            why=reason, query=query.text, variants=query.variants, part=part, round=self.round, hits=tuple(rows)
        )
        self.searches.append(search)

    def report_hits(self) -> None:
        """Report the searches and hits so far."""
        self.report(
            "retrieve",
            f"{len(self.hits)} passages",
            hits=[(hit.passage.id, round(hit.score, 4)) for hit in self.hits],
            searches=[search.model_dump(mode="json") for search in self.searches],
        )

    def nearest(self, texts: Sequence[str]) -> Sequence[float]:
        """Return the cosine of each text with its nearest passage, among the given evidence or else in the index.

        Empty if cosines are not available.
        """
        if self.evidence is not None:
            return nearest_among([hit.passage for hit in self.evidence], texts, self.embed)
        return self.retriever.nearest(texts) if self.retriever else ()

    def word_shares(self, texts: Sequence[str]) -> Sequence[float]:
        """Return how much of each text's words the best passage of the index has; empty if it is not known."""
        return self.retriever.word_shares(texts) if self.retriever and self.evidence is None else ()

    # -- the reply

    def stream(self, delta: str) -> None:
        """Report the next piece of the answer."""
        self.notify(Event(step="answer", delta=delta))

    def settle(self, draft: Draft, checks: Checks, parts: Sequence[SubQuestion]) -> None:
        """Store and report the final draft with its checks; no further step runs."""
        self.draft = draft
        self.checks = checks
        self.sub_questions = tuple(parts)
        self.report("verify", "", **checks.model_dump())

    def report(self, step: str, text: str, **detail: Any) -> None:
        """Report the outcome of a step."""
        self.notify(Event(step=step, text=text, detail=detail))

    def use(self, role: str, usage: Usage, *notes: str | None) -> None:
        """Add usage under a role, and add notes for the person.

        Args:
            role: the step that made the calls.
            notes: None and empty ones are skipped.
        """
        self.usage[role] = self.usage.get(role, Usage()) + usage
        for note in filter(None, notes):
            self.note(note)

    def note(self, text: str) -> None:
        """Add a note for the person."""
        self.notes.append(text)
        self.report("note", text)

    def reply(self) -> Reply:
        """Return the reply of the finished turn."""
        citations: list[Citation] = []
        if self.judgment.decision in (*GROUNDED_DECISIONS, "clarify"):
            citations = [self._citation(number, hit) for number, hit in enumerate(self.hits, 1)]
        part_judgments: list[Judgment] = []
        if len(self.parts) > 1:
            part_judgments = [part.judgment for part in self.parts]
        return Reply(
            question=self.message,
            answer=self.draft.text,
            procedure=self.draft.procedure,
            citations=tuple(citations),
            decision=self.judgment.decision,
            rewrite=self.understanding.rewrite,
            sub_questions=self.sub_questions,
            checks=self.checks or Checks(),
            generator=self.generator.name if self.generator else "extractive",
            usage=self.usage,
            timings=self.timings,
            notes=tuple(self.notes),
            trace=Trace(
                forms=self.forms,
                understanding=self.understanding,
                searches=tuple(self.searches),
                calls=tuple(self.calls),
                judgement=self.judgment,
                parts=tuple(part_judgments),
                reasoning=self.reasoning,
            ),
        )

    def _citation(self, number: int, hit: Hit) -> Citation:
        """Return a source with its number, what computed it, and the page and the pictures that the draft is about."""
        names = set(Citation.model_fields) - {"n", "score", "page", "pictures", "statement", "basis"}
        passage = hit.passage.as_stored()
        fields: dict[str, Any] = {name: getattr(passage, name) for name in names}
        computation = self.computed.get(hit.passage.id)
        if computation is not None:
            basis = computation.result.basis
            fields |= {"id": hit.passage.id, "statement": computation.statement, "basis": basis}
        page = cited_page(hit.passage, number, self.draft.text)
        store = self.retriever.pictures() if self.retriever else None
        if store is not None and (hit.passage.id.startswith(LOOK_ID) or not is_computed(hit.passage.id)):
            question = self.understanding.rewrite
            fields["pictures"] = tuple(cited_pictures(hit.passage, store, number, question, self.draft.text))
        return Citation(n=number, score=hit.score, page=page, **fields)
