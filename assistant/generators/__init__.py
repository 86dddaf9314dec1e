"""Language models behind one protocol. A spec names one: `openai:MODEL@URL`, `ollama:MODEL`, `replay:FILE` …"""

from __future__ import annotations

from assistant.generators.base import (
    Completion,
    Generator,
    GeneratorError,
    PromptMessage,
    SchemaRefused,
)
from corpora.errors import RequestError
from corpora.specs import Entry, Table

__all__ = [
    "GENERATORS",
    "Completion",
    "Generator",
    "GeneratorError",
    "PromptMessage",
    "SchemaRefused",
    "open_generator",
]

GENERATORS = Table(
    "generator",
    {
        "extractive": Entry("assistant.generators.base:no_model", "no language model: the embedded forms of all steps"),
        "openai": Entry(
            "assistant.generators.endpoints:open_openai", "openai:MODEL[@URL]: an OpenAI-compatible endpoint"
        ),
        "ollama": Entry("assistant.generators.endpoints:open_ollama", "ollama:MODEL[@URL]: Ollama, here on port 11434"),
        "vllm": Entry(
            "assistant.generators.endpoints:open_vllm", "vllm:MODEL[@URL]: a running vLLM, here on port 8000"
        ),
        "llama-index": Entry(
            "assistant.generators.llama_index:open_llama_index", "llama-index:pkg.mod:factory: an LLM of it"
        ),
        "replay": Entry("assistant.generators.replay:open_replay", "replay:FILE: a script of replies in JSON lines"),
        "python": Entry("assistant.generators.base:open_python", "python:pkg.mod:factory: your own"),
    },
    group="turnwise.generators",
)


def open_generator(spec: str) -> Generator | None:
    """The generator that a spec names; None for `extractive`, the embedded form that needs no language model.

    Nothing is sent and no heavy library is loaded before the first call.

    Raises:
        RequestError: unknown name or options, a key or file that is missing, or an object that is no generator.
        MissingExtra: its packages are not installed.
    """
    parsed = GENERATORS.check(spec)
    made = GENERATORS.factory(parsed)(parsed)
    if made is None:
        return None
    # dir() looks without touching: reading `context_tokens` may ask an endpoint.
    lacking = sorted({"name", "context_tokens", "reply_tokens", "complete"} - set(dir(made)))
    if lacking:
        raise RequestError(f"generator {spec!r} gave a {type(made).__name__}, which lacks: {', '.join(lacking)}")
    found: Generator = made
    return found
