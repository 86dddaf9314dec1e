"""What steps with a language model share: how prompts show material, and a reply in prose."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from turnmark.assistant.budget import count_tokens
from turnmark.assistant.generators.base import (
    Completion,
    EmptyReply,
    FinishReason,
    Generator,
    GeneratorError,
    OnText,
    PromptMessage,
    without_thinking,
)
from turnmark.assistant.types import Usage
from turnmark.corpora.text import sentences, words
from turnmark.corpora.types import Record

# A rewrite puts in what is missing. One that is so much longer than the message has drifted from it.
LONGEST_GROWTH = 3
GROWTH_ALLOWED = 25  # words beyond that


class WrittenText(Record):
    """What a model wrote."""

    text: str = Field(description="never empty")
    usage: Usage
    note: str | None = Field(description="why it is incomplete; None if it is complete")
    finish_reason: FinishReason


def has_drifted(reworded: str, message: str) -> bool:
    """Whether another wording of a message is so much longer that it is no longer the message."""
    return len(words(reworded)) > LONGEST_GROWTH * len(words(message)) + GROWTH_ALLOWED


def one_a_line(texts: Sequence[str]) -> str:
    """Texts with their numbers, a line each whatever they hold: a line break in one would pass for ours."""
    return "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(texts, 1))


def write_text(
    generator: Generator,
    messages: Sequence[PromptMessage],
    on_text: OnText | None = None,
) -> WrittenText:
    """A reply in prose; one that is cut by its limit is asked for once more with twice the room, not streamed."""
    reply = generator.complete(messages, on_text=on_text)
    usage = reply.usage
    text = without_thinking(reply.text).strip()
    new = before_repeats(text) if reply.finish_reason == "length" else ""
    if new:  # more room would only be filled with more of the same
        return WrittenText(text=new, usage=usage, note=None, finish_reason="length")
    if reply.finish_reason == "length":
        reply, spent = _once_more(generator, messages, reply)
        usage += spent
        text = without_thinking(reply.text).strip()
    if not text:
        raise _nothing_said(reply, usage)
    ended = {
        "length": f"the answer is incomplete: it was cut at the reply's limit of {reply.max_tokens} tokens",
        "content_filter": "the answer is incomplete: the endpoint's content filter stopped it",
    }
    return WrittenText(text=text, usage=usage, note=ended.get(reply.finish_reason), finish_reason=reply.finish_reason)


LEAST_PIECES, REPEATED = 8, 0.4
"""From how many sentences on a text may count as running on, and the share of them that repeat earlier ones."""


def before_repeats(text: str) -> str:
    """What a text says before it begins to repeat itself; "" if it does not run on."""
    spans = sentences(text)
    pieces = [" ".join(words(text[start:end])) for start, end in spans]
    again = [at for at, piece in enumerate(pieces) if piece in pieces[:at] and len(piece.split()) > 2]
    if len(pieces) < LEAST_PIECES or len(again) < REPEATED * len(pieces):
        return ""
    return text[: spans[again[0]][0]].rstrip()


def _once_more(generator: Generator, messages: Sequence[PromptMessage], cut: Completion) -> tuple[Completion, Usage]:
    """A cut reply asked for again with twice the room, or what the context has; the cut one if that says no more."""
    prompt = sum(count_tokens(message.content) for message in messages)
    room = min(2 * cut.max_tokens, generator.context_tokens - prompt)
    if room <= cut.max_tokens:
        return cut, Usage()
    try:
        retry = generator.complete(messages, max_tokens=room)
    except GeneratorError as error:
        return cut, error.usage
    return (retry if retry.finish_reason != "length" or len(retry.text) > len(cut.text) else cut), retry.usage


def _nothing_said(reply: Completion, usage: Usage) -> GeneratorError:
    """The error of a reply without text."""
    if reply.finish_reason == "length":
        problem = f"{reply.model} used up {reply.max_tokens} tokens before it wrote anything; raise max_tokens"
        return EmptyReply(problem, usage)
    if reply.finish_reason == "content_filter":
        problem = f"{reply.model} wrote nothing: the endpoint's content filter stopped it"
        return GeneratorError("refused", problem, usage)
    return EmptyReply(f"{reply.model} gave an empty reply", usage)
