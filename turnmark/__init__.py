"""Turnmark as a library.

    import turnmark as tm

    index = tm.Index.build("~/notes", name="notes")     # tm.Index.open("notes") opens it again
    assistant = tm.Assistant(index, generator="local:qwen2.5-coder-1.5b")
    chat = assistant.chat()
    reply = chat.ask("How do I descale the kettle?")     # reply.text, .steps, .citations, .decision, .trace
    run = tm.evaluate("mtrag", assistant, limit=20)      # run.metrics["rouge_l.word"].mean, run.to_pandas()
    tm.compare([run, other])

These names are the public API; everything else may change with any version. Importing the package loads nothing
heavy: each name is imported when it is first used. A mistake of the caller or the environment always raises
`TurnmarkError`, with all mistakes of a request in one message.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnmark.assistant.config import AssistantConfig
    from turnmark.assistant.llm.calls.protocols import Generator
    from turnmark.assistant.turn.assistant import Assistant, Chat
    from turnmark.core.errors import TurnmarkError
    from turnmark.evaluation.api import Run, compare, evaluate, score
    from turnmark.retrieval.index.index_api import Index
    from turnmark.retrieval.types import Retriever

_MODULES = {
    "Assistant": "turnmark.assistant.turn.assistant",
    "AssistantConfig": "turnmark.assistant.config",
    "Chat": "turnmark.assistant.turn.assistant",
    "Generator": "turnmark.assistant.llm.calls.protocols",
    "Index": "turnmark.retrieval.index.index_api",
    "Retriever": "turnmark.retrieval.types",
    "Run": "turnmark.evaluation.api",
    "TurnmarkError": "turnmark.core.errors",
    "compare": "turnmark.evaluation.api",
    "evaluate": "turnmark.evaluation.api",
    "score": "turnmark.evaluation.api",
}

__all__ = [
    "Assistant", "AssistantConfig", "Chat", "Generator", "Index", "Retriever", "Run", "TurnmarkError", "compare",
    "evaluate", "score",
]  # fmt: skip

import_module("turnmark.core.home").quiet_libraries()  # precedes every import of a library by one of our modules


def _open_describer(spec: str, budget: str | None) -> Any:
    return import_module("turnmark.assistant.llm.picture_describer").open_model_describer(spec, budget)


import_module("turnmark.core.hooks").describer_opener = _open_describer  # type: ignore[attr-defined]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
