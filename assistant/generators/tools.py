"""Calling tools: a conversation in which a model may ask for calls and reads what came of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import Field

from turnmark.assistant.types import Usage
from turnmark.corpora.types import Record


class Tool(Record):
    """A function that a model may call."""

    name: str
    description: str
    parameters: Mapping[str, Any] = Field(description="JSON schema of its arguments, an object")


class ToolCall(Record):
    """A call that a model asks for. Its arguments are what the model wrote: check them."""

    id: str
    name: str
    arguments: str = Field(description="JSON, if the model kept to it")


class ToolMessage(Record):
    """One message of such a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: tuple[ToolCall, ...] = Field(default=(), description="of an assistant's message")
    call_id: str = Field(default="", description="of a tool's message: the call that it answers")


class ToolReply(Record):
    """What a model wrote, and the calls that it asks for; none: this is its answer."""

    text: str
    calls: tuple[ToolCall, ...]
    usage: Usage
    finish_reason: Literal["stop", "length", "content_filter", "other"] = Field(description="stop: also after calls")

    @property
    def message(self) -> ToolMessage:
        """The reply as a message of the conversation that goes on."""
        return ToolMessage(role="assistant", content=self.text, calls=self.calls)


@runtime_checkable
class ToolGenerator(Protocol):
    """A generator that calls tools."""

    def converse(
        self,
        messages: Sequence[ToolMessage],
        tools: Sequence[Tool],
        *,
        max_tokens: int | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> ToolReply:
        """The next message of the conversation.

        Args:
            tools: may be empty: then the model has to answer in text.
            max_tokens: limit of the reply; None: `Generator.reply_tokens`.
            on_text: receives each piece of text as it comes, in the caller's thread.

        Raises:
            GeneratorError: there is no reply; `bad_request` if the endpoint refuses tools.
        """
        ...
