"""Endpoints by spec: `openai:MODEL[@URL]`, and its preset `ollama:MODEL`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from assistant.generators.base import CACHE, CONTEXT_TOKENS, SETTINGS, Settings
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


@dataclass(frozen=True)
class Endpoint:
    """What a spec of an endpoint settles, checked.

    Attributes:
        name: the spec in normal form, without any secret; with the URL where that came from the environment.
        url: base URL of the endpoint.
        key_env: name of the environment variable that holds the key.
        key: the key; empty where the endpoint needs none.
        more: values of the options that only this kind of endpoint has.
    """

    name: str
    model: str
    url: str
    key_env: str
    key: str
    settings: Settings
    more: Mapping[str, Any]

    def generator(self, url: str = "") -> OpenAIGenerator:
        """The generator; `url` in place of its own."""
        url = url or self.url
        where = f"{self.model} at {shown_url(url)}"
        return OpenAIGenerator(self.name, self.model, url, where, self.key_env, self.key, self.settings)


def read_endpoint(
    spec: Spec,
    *,
    preset_url: str,
    key_env: str,
    url_env: str = "",
    context: int | None = None,
    more: Mapping[str, Callable[[str], Any]] | None = None,
) -> Endpoint:
    """Check a spec whole, so that all its mistakes are told at once.

    Args:
        preset_url: where there is none in the spec.
        key_env: name of the environment variable with the key, unless the spec names another.
        url_env: name of the environment variable with the URL, if there is one.
        context: tokens of the context, unless the spec says; None: asked of the endpoint.
        more: options beside those of every endpoint.

    Raises:
        RequestError: every mistake in it.
    """
    who = f"generator {spec.name!r}"
    problems = [] if spec.argument else [f"{who} needs a model: {spec.name}:MODEL"]
    options: dict[str, Any] = {}
    try:
        options = check_options(spec, {**SETTINGS, **CACHE, "api_key_env": str, **(more or {})}, "generator")
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
    own = {key: options.pop(key) for key in list(options) if key not in SETTINGS}
    settings = Settings(**{"context": CONTEXT_TOKENS if url == OFFICIAL_URL else context, **options})
    return Endpoint(str(shown), spec.argument, url, key_env, key, settings, own)


def open_openai(spec: Spec) -> OpenAIGenerator:
    """`openai:MODEL[@URL]`; URL and key default to `OPENAI_BASE_URL` and `OPENAI_API_KEY`."""
    return read_endpoint(spec, preset_url=OFFICIAL_URL, key_env="OPENAI_API_KEY", url_env="OPENAI_BASE_URL").generator()


def open_ollama(spec: Spec) -> OpenAIGenerator:
    """`ollama:MODEL[@URL]`. OpenAI's key is never sent there; `OLLAMA_API_KEY` is, where it is set."""
    return read_endpoint(
        spec, preset_url="http://localhost:11434/v1", key_env="OLLAMA_API_KEY", context=OLLAMA_CONTEXT
    ).generator()
