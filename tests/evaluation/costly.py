"""A judge that rates all alike, and whose every call takes 1,100 tokens: `python:…costly:judge`."""

from __future__ import annotations

from typing import Any

from turnmark.assistant.llm.calls.protocols import Completion
from turnmark.assistant.types import Usage

SPEC = "python:tests.evaluation.costly:judge"
TOKENS = 1_100
PROMPTS: list[str] = []


class Costly:
    """Keeps what it was asked in `PROMPTS`."""

    name, context_tokens, reply_tokens = SPEC, 8192, 1024

    def complete(self, messages: Any, **_: Any) -> Completion:
        PROMPTS.append(messages[-1].content)
        usage = Usage(calls=1, prompt_tokens=1_000, completion_tokens=100)
        return Completion(text="Rating: [[7]]", finish_reason="stop", usage=usage, model="costly", max_tokens=1024)


def judge() -> Costly:
    """The factory that `--judge` names."""
    return Costly()
