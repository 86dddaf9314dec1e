"""Endpoints by spec: `openai:MODEL[@URL]`, and its presets `ollama:MODEL` and `vllm:MODEL`."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from assistant.generators.base import CONTEXT_TOKENS, SETTINGS, Settings
from assistant.generators.openai import OpenAIGenerator
from corpora.errors import RequestError
from corpora.specs import Spec, check_options

OFFICIAL_URL = "https://api.openai.com/v1"

# Ollama cuts a longer prompt at its front without a word (its num_ctx); what it has by default, docs.ollama.com/faq.
OLLAMA_CONTEXT = 4096


def shown_url(url: str) -> str:
    """The URL without user, password, query and fragment: what names and messages may hold."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _url_problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    return "" if good else "is no http:// or https:// URL"


def _open(
    spec: Spec, *, preset_url: str, key_env: str, url_env: str = "", context: int | None = None
) -> OpenAIGenerator:
    """Check a spec whole, so that all its mistakes are told at once."""
    who = f"generator {spec.name!r}"
    problems = [] if spec.argument else [f"{who} needs a model: {spec.name}:MODEL"]
    options: dict[str, Any] = {}
    try:
        options = check_options(spec, {**SETTINGS, "api_key_env": str}, "generator")
    except RequestError as error:
        problems += error.problems
    named = options.pop("api_key_env", "")
    key_env = named or key_env
    key = os.environ.get(key_env, "").strip()
    from_env = os.environ.get(url_env, "").strip() if url_env and not spec.url else ""
    url = spec.url or from_env or preset_url
    if problem := _url_problem(url):
        problems.append(f"{url_env if from_env else who + ': what follows @'} {problem}")
    elif "@" in urlsplit(spec.url).netloc:
        problems.append(f"{who}: no user or password in the URL; put the key into {key_env}")
    if not key and (named or url == OFFICIAL_URL):
        problems.append(f"{who}: the environment variable {key_env} is not set; it holds the key")
    if problems:
        raise RequestError(problems)
    shown = Spec(spec.name, spec.argument, shown_url(spec.url or from_env), spec.options)
    settings = Settings(**{"context": CONTEXT_TOKENS if url == OFFICIAL_URL else context, **options})
    return OpenAIGenerator(
        str(shown), spec.argument, url, f"{spec.argument} at {shown_url(url)}", key_env, key, settings
    )


def open_openai(spec: Spec) -> OpenAIGenerator:
    """`openai:MODEL[@URL]`; URL and key default to `OPENAI_BASE_URL` and `OPENAI_API_KEY`."""
    return _open(spec, preset_url=OFFICIAL_URL, key_env="OPENAI_API_KEY", url_env="OPENAI_BASE_URL")


def open_ollama(spec: Spec) -> OpenAIGenerator:
    """`ollama:MODEL[@URL]`. OpenAI's key is never sent there; `OLLAMA_API_KEY` is, where it is set."""
    return _open(spec, preset_url="http://localhost:11434/v1", key_env="OLLAMA_API_KEY", context=OLLAMA_CONTEXT)


def open_vllm(spec: Spec) -> OpenAIGenerator:
    """`vllm:MODEL[@URL]`: a vLLM server that runs already. `VLLM_API_KEY` is sent, where it is set."""
    return _open(spec, preset_url="http://localhost:8000/v1", key_env="VLLM_API_KEY")
