"""The one place where replies are normalized, for every generator and every caller, streams included.

A reply is separated from the model's reasoning, and calls of tools that were written as text become calls. What is left
is the text for the person, for the next prompt, or for a judge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

from turnmark.assistant.llm.calls.protocols import (
    CallOptions,
    Completion,
    Generator,
    GeneratorWrapper,
    OnText,
    PicturesRefused,
    PromptMessage,
    Tool,
    ToolMessage,
    estimate_usage,
)
from turnmark.assistant.llm.calls.reasoning import ReasoningHabit, split_reasoning
from turnmark.assistant.llm.calls.repetition import (
    ON_REPETITION,
    REPETITION_NOTE,
    RepeatedReply,
    repetition_start,
    without_repetition,
)
from turnmark.assistant.llm.calls.text_calls import read_calls, without_unfinished_calls


class NormalizedGenerator(GeneratorWrapper):
    """A generator whose replies contain neither reasoning nor calls that are written as text."""

    def __init__(self, generator: Generator) -> None:
        super().__init__(generator)
        self._habit = ReasoningHabit(generator.name)
        self._names: tuple[str, ...] = ()
        """Names of the tools that were offered last: a model may call them although they are no longer offered."""

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """Return one reply; see `Generator.complete`.

        Raises:
            PicturesRefused: a message has pictures, and the generator takes none.
        """
        if any(message.pictures for message in messages) and not self.takes_pictures:
            raise PicturesRefused(f"{self.name} takes no pictures")
        schema = options.get("schema")
        call = partial(self.generator.complete, messages)
        reply, shown = self._normalized(call, messages, options, conclusive=schema is None)
        if schema is None:
            reply = _drop_repetition(reply.model_copy(update={"text": read_calls(reply.text, self._names).text}))
        shown.finish(reply.text)
        return reply

    def _converse(self, messages: Sequence[ToolMessage], tools: Sequence[Tool], **options: Any) -> Completion:
        self._names = tuple(tool.name for tool in tools) or self._names
        reply, shown = self._normalized(partial(super()._converse, messages, tools), messages, options)
        if not reply.calls:
            calls, text = read_calls(reply.text, self._names)
            # Without tools, the model was asked to answer, so that a call is no answer.
            change: dict[str, Any] = {"calls": calls, "finish_reason": "stop"} if calls and tools else {}
            reply = _drop_repetition(reply.model_copy(update={"text": text, **change}))
        shown.finish(reply.text)
        return reply

    def _normalized(
        self,
        call: Callable[..., Completion],
        messages: Sequence[PromptMessage | ToolMessage],
        options: Mapping[str, Any],
        conclusive: bool = True,
    ) -> tuple[Completion, _TextFilter]:
        """Make a call; return its reply without reasoning and role, and the filter of its stream.

        Args:
            conclusive: see `ReasoningHabit.note`.
        """
        shown = _TextFilter(options.get("on_text"), self._habit, self._names)
        streamed = {"on_text": shown} if options.get("on_text") is not None else {}
        try:
            reply = call(**{**options, **streamed})
        except RepeatedReply as stopped:
            reply = Completion(
                text=stopped.text,
                finish_reason="stop",
                usage=estimate_usage(messages, stopped.text, 1),
                model=self.name,
                max_tokens=options.get("max_tokens") or self.reply_tokens,
            )
        split = split_reasoning(reply.text)
        self._habit.note(split, conclusive and reply.finish_reason == "stop")
        text = split.text[_role_length(split.text) :]
        reasoning = "\n\n".join(filter(None, (reply.reasoning, split.reasoning)))
        return reply.model_copy(update={"text": text, "reasoning": reasoning}), shown


def normalize_replies(generator: Generator) -> Generator:
    """Return a generator with normalized replies; one whose replies are normalized already is returned unchanged."""
    inner: Any = generator
    while isinstance(inner, GeneratorWrapper):
        if isinstance(inner, NormalizedGenerator):
            return generator
        inner = inner.generator
    return NormalizedGenerator(generator)


_ROLE_NAMES = ("assistant", "assistent", "asistente", "assistente", "ai assistant", "助手")
_ROLE = re.compile(rf"\s*(?:\*\*)?(?:{'|'.join(_ROLE_NAMES)})(?:\*\*\s?[:：]|[:：]\*\*|[:：])\s*(?=\S)", re.IGNORECASE)
"""Matches the role that some models write before a reply, as in the prompts of chats: "Assistant: ..."."""


def _may_become_role(text: str) -> bool:
    """Return whether the beginning of a reply may be one of a role."""
    begun = text.strip("* \n:：").lower()
    return any(name.startswith(begun) for name in _ROLE_NAMES)


def _role_length(text: str) -> int:
    """Return the length of the role at the beginning of a reply."""
    role = _ROLE.match(text)
    return role.end() if role else 0


def _drop_repetition(reply: Completion) -> Completion:
    """Remove the repetition from the reply of a turn, and report it in a note."""
    on_repetition = ON_REPETITION.get()
    text = reply.text if on_repetition is None else without_repetition(reply.text)
    if on_repetition is None or text == reply.text:
        return reply
    on_repetition(REPETITION_NOTE)
    return reply.model_copy(update={"text": text})


class _TextFilter:
    """A receiver of the pieces of a reply that passes on only what belongs to the normalized text.

    Args:
        on_text: receives the pieces, or None if the reply is not streamed.
        habit: how the model begins its replies.
        names: names of the offered tools.
    """

    def __init__(self, on_text: OnText | None, habit: ReasoningHabit, names: Sequence[str]) -> None:
        self._on_text, self._habit, self._names = on_text, habit, names
        self._text = self._passed = ""
        self._stops = ON_REPETITION.get() is not None
        self._held_from: int | None = None
        """Where the text has begun to repeat itself, if it goes on so."""

    def __call__(self, piece: str) -> None:
        self._text += piece
        split = split_reasoning(self._text)
        found = split.text != self._text
        if split.unfinished or (not found and not self._passed and self._habit.holds(self._text)):
            return
        if not self._passed and _may_become_role(split.text):
            return
        shown = without_unfinished_calls(split.text[_role_length(split.text) :], self._names)
        if self._stops and any(mark in piece for mark in ".!?。！？\n"):
            if repetition_start(shown) is not None:
                raise RepeatedReply(self._text)
            self._held_from = repetition_start(shown, rounds_in_row=2)
        self.finish(shown if self._held_from is None else shown[: self._held_from])

    def finish(self, text: str) -> None:
        """Pass on the rest of the normalized text."""
        # Text that was passed on is never retracted, even if a later tag shows that it was reasoning.
        if self._on_text is not None and text.startswith(self._passed) and len(text) > len(self._passed):
            piece, self._passed = text[len(self._passed) :], text
            self._on_text(piece)
