"""An assistant over a named index, with the parts that its specs name."""

from __future__ import annotations

from assistant.agent import PASSAGES, Assistant
from retrieval.index import Index, open_index
from retrieval.registry import default_retriever, open_retriever


def open_assistant(
    index: str | Index, generator: str = "extractive", retriever: str | None = None, passages: int = PASSAGES
) -> Assistant:
    """Open an index, a retriever over it and a generator.

    Args:
        index: an index, or the name of one.
        generator: a generator spec; `extractive` is the embedded form.
        retriever: a retriever spec; None: the default for the index.

    Raises:
        RequestError: a spec or the index is wrong.
    """
    from assistant.generators import open_generator

    opened = open_index(index) if isinstance(index, str) else index
    model = open_generator(generator)
    found = open_retriever(retriever or default_retriever(opened), opened)
    if not opened.manifest.embedder:
        return Assistant(found, model, None, passages)
    return Assistant(found, model, lambda texts: opened.embedder.encode(texts, "passage"), passages)
