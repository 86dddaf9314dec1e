"""Open the systems under evaluation by their specs."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conversations.systems import CountedGenerator, Product, Simple, System
from turnmark.assistant.llm.generators.registry import open_generator
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.retrieval.index.index_api import Index

LOCAL_MODEL = "local:qwen2.5-coder-1.5b"
SIMPLE, LLAMA_INDEX = "simple:", "llama-index+"
"""Prefixes of the generator's spec. `llama-index:` is itself a generator."""


def open_system(spec: str, index: Index, steps: Sequence[str] = ()) -> System:
    """Open the system that a spec names.

    Args:
        spec: `simple:GENERATOR`, `llama-index+GENERATOR`, or the generator of our assistant.
        steps: each a `STEP=FORM` of our assistant.
    """
    if spec.startswith(SIMPLE):
        return Simple(index, _counted(spec, SIMPLE))
    if spec.startswith(LLAMA_INDEX):
        from tests.conversations.llama_index import LlamaIndexChat

        return LlamaIndexChat(index, _counted(spec, LLAMA_INDEX))
    return Product(index, spec, steps)


def _counted(spec: str, prefix: str) -> CountedGenerator:
    """Open the generator after the prefix of a spec."""
    inner = spec.removeprefix(prefix)
    generator = open_generator(inner) if inner else None
    if generator is None:
        raise RequestError(f"system {spec!r} needs a language model: {prefix}{LOCAL_MODEL}")
    return CountedGenerator(generator)


def default_systems() -> tuple[list[str], str]:
    """Return all systems that can run here, and why others cannot (empty: all can)."""
    try:
        open_generator(LOCAL_MODEL)
    except TurnmarkError as error:
        return ["extractive"], f"only the extractive form runs: {error}"
    return ["extractive", LOCAL_MODEL, f"{SIMPLE}{LOCAL_MODEL}"], ""
