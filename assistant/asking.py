"""Ask a language model for prose, or for a value of a schema: a complete value or a failure, never a guess."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
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
"""Token limit of the first structured reply."""
TRAILING = 20
"""Characters of white space at the end of a cut reply from which on it counts as endless white space."""
REPEATED, MOST_REPEATS = 24, 4
"""Length of the end of a cut reply, in characters, and how often that end occurs in a reply that repeats itself."""
LONGEST_STRING = 1500
"""Characters of an unfinished JSON string from which on the reply counts as running on."""
_MOST_PROBLEMS = 5


class Failure(Record):
    """Why a structured call gave no value.

    Attributes:
        kind: `length`: cut by the token limit twice, or once while it ran on; `invalid`: twice not the schema;
            `content_filter`: stopped by the endpoint's filter; else the kind of the `GeneratorError`.
        raw: the last text that the model wrote; empty if it wrote none.
        reason: the cause in words.
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
    """Ask for a value of `schema`; returns the value or a failure, and the usage of all calls.

    The schema is sent if the endpoint accepts one (the generator remembers if it does not), else it is put into the
    prompt. A reply that the limit cut is repeated once:

    - not if it runs on (`runs_on`), since more room would only make it longer;
    - without the schema if it ends in endless white space, which a grammar allows between any two parts and small
      models fall into;
    - else with twice the limit.

    A reply that does not match the schema is repeated once, with the mistakes in it named.

    Args:
        messages: the request; it should say in words which fields are wanted.
        max_tokens: limit of the first reply.
        deadline: seconds for each of at most four calls; None: the generator's own.
    """
    asking = _Asking(generator, schema, temperature, deadline)
    try:
        return asking.value(list(messages), max_tokens), asking.usage
    except GeneratorError as error:
        return Failure(kind=error.kind, raw=asking.raw, reason=str(error)), asking.usage + error.usage


@dataclass
class _Asking(Generic[T]):
    """One structured request with its repeated calls.

    Attributes:
        usage: of all calls so far.
        raw: the last text that the model wrote.
        in_words: the schema is put into the prompt, not sent.
        doubled: a cut reply was repeated already.
    """

    generator: Generator
    schema: type[T]
    temperature: float | None
    deadline: float | None
    usage: Usage = field(default_factory=Usage)
    raw: str = ""
    in_words: bool = False
    doubled: bool = False

    def value(self, messages: list[PromptMessage], limit: int) -> T | Failure:
        """Ask, and ask once more if the reply does not match the schema."""
        problem = ""
        for _ in range(2):
            reply = self._complete_reply(messages, limit)
            if isinstance(reply, Failure):
                return reply
            value = parse_object(reply.text, self.schema)
            if not isinstance(value, str):
                return value
            problem = value
            limit = reply.max_tokens
            repair = load_prompt("repair").render(problem=problem, schema=self._words())
            messages = [*messages, PromptMessage(role="assistant", content=reply.text or "(nothing)"), *repair]
        return Failure(kind="invalid", raw=self.raw, reason=problem)

    def _complete_reply(self, messages: list[PromptMessage], limit: int) -> Completion | Failure:
        """Return a reply that was not cut or filtered. The finish reason counts, whatever the text looks like."""
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
    """Return whether a cut reply would not have ended with more room: it repeats its end over and over, or is inside a
    JSON string that is longer than any that is asked for."""
    end = text[-REPEATED:]
    if len(end) == REPEATED and end.strip() and text.count(end) >= MOST_REPEATS:
        return True
    last_string = text.rfind('": "')
    return last_string >= 0 and len(text) - (last_string + 1) > LONGEST_STRING


def _trails_off(text: str) -> bool:
    return len(text) - len(text.rstrip()) >= TRAILING


def merge_roles(messages: Sequence[PromptMessage]) -> list[PromptMessage]:
    """Join neighbouring messages of the same role: many chat templates accept alternating roles only."""
    merged: list[PromptMessage] = []
    for message in messages:
        if merged and merged[-1].role == message.role:
            text = f"{merged[-1].content}\n\n{message.content}"
            merged[-1] = PromptMessage(role=message.role, content=text)
        else:
            merged.append(message)
    return merged


def parse_object(text: str, schema: type[T]) -> T | str:
    """Parse the one JSON object in `text` as a `schema`; a string says what is wrong with it.

    Prose and a code fence around the object are ignored.
    """
    object_text = find_object(text)
    if object_text is None:
        return "it does not hold exactly one whole JSON object."
    try:
        return schema.model_validate_json(object_text)
    except ValidationError as error:
        problems = []
        for detail in error.errors()[:_MOST_PROBLEMS]:
            field_path = ".".join(map(str, detail["loc"])) or "the object"
            problems.append(f"{field_path}: {detail['msg']}")
        return "; ".join(problems) + "."


_BRACE = re.compile(r"\{")


def find_object(text: str) -> str | None:
    """Return the text of the one JSON object in `text`; None unless there is exactly one.

    None as well if any brace opens no complete object: an object after it may be an inner part of one that was cut.
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
    """A reply in prose."""

    text: str = Field(description="never empty")
    usage: Usage
    note: str | None = Field(description="why it is incomplete; None if it is complete")
    finish_reason: FinishReason


def one_a_line(texts: Sequence[str]) -> str:
    """Number the texts, one a line; line breaks inside a text become spaces, so that none can fake a further line."""
    return "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(texts, 1))


def write_text(
    generator: Generator,
    messages: Sequence[PromptMessage],
    on_text: OnText | None = None,
) -> WrittenText:
    """Ask for a reply in prose; see `completed_text`."""
    prompt_tokens = sum(count_tokens(message.content) for message in messages)
    return completed_text(
        generator.complete(messages, on_text=on_text),
        lambda limit: generator.complete(messages, max_tokens=limit),
        generator.context_tokens - prompt_tokens,
    )


def completed_text(reply: Completion, repeat: Callable[[int], Completion], room: int) -> WrittenText:
    """Return a reply in prose. A reply that the token limit cut is repeated once with twice the limit, not streamed.

    A cut reply that repeats itself ends before its repetitions instead. Raises `EmptyReply` or `GeneratorError` if
    nothing was written.

    Args:
        repeat: asks for the reply again, with another limit.
        room: most tokens that a reply can have.
    """
    usage = reply.usage
    text = without_thinking(reply.text).strip()
    if reply.finish_reason == "length":
        without_repeats = before_repeats(text)
        if without_repeats:  # more room would only be filled with more of the same
            return WrittenText(text=without_repeats, usage=usage, note=None, finish_reason="length")
        reply, spent = _once_more(reply, repeat, room)
        usage += spent
        text = without_thinking(reply.text).strip()
    if not text:
        raise _empty_reply_error(reply, usage)
    incomplete = {
        "length": f"the answer is incomplete: it was cut at the reply's limit of {reply.max_tokens} tokens",
        "content_filter": "the answer is incomplete: the endpoint's content filter stopped it",
    }
    note = incomplete.get(reply.finish_reason)
    return WrittenText(text=text, usage=usage, note=note, finish_reason=reply.finish_reason)


LEAST_PIECES, REPEATING = 8, 0.4
"""Least number of sentences of a text that may count as repeating itself, and the least share of repeated ones."""


def before_repeats(text: str) -> str:
    """Return the text up to its first repeated sentence; "" if the text does not repeat itself."""
    spans = sentences(text)
    normalized = [" ".join(words(text[start:end])) for start, end in spans]
    repeated = []
    for position, sentence in enumerate(normalized):
        if len(sentence.split()) > 2 and sentence in normalized[:position]:
            repeated.append(position)
    if len(normalized) < LEAST_PIECES or len(repeated) < REPEATING * len(normalized):
        return ""
    first_start, _ = spans[repeated[0]]
    return text[:first_start].rstrip()


def _once_more(cut: Completion, repeat: Callable[[int], Completion], room: int) -> tuple[Completion, Usage]:
    """Repeat a cut reply with twice the limit, if there is room; keep the first if the second is no better."""
    room = min(2 * cut.max_tokens, room)
    if room <= cut.max_tokens:
        return cut, Usage()
    try:
        retry = repeat(room)
    except GeneratorError as error:
        return cut, error.usage
    is_better = retry.finish_reason != "length" or len(retry.text) > len(cut.text)
    return (retry if is_better else cut), retry.usage


def _empty_reply_error(reply: Completion, usage: Usage) -> GeneratorError:
    """Return the error for a reply without text."""
    if reply.finish_reason == "length":
        problem = f"{reply.model} used up {reply.max_tokens} tokens before it wrote anything; raise max_tokens"
        return EmptyReply(problem, usage)
    if reply.finish_reason == "content_filter":
        problem = f"{reply.model} wrote nothing: the endpoint's content filter stopped it"
        return GeneratorError("refused", problem, usage)
    return EmptyReply(f"{reply.model} gave an empty reply", usage)
