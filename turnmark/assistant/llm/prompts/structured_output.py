"""Ask a language model for prose, or for a value of a schema: a complete value or a failure, never a guess."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from turnmark.assistant.llm.calls.protocols import (
    Completion,
    EmptyReply,
    ErrorKind,
    FinishReason,
    Generator,
    GeneratorError,
    OnText,
    PromptMessage,
    SchemaRefused,
)
from turnmark.assistant.llm.calls.reasoning import split_reasoning
from turnmark.assistant.llm.calls.repetition import without_repetition
from turnmark.assistant.llm.calls.reply_schemas import strict_schema
from turnmark.assistant.llm.prompts.context_budget import count_tokens
from turnmark.assistant.llm.prompts.prompt_files import load_prompt
from turnmark.assistant.types import Usage
from turnmark.core.record import Record, mistakes_in

T = TypeVar("T", bound=BaseModel)

FailureKind = Literal["length", "invalid", "content_filter"] | ErrorKind

STRUCTURED_TOKENS = 512
"""Token limit of the first structured reply."""
MIN_TRAILING_SPACES = 20
"""Number of spaces at the end of a cut reply from which it counts as endless white space."""
REPEATED_END_CHARACTERS, MIN_END_REPEATS = 24, 4
"""A cut reply repeats itself if its last characters, of this number, occur at least this often in it."""
MAX_STRING_CHARACTERS = 1500
"""Length of an unfinished JSON string from which the reply counts as running on."""
_MAX_PROBLEMS = 5


class Failure(Record):
    """Why a structured call gave no value.

    Attributes:
        kind: `length` if the token limit cut two replies, or one that kept repeating itself; `invalid` if two replies
            did not match the schema; `content_filter` if the endpoint's filter stopped the reply; otherwise the kind of
            the `GeneratorError`.
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
) -> tuple[T | Failure, Usage]:
    """Ask for a value of `schema`. Returns the value or a failure, together with the usage of all calls.

    The schema is sent if the endpoint accepts one; otherwise it is part of the prompt. The generator remembers
    that its endpoint accepts none. A reply that was cut by the limit is requested once more:

    - not if it runs on (`runs_on`), since more room would only make it longer;
    - without the schema if it ends in endless white space: a grammar allows it between any two parts, and small models
      get stuck in it;
    - otherwise with twice the limit.

    A reply that does not match the schema is requested once more, and the prompt names its mistakes.

    Args:
        messages: the request, which should describe the fields in words.
        max_tokens: limit of the first reply.
    """
    asking = _StructuredRequest(generator, schema, temperature)
    try:
        return asking.value(list(messages), max_tokens), asking.usage
    except GeneratorError as error:
        return Failure(kind=error.kind, raw=asking.raw, reason=str(error)), asking.usage + error.usage


@dataclass
class _StructuredRequest(Generic[T]):
    """One structured request and the calls that it takes.

    Attributes:
        usage: usage of all calls so far.
        raw: the last text that the model wrote.
        schema_in_prompt: whether the schema is part of the prompt and not sent.
        doubled: whether a cut reply was requested again already.
    """

    generator: Generator
    schema: type[T]
    temperature: float | None
    usage: Usage = field(default_factory=Usage)
    raw: str = ""
    schema_in_prompt: bool = False
    doubled: bool = False

    def value(self, messages: list[PromptMessage], limit: int) -> T | Failure:
        """Ask, and ask again if the reply does not match the schema."""
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
            repair = load_prompt("repair").render(problem=problem, schema=self._schema_text())
            messages = [*messages, PromptMessage(role="assistant", content=reply.text or "(nothing)"), *repair]
        return Failure(kind="invalid", raw=self.raw, reason=problem)

    def _complete_reply(self, messages: list[PromptMessage], limit: int) -> Completion | Failure:
        """Return a reply that was not cut or filtered. Only the finish reason decides, not the text."""
        reply = self._call(messages, limit)
        if reply.finish_reason == "length" and not self.doubled:
            self.doubled = True
            if runs_on(reply.text):
                return Failure(kind="length", raw=reply.text, reason=f"ran on to its {reply.max_tokens} tokens")
            if len(reply.text) - len(reply.text.rstrip()) >= MIN_TRAILING_SPACES:
                self.schema_in_prompt = True
                reply = self._call(messages, reply.max_tokens)
            else:
                reply = self._call(messages, 2 * reply.max_tokens)
        if reply.finish_reason == "length":
            return Failure(kind="length", raw=reply.text, reason=f"cut by the limit of {reply.max_tokens} tokens")
        if reply.finish_reason == "content_filter":
            return Failure(kind="content_filter", raw=reply.text, reason="stopped by the endpoint's content filter")
        return reply

    def _call(self, messages: list[PromptMessage], limit: int) -> Completion:
        if not self.schema_in_prompt:
            try:
                return self._complete_and_count(messages, limit, self.schema)
            except SchemaRefused as refused:
                self.usage += refused.usage
                self.schema_in_prompt = True
        instructions = load_prompt("json").render(schema=self._schema_text())
        return self._complete_and_count([*messages, *instructions], limit, None)

    def _complete_and_count(self, messages: list[PromptMessage], limit: int, schema: type[T] | None) -> Completion:
        reply = self.generator.complete(
            merge_roles(messages), max_tokens=limit, temperature=self.temperature, schema=schema
        )
        self.usage += reply.usage
        self.raw = reply.text
        return reply

    def _schema_text(self) -> str:
        return json.dumps(strict_schema(self.schema), ensure_ascii=False)


def runs_on(text: str) -> bool:
    """Return whether a cut reply would not have ended even with more room. Such a reply repeats its end, or it is
    inside a JSON string that is longer than any string that is asked for.
    """
    end = text[-REPEATED_END_CHARACTERS:]
    if len(end) == REPEATED_END_CHARACTERS and end.strip() and text.count(end) >= MIN_END_REPEATS:
        return True
    last_string = text.rfind('": "')
    return last_string >= 0 and len(text) - (last_string + 1) > MAX_STRING_CHARACTERS


def merge_roles(messages: Sequence[PromptMessage]) -> list[PromptMessage]:
    """Join adjacent messages of the same role, since many chat templates accept only alternating roles."""
    merged: list[PromptMessage] = []
    for message in messages:
        if merged and merged[-1].role == message.role:
            text = f"{merged[-1].content}\n\n{message.content}"
            pictures = (*merged[-1].pictures, *message.pictures)
            merged[-1] = PromptMessage(role=message.role, content=text, pictures=pictures)
        else:
            merged.append(message)
    return merged


def parse_object(text: str, schema: type[T]) -> T | str:
    """Parse the one JSON object in `text` as a `schema`. If that fails, return a sentence that says why.

    Prose and a code fence around the object are ignored.
    """
    object_text = find_object(text)
    if object_text is None:
        return "it does not hold exactly one whole JSON object."
    try:
        return schema.model_validate_json(object_text)
    except ValidationError as error:
        return "; ".join(mistakes_in(error)[:_MAX_PROBLEMS]) + "."


_BRACE = re.compile(r"\{")


def find_object(text: str) -> str | None:
    """Return the text of the one JSON object in `text`; None unless there is exactly one.

    Also return None if a brace opens no complete object: an object after it may be part of one that was cut.
    """
    text = split_reasoning(text).text
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
    reasoning: str = Field(default="", description="see `Completion.reasoning`")


def number_lines(texts: Sequence[str]) -> str:
    """Number the texts, one per line. Line breaks inside a text become spaces, so that none can fake another line."""
    return "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(texts, 1))


def write_text(
    generator: Generator,
    messages: Sequence[PromptMessage],
    on_text: OnText | None = None,
) -> WrittenText:
    """Ask for a reply in prose; see `complete_text`."""
    prompt_tokens = sum(count_tokens(message.content) for message in messages)
    return complete_text(
        generator.complete(messages, on_text=on_text),
        lambda limit: generator.complete(messages, max_tokens=limit),
        generator.context_tokens - prompt_tokens,
    )


def complete_text(reply: Completion, repeat: Callable[[int], Completion], room: int) -> WrittenText:
    """Return a reply in prose. A reply that was cut by the token limit is requested once more with twice the limit,
    without streaming. A cut reply that repeats itself is instead shortened to what precedes its repetitions.

    Args:
        repeat: requests the reply again, with another limit.
        room: maximum number of tokens in a reply.

    Raises:
        EmptyReply: the model wrote nothing.
        GeneratorError: the call failed.
    """
    usage = reply.usage
    text = reply.text.strip()
    if reply.finish_reason == "length":
        shortened = without_repetition(text)
        if shortened != text:  # with more room, the model would only repeat itself further
            return WrittenText(
                text=shortened, usage=usage, note=None, finish_reason="length", reasoning=reply.reasoning
            )
        reply, spent = _repeat_longer(reply, repeat, room)
        usage += spent
        text = reply.text.strip()
    if not text:
        raise _empty_reply_error(reply, usage)
    incomplete = {
        "length": f"the answer is incomplete: it was cut at the reply's limit of {reply.max_tokens} tokens",
        "content_filter": "the answer is incomplete: the endpoint's content filter stopped it",
    }
    note = incomplete.get(reply.finish_reason)
    return WrittenText(text=text, usage=usage, note=note, finish_reason=reply.finish_reason, reasoning=reply.reasoning)


def _repeat_longer(cut: Completion, repeat: Callable[[int], Completion], room: int) -> tuple[Completion, Usage]:
    """Request a cut reply again with twice the limit, if there is room. Return the first if the second is no better."""
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
    if reply.finish_reason == "length":
        used = f"{reply.model} used up {reply.max_tokens} tokens before it wrote anything"
        problem = f"{used}; allow more in the spec, e.g. ?max_tokens=8000"
        return EmptyReply(problem, usage)
    if reply.finish_reason == "content_filter":
        problem = f"{reply.model} wrote nothing: the endpoint's content filter stopped it"
        return GeneratorError("refused", problem, usage)
    if reply.reasoning:
        return EmptyReply(f"{reply.model} returned reasoning and no answer", usage)
    return EmptyReply(f"{reply.model} returned an empty reply", usage)
