"""A `turnmark` that answers slowly, for tests that kill it: `python -m tests.evaluation.kill_eval eval mtrag …`.

With DIE_AT=N in the environment it kills itself just before the N-th file is put in its place.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import signal
import sys
import time
from typing import Any

from turnmark.assistant.generators.base import Completion
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


def _die_at(count: int) -> None:
    replace, calls = pathlib.Path.replace, 0

    def counting(self: pathlib.Path, target: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(self, target)

    pathlib.Path.replace = counting  # type: ignore[method-assign]


if __name__ == "__main__":
    from turnmark.evaluation.cli import main

    if "DIE_AT" in os.environ:
        _die_at(int(os.environ["DIE_AT"]))
    sys.argv[0] = "turnmark"
    main()
