"""A model's answer part by part: each read from excerpts after the same prefix, beside what the documents say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from turnmark.assistant.generators.base import Generator, OnText, traits_of
from turnmark.assistant.steps import reading
from turnmark.assistant.steps.claims import Sources
from turnmark.assistant.steps.clarify import clarification
from turnmark.assistant.steps.combine import begins_with, beside, contradicted, supported
from turnmark.assistant.steps.compose import Composed, extracted, not_found, nothing, with_lead
from turnmark.assistant.steps.excerpts import Excerpt, excerpts_of
from turnmark.assistant.steps.retrieve import Evidence, Gathering
from turnmark.assistant.steps.select import Embed
from turnmark.assistant.types import GROUNDED, Draft, Judgement, Understanding, Usage
from turnmark.corpora.types import Message

LEAST_STATED = 0.55
"""The probability from which a question is answered; docs/turn.md has what it tells apart."""
PASSAGES = 3
"""Passages that a question is read from; all parts of a message together have one more."""


def write_parts(
    writer: PartWriter, judged: Judgement, understood: Understanding, evidence: Sequence[Evidence]
) -> Composed:
    """The answer to some parts, each with one question to the model; what cannot be answered is named in its place.

    Raises:
        GeneratorError: no reply was to be had.
    """
    if judged.decision == "clarify":
        draft = clarification(judged, understood, writer.gathering.hits)
        return Composed(draft=draft, answers=(draft.text,) * len(evidence))
    excerpts = excerpts_for(evidence, writer.embed)
    drafts: list[Draft] = []
    answers: list[str] = []
    for one in evidence:
        if answers:
            writer.stream("\n\n")
        known = one.judgement.decision in GROUNDED
        answer = writer.draft(one, excerpts, [draft.text for draft in drafts]) if known else None
        answers.append(" ".join((answer.text, *(step.step for step in answer.procedure))) if answer else "")
        if answer is None and writer.several:
            answer = Draft(text=not_found(one.asked.text))
            writer.stream(answer.text)
        drafts.append(answer or Draft(text=""))
    if not any(answers):
        return Composed(draft=nothing(evidence), answers=tuple(answers))
    text = "\n\n".join(draft.text for draft in drafts if draft.text)
    steps = tuple(step for draft in drafts for step in draft.procedure)
    return Composed(draft=with_lead(Draft(text=text, procedure=steps)), answers=tuple(answers))


def excerpts_for(evidence: Sequence[Evidence], embed: Embed | None) -> list[Excerpt]:
    """What the model reads for all parts: the best passages of each in turns, trimmed to what was asked."""
    ranked = [list(zip(one.hits, one.numbers, strict=True)) for one in evidence]
    mixed = {number: hit for rank in zip_longest(*ranked) for pair in rank if pair for hit, number in (pair,)}
    numbers = list(mixed)[: PASSAGES + (len(evidence) > 1)]
    asked = [(one.asked.text, one.asked.understanding.rewrite) for one in evidence]
    return excerpts_of(asked, [mixed[n] for n in numbers], numbers, embed)


@dataclass(frozen=True)
class PartWriter:
    """Writes the answers to the parts of one message.

    Attributes:
        history: the conversation.
        shown: what of it the model is shown, where the message is not put as a question of its own.
        several: the message has more than one part.
        stream: told of the answer as it comes.
        use: takes down what a role's calls cost, and notes.
        tell: reports what a step came to.
    """

    generator: Generator
    prompts: Path | None
    embed: Embed | None
    gathering: Gathering
    history: Sequence[Message]
    shown: Sequence[Message]
    several: bool
    stream: OnText
    use: Callable[[str, Usage, Sequence[str]], None]
    tell: Callable[[str, str], None]

    def draft(self, one: Evidence, excerpts: Sequence[Excerpt], before: Sequence[str]) -> Draft | None:
        """The model's answer to a part and what the documents say beside it; None where it is not known.

        Steps that stand in the documents are preferred to the model's, which then writes the sentence above them.

        Args:
            excerpts: what the model reads for every part.
            before: what is said to the parts before this one.

        Raises:
            GeneratorError: no reply was to be had.
        """
        asked = one.asked
        extract = self._extract(one)
        listed = extract.procedure if extract else ()
        question = asked.understanding.rewrite
        stated = self._stated(question, excerpts)
        if stated is not None and stated < LEAST_STATED:
            return None
        reply = reading.read(
            self.generator,
            question,
            excerpts,
            steps=asked.understanding.wants_procedure and not listed,
            history=(*self.shown, *asked.history[len(self.history) :]),
            on_text=self.stream,
            prompts=self.prompts,
        )
        self.use("answer", reply.usage, ())
        if reply.unknown:  # it denies in words what it holds to be likely: then the documents speak for themselves
            return extract if stated is not None else None
        if extract and (problem := self._problem(question, reply.draft, extract, before)):
            note = f"the documents' own sentences stand instead of the model's: {problem}"
            self.use("answer", Usage(), [note])
            return extract
        text, steps = reply.draft.text, listed or reply.draft.procedure
        more = beside(question, text, extract.text, self.embed) if extract and not steps else ""
        if more:
            self.stream(f" {more}")
        for number, step in enumerate(listed, 1):  # a streamed answer ends with its steps
            self.stream(f"\n{number}. {step.step}")
        return Draft(text=" ".join(filter(None, (text, more))), procedure=steps)

    def _stated(self, question: str, excerpts: Sequence[Excerpt]) -> float | None:
        """How likely the model holds the answer to stand in the excerpts; None where it was not asked.

        Asked only where that costs little: elsewhere the excerpts would be paid for twice.
        """
        if not (self.generator and traits_of(self.generator).caches_prefixes):
            return None
        likely, usage = reading.stated(self.generator, question, excerpts, self.prompts)
        if usage.calls:
            self.use("decide", usage, ())
        if likely is not None:
            self.tell("decide", f"stated in the excerpts with probability {likely:.2f}: {question}")
        return likely

    def _problem(self, question: str, draft: Draft, extract: Draft, before: Sequence[str]) -> str:
        """Why a model's answer is not to be shown; "" where it is."""
        texts = [hit.passage.indexed_text for hit in self.gathering.hits]
        if not supported(draft, Sources(texts, self.embed, question)):
            return "its answer is not in the passages"
        if contradicted(question, draft.text, extract.text, self.embed):
            return "it says yes, and they say no"
        return "it says the same to two parts" if any(begins_with(text, draft.text) for text in before) else ""

    def _extract(self, one: Evidence) -> Draft | None:
        """The documents' own sentences for a part, without what is said of terms they lack."""
        composed = extracted([one], self.embed, 2 if self.several else 1)
        if composed.unknown:
            return None
        return composed.draft.model_copy(update={"text": composed.draft.text.partition("\n\n")[0]})
