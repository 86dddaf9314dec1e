"""Ask a model: for a reply in prose, or for a value of a given form, which is whole or a failure, never a guess."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from turnmark.assistant.budget import count_tokens
from turnmark.assistant.generators.base import (
    Completion,
    EmptyReply,
    ErrorKind,
    FinishReason,
    Generator,
    GeneratorError,
    OnText,
    PromptMessage,
    SchemaRefused,
    without_thinking,
)
from turnmark.assistant.generators.client import strict_schema
from turnmark.assistant.prompts import load_prompt
from turnmark.assistant.types import Usage
from turnmark.core.record import Record
from turnmark.corpora.text import sentences, words

T = TypeVar("T", bound=BaseModel)

FailureKind = Literal["length", "invalid", "content_filter"] | ErrorKind

STRUCTURED_TOKENS = 512
TRAILING = 20
"""White space at the end of a reply that was cut, from which on more room is not what it lacks."""
REPEATED, MOST_REPEATS = 24, 4
"""Characters at the end of a cut reply, and how often they occur in one that runs on."""
LONGEST_STRING = 1500
"""Characters of a string that has not ended, from which on more room is not what it lacks."""
_PROBLEMS_TOLD = 5


class Failure(Record):
    """Why there is no value. `raw` is the last text that the model wrote, if any.

    `length`: cut by the limit twice, or while it ran on;
    `invalid`: not the form that was asked for, twice; `content_filter`; else the kind
    of the `GeneratorError` that ended it.
    """

    kind: FailureKind
    raw: str = ""
    reason: str = ""


def ask(
    generator: Generator,
    messages: Sequence[PromptMessage],
    schema: type[T],
    *,
    max_tokens: int = STRUCTURED_TOKENS,
    temperature: float | None = None,
    deadline: float | None = None,
) -> tuple[T | Failure, Usage]:
    """A value of `schema`, or a failure; and what it cost.

    The schema is sent if the endpoint takes one (the generator remembers if it does not), else put in words. A
    reply cut by the limit is asked for once more with twice the room, unless it runs on (`runs_on`), which more room
    would only make longer; one that was cut in white space without an end,
    which a grammar allows between any two parts and small models fall into, without the schema. A reply of another form
    is asked for once more with what is wrong about it.

    Args:
        messages: the request; it should say in words which fields are wanted.
        max_tokens: limit of the first reply.
        deadline: seconds for each call, of which there are four at most; None: the generator's own.
    """
    asking = _Asking(generator, schema, temperature, deadline)
    try:
        return asking.value(list(messages), max_tokens), asking.usage
    except GeneratorError as error:
        return Failure(kind=error.kind, raw=asking.raw, reason=str(error)), asking.usage + error.usage


@dataclass
class _Asking(Generic[T]):
    generator: Generator
    schema: type[T]
    temperature: float | None
    deadline: float | None
    usage: Usage = field(default_factory=Usage)
    raw: str = ""
    in_words: bool = False
    doubled: bool = False

    def value(self, messages: list[PromptMessage], limit: int) -> T | Failure:
        """The request, and at most one repair of it."""
        problem = ""
        for _ in range(2):
            reply = self._whole(messages, limit)
            if isinstance(reply, Failure):
                return reply
            value = parse_object(reply.text, self.schema)
            if not isinstance(value, str):
                return value
            problem, limit = value, reply.max_tokens
            repair = load_prompt("repair").render(problem=problem, schema=self._words())
            messages = [*messages, PromptMessage(role="assistant", content=reply.text or "(nothing)"), *repair]
        return Failure(kind="invalid", raw=self.raw, reason=problem)

    def _whole(self, messages: list[PromptMessage], limit: int) -> Completion | Failure:
        """A reply that ended by itself. The finish reason is looked at before the text is."""
        reply = self._call(messages, limit)
        if reply.finish_reason == "length" and not self.doubled:
            self.doubled = True
            if runs_on(reply.text):
                return Failure(kind="length", raw=reply.text, reason=f"ran on to its {reply.max_tokens} tokens")
            if _trails_off(reply.text):
                self.in_words = True
                reply = self._call(messages, reply.max_tokens)
            else:
                reply = self._call(messages, 2 * reply.max_tokens)
        if reply.finish_reason == "length":
            return Failure(kind="length", raw=reply.text, reason=f"cut by the limit of {reply.max_tokens} tokens")
        if reply.finish_reason == "content_filter":
            return Failure(kind="content_filter", raw=reply.text, reason="stopped by the endpoint's content filter")
        return reply

    def _call(self, messages: list[PromptMessage], limit: int) -> Completion:
        if not self.in_words:
            try:
                return self._counted(messages, limit, self.schema)
            except SchemaRefused as refused:
                self.usage += refused.usage
                self.in_words = True
        instructions = load_prompt("json").render(schema=self._words())
        return self._counted([*messages, *instructions], limit, None)

    def _counted(self, messages: list[PromptMessage], limit: int, schema: type[T] | None) -> Completion:
        reply = self.generator.complete(
            merge_roles(messages), max_tokens=limit, temperature=self.temperature, schema=schema, deadline=self.deadline
        )
        self.usage += reply.usage
        self.raw = reply.text
        return reply

    def _words(self) -> str:
        return json.dumps(strict_schema(self.schema), ensure_ascii=False)


def runs_on(text: str) -> bool:
    """Whether a cut reply would not have ended with more room: it says its end over and over, or is inside a string
    that is longer than any that is asked for."""
    end = text[-REPEATED:]
    if len(end) == REPEATED and end.strip() and text.count(end) >= MOST_REPEATS:
        return True
    return len(text) - (text.rfind('": "') + 1 or len(text)) > LONGEST_STRING


def _trails_off(text: str) -> bool:
    return len(text) - len(text.rstrip()) >= TRAILING


def merge_roles(messages: Sequence[PromptMessage]) -> list[PromptMessage]:
    """The messages with neighbours of one role made one: many chat templates insist on turns that alternate."""
    merged: list[PromptMessage] = []
    for message in messages:
        if merged and merged[-1].role == message.role:
            text = f"{merged[-1].content}\n\n{message.content}"
            merged[-1] = PromptMessage(role=message.role, content=text)
        else:
            merged.append(message)
    return merged


def parse_object(text: str, schema: type[T]) -> T | str:
    """The one JSON object in `text` as a `schema`, or in words what is wrong.

    Prose and a code fence around it are let pass.
    """
    object_text = find_object(text)
    if object_text is None:
        return "it does not hold exactly one whole JSON object."
    try:
        return schema.model_validate_json(object_text)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, error_row['loc'])) or 'the object'}: {error_row['msg']}"
            for error_row in error.errors()
        ]
        return "; ".join(problems[:_PROBLEMS_TOLD]) + "."


_BRACE = re.compile(r"\{")


def find_object(text: str) -> str | None:
    """The text of the one JSON object in `text`; None unless there is exactly one.

    A brace that opens no complete object spoils the lot: what follows may be the inside of an object that was cut.
    """
    text = without_thinking(text)
    decoder = json.JSONDecoder()
    objects: list[str] = []
    end = 0
    while (brace := _BRACE.search(text, end)) and len(objects) < 2:
        try:
            _, end = decoder.raw_decode(text, brace.start())
        except (json.JSONDecodeError, RecursionError):
            return None
        objects.append(text[brace.start() : end])
    return objects[0] if len(objects) == 1 else None


# --- prose ---


class WrittenText(Record):
    """What a model wrote."""

    text: str = Field(description="never empty")
    usage: Usage
    note: str | None = Field(description="why it is incomplete; None if it is complete")
    finish_reason: FinishReason


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


LEAST_PIECES, REPEATING = 8, 0.4
"""From how many sentences on a text may count as running on, and the share of them that repeat earlier ones."""


def before_repeats(text: str) -> str:
    """What a text says before it begins to repeat itself; "" if it does not run on."""
    spans = sentences(text)
    pieces = [" ".join(words(text[start:end])) for start, end in spans]
    again = [at for at, piece in enumerate(pieces) if piece in pieces[:at] and len(piece.split()) > 2]
    if len(pieces) < LEAST_PIECES or len(again) < REPEATING * len(pieces):
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
