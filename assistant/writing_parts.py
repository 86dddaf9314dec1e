"""A model's answer part by part: each read from excerpts after the same prefix, beside what the documents say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from assistant.steps import reading
from assistant.steps.clarify import clarification
from assistant.steps.claims import Sources
from assistant.steps.combine import beside, supported
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
    excerpts = excerpts_for(turn, evidence)
    drafts: list[Draft] = []
    answers: list[str] = []
    for one in evidence:
        if turn.streamed:
            turn.stream("\n\n")
        draft = answer_part(turn, understood, one, excerpts, gathering) if one.judgement.decision in GROUNDED else None
        answers.append(" ".join((draft.text, *(step.step for step in draft.procedure))) if draft else "")
        if draft is None and len(understood.sub_questions) > 1:
            draft = Draft(text=not_found(one.asked.text))
            turn.stream(draft.text)
        drafts.append(draft or Draft(text=""))
    text = "\n\n".join(draft.text for draft in drafts if draft.text)
    steps = tuple(step for draft in drafts for step in draft.procedure)
    if not any(answers):
        return Composed(draft=nothing(evidence), answers=tuple(answers))
    return Composed(draft=with_lead(Draft(text=text, procedure=steps)), answers=tuple(answers))


def excerpts_for(turn: Turn, evidence: Sequence[Evidence]) -> list[Excerpt]:
    """What the model reads for all parts: the best passages of each in turns, trimmed to what was asked."""
    ranked = [list(zip(one.hits, one.numbers, strict=True)) for one in evidence]
    mixed = {number: hit for rank in zip_longest(*ranked) for pair in rank if pair for hit, number in (pair,)}
    most = PASSAGES + (len(evidence) > 1)
    numbers = list(mixed)[:most]
    asked = [(one.asked.text, one.asked.understanding.rewrite) for one in evidence]
    return excerpts_of(asked, [mixed[n] for n in numbers], numbers, turn.embed)


def answer_part(
    turn: Turn, understood: Understanding, one: Evidence, excerpts: Sequence[Excerpt], gathering: Gathering
) -> Draft | None:
    """The model's answer to a part and what the documents say beside it; None where it is not known.

    Steps that stand in the documents are preferred to the model's, which then writes the sentence above them. An answer
    of which no passage supports anything gives way to the documents' own sentences, with a note.

    Raises:
        GeneratorError: no reply was to be had.
    """
    generator = turn.of.generator
    assert generator is not None, "checked when the forms were chosen"
    asked = one.asked
    extract = _extract(turn, understood, one)
    listed = extract.procedure if extract else ()
    question = asked.understanding.rewrite
    made = reading.read(
        generator,
        question,
        excerpts,
        steps=asked.understanding.wants_procedure and not listed,
        history=_shown_history(turn, understood, asked),
        on_text=turn.stream,
        prompts=turn.of.prompts,
    )
    turn.use("answer", made.usage)
    if made.unknown:
        return None
    sources = Sources([hit.passage.indexed_text for hit in gathering.hits], turn.embed, question)
    if not supported(made.draft, sources):
        turn.use("answer", Usage(), ["the model's answer is not in the passages: the documents' own sentences stand instead"])
        return extract
    steps = listed or made.draft.procedure
    more = beside(question, made.draft.text, extract.text, turn.embed) if extract and not steps else ""
    if more:
        turn.stream(f" {more}")
    return Draft(text=" ".join(filter(None, (made.draft.text, more))), procedure=steps)


def _extract(turn: Turn, understood: Understanding, one: Evidence) -> Draft | None:
    """The documents' own sentences for a part, without what is said of terms they lack."""
    composed = extracted([one], turn.embed, len(understood.sub_questions))
    if composed.unknown:
        return None
    return composed.draft.model_copy(update={"text": composed.draft.text.partition("\n\n")[0]})


def _shown_history(turn: Turn, understood: Understanding, asked: Asked) -> Sequence[Message]:
    """What the model is shown of the conversation: where rules alone say what a message leans on, its last turns; and
    the parts that a part builds on, with their answers."""
    rewritten = turn.forms["understand"] != "rules"
    before = () if understood.standalone or rewritten else turn.history
    return (*before, *asked.history[len(turn.history) :])
