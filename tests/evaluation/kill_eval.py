"""A generator that answers slowly, for drills that kill it: `python:tests.evaluation.kill_eval:slow`."""

from __future__ import annotations

import hashlib
import time
from typing import Any

from turnmark.assistant.llm.calls.protocols import Completion
from turnmark.assistant.types import Usage


class Slow:
    """Says of every prompt something of its own, after some hundredths of a second."""

    name, context_tokens, reply_tokens = "python:tests.evaluation.kill_eval:slow", 8192, 1024

    def complete(self, messages: Any, **_: Any) -> Completion:
        digest = hashlib.sha256(messages[-1].content.encode()).hexdigest()
        time.sleep(0.02 + int(digest[:2], 16) / 2560)
        usage = Usage(calls=1, prompt_tokens=100, completion_tokens=10)
        text = f"The bell was cast in {int(digest[:4], 16)} [1]."
        return Completion(text=text, finish_reason="stop", usage=usage, model="slow", max_tokens=1024)


def slow() -> Slow:
    """The factory that `--generator` names."""
    return Slow()
