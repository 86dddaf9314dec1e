"""Endpoints by spec: `openai:MODEL[@URL]`, and its preset `ollama:MODEL`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from turnmark.assistant.generators.base import CACHE, DEADLINE, OWN_DEADLINE, SETTINGS, CallSettings
from turnmark.assistant.generators.client import is_here
from turnmark.assistant.generators.openai import OFFICIAL_URL, Endpoint, OpenAIGenerator, shown_url
from turnmark.corpora.errors import ErrorCollector
from turnmark.corpora.specs import Spec, check_options

# Ollama cuts a longer prompt at its front without a word; its default and its variable, docs.ollama.com/faq.
OLLAMA_CONTEXT, OLLAMA_CONTEXT_ENV = 4096, "OLLAMA_CONTEXT_LENGTH"


def _url_problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and "|" not in url
    except ValueError:
        valid = False
    return "" if valid else "is no http:// or https:// URL"


def read_endpoint(
    spec: Spec,
    *,
    preset_url: str,
    key_env: str,
    url_env: str = "",
    context: int | None = None,
    extra_options: Mapping[str, Callable[[str], Any]] | None = None,
) -> Endpoint:
    """Check a spec, and report all its mistakes at once.

    Args:
        preset_url: if the spec has none.
        key_env: name of the environment variable with the key, unless the spec names another.
        url_env: name of the environment variable with the URL, if there is one.
        context: tokens of the context, unless the spec says; None: asked of the endpoint.
        extra_options: options in addition to those of every endpoint.
    """
    label, errors = f"generator {spec.name!r}", ErrorCollector()
    if not spec.argument:
        errors.add(f"{label} needs a model: {spec.name}:MODEL")
    from_env = os.environ.get(url_env, "").strip() if url_env and not spec.url else ""
    url = spec.url or from_env or preset_url
    converters: dict[str, Callable[[str], Any]] = {**SETTINGS, **CACHE, "api_key_env": str, **(extra_options or {})}
    options = errors.collect(check_options, spec, converters, "generator") or {}
    options.pop("api_key_env", None)
    key_env = spec.options.get("api_key_env") or key_env
    key = os.environ.get(key_env, "").strip()
    if problem := _url_problem(url):
        errors.add(f"{url_env if from_env else label + ': what follows @'} {problem}")
    elif spec.url and "@" in urlsplit(url).netloc:
        errors.add(f"{label}: no user or password in the URL; put the key into {key_env}")
    if not key and (spec.options.get("api_key_env") or url == OFFICIAL_URL):
        errors.add(f"{label}: the environment variable {key_env} is not set; it holds the key")
    errors.raise_all()
    more = {name: options.pop(name) for name in list(options) if name not in SETTINGS}
    unset = {"context": context, "deadline": OWN_DEADLINE if is_here(url) else DEADLINE}
    settings = CallSettings(**{**unset, **options})
    name = str(Spec(spec.name, spec.argument, shown_url(spec.url or from_env), spec.options))
    return Endpoint(name, spec.argument, url, key_env, key, settings, more)


def open_openai(spec: Spec) -> OpenAIGenerator:
    """`openai:MODEL[@URL]`; URL and key default to `OPENAI_BASE_URL` and `OPENAI_API_KEY`."""
    return OpenAIGenerator(
        read_endpoint(spec, preset_url=OFFICIAL_URL, key_env="OPENAI_API_KEY", url_env="OPENAI_BASE_URL")
    )


def open_ollama(spec: Spec) -> OpenAIGenerator:
    """`ollama:MODEL[@URL]`. OpenAI's key is never sent there; `OLLAMA_API_KEY` is, if it is set."""
    from_env = os.environ.get(OLLAMA_CONTEXT_ENV, "")
    context = int(from_env) if from_env.isdecimal() and int(from_env) else OLLAMA_CONTEXT
    preset = "http://localhost:11434/v1"
    return OpenAIGenerator(read_endpoint(spec, preset_url=preset, key_env="OLLAMA_API_KEY", context=context))
