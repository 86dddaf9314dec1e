"""The reply that a message may be about: the last one that answers, its question, and what it said before."""

from __future__ import annotations

from collections.abc import Sequence

from turnmark.assistant.steps.courtesy import is_conversational
from turnmark.assistant.steps.is_instruction import is_instruction
from turnmark.assistant.steps.numbered import ITEM
from turnmark.assistant.steps.operations import pieces_of
from turnmark.assistant.types import RevisedAnswer
from turnmark.corpora.text import strip_citations, words
from turnmark.corpora.types import Message

UNCHANGED = "I left the last reply as it is: "
"""Begins the reply to an instruction that could not be followed."""


def last_reply(history: Sequence[Message]) -> tuple[int | None, str]:
    """The last reply that is about something, without marks, and the place of its question.

    Replies to courtesies, and those that say why the reply before them was left as it is, are passed over. The question
    is the last user message before it that was no instruction or courtesy; None where there is none.
    """
    replies = [at for at, turn in enumerate(history) if turn.role == "assistant" and turn.content.strip()]
    about = [at for at in replies if not _beside(history, at)]
    if not about:
        return None, ""
    users = ((at, turn.content) for at, turn in enumerate(history[: about[-1]]) if turn.role == "user")
    questions = [at for at, text in users if not is_conversational(text) and not is_instruction(history[:at], text)]
    return (questions[-1] if questions else None), strip_citations(history[about[-1]].content)


def _beside(history: Sequence[Message], at: int) -> bool:
    """Whether a reply is about nothing: it answers a courtesy, or says that nothing was changed."""
    before = history[at - 1] if at else None
    courtesy = before is not None and before.role == "user" and is_conversational(before.content)
    return courtesy or history[at].content.startswith(UNCHANGED)


def taken_out(history: Sequence[Message], place: int | None, previous: str) -> tuple[str, ...]:
    """The sentences that earlier versions of the last answer had and it has no more: they were not wanted.

    Args:
        place: of its question among the messages.
        previous: the last answer, without marks.
    """
    since = [turn for turn in history[0 if place is None else place :] if turn.role == "assistant"]
    earlier = [turn.content for turn in since]
    earlier += [text for turn in since if isinstance(turn, RevisedAnswer) for text in turn.before]
    there = {piece.text for piece in pieces_of(previous)}
    found = (piece.text for text in earlier for piece in pieces_of(strip_citations(text)))
    return tuple(dict.fromkeys(text for text in found if text not in there and any(map(str.isalnum, text))))


def repeats(history: Sequence[Message], text: str) -> bool:
    """Whether a reply says the same words as the last one that answers; steps and marks may stand in it or not."""
    _, previous = last_reply(history)
    return bool(previous) and same_words(text, previous)


def same_words(text: str, other: str) -> bool:
    """Whether two texts have the same words in the same order, citation marks and numbers of items aside."""
    return _plain(text) == _plain(other)


def _plain(text: str) -> list[str]:
    lines = (ITEM.sub("", line.strip(), count=1) for line in strip_citations(text).splitlines())
    return words(" ".join(lines))
