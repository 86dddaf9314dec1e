"""One turn at work: its events, timings, tokens and notes, and each step in the form that was chosen for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from turnmark.assistant.steps.answer import UNKNOWN_TEXT
from turnmark.assistant.steps.clarify import clarification
from turnmark.assistant.steps.compose import Composed, extracted, nothing, with_lead
from turnmark.assistant.steps.condense import condense, with_question
from turnmark.assistant.steps.decompose import understand_parts
from turnmark.assistant.steps.judge import embedded_judge, model_judge
from turnmark.assistant.steps.retrieve import ROUNDS, Asked, Evidence, Gathering, Verdict
from turnmark.assistant.steps.understand import may_stand, understand
from turnmark.assistant.steps.understand_llm import understand_with
from turnmark.assistant.steps.unknown import says_unknown
from turnmark.assistant.steps.verify import BY_RULES, verify
from turnmark.assistant.turn_parts import Verified, fails, repeats, unasked, with_answers
from turnmark.assistant.types import (
    GROUNDED,
    Checks,
    Citation,
    Decision,
    Draft,
    Event,
    Judgement,
    Reply,
    SubQuestion,
    Trace,
    Understanding,
    Usage,
)
from turnmark.assistant.writing import completed, write
from turnmark.assistant.writing_parts import PartWriter, write_parts
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Message
from turnmark.retrieval.cache import by_text
from turnmark.retrieval.given import ranked_by
from turnmark.retrieval.types import Hit, Query

if TYPE_CHECKING:
    from turnmark.assistant.agent import Assistant

STANDS_ALONE = 0.55
"""Cosine of the nearest passage from which a whole question that says little needs no conversation. Of MTRAG's labelled
turns that say little, those from .55 on mostly stand alone, those below mostly do not."""


class Turn:
    """What one turn gathers on its way, and its steps.

    Args:
        of: the assistant whose turn it is.
    """

    def __init__(
        self, of: Assistant, history: Sequence[Message], message: str, on_event: Callable[[Event], None]
    ) -> None:
        self.of, self._on_event = of, on_event
        self.history, self.message = tuple(history), message
        self.timings: dict[str, float] = {}
        self.usage: dict[str, Usage] = {}
        self.notes: list[str] = []
        self.embed = by_text(of.embed) if of.embed else None
        self.streamed = False
        self.given = False
        self.forms = of.forms.model_dump()
        self._inside = 0.0

    # -- what is gathered

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step; one that comes again adds up, and what a step inside it takes is not its own."""
        began, outside = time.perf_counter(), self._inside
        self._inside = 0.0
        try:
            with self.of.span(name):
                yield
        finally:
            took = time.perf_counter() - began
            self.timings[name] = round(self.timings.get(name, 0.0) + took - self._inside, 4)
            self._inside = outside + took

    def tell(self, step: Any, text: str, **detail: Any) -> None:
        """Report what a step came to."""
        self._on_event(Event(step=step, text=text, detail=detail))

    def tell_hits(self, gathering: Gathering) -> None:
        """Report what was searched for and found so far."""
        hits = gathering.hits
        self.tell(
            "retrieve",
            f"{len(hits)} passages",
            hits=[(hit.passage.id, round(hit.score, 4)) for hit in hits],
            searches=[search.model_dump(mode="json") for search in gathering.searches],
        )

    def stream(self, delta: str) -> None:
        """Report a piece of the answer."""
        self.streamed = True
        self._on_event(Event(step="answer", delta=delta))

    def use(self, role: str, usage: Usage, notes: Sequence[str] = ()) -> None:
        """Take down what calls cost, and notes for the person."""
        self.usage[role] = self.usage.get(role, Usage()) + usage
        self.notes += notes
        for note in notes:
            self.tell("note", note)

    # -- the steps

    def understand(self, searching: bool) -> Understanding:
        """What the message asks for.

        Args:
            searching: the turn finds its own evidence. Where it is given, rules do: nothing depends on a rewrite then.
        """
        with self.step("understand"):
            understood = understand_parts(self.history, self.message)
            if searching and not understood.standalone and self._stands_alone(understood):
                understood = understand_parts((), self.message)
            self.given = not searching
            self.forms["understand"] = "rules"
            if self.of.forms.understand != "rules" and searching:
                understood = self._understood_by_model(understood)
        told = understood.rewrite if understood.rewrite != self.message else ""
        self.tell("understand", told, kind=understood.kind, parts=list(understood.sub_questions))
        return understood

    def _stands_alone(self, understood: Understanding) -> bool:
        """Whether a message that says little finds something by itself, and so needs no conversation."""
        if understood.kind != "question" or self.of.retriever is None or not may_stand(self.message):
            return False
        nearest = self.of.retriever.search([Query(text=self.message)], 1)[0]
        similarity = nearest[0].similarity if nearest else None
        return similarity is not None and similarity >= STANDS_ALONE

    def as_question(self) -> Understanding:
        """A message that was read as an instruction to revise, read as a question."""
        return understand(self.history, self.message)

    def _understood_by_model(self, understood: Understanding) -> Understanding:
        """What a model adds to what rules understand; whether a message revises, or asks anything, rules decide."""
        generator, history, message = self.of.generator, self.history, self.message
        assert generator is not None, "checked when the forms were chosen"
        if understood.kind != "question":
            return understood
        if self.of.forms.understand == "structured":
            if not history and len(understood.sub_questions) == 1:
                return understood
            found = understand_with(generator, history, message, lambda: understood, self.of.prompts)
            self.use("rewrite", found.usage, [found.note] if found.note else [])
            self.forms["understand"] = "rules" if found.by_rules else "structured"
            # What tells to revise, rules say; a model takes questions for it.
            return self.as_question() if found.understanding.kind == "revision" else found.understanding
        if understood.standalone:
            return understood
        condensed = condense(generator, history, message, self.of.prompts)
        self.use("rewrite", condensed.usage, [condensed.note] if condensed.note else [])
        if not condensed.question:
            return understood
        self.forms["understand"] = "llm"
        return with_question(understood, message, condensed.question)

    @property
    def reads_briefly(self) -> bool:
        """Whether a model answers part by part from excerpts. Evidence that was handed in is read whole."""
        forms = self.of.forms
        return forms.answer == "llm" and forms.retrieve != "look-ahead" and not self.given

    def gathering(self, trusted: bool) -> Gathering:
        """An empty gathering of evidence, with the form of judging that was chosen."""
        of = self.of
        rounds = 1 if of.forms.retrieve == "once" else ROUNDS
        judge = embedded_judge(self.embed, trusted, narrows=rounds > 1)
        self.forms["decide"] = "llm" if of.forms.decide == "llm" and not trusted else "embedded"
        if of.forms.decide == "llm" and not trusted:
            assert of.generator is not None, "checked when the forms were chosen"
            judge = model_judge(of.generator, judge, self._decided, of.prompts)

        def timed(parts: Sequence[Asked], evidence: Sequence[Sequence[Hit]]) -> list[Verdict]:
            with self.step("decide"):
                return [
                    unasked(one) if part.of_several else one
                    for part, one in zip(parts, judge(parts, evidence), strict=True)
                ]

        return Gathering(of.retriever, timed, of.passages, max(of.most, of.passages), rounds)

    def rated(self, asked: Sequence[Asked], given: Sequence[Hit]) -> list[list[Hit]]:
        """Evidence that was handed in, for each part with the cosines that this part has, in the order given."""
        if len(asked) == 1 or self.embed is None:
            return [list(given)] * len(asked)
        passages = [hit.passage for hit in given]
        rated = []
        for part in asked:
            texts = tuple(dict.fromkeys((part.text, part.understanding.rewrite)))
            found = {hit.passage.id: hit.found for hit in ranked_by(passages, texts, self.embed)}
            rated.append([hit.model_copy(update={"found": found[hit.passage.id]}) for hit in given])
        return rated

    def knowing(
        self, part: Asked, understood: Understanding, at: int, found: Sequence[Evidence], composed: Composed | None
    ) -> Asked:
        """A part with the parts it builds on, and their answers, as turns before it."""
        needs = understood.needs[at] if understood.needs else ()
        if not needs or composed is None:
            return part
        told: list[Message] = []
        for need in needs:
            answer = strip_citations(composed.answers[need]) or UNKNOWN_TEXT
            told += [
                Message(role="user", content=found[need].asked.text),
                Message(role="assistant", content=answer),
            ]
        return Asked(part.text, part.understanding, (*part.history, *told), part.of_several)

    def answered(
        self, understood: Understanding, judged: Judgement, evidence: Sequence[Evidence], gathering: Gathering
    ) -> Composed:
        """The answer to some parts as it was decided; a model's is streamed."""
        if judged.decision == "unknown":
            return Composed(draft=nothing(evidence), answers=("",) * len(evidence))
        if self.of.forms.answer != "extractive":
            if self.reads_briefly:
                return write_parts(self._part_writer(understood, gathering), judged, understood, evidence)
            return write(self, understood, judged, evidence, gathering)
        if judged.decision == "clarify":
            draft = clarification(judged, understood, gathering.hits)
            return Composed(draft=draft, answers=(draft.text,) * len(evidence))
        return extracted(evidence, self.embed, len(understood.sub_questions))

    def _part_writer(self, understood: Understanding, gathering: Gathering) -> PartWriter:
        """Writes the answers to the parts with the model; where rules alone say what a message leans on, it is shown
        the conversation."""
        assert self.of.generator is not None, "checked when the forms were chosen"
        leans = not understood.standalone and self.forms["understand"] == "rules"
        return PartWriter(
            generator=self.of.generator,
            prompts=self.of.prompts,
            embed=self.embed,
            gathering=gathering,
            history=self.history,
            shown=self.history if leans else (),
            several=len(understood.sub_questions) > 1,
            stream=self.stream,
            use=self.use,
            tell=self.tell,
        )

    def drafted(self, draft: Draft) -> None:
        """Stream a draft that was not streamed as it was written."""
        if not self.streamed:
            self.stream(draft.text)

    def verified(
        self,
        draft: Draft,
        judged: Judgement,
        understood: Understanding,
        gathering: Gathering,
        composed: Composed,
        found: Sequence[Evidence],
    ) -> Verified:
        """The draft as it was checked and, once at most, mended: a part that a model left out is asked for again."""
        with self.step("verify"):
            made = self._checked(draft, judged, understood, gathering, composed)
            draft, checks, parts = made
            omitted = [
                at
                for at, (part, one) in enumerate(zip(parts, found, strict=False))
                if not part.answered and one.judgement.decision in GROUNDED and not says_unknown(composed.answers[at])
            ]
            asks_again = self.of.forms.answer != "extractive" and not self.reads_briefly
            if not asks_again or checks.repaired or not 0 < len(omitted) < len(parts):
                return with_answers(made, composed)
            whole = completed(self, draft, composed, omitted, found, gathering)
            if whole is None:
                return with_answers(made, composed)
            again = self._checked(whole.draft, judged, understood, gathering, whole)
            if sum(part.answered for part in again[2]) <= sum(part.answered for part in parts):
                return with_answers(made, composed)
            draft, checks, parts = again
            return with_answers((draft, checks.model_copy(update={"repaired": True}), parts), whole)

    def stands(
        self,
        judged: Judgement,
        made: Verified,
        understood: Understanding,
        gathering: Gathering,
        found: Sequence[Evidence],
    ) -> tuple[Judgement, Verified]:
        """What is decided after checking: a model's answer that rests on nothing, or is the last one again, goes.

        The documents' own sentences take its place; where these answer nothing either, `partial` says so, and where
        there are none it is not known.
        """
        if self.of.forms.answer == "extractive" or judged.decision not in GROUNDED:
            return judged, made
        repeated = repeats(made[0], self.history, self.message)
        if not repeated and not fails(made[1]):
            return judged, made
        reason = "it was the last answer again" if repeated else "nothing supports it, or it answers no part"
        self.use("verify", Usage(), [f"the model's answer does not stand: {reason}"])
        composed = extracted(found, self.embed, len(understood.sub_questions))
        if not composed.unknown and not repeats(composed.draft, self.history, self.message):
            with self.step("verify"):
                again = with_answers(self._checked(composed.draft, judged, understood, gathering, composed), composed)
            decision: Decision = "partial" if fails(again[1]) else judged.decision
            return judged.model_copy(update={"decision": decision}), again
        if not repeated and made[0].text.strip() and (made[1].grounded or 0) > 0:
            return judged.model_copy(update={"decision": "partial"}), made
        unknown = judged.model_copy(update={"decision": "unknown", "reason": reason})
        draft, checks, parts = verify(Draft(text=UNKNOWN_TEXT), "unknown", understood, gathering.hits)
        return unknown, (draft, checks, parts)

    def _checked(
        self, draft: Draft, judged: Judgement, understood: Understanding, gathering: Gathering, composed: Composed
    ) -> Verified:
        answers = composed.answers if len(composed.answers) > 1 and composed.apart else ()
        return verify(
            draft, judged.decision, understood, gathering.hits, embed=self.embed,
            generator=self.of.generator if self.of.forms.verify == "llm" else None, prompts=self.of.prompts,
            answers=[strip_citations(answer) for answer in answers], written=self.of.forms.answer != "extractive",
            told=self._verified,
        )  # fmt: skip

    def _decided(self, usage: Usage, note: str | None) -> None:
        self.use("decide", usage, [note] if note else [])
        if note:  # the model gave nothing usable
            self.forms["decide"] = "embedded"

    def _verified(self, usage: Usage, note: str | None) -> None:
        self.use("verify", usage, [note] if note else [])
        if note and note.startswith(BY_RULES):
            self.forms["verify"] = "embedded"

    # -- the reply

    def reply(
        self,
        understood: Understanding,
        judged: Judgement,
        draft: Draft,
        gathering: Gathering,
        checks: Checks,
        parts: tuple[SubQuestion, ...],
        found: Sequence[Evidence],
    ) -> Reply:
        """The finished turn."""
        cites = judged.decision in (*GROUNDED, "clarify")
        draft = with_lead(draft)  # checking may have taken out the sentence before the steps
        return Reply(
            question=self.message,
            answer=draft.text,
            procedure=draft.procedure,
            citations=tuple(_citation(n, hit) for n, hit in enumerate(gathering.hits, 1)) if cites else (),
            decision=judged.decision,
            rewrite=understood.rewrite,
            sub_questions=parts,
            checks=checks,
            generator=self.of.name,
            usage=self.usage,
            timings=self.timings,
            notes=tuple(self.notes),
            trace=Trace(
                forms=self.forms,
                understanding=understood,
                searches=tuple(gathering.searches),
                judgement=judged,
                parts=tuple(one.judgement for one in found) if len(found) > 1 else (),
            ),
        )


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
