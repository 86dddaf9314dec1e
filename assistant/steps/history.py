"""The conversation before a message, as prompts show it: its last turns, as far as there is room."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from turnmark.assistant.budget import CUT, LEAST, count_tokens, room_beside, shorten
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.prompts import Prompt, quote_lines
from turnmark.assistant.steps.marks import escape_marks
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Message

EARLIER = 2000
"""Tokens of earlier turns that a model which answers is shown; and at most a third of the room beside them."""
SPEAKER = {"user": "User", "assistant": "Assistant"}


def conversation(history: Sequence[Message], quote: Callable[[str], str] = quote_lines) -> str:
    """Turns as prompts show them: each with its speaker, without citation marks."""
    return "\n".join(quote(f"{SPEAKER[turn.role]}: {escape_marks(strip_citations(turn.content))}") for turn in history)


def asked_back(history: Sequence[Message]) -> bool:
    """Whether a conversation ends with a question of the assistant's: "ok" may then be an answer to it."""
    return bool(history) and history[-1].role == "assistant" and history[-1].content.rstrip().endswith(("?", "？"))


def last_turns_within(
    history: Sequence[Message], tokens: int, quote: Callable[[str], str] = quote_lines
) -> tuple[str, int]:
    """The end of a conversation within so many tokens, and how many messages it leaves out.

    No answer is shown without its question. If not even the last exchange fits, the beginnings of both are shown.
    """
    tokens -= count_tokens(quote(CUT))
    costs = [count_tokens(conversation([turn], quote)) for turn in history]
    first = len(history)
    while first and sum(costs[first - 1 :]) <= tokens:
        first -= 1
    while 0 < first < len(history) and history[first].role == "assistant":
        first += 1
    shown = list(history[first:])
    if history and not shown:
        shown = _last_exchange(history, tokens, quote)
    left_out = len(history) - len(shown)
    above = [quote(CUT.strip())] if shown and left_out else []
    return "\n".join([*above, *([conversation(shown, quote)] if shown else [])]), left_out


def _last_exchange(history: Sequence[Message], tokens: int, quote: Callable[[str], str]) -> list[Message]:
    """The beginnings of the last question and its answer; nothing if there is hardly any room."""
    if tokens < LEAST:
        return []
    *question, answer = history[-2:]
    question = [_cut(turn, tokens // 3, quote) for turn in question]
    return [*question, _cut(answer, tokens - count_tokens(conversation(question, quote)), quote)]


def _cut(turn: Message, tokens: int, quote: Callable[[str], str]) -> Message:
    """As much of a message as has so many tokens in a prompt."""
    limit = tokens
    while limit > 0:
        cut = turn.model_copy(update={"content": shorten(turn.content, limit)})
        excess = count_tokens(conversation([cut], quote)) - tokens
        if excess <= 0:
            return cut
        limit -= excess
    return turn.model_copy(update={"content": CUT.strip()})


def earlier_turns(history: Sequence[Message], room: int, quote: Callable[[str], str]) -> tuple[str, int]:
    """Earlier turns in a prompt that has room for so many tokens, and how many messages it lacks the room for."""
    tokens = min(EARLIER, room // 3)
    shown, left_out = last_turns_within(history, tokens, quote)
    return shown, left_out if tokens < EARLIER else 0


def sections_room(generator: Generator, prompt: Prompt, history: Sequence[Message], *texts: str) -> int:
    """Tokens that a prompt has for sections, beside earlier turns and these texts."""
    room = room_beside(generator, prompt, *texts)
    return room - count_tokens(earlier_turns(history, room, prompt.quote)[0])
