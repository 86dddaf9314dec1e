"""A model's answer part by part: each read from excerpts after the same prefix, beside what the documents say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from assistant.steps import reading
from assistant.steps.claims import Sources
from assistant.steps.clarify import clarification
from assistant.steps.combine import begins_with, beside, contradicted, supported
from assistant.steps.compose import Composed, extracted, not_found, nothing, with_lead
from assistant.steps.excerpts import Excerpt, excerpts_of
from assistant.steps.retrieve import Asked, Evidence, Gathering
from assistant.types import GROUNDED, Draft, Judgement, Understanding, Usage
from corpora.types import Message

if TYPE_CHECKING:
    from assistant.turn import Turn

PASSAGES = 3
"""Passages that a question is read from; all parts of a message together have one more."""


def write_parts(
    turn: Turn, understood: Understanding, judged: Judgement, evidence: Sequence[Evidence], gathering: Gathering
) -> Composed:
    """The answer to some parts, each with one question to the model; what cannot be answered is named in its place."""
    if judged.decision == "clarify":
        draft = clarification(judged, understood, gathering.hits)
        return Composed(draft=draft, answers=(draft.text,) * len(evidence))
    writer = PartWriter(turn, understood, gathering, excerpts_for(turn, evidence))
    drafts: list[Draft] = []
    answers: list[str] = []
    for one in evidence:
        if turn.streamed:
            turn.stream("\n\n")
        known = one.judgement.decision in GROUNDED
        draft = writer.draft(one, [draft.text for draft in drafts]) if known else None
        answers.append(" ".join((draft.text, *(step.step for step in draft.procedure))) if draft else "")
        if draft is None and len(understood.sub_questions) > 1:
            draft = Draft(text=not_found(one.asked.text))
            turn.stream(draft.text)
        drafts.append(draft or Draft(text=""))
    if not any(answers):
        return Composed(draft=nothing(evidence), answers=tuple(answers))
    text = "\n\n".join(draft.text for draft in drafts if draft.text)
    steps = tuple(step for draft in drafts for step in draft.procedure)
    return Composed(draft=with_lead(Draft(text=text, procedure=steps)), answers=tuple(answers))


def excerpts_for(turn: Turn, evidence: Sequence[Evidence]) -> list[Excerpt]:
    """What the model reads for all parts: the best passages of each in turns, trimmed to what was asked."""
    ranked = [list(zip(one.hits, one.numbers, strict=True)) for one in evidence]
    mixed = {number: hit for rank in zip_longest(*ranked) for pair in rank if pair for hit, number in (pair,)}
    numbers = list(mixed)[: PASSAGES + (len(evidence) > 1)]
    asked = [(one.asked.text, one.asked.understanding.rewrite) for one in evidence]
    return excerpts_of(asked, [mixed[n] for n in numbers], numbers, turn.embed)


@dataclass(frozen=True)
class PartWriter:
    """Writes the answers to the parts of one message.

    Attributes:
        excerpts: what the model reads for every part.
    """

    turn: Turn
    understood: Understanding
    gathering: Gathering
    excerpts: Sequence[Excerpt]

    def draft(self, one: Evidence, before: Sequence[str]) -> Draft | None:
        """The model's answer to a part and what the documents say beside it; None where it is not known.

        Steps that stand in the documents are preferred to the model's, which then writes the sentence above them.

        Args:
            before: what is said to the parts before this one.

        Raises:
            GeneratorError: no reply was to be had.
        """
        turn, asked = self.turn, one.asked
        generator = turn.of.generator
        assert generator is not None, "checked when the forms were chosen"
        extract = self._extract(one)
        listed = extract.procedure if extract else ()
        question = asked.understanding.rewrite
        made = reading.read(
            generator,
            question,
            self.excerpts,
            steps=asked.understanding.wants_procedure and not listed,
            history=self._history(asked),
            on_text=turn.stream,
            prompts=turn.of.prompts,
        )
        turn.use("answer", made.usage)
        if made.unknown:
            return None
        text = made.draft.text
        if extract and (problem := self._problem(question, made.draft, extract, before)):
            turn.use("answer", Usage(), [f"the documents' own sentences stand instead of the model's: {problem}"])
            return extract
        steps = listed or made.draft.procedure
        more = beside(question, text, extract.text, turn.embed) if extract and not steps else ""
        if more:
            turn.stream(f" {more}")
        return Draft(text=" ".join(filter(None, (text, more))), procedure=steps)

    def _problem(self, question: str, draft: Draft, extract: Draft, before: Sequence[str]) -> str:
        """Why a model's answer is not to be shown; "" where it is."""
        texts = [hit.passage.indexed_text for hit in self.gathering.hits]
        if not supported(draft, Sources(texts, self.turn.embed, question)):
            return "its answer is not in the passages"
        if contradicted(question, draft.text, extract.text, self.turn.embed):
            return "it says yes, and they say no"
        return "it says the same to two parts" if any(begins_with(text, draft.text) for text in before) else ""

    def _extract(self, one: Evidence) -> Draft | None:
        """The documents' own sentences for a part, without what is said of terms they lack."""
        composed = extracted([one], self.turn.embed, len(self.understood.sub_questions))
        if composed.unknown:
            return None
        return composed.draft.model_copy(update={"text": composed.draft.text.partition("\n\n")[0]})

    def _history(self, asked: Asked) -> Sequence[Message]:
        """What the model is shown of the conversation: the last turns, where rules alone say what a message leans on;
        and the parts that a part builds on, with their answers."""
        turn = self.turn
        rewritten = turn.forms["understand"] != "rules"
        before = () if self.understood.standalone or rewritten else turn.history
        return (*before, *asked.history[len(turn.history) :])
