"""One turn: what it starts from, what its steps find out, and the reply that becomes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Protocol

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.parts import NOT_JUDGED, Part, judged_together, parts_of, rank, runs
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
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Message, Passage
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Hit, Query, Retriever, neighbours_of

UNKNOWN_TEXT = "I don't know: I found nothing about that in the documents."
MAX_NEIGHBOURS = 6
"""Passages around the best hit that join the evidence of a procedure, which may run over several of them."""

_NOT_UNDERSTOOD = Understanding(rewrite="", sub_questions=())
_NOTHING_WRITTEN = Draft(text="")


class Step(Protocol):
    """One step of the turn in one of its forms: reads and writes the state of a turn.

    Attributes:
        name: as what it is timed and traced: understand, retrieve, decide, answer or verify.
    """

    name: str

    def __call__(self, turn: Turn) -> None: ...


@dataclass
class Turn:
    """The state of one turn.

    What it starts from:

    Attributes:
        evidence: passages to answer from, best first; None: they are searched for.
        trusted: the evidence is known to be about the question.
        by_name: the message is an instruction to revise, whatever it looks like.
        retriever: None: nothing can be searched for.
        embed: unit vectors of texts; None: shared words decide.
        passages: hits of a part, at most.
        most: hits of the turn, at most, neighbours of a procedure aside.
        system: what the reply names as its generator.
        forms: step -> the form of it that runs; a step that falls back to another writes that here.

    What the steps write:

    Attributes:
        understanding: `understand`; the parts follow from it.
        group: the parts that are worked on: those that can be answered at once.
        pending: those of them to be searched for and judged in this round; `retrieve` writes their `hits`, `decide`
            their `judgement` and `narrower`.
        last_round: `retrieve`: the number of the last round.
        limit: `retrieve`: hits of a part of the group, at most.
        hits: all evidence, numbered by its place from 1.
        judgement: of the group, in the end of the whole message; `decide` of the whole follows from that of its parts.
        draft: `answer`, by `write`.
        checks, sub_questions: `verify`. A turn with checks is settled: no further step is taken.
    """

    message: str
    history: tuple[Message, ...] = ()
    evidence: Sequence[Hit] | None = None
    trusted: bool = False
    by_name: bool = False
    retriever: Retriever | None = None
    generator: Generator | None = None
    embed: Embed | None = None
    prompts: Path | None = None
    passages: int = 3
    most: int = 12
    system: str = "extractive"
    forms: dict[str, str] = field(default_factory=dict)
    on_event: Callable[[Event], None] = lambda _: None
    span: Callable[[str], AbstractContextManager[object]] = lambda _: nullcontext()

    understanding: Understanding = _NOT_UNDERSTOOD
    parts: list[Part] = field(default_factory=list)
    group: list[Part] = field(default_factory=list)
    pending: list[Part] = field(default_factory=list)
    round: int = 1
    last_round: int = 1
    limit: int = 0
    hits: list[Hit] = field(default_factory=list)
    searches: list[Search] = field(default_factory=list)
    judgement: Judgement = NOT_JUDGED
    draft: Draft = _NOTHING_WRITTEN
    checks: Checks | None = None
    sub_questions: tuple[SubQuestion, ...] = ()

    usage: dict[str, Usage] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    streamed: bool = False
    _inner_seconds: float = 0.0

    @property
    def model(self) -> Generator:
        """The language model, in a form that needs one."""
        assert self.generator is not None, "checked when the forms were chosen"
        return self.generator

    # -- taking steps

    def run(self, step: Step) -> None:
        """Take a step, timed; none where the reply is settled."""
        if self.checks is not None:
            return
        with self.timed(step.name):
            step(self)
        if step.name == "understand":
            rewrite = self.understanding.rewrite
            new_rewrite = rewrite if rewrite != self.message else ""
            self.tell(
                "understand", new_rewrite, kind=self.understanding.kind, parts=list(self.understanding.sub_questions)
            )
        elif step.name == "verify" and self.checks:
            self.tell("verify", "", **self.checks.model_dump())

    def groups(self) -> Iterator[None]:
        """The parts by groups that can be answered at once: what builds on an answer comes when that is there."""
        if self.checks is not None:
            return
        understood = self.understanding
        self.parts = parts_of(understood, self.history, self.message)
        chained = understood.needs and not understood.readings  # what must be asked back is asked once
        groups = runs(understood.needs) if chained else [range(len(self.parts))]
        for group in groups:
            self.group = self.parts[group.start : group.stop]
            for part in self.group if group.start else ():
                for need in understood.needs[part.place]:
                    answer = strip_citations(self.draft.answers[need]) or UNKNOWN_TEXT
                    part.history += (
                        Message(role="user", content=self.parts[need].text),
                        Message(role="assistant", content=answer),
                    )
            yield
        if len(groups) > 1:
            self._conclude(self.parts)

    def rounds(self) -> Iterator[None]:
        """The rounds of searching and judging for a group: thin evidence is searched for again.

        What a later round finds counts only where it is judged the better. In the end the evidence is numbered.
        """
        self.pending, self.round = list(self.group), 1
        while self.pending:
            earlier = [(part.hits, part.judgement) for part in self.pending]
            yield
            for part, (hits, judgement) in zip(self.pending, earlier, strict=True):
                if part.compound and part.judgement.decision == "clarify":
                    # A part is not asked back: what it speaks of stands in another part.
                    part.judgement = part.judgement.model_copy(update={"decision": "answer", "readings": ()})
                if self.round > 1 and rank(part.judgement) <= rank(judgement):
                    part.hits, part.judgement = hits, judgement
            self.pending = [part for part in self.pending if part.narrower] if self.round < self.last_round else []
            self.round += 1
        self._gather()
        with self.timed("decide"):
            self.judgement = judged_together(self.group, self.understanding)
        self._tell_decision()

    def _conclude(self, parts: Sequence[Part]) -> None:
        self.judgement = judged_together(parts, self.understanding)
        self._tell_decision()

    def _tell_decision(self) -> None:
        judged = self.judgement
        self.tell("decide", f"{judged.decision}: {judged.reason}", confidence=judged.confidence)

    # -- evidence

    def _gather(self) -> None:
        """Number the evidence of a group: the best of each part first, then the second of each, within `most`."""
        if self.evidence is None:
            numbered = {hit.passage.id for hit in self.hits}
            for rank in zip_longest(*(part.hits for part in self.group)):
                for hit in rank:
                    if hit is not None and len(numbered) < self.most:
                        numbered.add(hit.passage.id)
            for part in self.group:
                part.hits = self._with_neighbours(part, [hit for hit in part.hits if hit.passage.id in numbered])
        self.number(hit for rank in zip_longest(*(part.hits for part in self.group)) for hit in rank if hit is not None)
        for part in self.group:
            part.numbers = tuple(self.number(part.hits))
        self.tell_hits()

    def _with_neighbours(self, part: Part, hits: list[Hit]) -> list[Hit]:
        """For a procedure the passages around the best hit join, in reading order: score 0, on no list."""
        if not (part.understanding.wants_procedure and hits and self.retriever):
            return hits
        present, best = {hit.passage.id for hit in hits}, hits[0].passage
        around = [passage for passage in neighbours_of(self.retriever, best) if passage.id not in present]
        nearest = sorted(around, key=lambda passage: _distance(passage, best))[:MAX_NEIGHBOURS]
        return hits + [Hit(passage=passage, score=0.0) for passage in sorted(nearest, key=lambda p: p.start)]

    def number(self, hits: Iterable[Hit]) -> list[int]:
        """The numbers of some hits; those that are new join the evidence."""
        places = {hit.passage.id: number for number, hit in enumerate(self.hits, 1)}
        numbers = []
        for hit in hits:
            if hit.passage.id not in places:
                self.hits.append(hit)
                places[hit.passage.id] = len(self.hits)
            numbers.append(places[hit.passage.id])
        return numbers

    def look(self, query: Query, reason: str, k: int | None = None) -> list[Hit]:
        """One more search for the turn as a whole; its hits, best first, of which new ones join the evidence.

        Args:
            reason: in one clause, for the trace.
            k: hits at most; None: as many as for a part.
        """
        if self.retriever is None:
            return []
        hits = self.retriever.search([query], k or self.passages)[0]
        self.searched(query, hits, reason, 1 + max((search.round for search in self.searches), default=0))
        self.number(hits)
        return hits

    def searched(self, query: Query, hits: Sequence[Hit], reason: str, number: int, part: int | None = None) -> None:
        """Take down a search for the trace."""
        rows = tuple(
            SearchHit(
                id=hit.passage.id, title=hit.passage.title, score=round(hit.score, 4),
                similarity=None if hit.similarity is None else round(hit.similarity, 4),
            )
            for hit in hits
        )  # fmt: skip
        self.searches.append(
            Search(why=reason, query=query.text, variants=query.variants, part=part, round=number, hits=rows)
        )

    # -- writing

    def write(self, draft: Draft) -> None:
        """Add the draft for a group behind that for the groups before it."""
        if not self.draft.answers:
            self.draft = draft
            return
        self.draft = Draft(
            text="\n\n".join(filter(None, (self.draft.text, draft.text))),
            procedure=self.draft.procedure + draft.procedure,
            answers=self.draft.answers + draft.answers,
            apart=self.draft.apart and draft.apart,
            at_once=self.draft.at_once or draft.at_once,
        )

    def stream(self, delta: str) -> None:
        """Report a piece of the answer; what is streamed of a turn is its text with the steps beneath."""
        self.streamed = True
        self.on_event(Event(step="answer", delta=delta))

    def settle(self, draft: Draft, judgement: Judgement, checks: Checks, parts: Sequence[SubQuestion]) -> None:
        """The reply is ready: what it says, what was decided, and what the checks found."""
        self.draft, self.judgement, self.checks, self.sub_questions = draft, judgement, checks, tuple(parts)

    # -- reporting

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Time a step; one that comes again adds up, and what a step inside it takes is not its own."""
        began, outside = time.perf_counter(), self._inner_seconds
        self._inner_seconds = 0.0
        try:
            with self.span(name):
                yield
        finally:
            seconds = time.perf_counter() - began
            self.timings[name] = round(self.timings.get(name, 0.0) + seconds - self._inner_seconds, 4)
            self._inner_seconds = outside + seconds

    def tell(self, step: Any, text: str, **detail: Any) -> None:
        """Report what a step came to."""
        self.on_event(Event(step=step, text=text, detail=detail))

    def tell_hits(self) -> None:
        """Report what was searched for and found so far."""
        self.tell(
            "retrieve",
            f"{len(self.hits)} passages",
            hits=[(hit.passage.id, round(hit.score, 4)) for hit in self.hits],
            searches=[search.model_dump(mode="json") for search in self.searches],
        )

    def use(self, role: str, usage: Usage, *notes: str | None) -> None:
        """Take down what calls cost, and notes for the person."""
        self.usage[role] = self.usage.get(role, Usage()) + usage
        for note in filter(None, notes):
            self.notes.append(note)
            self.tell("note", note)

    def reply(self) -> Reply:
        """The finished turn."""
        cites = self.judgement.decision in (*GROUNDED, "clarify")
        draft = self.draft.with_lead()  # checking may have taken out the sentence before the steps
        return Reply(
            question=self.message,
            answer=draft.text,
            procedure=draft.procedure,
            citations=tuple(_citation(n, hit) for n, hit in enumerate(self.hits, 1)) if cites else (),
            decision=self.judgement.decision,
            rewrite=self.understanding.rewrite,
            sub_questions=self.sub_questions,
            checks=self.checks or Checks(),
            generator=self.system,
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


def _distance(passage: Passage, best: Passage) -> int:
    """Characters between two passages; what comes before counts twice, since a procedure goes on behind its
    beginning."""
    ahead = passage.start - best.end
    return ahead if ahead >= 0 else 2 * max(0, best.start - passage.end)


def _citation(number: int, hit: Hit) -> Citation:
    fields = {name: getattr(hit.passage, name) for name in Citation.model_fields if name not in ("n", "score")}
    return Citation(n=number, score=hit.score, **fields)
