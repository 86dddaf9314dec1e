"""Fit a prompt into a model's context, and note what was left out.

A prompt that is too long is shortened in this order: the ends of passages are cut, the longest passages most; the
oldest messages are left out; then complete passages, the last ones first. All other texts of the prompt stay complete.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.llm.prompts.prompt_files import Prompt, PromptMessages
from turnmark.corpora.text.segmentation import CJK
from turnmark.corpora.types import Message

PASSAGE_MARK_TOKENS = 32
"""Tokens reserved for the marks around a passage."""

_CHARS_PER_TOKEN = 3.6
_WIDE_CHARACTER = re.compile(f"[{CJK}]")

MIN_PASSAGE_TOKENS = 60
"""Minimum length of a passage; passages are cut to it before messages are left out."""
REPAIR_TOKENS = 200
"""Tokens reserved for the request to reply again."""
CUT_MARK = " […]"
"""Ending of a shortened text."""

Render = Callable[[Sequence[str], Sequence[Message]], PromptMessages]
"""A function that makes a prompt from passages and earlier messages."""


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text, on the high side: one per 3.6 characters, and one per Han character or kana."""
    wide = len(_WIDE_CHARACTER.findall(text))
    return ceil((len(text) - wide) / _CHARS_PER_TOKEN) + wide


@dataclass(frozen=True)
class FittedPrompt:
    """A prompt that fits, and notes on what it leaves out."""

    messages: PromptMessages
    notes: tuple[str, ...] = ()


_CUT_NOTE = re.compile(r"\b(passages|earlier messages|sections|examples)\b[^;:]*\b(?:cut|left out)\b")


def cut_material(notes: Iterable[str]) -> set[str]:
    """Return the material that notes report as cut: `passages`, `earlier messages`, `sections` or `examples`."""
    return {match[1] for note in notes for match in _CUT_NOTE.finditer(note)}


def prompt_room(generator: Generator, reply: int | None = None) -> int:
    """Return the maximum tokens of a prompt that leaves room for a reply, a request to reply again, and a second reply.

    Args:
        reply: maximum tokens of a reply, or None for the generator's own limit.
    """
    window = generator.context_tokens
    return window - min(2 * (reply or generator.reply_tokens) + REPAIR_TOKENS, window // 2)


def material_room(generator: Generator, prompt: Prompt, *texts: str, reply: int | None = None) -> int:
    """Return the tokens left for material in a prompt, after its fixed text, `texts` and a reply.

    Args:
        reply: maximum tokens of the reply, or None for the generator's own limit.
    """
    fixed_texts = [text for _, text in prompt.sections]
    used = sum(map(count_tokens, (*fixed_texts, *texts)))
    reply_tokens = generator.reply_tokens if reply is None else reply
    return generator.context_tokens - reply_tokens - used


def fit_prompt(
    prompt: Prompt,
    room: int,
    texts: Mapping[str, str | None],
    passages: Sequence[str] = (),
    history: Sequence[Message] = (),
    plain: Mapping[str, str] | None = None,
    question: str | None = None,
) -> FittedPrompt | None:
    """Fill in a prompt within `room` tokens; return None if it does not fit even without passages and earlier messages.

    Args:
        texts, passages, history, plain, question: see `Prompt.fill`.
    """

    def render(passages_shown: Sequence[str], history_shown: Sequence[Message]) -> PromptMessages:
        return prompt.fill(texts, passages_shown, history_shown, plain, question)

    if "passages" not in prompt.placeholders:
        passages = ()
    if "history" not in prompt.placeholders and "conversation" not in prompt.placeholders:
        history = ()
    return fit(render, passages, history, room)


def fit(render: Render, passages: Sequence[str], history: Sequence[Message], room: int) -> FittedPrompt | None:
    """Render a prompt within `room` tokens, or None if it does not fit even without passages and earlier messages."""

    def attempt(passages_shown: Sequence[str], history_shown: Sequence[Message]) -> PromptMessages | None:
        messages = render(passages_shown, history_shown)
        tokens = sum(count_tokens(message.content) for message in messages)
        return messages if tokens <= room else None

    prompt = attempt(passages, history)
    if prompt is not None:
        return FittedPrompt(prompt)
    if passages and attempt(_cut(passages, MIN_PASSAGE_TOKENS), history) is not None:
        low, high = MIN_PASSAGE_TOKENS, max(map(count_tokens, passages))  # low fits, high does not
        while high - low > 1:
            middle = (low + high) // 2
            if attempt(_cut(passages, middle), history) is not None:
                low = middle
            else:
                high = middle
        return FittedPrompt(render(_cut(passages, low), history), (_ends_note(passages, low),))
    shortest = _cut(passages, MIN_PASSAGE_TOKENS)
    for first in range(1, len(history) + 1):
        if first < len(history) and history[first].role == "assistant":
            continue  # the conversation would begin with an answer without its question
        messages = attempt(shortest, history[first:])
        if messages is not None:
            return FittedPrompt(messages, (*_cut_notes(passages), _history_note(first, len(history))))
    for count in range(len(passages) - 1, -1, -1):
        messages = attempt(shortest[:count], ())
        if messages is not None:
            notes = _cut_notes(passages[:count])
            if history:
                notes.append(_history_note(len(history), len(history)))
            notes.append(f"{len(passages) - count} of {len(passages)} passages left out, the last ones")
            return FittedPrompt(messages, tuple(notes))
    return None


def _cut_notes(passages: Sequence[str]) -> list[str]:
    """Return the note on passages cut to `MIN_PASSAGE_TOKENS`; empty if none was longer."""
    if _cut(passages, MIN_PASSAGE_TOKENS) == list(passages):
        return []
    return [_ends_note(passages, MIN_PASSAGE_TOKENS)]


def _ends_note(passages: Sequence[str], limit: int) -> str:
    cut = sum(text != shortened for text, shortened in zip(passages, _cut(passages, limit), strict=True))
    return f"the ends of {cut} of {len(passages)} passages cut, at about {limit} tokens"


def _history_note(dropped: int, total: int) -> str:
    return f"{dropped} of {total} earlier messages left out, the oldest"


def _cut(passages: Sequence[str], limit: int) -> list[str]:
    return [shorten(text, limit) for text in passages]


def shorten(text: str, limit: int) -> str:
    """Return the longest beginning of `text` within `limit` tokens that ends with a word; mark cuts with `CUT_MARK`."""
    if count_tokens(text) <= limit:
        return text
    ends = [word.end() for word in re.finditer(r"\S+", text)]
    low, high = 0, len(ends)  # bounds of the number of words that fit
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens(text[: ends[middle - 1]]) <= limit:
            low = middle
        else:
            high = middle - 1
    if low == 0:  # not even the first word fits
        return text[: limit * 3] + CUT_MARK
    return text[: ends[low - 1]] + CUT_MARK
