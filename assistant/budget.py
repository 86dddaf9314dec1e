"""What of a prompt's material fits into a model's context, and in words what was left out.

A prompt that is too long is cut first at the ends of the passages, the longest ones most; then the oldest turns go;
then full passages, the last ones first. All other texts of it are never cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.prompts import Messages, Prompt
from turnmark.corpora.text import CJK
from turnmark.corpora.types import Message

PASSAGE_MARKS = 32
"""Tokens of the marks around a passage."""

_CHARS_PER_TOKEN = 3.6
_WIDE = re.compile(f"[{CJK}]")

LEAST = 60
"""Tokens that are left of each passage before turns are left out."""
REPAIR = 200
"""Tokens of the request to reply once more."""
CUT = " […]"

Render = Callable[[Sequence[str], Sequence[Message]], Messages]
"""The prompt with these passages and these turns."""


def count_tokens(text: str) -> int:
    """An estimate, rather too high than too low: characters / 3.6 rounded up, and one for each Han or kana."""
    wide = len(_WIDE.findall(text))
    return ceil((len(text) - wide) / _CHARS_PER_TOKEN) + wide


@dataclass(frozen=True)
class Fitted:
    """A prompt that fits, and in words what it does not show."""

    messages: Messages
    notes: tuple[str, ...] = ()


_CUT_NOTE = re.compile(r"\b(passages|earlier messages|sections|examples)\b[^;:]*\b(?:cut|left out)\b")


def cut_material(notes: Iterable[str]) -> set[str]:
    """What notes say was not shown in full because a prompt did not fit: `passages`, `earlier messages`, …"""
    return {match[1] for note in notes for match in _CUT_NOTE.finditer(note)}


def room_for(generator: Generator, reply: int | None = None) -> int:
    """Tokens that a prompt may have: there is room for a reply, for another, and for what is said between them.

    Args:
        reply: tokens of a reply; None: the generator's own.
    """
    window = generator.context_tokens
    return window - min(2 * (reply or generator.reply_tokens) + REPAIR, window // 2)


def room_beside(generator: Generator, prompt: Prompt, *texts: str, reply: int | None = None) -> int:
    """Tokens that a prompt has for material, beside its own words, these texts and a reply.

    Args:
        reply: tokens of the reply; None: the generator's own.
    """
    own = [text for _, text in prompt.sections]
    used = sum(map(count_tokens, (*own, *texts)))
    return generator.context_tokens - (generator.reply_tokens if reply is None else reply) - used


def fit_prompt(
    prompt: Prompt,
    room: int,
    texts: Mapping[str, str | None],
    passages: Sequence[str] = (),
    history: Sequence[Message] = (),
    plain: Mapping[str, str] | None = None,
    question: str | None = None,
) -> Fitted | None:
    """A prompt filled in within `room` tokens; None if it does not fit even without passages and earlier turns.

    Args:
        texts, passages, history, plain, question: see `Prompt.fill`.
    """

    def render(passages_shown: Sequence[str], turns_shown: Sequence[Message]) -> Messages:
        return prompt.fill(texts, passages_shown, turns_shown, plain, question)

    shows_turns = not {"history", "conversation"}.isdisjoint(prompt.placeholders)
    return fit(render, passages if "passages" in prompt.placeholders else (), history if shows_turns else (), room)


def fit(render: Render, passages: Sequence[str], history: Sequence[Message], room: int) -> Fitted | None:
    """What `render` makes within `room` tokens; None if it does not fit even without passages and earlier turns."""

    def attempt(passages_shown: Sequence[str], turns: Sequence[Message]) -> Messages | None:
        messages = render(passages_shown, turns)
        return messages if sum(count_tokens(message.content) for message in messages) <= room else None

    prompt = attempt(passages, history)
    if prompt is not None:
        return Fitted(prompt)
    if passages and attempt(_cut(passages, LEAST), history) is not None:
        low, high = LEAST, max(map(count_tokens, passages))  # low fits, high does not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if attempt(_cut(passages, middle), history) is not None else (low, middle)
        return Fitted(render(_cut(passages, low), history), (_ends_cut(passages, low),))
    shortest = _cut(passages, LEAST)
    for first in range(1, len(history) + 1):
        if first < len(history) and history[first].role == "assistant":
            continue  # an answer without its question
        messages = attempt(shortest, history[first:])
        if messages is not None:
            return Fitted(messages, (*_cut_notes(passages), _turns_out(first, len(history))))
    for count in range(len(passages) - 1, -1, -1):
        messages = attempt(shortest[:count], ())
        if messages is not None:
            turns = [_turns_out(len(history), len(history))] if history else []
            left_out = f"{len(passages) - count} of {len(passages)} passages left out, the last ones"
            return Fitted(messages, (*_cut_notes(passages[:count]), *turns, left_out))
    return None


def _cut_notes(passages: Sequence[str]) -> list[str]:
    return [_ends_cut(passages, LEAST)] if _cut(passages, LEAST) != list(passages) else []


def _ends_cut(passages: Sequence[str], limit: int) -> str:
    cut = sum(text != shortened for text, shortened in zip(passages, _cut(passages, limit), strict=True))
    return f"the ends of {cut} of {len(passages)} passages cut, at about {limit} tokens"


def _turns_out(dropped: int, total: int) -> str:
    return f"{dropped} of {total} earlier messages left out, the oldest"


def _cut(passages: Sequence[str], limit: int) -> list[str]:
    return [shorten(text, limit) for text in passages]


def shorten(text: str, limit: int) -> str:
    """The longest beginning of `text` that has at most so many tokens and ends with a word; marked if it was cut."""
    if count_tokens(text) <= limit:
        return text
    ends = [word.end() for word in re.finditer(r"\S+", text)]
    low, high = 0, len(ends)  # how many words fit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count_tokens(text[: ends[middle - 1]]) <= limit else (low, middle - 1)
    return (text[: ends[low - 1]] if low else text[: limit * 3]) + CUT
