"""Requests of the generator tests to a scripted endpoint."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from turnmark.assistant.llm.calls.protocols import GeneratorError, PromptMessage
from turnmark.assistant.llm.generators.registry import open_generator

ASK = [PromptMessage(role="system", content="Be brief."), PromptMessage(role="user", content="How are you?")]


class Colour(BaseModel):
    name: str
    warm: bool = False


def opened(server, options="", model="tiny"):
    """Open a generator at a scripted server."""
    return open_generator(f"openai:{model}@{server.url}{options}")


def failure(generator, **options):
    with pytest.raises(GeneratorError) as raised:
        generator.complete(ASK, **options)
    return raised.value
