"""The understand step by rules, and a compound question as sub-questions that each say what they are about.

Splitting is `turnmark.assistant.steps.split`. What a part leaves out is put in as a later turn's rewrite does it: a
part that leans is about what the parts before it were about. Whether it builds on their answers too is told by its
words: "that oven" and "he" stand for an answer, "it" for the subject that both share.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnmark.assistant.steps.edit_requests import is_instruction
from turnmark.assistant.steps.split import split_questions
from turnmark.assistant.steps.understand import (
    carry_over,
    leans,
    may_stand,
    refers_back,
    says_little,
    topic_terms,
    understand,
)
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Understanding
from turnmark.corpora.text import words
from turnmark.corpora.types import Message, Record
from turnmark.retrieval.types import Query

MOST_PARTS = 8

_BUILDS = re.compile(
    r"\b(?:based on|given|considering|in light of|building on|using|following from|with) (?:that|this|these|those|the "
    r"above|your (?:answer|findings?)|the (?:previous|first|last|preceding) (?:one|answer|question|point|part)s?)\b"
    r"|^\W*(?:in that case|if (?:so|not|that is so|this is the case)|therefore|consequently|why(?: (?:so|not))?\W*$)",
    re.IGNORECASE,
)
_STANDS_FOR_ANSWER = re.compile(
    r"\b(?:he|she|him|his|her|hers|they|them|their|theirs|that|this|these|those|the latter|the former)\b", re.IGNORECASE
)
_ASKS_FOR_ONE = re.compile(r"^\W*(?:who|whom|whose|which|what|where|when)\b", re.IGNORECASE)


STANDS_ALONE = 0.55
"""Cosine of the nearest passage from which a whole question that says little needs no conversation. Of MTRAG's labelled
turns that say little, those from .55 on mostly stand alone, those below mostly do not."""


class Rules:
    """What a message asks for, by rules."""

    name = "understand"

    def __call__(self, turn: Turn) -> None:
        turn.forms["understand"] = "rules"
        turn.understanding = understand_parts(turn.history, turn.message)
        if turn.evidence is None and not turn.understanding.standalone and _finds_something_alone(turn):
            turn.understanding = understand_parts((), turn.message)


def _finds_something_alone(turn: Turn) -> bool:
    """Whether a message that says little finds something by itself, and so needs no conversation."""
    if turn.understanding.kind != "question" or turn.retriever is None or not may_stand(turn.message):
        return False
    nearest = turn.retriever.search([Query(text=turn.message)], 1)[0]
    similarity = nearest[0].similarity if nearest else None
    return similarity is not None and similarity >= STANDS_ALONE


def understand_parts(history: Sequence[Message], message: str) -> Understanding:
    """The understanding by rules in full: `understand`, an instruction to revise, the parts of a message."""
    understood = understand(history, message)
    if understood.kind == "conversational":
        return understood
    if is_instruction(history, message):
        return Understanding(kind="revision", rewrite=message, sub_questions=(message,))
    parts = parts_of(message.strip(), history, understood)
    if len(parts.complete) == 1:
        return understood
    return understood.model_copy(
        update={
            "sub_questions": parts.complete,
            "asked": parts.typed,
            "needs": parts.needs if any(parts.needs) else (),
        }
    )


class Parts(Record):
    """The parts of a message, in the order asked.

    Attributes:
        typed: as the message has them.
        complete: each complete in itself.
        needs: for each the places of those before it whose answers it builds on.
    """

    typed: tuple[str, ...]
    complete: tuple[str, ...]
    needs: tuple[tuple[int, ...], ...]


def parts_of(message: str, history: Sequence[Message], understood: Understanding) -> Parts:
    """The parts of a message; the message itself, rewritten, where it has but one.

    Args:
        understood: what is known of the message as a whole: its rewrite, what it carries over.
    """
    typed = _at_most(split_questions(message))
    if len(typed) == 1:
        return Parts(typed=(message,), complete=(understood.rewrite,), needs=((),))
    complete: list[str] = []
    needs: list[tuple[int, ...]] = []
    context = list(history) if understood.topic else []
    for part in typed:
        earlier = bool(complete) or bool(understood.topic)
        topic = topic_terms(context) if earlier and _leans(part, bool(complete)) else ()
        own_words = set(words(part))
        carried = [term for term in topic if term.lower() not in own_words]
        needs.append(_builds_on(part, typed[: len(complete)]))
        complete.append(carry_over(part, carried, in_place=not needs[-1]) if carried else part)
        context.append(Message(role="user", content=part))
    return Parts(typed=typed, complete=tuple(complete), needs=tuple(needs))


_OTHER = re.compile(r"\b(?:any other|others?|another)\b", re.IGNORECASE)


def _leans(part: str, later: bool) -> bool:
    """Whether a part leans. A short one beside others is a question of its own, unless it refers back ("any other")."""
    if later:
        return refers_back(part) or (says_little(part) and bool(_OTHER.search(part)))
    return leans(part)


def _at_most(parts: Sequence[str]) -> tuple[str, ...]:
    """Parts beyond the eighth stay with it: what was asked is not lost."""
    return (*parts[: MOST_PARTS - 1], " ".join(parts[MOST_PARTS - 1 :])) if len(parts) > MOST_PARTS else tuple(parts)


def _builds_on(part: str, earlier: Sequence[str]) -> tuple[int, ...]:
    """The places of the parts that a part builds on: the one before it, or all where it says so."""
    if not earlier:
        return ()
    last = len(earlier) - 1
    if _BUILDS.search(part) or (_STANDS_FOR_ANSWER.search(part) and _ASKS_FOR_ONE.search(earlier[last])):
        return (last,)
    return ()
