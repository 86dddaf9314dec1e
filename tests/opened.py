"""An assistant over a named index, as the commands open it."""

from __future__ import annotations

from typing import Any

from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.serving.served_indexes import ServedIndexes
from turnmark.assistant.serving.served_models import ServedGenerator, ServedModels
from turnmark.assistant.turn.assistant import Assistant
from turnmark.retrieval.index.index_api import Index


def assistant_over(index: str | Index, generator: str = "extractive", **fields: Any) -> Assistant:
    """Open the assistant of a configuration with these fields."""
    name = index if isinstance(index, str) else index.manifest.name
    config = AssistantConfig(index=name, generator=generator, **fields)
    return Assistant.from_config(config, index=None if isinstance(index, str) else index)


def served_models(assistant: Assistant) -> ServedModels:
    """Serve one assistant."""
    generator = ServedGenerator(assistant.name, assistant.config.generator, assistant.parts.generator)
    return ServedModels(ServedIndexes({assistant.config.index: assistant}), [generator])
