"""Language models for the drills, named by specs: one writes benchmark data, one answers slowly."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tests.evaluation.synth.player import Player
from tests.servers import Say
from turnmark.assistant.generators.base import Completion
from turnmark.assistant.types import Usage


class Writer:
    """Says what `tests.evaluation.synth.player` would say behind a server, after some milliseconds."""

    name, context_tokens, reply_tokens = "python:tests.drills.playing:writer", 16_384, 1024

    def __init__(self) -> None:
        self._player = Player()

    def complete(self, messages: Sequence[Any], **_: Any) -> Completion:
        """See `Generator.complete`."""
        time.sleep(0.01)
        body = {"messages": [{"role": message.role, "content": message.content} for message in messages]}
        reply = self._player(body)
        assert isinstance(reply, Say), "the player says something"
        usage = Usage(calls=1, prompt_tokens=100, completion_tokens=10)
        return Completion(text=reply.text or "", finish_reason="stop", usage=usage, model="player", max_tokens=1024)


def writer() -> Writer:
    """The factory that `--generator` names."""
    return Writer()
