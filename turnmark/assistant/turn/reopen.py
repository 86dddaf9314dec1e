"""Open an assistant again: with another configuration, or over the newest generation of its indexes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.turn.components import AssistantParts, open_parts
from turnmark.core.errors import ErrorCollector, TurnmarkError
from turnmark.retrieval.types import Query


def reopen_assistant(assistant: Assistant, **changes: Any) -> Assistant:
    """Open an assistant whose configuration differs in some fields; parts that stay the same are not opened again.

    Args:
        changes: fields of `AssistantConfig` with their new values.
    """
    config = assistant.config.model_copy(update=changes)
    kept = assistant.parts
    if config.generator != assistant.config.generator:
        kept = replace(kept, generator=None)
    if config.index != assistant.config.index:
        kept = replace(kept, index=None, retriever=None)
    if config.retriever != assistant.config.retriever:
        kept = replace(kept, retriever=None)
    return _opened(config, kept)


def up_to_date(assistant: Assistant) -> Assistant:
    """Return an assistant over the newest generation of its indexes; itself if nothing is newer.

    If the newest one cannot be opened, the assistant stays as it is: its files are kept until the next build.
    """
    if assistant.index is None or assistant.index.is_current():
        return assistant
    try:
        return _opened(assistant.config, replace(assistant.parts, index=None, retriever=None))
    except TurnmarkError:
        return assistant


def _opened(config: AssistantConfig, kept: AssistantParts) -> Assistant:
    """Return an assistant with the parts that are kept, and the others opened, ready to search."""
    config, parts = open_parts(config, kept, ErrorCollector())
    if kept.retriever is None and parts.retriever is not None:
        # A search opens all files, which are deleted two builds later. It shows what an index lacks, and whether a
        # server runs.
        parts.retriever.search([Query(text="first")], 1)
    return Assistant.from_parts(config, parts)
