"""Format the last messages of a conversation for prompts, within a number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.llm.prompts.context_budget import (
    CUT_MARK,
    MIN_PASSAGE_TOKENS,
    count_tokens,
    material_room,
    shorten,
)
from turnmark.assistant.llm.prompts.prompt_files import Prompt
from turnmark.core.untrusted import escape_marks, quote_lines
from turnmark.corpora.text.segmentation import ends_with_question_mark, strip_citations
from turnmark.corpora.types import Message

MAX_EARLIER_TOKENS = 2000
"""Maximum tokens of earlier messages in a prompt that asks for an answer. They also get at most a third of its room."""
SPEAKER_NAMES = {"user": "User", "assistant": "Assistant"}


def format_messages(history: Sequence[Message], quote: Callable[[str], str] = quote_lines) -> str:
    """Format messages for a prompt, each with its speaker and without citation marks."""
    lines: list[str] = []
    for message in history:
        content = escape_marks(strip_citations(message.content))
        lines.append(quote(f"{SPEAKER_NAMES[message.role]}: {content}"))
    return "\n".join(lines)


def ends_with_question(history: Sequence[Message]) -> bool:
    """Return whether a conversation ends with a question by the assistant, which "ok" may answer."""
    return bool(history) and history[-1].role == "assistant" and ends_with_question_mark(history[-1].content)


def last_turns_within(
    history: Sequence[Message], tokens: int, quote: Callable[[str], str] = quote_lines
) -> tuple[str, int]:
    """Format the last messages of a conversation within `tokens`; returns the text and how many messages it leaves out.

    No answer is shown without its question. If not even the last exchange fits, the beginnings of its question and
    answer are shown.
    """
    tokens -= count_tokens(quote(CUT_MARK))
    costs = [count_tokens(format_messages([turn], quote)) for turn in history]
    first = len(history)
    while first and sum(costs[first - 1 :]) <= tokens:
        first -= 1
    while 0 < first < len(history) and history[first].role == "assistant":
        first += 1
    shown = list(history[first:])
    if history and not shown:
        shown = _last_exchange(history, tokens, quote)
    left_out = len(history) - len(shown)
    if not shown:
        return "", left_out
    text = format_messages(shown, quote)
    if left_out:
        text = f"{quote(CUT_MARK.strip())}\n{text}"
    return text, left_out


def _last_exchange(history: Sequence[Message], tokens: int, quote: Callable[[str], str]) -> list[Message]:
    """Return the last question and answer, cut to fit in `tokens`; empty for fewer than `MIN_PASSAGE_TOKENS` tokens."""
    if tokens < MIN_PASSAGE_TOKENS:
        return []
    *question, answer = history[-2:]
    question = [_shorten_message(turn, tokens // 3, quote) for turn in question]
    return [*question, _shorten_message(answer, tokens - count_tokens(format_messages(question, quote)), quote)]


def _shorten_message(turn: Message, tokens: int, quote: Callable[[str], str]) -> Message:
    """Cut a message so that its line in a prompt has at most `tokens`."""
    limit = tokens
    while limit > 0:
        cut = turn.model_copy(update={"content": shorten(turn.content, limit)})
        excess = count_tokens(format_messages([cut], quote)) - tokens
        if excess <= 0:
            return cut
        limit -= excess
    return turn.model_copy(update={"content": CUT_MARK.strip()})


def earlier_turns(history: Sequence[Message], room: int, quote: Callable[[str], str]) -> tuple[str, int]:
    """Format earlier messages for a prompt with `room` tokens; returns the text and how many messages lack the room."""
    tokens = min(MAX_EARLIER_TOKENS, room // 3)
    text, left_out = last_turns_within(history, tokens, quote)
    return text, left_out if tokens < MAX_EARLIER_TOKENS else 0


def sections_room(generator: Generator, prompt: Prompt, history: Sequence[Message], *texts: str) -> int:
    """Return the tokens left for sections in a prompt, after earlier messages and `texts`."""
    room = material_room(generator, prompt, *texts)
    return room - count_tokens(earlier_turns(history, room, prompt.quote)[0])
