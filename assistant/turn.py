"""One turn: what it starts from, what its steps find out, and the reply that becomes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from turnmark.assistant.config import PASSAGES, AssistantConfig
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.steps.pages import cited_page
from turnmark.assistant.types import (
    GROUNDED,
    Checks,
    Citation,
    Draft,
    Event,
    Judgement,
    Reply,
    Search,
    SearchHit,
    SubQuestion,
    Trace,
    Understanding,
    Usage,
)
from turnmark.corpora.types import Message
from turnmark.retrieval.task_passages import Embed, nearest_among
from turnmark.retrieval.types import Hit, Query, Retriever, nearest_of

UNKNOWN_TEXT = "I don't know: I found nothing about that in the documents."

NOT_JUDGED = Judgement(decision="unknown", confidence=0.0, reason="nothing was asked")
_NOT_UNDERSTOOD = Understanding(rewrite="", sub_questions=())
_NOTHING_WRITTEN = Draft(text="")


class Step(Protocol):
    """One step of the turn in one of its forms: reads and writes the state of a turn.

    Attributes:
        name: as what it is timed and traced: understand, retrieve, decide, answer or verify.
        rounds: of a retrieve step, if it has one: how often a part may be searched for; 1 without.
    """

    name: str

    def __call__(self, turn: Turn) -> None: ...


@dataclass
class Part:
    """A question to answer: a sub-question, or the message if it is not compound.

    Attributes:
        text: as the message has it.
        question: complete in itself.
        phrases: what to search for in the words of documents.
        hits: its evidence, best first.
        judgement: of its evidence.
        narrower: the query that may find what the evidence lacks; "": none.
    """

    text: str
    question: str
    phrases: tuple[str, ...] = ()
    hits: list[Hit] = field(default_factory=list)
    judgement: Judgement = NOT_JUDGED
    narrower: str = ""


@dataclass
class Turn:
    """The state of one turn.

    What it starts from:

    Attributes:
        config: of the assistant, its number of passages settled.
        retriever: None: nothing can be searched for.
        embed: unit vectors of texts; None: shared words decide.
        evidence: passages to answer from, best first; None: they are searched for.
        trusted: the evidence is known to be about the question.
        forms: step -> the form of it that runs; a step that falls back to another writes that here.
        notify, span: called with each event; wraps each step (tracing).

    What the steps write:

    Attributes:
        understanding: `understand`; the parts follow from it.
        fallback: why `understand` fell back to rules: a `FailureKind`; "": it did not.
        message_hits: `retrieve`: what a compound message found as one, best first.
        hits: `retrieve`: all evidence; a citation `[n]` is the n-th, from 1.
        judgement: `decide`, for all parts; `answer` may correct it.
        draft: `answer`, or `revise`.
        checks, sub_questions: `verify`. A turn with checks is settled: no further step is taken.
    """

    message: str
    history: tuple[Message, ...] = ()
    _: KW_ONLY
    config: AssistantConfig = field(default_factory=lambda: AssistantConfig(passages=PASSAGES))
    retriever: Retriever | None = None
    generator: Generator | None = None
    embed: Embed | None = None
    evidence: Sequence[Hit] | None = None
    trusted: bool = False
    forms: dict[str, str] = field(default_factory=dict)
    notify: Callable[[Event], None] = lambda _: None
    span: Callable[[str], AbstractContextManager[object]] = lambda _: nullcontext()

    understanding: Understanding = _NOT_UNDERSTOOD
    fallback: str = ""
    parts: list[Part] = field(default_factory=list)
    round: int = 1
    rounds_left: int = 0
    message_hits: list[Hit] = field(default_factory=list)
    hits: list[Hit] = field(default_factory=list)
    searches: list[Search] = field(default_factory=list)
    judgement: Judgement = NOT_JUDGED
    draft: Draft = _NOTHING_WRITTEN
    checks: Checks | None = None
    sub_questions: tuple[SubQuestion, ...] = ()

    usage: dict[str, Usage] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def model(self) -> Generator:
        """The language model, in a form that needs one."""
        assert self.generator is not None, "checked when the forms were chosen"
        return self.generator

    @property
    def prompts(self) -> Path | None:
        """The folder with prompts of your own."""
        return self.config.prompts

    @property
    def passages(self) -> int:
        """How many passages are found for a part."""
        assert self.config.passages is not None, "settled by who reads"
        return self.config.passages

    @property
    def written(self) -> bool:
        """Whether something is said already."""
        return bool(self.draft.text)

    # -- taking steps

    def run(self, step: Step) -> None:
        """Take a step, timed; none if the reply is settled."""
        if self.checks is not None:
            return
        began = time.perf_counter()
        try:
            with self.span(step.name):
                step(self)
        finally:
            self.timings[step.name] = round(self.timings.get(step.name, 0.0) + time.perf_counter() - began, 4)

    def understood(self, understanding: Understanding, form: str) -> None:
        """Take the message for this."""
        self.understanding, self.forms["understand"] = understanding, form
        texts = understanding.asked or understanding.sub_questions
        phrases: Iterable[tuple[str, ...]] = understanding.phrases or ((),) * len(texts)
        if len(texts) == 1:
            texts = (self.message,)
        self.parts = [Part(*row) for row in zip(texts, understanding.sub_questions, phrases, strict=True)]
        self.report(
            "understand",
            # What rules carry over is for the search alone; a model's rewrite is worth reading.
            "" if understanding.topic or understanding.rewrite == self.message else understanding.rewrite,
            kind=understanding.kind,
            parts=list(understanding.sub_questions),
            phrases=[phrase for part in self.parts for phrase in part.phrases],
        )

    def rounds(self, retrieve: Step) -> Iterator[None]:
        """The rounds of searching and judging: a part with thin evidence is searched for again, if the step may."""
        rounds = getattr(retrieve, "rounds", 1)
        for self.round in range(1, rounds + 1):
            self.rounds_left = rounds - self.round
            yield
            if not any(part.narrower for part in self.parts):
                break

    def decide(self, judgement: Judgement | None = None) -> None:
        """Take a decision for all parts; None: as their judgements say, `partial` if some can be answered only."""
        if judgement is None:
            grounded = [part for part in self.parts if part.judgement.decision in GROUNDED]
            complete = all(part.judgement.decision == "answer" for part in self.parts)
            judgement = (
                self.parts[0].judgement
                if len(self.parts) == 1
                else Judgement(
                    decision="answer" if complete else "partial" if grounded else "unknown",
                    confidence=fmean(part.judgement.confidence for part in self.parts),
                    reason=f"{len(grounded)} of {len(self.parts)} parts are covered",
                )
            )
        self.judgement = judgement
        self.report("decide", f"{judgement.decision}: {judgement.reason}", confidence=judgement.confidence)

    # -- evidence

    def number(self, hits: Iterable[Hit]) -> list[int]:
        """The numbers of some hits; new ones join the evidence."""
        numbers = {hit.passage.id: number for number, hit in enumerate(self.hits, 1)}
        result = []
        for hit in hits:
            if hit.passage.id not in numbers:
                self.hits.append(hit)
                numbers[hit.passage.id] = len(self.hits)
            result.append(numbers[hit.passage.id])
        return result

    def searched(self, query: Query, hits: Sequence[Hit], reason: str, part: int | None = None) -> None:
        """Note a search for the trace."""
        rows = tuple(
            SearchHit(
                id=hit.passage.id, title=hit.passage.title, score=round(hit.score, 4),
                similarity=None if hit.similarity is None else round(hit.similarity, 4),
            )
            for hit in hits
        )  # fmt: skip
        self.searches.append(
            Search(why=reason, query=query.text, variants=query.variants, part=part, round=self.round, hits=rows)
        )

    def report_hits(self) -> None:
        """Report what was searched for and found so far."""
        self.report(
            "retrieve",
            f"{len(self.hits)} passages",
            hits=[(hit.passage.id, round(hit.score, 4)) for hit in self.hits],
            searches=[search.model_dump(mode="json") for search in self.searches],
        )

    def nearest(self, texts: Sequence[str]) -> Sequence[float]:
        """The cosine of each text with the passage nearest to it: in the evidence, if it was handed in, else of all
        that can be searched; empty if that is not known."""
        if self.evidence is not None:
            return nearest_among([hit.passage for hit in self.evidence], texts, self.embed)
        return nearest_of(self.retriever, texts) if self.retriever else ()

    # -- saying

    def stream(self, delta: str) -> None:
        """Report a piece of the answer."""
        self.notify(Event(step="answer", delta=delta))

    def settle(self, draft: Draft, checks: Checks, parts: Sequence[SubQuestion]) -> None:
        """The reply is ready: what it says, and what the checks found."""
        self.draft, self.checks, self.sub_questions = draft, checks, tuple(parts)
        self.report("verify", "", **checks.model_dump())

    def report(self, step: str, text: str, **detail: Any) -> None:
        """Report what a step came to."""
        self.notify(Event(step=step, text=text, detail=detail))

    def use(self, role: str, usage: Usage, *notes: str | None) -> None:
        """Count what calls cost, and keep notes for the person."""
        self.usage[role] = self.usage.get(role, Usage()) + usage
        for note in filter(None, notes):
            self.notes.append(note)
            self.report("note", note)

    def reply(self) -> Reply:
        """The finished turn."""
        cites = self.judgement.decision in (*GROUNDED, "clarify")
        return Reply(
            question=self.message,
            answer=self.draft.text,
            procedure=self.draft.procedure,
            citations=tuple(_citation(n, hit, self.draft.text) for n, hit in enumerate(self.hits, 1)) if cites else (),
            decision=self.judgement.decision,
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
                judgement=self.judgement,
                parts=tuple(part.judgement for part in self.parts) if len(self.parts) > 1 else (),
            ),
        )


def _citation(number: int, hit: Hit, answer: str) -> Citation:
    fields: Mapping[str, Any] = {
        name: getattr(hit.passage, name) for name in Citation.model_fields if name not in ("n", "score", "page")
    }
    return Citation(n=number, score=hit.score, page=cited_page(hit.passage, number, answer), **fields)
