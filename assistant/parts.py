"""The parts of a message on their way through a turn: which are answered at once, and what is decided for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from turnmark.assistant.steps.understand import wants_procedure
from turnmark.assistant.types import GROUNDED, Decision, Judgement, Understanding
from turnmark.corpora.types import Message
from turnmark.retrieval.types import Hit

NOT_JUDGED = Judgement(decision="unknown", confidence=0.0, reason="nothing was asked")


@dataclass
class Part:
    """A sub-question on its way through the turn; a message that is not compound is its only one.

    Attributes:
        text: as the message has it.
        understanding: of this part alone; its rewrite is the part complete in itself.
        history: the conversation, and the parts that it builds on with their answers.
        compound: the message has other parts.
        place: 0-based, among the parts of the message.
        hits: its evidence, best first.
        numbers: of its hits among those of the turn, from 1.
        judgement: of its evidence.
        narrower: the query that may find what the evidence lacks; "": there is none.
    """

    text: str
    understanding: Understanding
    history: tuple[Message, ...] = ()
    compound: bool = False
    place: int = 0
    hits: list[Hit] = field(default_factory=list)
    numbers: tuple[int, ...] = ()
    judgement: Judgement = NOT_JUDGED
    narrower: str = ""


def parts_of(understood: Understanding, history: Sequence[Message], message: str) -> list[Part]:
    """The parts of a message, each with an understanding of its own."""
    if len(understood.sub_questions) == 1:
        return [Part(message, understood, tuple(history))]
    texts = understood.asked or understood.sub_questions
    return [
        Part(
            text,
            Understanding(rewrite=question, sub_questions=(question,), wants_procedure=wants_procedure(question)),
            tuple(history),
            compound=True,
            place=place,
        )
        for place, (text, question) in enumerate(zip(texts, understood.sub_questions, strict=True))
    ]


def runs(needs: Sequence[Sequence[int]]) -> list[range]:
    """Neighbouring parts that can be answered at once, in the order asked: none builds on another of its run.

    >>> runs([(), (), (1,), ()])
    [range(0, 2), range(2, 4)]
    """
    groups: list[range] = []
    begin = 0
    for place, needed in enumerate(needs):
        if any(need >= begin for need in needed):
            groups.append(range(begin, place))
            begin = place
    return [*groups, range(begin, len(needs))]


def judged_together(parts: Sequence[Part], understood: Understanding) -> Judgement:
    """What is decided for several parts: `partial` where some can be answered and others not.

    A message that can be read in several ways is asked back, whatever was found for one of them; one that is about
    nothing in the documents is not.
    """
    if len(parts) == 1 and len(understood.sub_questions) == 1:
        judgement = parts[0].judgement
    else:
        unanswered = [part.understanding.rewrite for part in parts if part.judgement.decision not in GROUNDED]
        grounded = [part.judgement for part in parts if part.judgement.decision in GROUNDED]
        missing = (*unanswered, *(text for judged in grounded for text in judged.missing))
        decision: Decision = "unknown" if not grounded else "partial" if missing else "answer"
        judgement = Judgement(
            decision=decision,
            confidence=fmean(part.judgement.confidence for part in parts),
            reason=f"{len(grounded)} of {len(parts)} parts are covered",
            missing=missing if decision == "partial" else (),
        )
    if understood.readings and judgement.decision in GROUNDED:
        reason = f"it can be read in {len(understood.readings)} ways"
        return judgement.model_copy(
            update={"decision": "clarify", "reason": reason, "readings": understood.readings, "missing": ()}
        )
    return judgement


def rank(judgement: Judgement) -> tuple[int, float]:
    """Judgements of the evidence, the better the higher."""
    return ("unknown", "clarify", "partial", "answer", "converse").index(judgement.decision), judgement.confidence
