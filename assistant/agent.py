"""The turn, on one screen: understand, retrieve, decide, answer, verify."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assistant.budget import fit
from assistant.generators.base import GeneratorError
from assistant.steps import llm
from assistant.steps.answer import UNKNOWN_TEXT, Embed, converse, extract
from assistant.steps.decide import decide
from assistant.steps.retrieve import retrieve
from assistant.steps.understand import understand
from assistant.steps.verify import verify
from assistant.types import (
    GROUNDED,
    Checks,
    Citation,
    Draft,
    Event,
    Judgement,
    Reply,
    SubQuestion,
    Understanding,
    Usage,
)
from corpora.types import Message
from retrieval.types import Hit, Retriever

if TYPE_CHECKING:
    from assistant.generators import Generator

PASSAGES = 3


class Assistant:
    """Answers messages from passages. Holds no conversation: the state is the message list that is handed in.

    Args:
        retriever: finds the passages; None: every turn is given its evidence.
        generator: writes rewrites and answers; None: the embedded forms, which need no language model.
        embed: embeds sentences for the extractive answer; None: shared words decide.
        passages: how many passages a turn looks at.
        prompts: folder with prompts of one's own.
    """

    def __init__(
        self,
        retriever: Retriever | None,
        generator: Generator | None = None,
        embed: Embed | None = None,
        passages: int = PASSAGES,
        prompts: Path | None = None,
    ) -> None:
        self.retriever, self.generator, self.embed, self.passages = retriever, generator, embed, passages
        self.prompts = prompts
        self.name = generator.name if generator else "extractive"

    def reply(
        self,
        history: Sequence[Message],
        message: str,
        on_event: Callable[[Event], None] = lambda _: None,
        evidence: Sequence[Hit] | None = None,
        trusted: bool = False,
    ) -> Reply:
        """One turn.

        Args:
            history: the turns before, oldest first.
            on_event: told of every step as it happens; the answer's text arrives in pieces (`delta`).
            evidence: passages to answer from, best first; nothing is searched then, and no model asked for a rewrite.
            trusted: the evidence is known to be about the question, however little it looks like it.

        Raises:
            GeneratorError: the language model could not be reached or gave nothing usable.
        """
        turn = _Turn(on_event)
        with turn.step("understand"):
            understood = self._understand(history, message, turn, searching=evidence is None)
        with turn.step("retrieve"):
            hits = self._evidence(understood, history, message, evidence)
        turn.tell("retrieve", f"{len(hits)} passages", hits=[(h.passage.id, round(h.score, 4)) for h in hits])
        with turn.step("decide"):
            judged = decide(understood, message, hits, trusted)
        turn.tell("decide", f"{judged.decision}: {judged.reason}", confidence=judged.confidence)
        with turn.step("answer"):
            draft, judged, hits = self._answer(understood, judged, history, message, hits, turn)
        with turn.step("verify"):
            draft, checks, parts = verify(draft, judged.decision, understood, hits)
        turn.tell("verify", "", **checks.model_dump())
        return self._reply(message, understood, judged, draft, hits, checks, parts, turn)

    def _evidence(
        self, understood: Understanding, history: Sequence[Message], message: str, given: Sequence[Hit] | None
    ) -> list[Hit]:
        """What the turn answers from: what is given or, for a question, what is found."""
        if given is not None or self.retriever is None or understood.kind == "conversational":
            return list(given or ())
        return retrieve(self.retriever, understood, history, message, self.passages)

    def _understand(self, history: Sequence[Message], message: str, turn: _Turn, searching: bool) -> Understanding:
        understood = understand(history, message)
        if self.generator and searching and history and understood.kind == "question":
            found = llm.rewrite(self.generator, history, message, self.prompts)
            turn.use("rewrite", found.usage, [found.note] if found.note else [])
            understood = understood.model_copy(
                update={"standalone": found.standalone, "rewrite": found.rewrite, "sub_questions": (found.rewrite,)}
            )
        turn.tell("understand", understood.rewrite if understood.rewrite != message else "", kind=understood.kind)
        return understood

    def _answer(
        self,
        understood: Understanding,
        judged: Judgement,
        history: Sequence[Message],
        message: str,
        hits: list[Hit],
        turn: _Turn,
    ) -> tuple[Draft, Judgement, list[Hit]]:
        """The draft, what was decided in the end (a model may not know), and the passages that it was shown."""
        if judged.decision == "converse":
            draft = converse(message)
        elif judged.decision == "unknown":
            draft = Draft(text=UNKNOWN_TEXT)
        elif self.generator is None:
            found = extract(understood, message, hits, self.embed)
            draft = found or Draft(text=UNKNOWN_TEXT)
            if found is None:
                judged = judged.model_copy(update={"decision": "unknown", "reason": "no sentence of the passages fits"})
        else:
            fitted = fit(history, hits, message, self.generator.context_tokens - self.generator.reply_tokens)
            if hits and not fitted.hits:
                raise GeneratorError("bad_request", f"the question does not fit into the context of {self.name}")
            said = llm.answer(
                self.generator, message, fitted.history, fitted.hits, understood.wants_procedure, turn.stream,
                self.prompts,
            )  # fmt: skip
            turn.use("answer", said.usage, [*fitted.notes, *said.notes])
            if said.unknown:
                judged = Judgement(decision="unknown", confidence=judged.confidence, reason="the model does not know")
            return said.draft, judged, list(fitted.hits)
        turn.stream(draft.text)
        return draft, judged, hits

    def _reply(
        self,
        message: str,
        understood: Understanding,
        judged: Judgement,
        draft: Draft,
        hits: Sequence[Hit],
        checks: Checks,
        parts: tuple[SubQuestion, ...],
        turn: _Turn,
    ) -> Reply:
        return Reply(
            question=message,
            answer=draft.text,
            procedure=draft.procedure,
            citations=tuple(_citation(n, hit) for n, hit in enumerate(hits, 1)) if judged.decision in GROUNDED else (),
            decision=judged.decision,
            rewrite=understood.rewrite,
            sub_questions=parts,
            checks=checks,
            generator=self.name,
            usage=turn.usage,
            timings=turn.timings,
            notes=tuple(turn.notes),
        )


class _Turn:
    """What one turn gathers on its way: events told, seconds a step, tokens a role, notes for the person."""

    def __init__(self, on_event: Callable[[Event], None]) -> None:
        self._on_event = on_event
        self.timings: dict[str, float] = {}
        self.usage: dict[str, Usage] = {}
        self.notes: list[str] = []

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.timings[name] = round(time.perf_counter() - began, 4)

    def tell(self, step: Any, text: str, **detail: Any) -> None:
        self._on_event(Event(step=step, text=text, detail=detail))

    def stream(self, delta: str) -> None:
        self._on_event(Event(step="answer", delta=delta))

    def use(self, role: str, usage: Usage, notes: Sequence[str]) -> None:
        self.usage[role] = self.usage.get(role, Usage()) + usage
        self.notes += notes
        for note in notes:
            self.tell("note", note)


def _citation(n: int, hit: Hit) -> Citation:
    passage = hit.passage
    return Citation(
        n=n,
        id=passage.id,
        document=passage.document,
        title=passage.title,
        path=passage.path,
        page=passage.page,
        start=passage.start,
        end=passage.end,
        text=passage.text,
        score=hit.score,
    )
