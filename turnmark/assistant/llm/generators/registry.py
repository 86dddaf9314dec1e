"""Language models behind one protocol. A spec names one: `openai:MODEL@URL`, `ollama:MODEL`, `replay:FILE` …"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.llm.calls.reply_normalizer import normalize_replies
from turnmark.assistant.llm.generators.replay import REFERENCE
from turnmark.core.errors import RequestError
from turnmark.core.specs import Entry, Registry, Spec

_HERE = "turnmark.assistant.llm.generators"
GENERATORS = Registry(
    "generator",
    {
        "extractive": Entry(f"{_HERE}.replay:no_model", "no language model: the extractive forms of all steps"),
        "openai": Entry(f"{_HERE}.openai:open_openai", "openai:MODEL[@URL]: an OpenAI-compatible endpoint"),
        "ollama": Entry(f"{_HERE}.openai:open_ollama", "ollama:MODEL[@URL]: Ollama, here on port 11434"),
        "local": Entry(
            f"{_HERE}.local:open_local", "local:NAME|FILE.gguf|FOLDER: a small model in this process", "local"
        ),
        "vllm": Entry(f"{_HERE}.vllm:open_vllm", "vllm:MODEL[@URL]: a vLLM that runs, or is started here"),
        "llama-index": Entry(
            f"{_HERE}.llama_index:open_llama_index_llm", "llama-index:pkg.mod:factory: an LLM of it", "llama-index"
        ),
        "reference": Entry(f"{_HERE}.replay:open_reference", "eval only: answers with the targets of the data"),
        "replay": Entry(f"{_HERE}.replay:open_replay", "replay:FILE: a script of replies in JSON lines"),
        "python": Entry(f"{_HERE}.replay:open_python_generator", "python:pkg.mod:factory: your own"),
    },
    group="turnmark.generators",
    example="openai:{0} for that model of OpenAI, or ollama:{0} for one that runs here",
)

_FILE_GENERATORS = frozenset(("local", "replay"))


def argument_without_folders(spec: Spec) -> str:
    """Return the argument of a generator's spec; if it is a file, only the file's name."""
    return PurePath(spec.argument).name if spec.name in _FILE_GENERATORS else spec.argument


def open_generator(spec: str) -> Generator | None:
    """Open the generator of a spec; None for `extractive`, which needs no language model.

    Models are loaded, and servers started, only by the first call. The option `cache=1` adds the response cache
    (`turnmark.assistant.llm.generators.response_cache`).
    """
    parsed = GENERATORS.check(spec)
    # `replay` has no cache, since each line of its script is used once. A wrong value stays in the spec, so that the
    # factory reports it with all other mistakes.
    cache_option = parsed.options.get("cache") if parsed.name not in ("extractive", "replay") else None
    if cache_option in ("0", "1"):
        parsed = replace(parsed, options={key: value for key, value in parsed.options.items() if key != "cache"})
    opened = GENERATORS.factory(parsed)(parsed)
    if opened is None:
        return None
    # dir() does not evaluate properties; reading `context_tokens` may ask an endpoint.
    lacking = sorted({"name", "context_tokens", "reply_tokens", "complete"} - set(dir(opened)))
    if lacking:
        raise RequestError(f"generator {spec!r} gave a {type(opened).__name__}, which lacks: {', '.join(lacking)}")
    # The placeholder for reference answers writes nothing, and is recognized by its class.
    generator: Generator = opened if parsed.name == REFERENCE else normalize_replies(opened)
    if cache_option == "1":
        from turnmark.assistant.llm.generators.response_cache import with_cache

        return with_cache(generator)
    return generator
