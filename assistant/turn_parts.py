"""The parts of a message on their way through a turn, and what the checks of a reply say of them."""

from __future__ import annotations

from collections.abc import Sequence

from turnmark.assistant.steps.combine import same
from turnmark.assistant.steps.compose import Composed, left_of
from turnmark.assistant.steps.retrieve import Asked, Verdict
from turnmark.assistant.steps.understand import wants_procedure
from turnmark.assistant.steps.unknown import says_unknown
from turnmark.assistant.types import Checks, Draft, SubQuestion, Understanding
from turnmark.corpora.types import Message

Verified = tuple[Draft, Checks, tuple[SubQuestion, ...]]


def asked_parts(understood: Understanding, history: Sequence[Message], message: str) -> list[Asked]:
    """The parts of a message, each with an understanding of its own."""
    if len(understood.sub_questions) == 1:
        return [Asked(message, understood, tuple(history))]
    return [
        Asked(
            text,
            Understanding(
                standalone=True,
                rewrite=whole,
                sub_questions=(whole,),
                wants_procedure=wants_procedure(whole),
            ),
            tuple(history),
            of_several=True,
        )
        for text, whole in zip(understood.asked or understood.sub_questions, understood.sub_questions, strict=True)
    ]


def unasked(verdict: Verdict) -> Verdict:
    """A part of a message is not asked back: what it speaks of stands in another part."""
    if verdict.judgement.decision != "clarify":
        return verdict
    return Verdict(verdict.judgement.model_copy(update={"decision": "answer", "readings": ()}), verdict.query)


def with_answers(made: Verified, composed: Composed) -> Verified:
    """The parts with what was said to each, where there are several; a part with no answer is not answered."""
    draft, checks, parts = made
    if len(parts) < 2 or len(parts) != len(composed.answers):
        return made
    told = tuple(
        part.model_copy(
            update={
                "answer": left_of(answer, draft) if composed.apart else "",
                "answered": part.answered and bool(answer),
            }
        )
        for part, answer in zip(parts, composed.answers, strict=True)
    )
    share = sum(part.answered for part in told) / len(told)
    known = checks.parts_answered is not None
    return draft, checks.model_copy(update={"parts_answered": share}) if known else checks, told


def fails(checks: Checks) -> bool:
    """Whether a check says that an answer is none."""
    return checks.parts_answered == 0 or checks.grounded == 0


def repeats(draft: Draft, history: Sequence[Message], message: str) -> bool:
    """Whether a draft is the last reply again, to another question."""
    questions = [turn.content for turn in history if turn.role == "user"]
    last = last_answer(history)
    if not last or says_unknown(last) or (questions and same(questions[-1], message)):
        return False
    return same(whole_text(draft), last)


def whole_text(draft: Draft) -> str:
    """A draft as a conversation holds it, its steps numbered beneath."""
    return "\n".join([draft.text, *(f"{number}. {step.step}" for number, step in enumerate(draft.procedure, 1))])


def last_answer(history: Sequence[Message]) -> str:
    """What the assistant said last; "" where it has said nothing."""
    return next((turn.content for turn in reversed(history) if turn.role == "assistant"), "")
