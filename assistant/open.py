"""An assistant over a named index, with the parts that its specs name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnmark.assistant.assistant import Assistant
from turnmark.assistant.forms import Reader, forms_for, reader_of
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.tracing import trace_if_on
from turnmark.core.errors import ErrorCollector
from turnmark.retrieval.index import Index, open_index
from turnmark.retrieval.registry import build_settings, default_retriever, open_retriever
from turnmark.retrieval.types import Query, Retriever


@dataclass(frozen=True)
class Opened:
    """An assistant and the specs that it was opened from; a retriever of None is the default for the index."""

    assistant: Assistant
    index: Index
    generator: str
    retriever: str | None = None
    steps: tuple[str, ...] = ()


def open_assistant(
    index: str | Index,
    generator: str = "extractive",
    retriever: str | None = None,
    passages: int | None = None,
    steps: Sequence[str] = (),
) -> Assistant:
    """Open an index, a retriever over it and a generator, by spec; without a retriever, the default for the index.

    Args:
        steps: `STEP=FORM`, where a step takes another form than by default; see `turnmark.assistant.forms`.
    """
    return open_parts(index, generator, retriever, passages, steps).assistant


def open_parts(
    index: str | Index,
    generator: str | Generator = "extractive",
    retriever: str | Retriever | None = None,
    passages: int | None = None,
    steps: Sequence[str] = (),
) -> Opened:
    """As `open_assistant`, also with parts that are open already; with what was opened, so that it can be swapped."""
    from turnmark.assistant.generators import open_generator

    opened = open_index(index) if isinstance(index, str) else index
    model = open_generator(generator) if isinstance(generator, str) else generator
    forms = forms_for(reader_of(model), steps)
    if retriever is None or isinstance(retriever, str):
        finder, spec = open_retriever(retriever or default_retriever(opened), opened), retriever
    else:
        finder, spec = retriever, retriever.name
    embed = None if not opened.manifest.embedder else lambda texts: opened.embedder.encode(texts, "passage")
    assistant = trace_if_on(Assistant(finder, model, embed, passages, forms=forms))
    return Opened(assistant, opened, generator if isinstance(generator, str) else generator.name, spec, tuple(steps))


def open_checked(
    errors: ErrorCollector, index: str | None, generator: str, retriever: str | None, steps: Sequence[str] = ()
) -> Opened | None:
    """As `open_parts`; None if a part is wrong; every mistake that can be known is in `errors`."""
    opened_index = errors.collect(open_index, index) if index else None
    parts = (
        errors.collect(lambda: open_parts(opened_index, generator, retriever, None, steps)) if opened_index else None
    )
    if parts is None:  # opening stops at the first mistake, so each part is asked for its own
        _, reader = _model(errors, generator)
        errors.collect(forms_for, reader, steps)
        if opened_index and retriever:
            errors.collect(open_retriever, retriever, opened_index)
        elif retriever:
            errors.collect(build_settings, retriever)
    return parts


def _model(errors: ErrorCollector, spec: str) -> tuple[Generator | None, Reader]:
    """The language model of a spec, and who reads.

    One that cannot be had counts as a large one: that a form of a step needs a model would not be a separate mistake.
    """
    from turnmark.assistant.generators import open_generator

    opened = errors.collect(lambda: (open_generator(spec),))
    return (opened[0], reader_of(opened[0])) if opened else (None, "large")


def swap_parts(
    current: Opened, *, index: str | None = None, generator: str | None = None, retriever: str | None = None
) -> Opened:
    """The same with other parts; what stays is not opened again. Settings of the assistant are taken along."""
    errors = ErrorCollector()
    assistant = current.assistant
    store = current.index if index is None else errors.collect(open_index, index)
    model, reader = (
        (assistant.generator, reader_of(assistant.generator)) if generator is None else _model(errors, generator)
    )
    finder, spec = assistant.retriever, current.retriever if retriever is None else retriever
    if store is not None and (index is not None or retriever is not None):
        finder = errors.collect(lambda: _tried(open_retriever(spec or default_retriever(store), store)))
    forms = errors.collect(forms_for, reader, current.steps)
    errors.raise_all()
    assert store is not None, "an index that cannot be opened is a mistake"
    embed = assistant.embed
    if index is not None:
        embed = None if not store.manifest.embedder else lambda texts: store.embedder.encode(texts, "passage")
    replacement = Assistant(finder, model, embed, assistant.requested, assistant.prompts, forms, assistant.tokens)
    return Opened(trace_if_on(replacement), store, generator or current.generator, spec, current.steps)


def _tried(retriever: Retriever) -> Retriever:
    """The retriever, after one search: what an index lacks, or a server that is away, shows only then."""
    retriever.search([Query(text="first")], 1)
    return retriever
