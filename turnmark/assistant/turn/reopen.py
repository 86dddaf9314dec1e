"""Open an assistant again: with another configuration, or over the newest generation of its indexes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.turn.components import AssistantParts, open_parts
from turnmark.core.errors import ErrorCollector, TurnmarkError
from turnmark.retrieval.types import Query


def reopen_assistant(assistant: Assistant, **changes: Any) -> Assistant:
    """Open an assistant whose configuration differs in some fields; parts that stay the same are not opened again.

    A new retriever is tried with one search, since only that shows what the index lacks or whether its server runs.

    Args:
        changes: fields of `AssistantConfig` with their new values.
    """
    config, parts = assistant.config.model_copy(update=changes), assistant.parts
    same_index = config.index == assistant.config.index
    same_generator = config.generator == assistant.config.generator
    same_retriever = same_index and config.retriever == assistant.config.retriever
    kept = AssistantParts(
        index=parts.index if same_index else None,
        generator=parts.generator if same_generator else None,
        retriever=parts.retriever if same_retriever else None,
        tracing=parts.tracing,
    )
    config, parts = open_parts(config, kept, ErrorCollector())
    if not same_retriever and parts.retriever is not None:
        parts.retriever.search([Query(text="first")], 1)
    return Assistant.from_parts(config, parts)


def up_to_date(assistant: Assistant) -> Assistant:
    """Return an assistant over the newest generation of its indexes, ready to search; itself if nothing is newer.

    If the newest one cannot be opened, the assistant stays as it is: its files are kept until the next build.
    """
    if assistant.index is None or assistant.index.is_current():
        return assistant
    kept = replace(assistant.parts, index=None, retriever=None)
    try:
        config, parts = open_parts(assistant.config, kept, ErrorCollector())
        if parts.retriever is not None:
            # The search opens all files. Two builds later, they are deleted.
            parts.retriever.search([Query(text="first")], 1)
    except TurnmarkError:
        return assistant
    return Assistant.from_parts(config, parts)
