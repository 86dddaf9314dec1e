"""The parts of an assistant, and the function that opens a configuration: the only place where specs become parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from turnmark.assistant.config import AssistantConfig, with_tuned_settings
from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.llm.calls.tracing import NOT_TRACED, Tracing, tracing_by_environment
from turnmark.assistant.llm.prompts.prompt_files import ASSISTANT_PROMPTS, check_prompts
from turnmark.assistant.turn.step_forms import forms_for, profile_of
from turnmark.core.errors import ErrorCollector
from turnmark.retrieval.embedding.vector_cache import Embed, cache_by_text
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.search.retriever_factory import build_settings, default_retriever, open_retriever
from turnmark.retrieval.storage.filters import parse_where
from turnmark.retrieval.types import Retriever, check_retriever

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class AssistantParts:
    """The opened parts of an assistant.

    Attributes:
        index: the index that the retriever searches, or None if the passages come from a benchmark.
        retriever: finds the passages, or None if every call of `reply` passes in its evidence.
        generator: language model for rewrites and answers, or None for the extractive forms, which need none.
        embed: embeds sentences for the extractive forms, or None if they compare words only.
        tracing: writes spans of turns, steps, searches and calls of the model.
    """

    index: Index | None = None
    retriever: Retriever | None = None
    generator: Generator | None = None
    embed: Embed | None = None
    tracing: Tracing = NOT_TRACED


def open_parts(
    config: AssistantConfig, given: AssistantParts, errors: ErrorCollector
) -> tuple[AssistantConfig, AssistantParts]:
    """Open what a configuration names. Returns the configuration with the names of the indexes in normal form, and the
    parts; raises RequestError with every mistake, together with those in `errors`.

    Args:
        given: opened parts, which are used in place of those that the configuration names.
    """
    from turnmark.assistant.llm.generators.registry import open_generator

    index, retriever, generator = given.index, given.retriever, given.generator
    if index is None and config.index:
        index = errors.collect(Index.open, config.index)
        if index is not None:  # the same names can be written in several ways, e.g. "a, b,"
            config = config.model_copy(update={"index": index.name})
    where = parse_where(config.where, errors)
    if index is not None:
        errors.collect(index.check_where, where)
        config = with_tuned_settings(config, index)
    known_problems = len(errors.problems)
    if generator is None:
        generator = errors.collect(open_generator, config.generator)
    # A model that cannot be opened counts as large, so that a form that needs one is no second mistake.
    is_open = len(errors.problems) == known_problems
    errors.collect(forms_for, profile_of(generator) if is_open else "large", config.steps)
    errors.collect(check_prompts, config.prompts, ASSISTANT_PROMPTS)
    if retriever is None and index is not None:
        retriever = errors.collect(open_retriever, config.retriever or default_retriever(index), index)
    elif retriever is not None:
        errors.collect(check_retriever, retriever, "the retriever of the assistant")
    elif config.retriever:
        errors.collect(build_settings, config.retriever)
    tracing = errors.collect(tracing_by_environment) if given.tracing is NOT_TRACED else given.tracing
    errors.raise_all()
    assert tracing is not None, "an unknown value of the environment variable has been reported"
    embed = embed_with(index) if index is not None else None
    parts = replace(given, index=index, retriever=retriever, generator=generator, embed=embed, tracing=tracing)
    return config, parts


def embed_with(index: Index) -> Embed | None:
    """Return a function that embeds sentences with the embedder of an index, or None if the index has none.

    The model is loaded at the first call, and runs in one thread, however many turns a server takes at once. Vectors of
    passages are read from the index. Other vectors are kept for later turns if they do not depend on the texts that are
    embedded together.
    """
    if not index.manifest.trusts_cosines():
        return None

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        from turnmark.retrieval.embedding.embedders import in_one_thread

        embed_texts = in_one_thread(index.embedder)
        vectors = index.stored_vectors(texts)
        if not vectors:
            return embed_texts(texts)
        if others := [text for text in dict.fromkeys(texts) if text not in vectors]:
            vectors.update(zip(others, embed_texts(others), strict=True))
        return np.stack([vectors[text] for text in texts])

    cached = cache_by_text(embed)
    return lambda texts: (cached if index.embedder.is_batch_independent else embed)(texts)
