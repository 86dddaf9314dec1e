"""Open an assistant from its configuration: the one place where specs are opened as retriever and generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from turnmark.assistant.assistant import Assistant
from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.forms import Reader, forms_for, reader_of
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.prompts import ASSISTANT_PROMPTS, check_prompts
from turnmark.assistant.tracing import trace_if_on
from turnmark.core.errors import ErrorCollector, TurnmarkError
from turnmark.retrieval.index import Index
from turnmark.retrieval.registry import build_settings, default_retriever, open_retriever
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Query, Retriever, check_retriever

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def open_assistant(
    config: AssistantConfig,
    *,
    index: Index | None = None,
    generator: Generator | None = None,
    retriever: Retriever | None = None,
) -> Assistant:
    """Open the assistant of a configuration; raises RequestError with every mistake in it at once.

    Args:
        index, generator, retriever: opened parts to use in place of those that the configuration names.
    """
    return trace_if_on(_open_parts(config, index, generator, retriever))


def _open_parts(
    config: AssistantConfig, index: Index | None, generator: Generator | None, retriever: Retriever | None
) -> Assistant:
    errors = ErrorCollector()
    if index is None and config.index:
        index = errors.collect(Index.open, config.index)
        if index is not None:  # "a, b," is written in more than one way
            config = config.model_copy(update={"index": index.manifest.name})
    reader: Reader = reader_of(generator)
    if generator is None:
        generator, reader = _open_generator(config.generator, errors)
    errors.collect(forms_for, reader, config.steps)
    errors.collect(check_prompts, config.prompts, ASSISTANT_PROMPTS)
    if retriever is None and index is not None:
        retriever = errors.collect(open_retriever, config.retriever or default_retriever(index), index)
    elif retriever is not None:
        errors.collect(check_retriever, retriever, "the retriever of the assistant")
    elif config.retriever:
        errors.collect(build_settings, config.retriever)
    errors.raise_all()
    embed = embed_with(index) if index is not None else None
    return Assistant(config, index=index, retriever=retriever, generator=generator, embed=embed)


def reopen_assistant(assistant: Assistant, **changes: Any) -> Assistant:
    """Open an assistant whose configuration differs in some fields; parts that stay the same are not opened again.

    A new retriever is tried with one search, since only that shows what the index lacks or whether its server runs.

    Args:
        changes: fields of `AssistantConfig` with their new values.
    """
    config = assistant.config.model_copy(update=changes)
    same_index = config.index == assistant.config.index
    same_generator = config.generator == assistant.config.generator
    same_retriever = same_index and config.retriever == assistant.config.retriever
    opened = _open_parts(
        config,
        assistant.index if same_index else None,
        assistant.generator if same_generator else None,
        assistant.retriever if same_retriever else None,
    )
    if not same_retriever and opened.retriever is not None:
        opened.retriever.search([Query(text="first")], 1)
    return trace_if_on(opened)


def up_to_date(assistant: Assistant) -> Assistant:
    """Return an assistant over the newest generation of its indexes, ready to search; itself if nothing is newer.

    If the newest one cannot be opened, the assistant goes on as it is: its files stay until the next build.
    """
    index = assistant.index
    if index is None or index.is_current():
        return assistant
    try:
        opened = _open_parts(assistant.config, None, assistant.generator, None)
        if opened.retriever is not None:
            opened.retriever.search([Query(text="first")], 1)  # opens all files, which two builds later are deleted
    except TurnmarkError:
        return assistant
    return trace_if_on(opened)


def embed_with(index: Index) -> Embed | None:
    """Return a function that embeds sentences with the embedder of an index; None if the index has none.

    The model is loaded at the first call, and runs in one thread, however many turns a server takes at once.
    """
    if not index.manifest.embedder:
        return None

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        from turnmark.retrieval.embed import in_one_thread

        return in_one_thread(index.embedder)(texts)

    return embed


def _open_generator(spec: str, errors: ErrorCollector) -> tuple[Generator | None, Reader]:
    """Open the language model of a spec; returns it with its reader profile.

    A model that cannot be opened counts as large, so that a form that needs one is not reported as a second mistake.
    """
    from turnmark.assistant.generators import open_generator

    opened = errors.collect(lambda: (open_generator(spec),))  # a tuple, as None is a generator too: extractive
    if opened is None:
        return None, "large"
    (generator,) = opened
    return generator, reader_of(generator)
