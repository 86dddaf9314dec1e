"""Read the replies of endpoints: chat completions and their streams, in the dialects of many servers.

Everything that an endpoint sends is untrusted.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from turnmark.assistant.llm.calls.protocols import FinishReason, ToolCall
from turnmark.core.untrusted import valid_text

# Finish reasons of several servers, in lower case.
_FINISH_REASONS: dict[str, FinishReason] = {
    **dict.fromkeys(("stop", "end_turn", "eos", "eos_token", "stop_sequence", "complete"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_output_tokens"), "length"),
    **dict.fromkeys(("content_filter", "safety", "blocklist", "prohibited_content", "refusal"), "content_filter"),
}


def finish_reason(word: object) -> FinishReason:
    """Normalize a server's finish reason; "other" for unknown or missing ones."""
    return _FINISH_REASONS.get(str(word).lower(), "other")


def first_choice(reply: Any) -> Any:
    """Return the first choice of a completion or a chunk, or None."""
    choices = field_of(reply, "choices")
    return choices[0] if isinstance(choices, list) and choices else None


def reported_usage(reply: Any) -> dict[str, int] | None:
    """Return the reported tokens, in OpenAI's or Anthropic's form, or None if a number is missing."""
    usage = field_of(reply, "usage")
    names = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
    reported = {key: field_of(usage, key) for key in names}
    if not any(isinstance(value, int) for value in reported.values()):
        reported = {key: field_of(usage, name) for key, name in names.items()}
    counts = {key: value for key, value in reported.items() if isinstance(value, int) and value >= 0}
    if len(counts) < len(reported):
        return None
    cached = field_of(field_of(usage, "prompt_tokens_details"), "cached_tokens")
    if isinstance(cached, int) and cached > 0:
        counts["cached_tokens"] = cached
    return counts


def field_of(value: Any, name: str) -> Any:
    """Return a field of an object or a dict, or None if missing."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


@dataclass
class PartialReply:
    """The part of a reply that has arrived so far."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    finish: object = None
    usage: dict[str, int] | None = None
    model: str = ""
    events: int = 0
    _calls: list[dict[str, str]] = field(default_factory=list)
    _at: dict[str, int] = field(default_factory=dict)

    def add(self, event: Any) -> str:
        """Add an event of a stream, or a complete reply; return the text that it adds.

        Raises:
            ValueError: the content is not text.
        """
        choice = first_choice(event)
        if choice is not None:
            self.events += 1
        self.usage = reported_usage(event) or self.usage
        model = field_of(event, "model")
        if isinstance(model, str) and model:
            self.model = model
        delta = field_of(choice, "delta") or field_of(choice, "message")
        rows = field_of(delta, "tool_calls")
        if isinstance(rows, list):
            for row in rows:
                self._add_call(row)
        self.refusal += str(field_of(delta, "refusal") or "")
        finish = field_of(choice, "finish_reason")
        if finish is not None:
            self.finish = finish
        for name in ("reasoning_content", "reasoning", "thinking"):  # vLLM and DeepSeek; OpenRouter; others
            if thought := _content_text(field_of(delta, name)):
                self.reasoning += thought
                break
        content = field_of(delta, "content") or field_of(choice, "text") or ""
        piece = _content_text(content)
        if content and piece is None:
            raise ValueError("content that is not text")
        self.reasoning += _content_text(content, of_reasoning=True) or ""
        self.text += piece or ""
        return piece or ""

    def _add_call(self, row: Any) -> None:
        """Add a piece of a tool call: the first piece has id and name, further pieces have arguments."""
        index = str(field_of(row, "index"))
        call_id = str(field_of(row, "id") or "")
        position = self._at.get(index)
        # A new id begins a new call, since some servers give every call the same index.
        if position is None or call_id not in ("", self._calls[position]["id"]):
            position = len(self._calls)
            self._at[index] = position
            self._calls.append({"id": call_id, "name": "", "arguments": ""})
        call = self._calls[position]
        function = field_of(row, "function")
        call["name"] += str(field_of(function, "name") or "")
        arguments = field_of(function, "arguments") or ""
        call["arguments"] += arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls; one without an id is numbered."""
        return tuple(
            ToolCall(id=row["id"] or f"call-{number}", name=row["name"], arguments=valid_text(row["arguments"]) or "{}")
            for number, row in enumerate(self._calls, 1)
        )


_REASONING_PARTS = frozenset(("thinking", "reasoning", "redacted_thinking"))


def _content_text(content: Any, of_reasoning: bool = False) -> str | None:
    """Return the text of a content, which is a string, a part or a list of parts, or None if it is something else.

    Args:
        of_reasoning: return the text of the parts with reasoning in place of that of the others.
    """
    if isinstance(content, str):
        return "" if of_reasoning else content
    if isinstance(content, dict):
        is_reasoning = content.get("type") in _REASONING_PARTS
        inner = content.get("thinking" if is_reasoning else "text") or content.get("text") or content.get("content")
        if is_reasoning != of_reasoning:
            return ""
        return _content_text(inner) if isinstance(inner, str | list) else None
    if isinstance(content, list):
        texts = [_content_text(part, of_reasoning) for part in content]
        return None if None in texts else "".join(filter(None, texts))
    return None


class BodyReader:
    """Reads the body of a response, whatever its content type says: server-sent events, or one JSON value.

    Attributes:
        ended: whether the stream had its end mark, `[DONE]`.
    """

    def __init__(self, content_type: str) -> None:
        self.ended = False
        self.streamed = "event-stream" in content_type

    async def events(self, lines: AsyncIterator[str]) -> AsyncIterator[Any]:
        """Yield the JSON value of each event, or the one of the body.

        Raises:
            ValueError: not JSON, or more than `MAX_BODY_CHARACTERS` of it in one value.
        """
        data: list[str] = []
        begun = False
        async for line in lines:
            if not begun and line.strip():
                begun, self.streamed = True, bool(_EVENT_LINE.match(line))
            if not self.streamed:
                data.append(line)
            elif line.startswith("data:"):
                data.append(line.removeprefix("data:").strip())
            elif not line.strip() and data:
                value, data = "\n".join(data), []
                if value == "[DONE]":
                    self.ended = True
                    return
                yield json.loads(value)
            if sum(map(len, data)) > MAX_BODY_CHARACTERS:
                raise ValueError("too long")
        text = "\n".join(data).strip()
        if text == "[DONE]":
            self.ended = True
        elif text or not self.streamed:
            yield json.loads(text)


_EVENT_LINE = re.compile(r"(?:data|event|id|retry)?:")
MAX_BODY_CHARACTERS = 50_000_000
"""Maximum characters of a JSON value from an endpoint."""
