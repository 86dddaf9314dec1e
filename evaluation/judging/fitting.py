"""What of a case a judge's context takes: where it is too long, it is cut where that hurts least, and says so.

First the ends of the passages, the longest ones most; then the oldest turns; then whole passages, the last ones first.
Question, reply and reference are never cut: a judgement of a part of a reply is none of the reply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turnmark.assistant.budget import count_tokens
from turnmark.assistant.generators.base import Generator, PromptMessage
from turnmark.corpora.types import Message

Messages = tuple[PromptMessage, ...]
Render = Callable[[Sequence[str], Sequence[Message]], Messages]
"""The prompt with these passages and these turns."""

LEAST = 60
"""Tokens that are left of each passage before turns are left out."""
REPAIR = 200
"""Tokens of the request to judge once more."""
CUT = " […]"


@dataclass(frozen=True)
class Fitted:
    """A prompt that fits, and in words what it does not show."""

    messages: Messages
    notes: tuple[str, ...] = ()


def room_for(generator: Generator, reply: int | None = None) -> int:
    """Tokens that a prompt may have: there is room for a reply, for another, and for what is said between them.

    Args:
        reply: tokens of a reply; None: the generator's own.
    """
    whole = generator.context_tokens
    return whole - min(2 * (reply or generator.reply_tokens) + REPAIR, whole // 2)


def fit(render: Render, passages: Sequence[str], history: Sequence[Message], room: int) -> Fitted | None:
    """The prompt within `room` tokens; None where it does not fit even without passages and earlier turns."""

    def attempt(shown: Sequence[str], turns: Sequence[Message]) -> Messages | None:
        made = render(shown, turns)
        return made if sum(count_tokens(message.content) for message in made) <= room else None

    whole = attempt(passages, history)
    if whole is not None:
        return Fitted(whole)
    if passages and attempt(_cut(passages, LEAST), history) is not None:
        low, high = LEAST, max(map(count_tokens, passages))  # low fits, high does not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if attempt(_cut(passages, middle), history) is not None else (low, middle)
        return Fitted(render(_cut(passages, low), history), (_ends_cut(passages, low),))
    shortest = _cut(passages, LEAST)
    for first in range(1, len(history) + 1):
        made = attempt(shortest, history[first:])
        if made is not None:
            return Fitted(made, (*_cut_notes(passages), _turns_out(first, len(history))))
    for kept in range(len(passages) - 1, -1, -1):
        made = attempt(shortest[:kept], ())
        if made is not None:
            out = f"{len(passages) - kept} of {len(passages)} passages left out, the last ones"
            turns = [_turns_out(len(history), len(history))] if history else []
            return Fitted(made, (*_cut_notes(passages[:kept]), *turns, out))
    return None


def _cut_notes(passages: Sequence[str]) -> list[str]:
    return [_ends_cut(passages, LEAST)] if _cut(passages, LEAST) != list(passages) else []


def _ends_cut(passages: Sequence[str], most: int) -> str:
    cut = sum(one != other for one, other in zip(passages, _cut(passages, most), strict=True))
    return f"the ends of {cut} of {len(passages)} passages cut, at about {most} tokens"


def _turns_out(out: int, of: int) -> str:
    return f"{out} of {of} earlier messages left out, the oldest"


def _cut(passages: Sequence[str], most: int) -> list[str]:
    return [shortened(text, most) for text in passages]


def shortened(text: str, most: int) -> str:
    """The longest beginning of `text` that has at most so many tokens and ends with a word; marked where it was cut."""
    if count_tokens(text) <= most:
        return text
    ends = [word.end() for word in re.finditer(r"\S+", text)]
    low, high = 0, len(ends)  # how many words fit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count_tokens(text[: ends[middle - 1]]) <= most else (low, middle - 1)
    return (text[: ends[low - 1]] if low else text[: most * 3]) + CUT
