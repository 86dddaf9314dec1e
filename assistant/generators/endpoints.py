"""Endpoints by spec: `openai:MODEL[@URL[|URL…]]`, and its preset `ollama:MODEL`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from turnmark.assistant.generators.base import CONTEXT_TOKENS, Settings
from turnmark.assistant.generators.fleet import FleetGenerator
from turnmark.assistant.generators.openai import OpenAIGenerator, shown_url
from turnmark.assistant.generators.options import CACHE, SETTINGS
from turnmark.corpora.errors import RequestError
from turnmark.corpora.specs import Spec, check_options

OFFICIAL_URL = "https://api.openai.com/v1"

# Ollama cuts a longer prompt at its front without a word (its num_ctx); what it has by default, docs.ollama.com/faq.
OLLAMA_CONTEXT = 4096

BETWEEN = "|"
"""Between the URLs of several endpoints."""


def _url_problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    return "" if valid else "is no http:// or https:// URL"


@dataclass(frozen=True)
class Endpoint:
    """What a spec of an endpoint settles, checked.

    Attributes:
        name: the spec in normal form, without any secret; with the URL where that came from the environment.
        url: base URL of the endpoint; of several, with `|` between.
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
        urls = (url or self.url).split(BETWEEN)
        if len(urls) > 1:
            patience = self.more.get("patience")
            return FleetGenerator(self.name, self.model, urls, self.key_env, self.key, self.settings, patience)
        return OpenAIGenerator(self.name, self.model, urls[0], self.key_env, self.key, self.settings)


def read_endpoint(
    spec: Spec,
    *,
    preset_url: str,
    key_env: str,
    url_env: str = "",
    context: int | None = None,
    extra_options: Mapping[str, Callable[[str], Any]] | None = None,
) -> Endpoint:
    """Check a spec whole, so that all its mistakes are told at once.

    Args:
        preset_url: where there is none in the spec.
        key_env: name of the environment variable with the key, unless the spec names another.
        url_env: name of the environment variable with the URL, if there is one.
        context: tokens of the context, unless the spec says; None: asked of the endpoint.
        extra_options: options beside those of every endpoint.

    Raises:
        RequestError: every mistake in it.
    """
    label = f"generator {spec.name!r}"
    problems = [] if spec.argument else [f"{label} needs a model: {spec.name}:MODEL"]
    options: dict[str, Any] = {}
    from_env = os.environ.get(url_env, "").strip() if url_env and not spec.url else ""
    url = spec.url or from_env or preset_url
    urls = url.split(BETWEEN)
    converters: dict[str, Callable[[str], Any]] = {
        **SETTINGS,
        **CACHE,
        "api_key_env": str,
        **(extra_options or {}),
        **(SEVERAL if len(urls) > 1 else {}),
    }
    try:
        options = check_options(spec, converters, "generator")
    except RequestError as error:
        problems += error.problems
    key_option = options.pop("api_key_env", spec.options.get("api_key_env", ""))
    key_env = key_option or key_env
    key = os.environ.get(key_env, "").strip()
    if problem := next(filter(None, map(_url_problem, urls)), ""):
        problems.append(f"{url_env if from_env else label + ': what follows @'} {problem}")
    elif spec.url and any("@" in urlsplit(part).netloc for part in urls):
        problems.append(f"{label}: no user or password in the URL; put the key into {key_env}")
    elif len(set(urls)) < len(urls):
        problems.append(f"{label}: an endpoint is named twice")
    elif len(hosts := {urlsplit(part).hostname for part in urls}) > 1 and urlsplit(OFFICIAL_URL).hostname in hosts:
        problems.append(f"{label}: OpenAI's key goes to OpenAI alone; no other URL can stand beside it")
    if not key and (key_option or OFFICIAL_URL in urls):
        problems.append(f"{label}: the environment variable {key_env} is not set; it holds the key")
    if problems:
        raise RequestError(problems)
    public_url = BETWEEN.join(map(shown_url, (spec.url or from_env).split(BETWEEN)))
    extra = {name: options.pop(name) for name in list(options) if name not in SETTINGS}
    settings = Settings(**{"context": CONTEXT_TOKENS if url == OFFICIAL_URL else context, **options})
    name = str(Spec(spec.name, spec.argument, public_url, spec.options))
    return Endpoint(name, spec.argument, url, key_env, key, settings, extra)


SEVERAL: Mapping[str, Callable[[str], Any]] = {"patience": SETTINGS["deadline"]}
"""Options that only several endpoints have."""


def open_openai(spec: Spec) -> OpenAIGenerator:
    """`openai:MODEL[@URL]`; URL and key default to `OPENAI_BASE_URL` and `OPENAI_API_KEY`."""
    return read_endpoint(spec, preset_url=OFFICIAL_URL, key_env="OPENAI_API_KEY", url_env="OPENAI_BASE_URL").generator()


def open_ollama(spec: Spec) -> OpenAIGenerator:
    """`ollama:MODEL[@URL]`. OpenAI's key is never sent there; `OLLAMA_API_KEY` is, where it is set."""
    return read_endpoint(
        spec, preset_url="http://localhost:11434/v1", key_env="OLLAMA_API_KEY", context=OLLAMA_CONTEXT
    ).generator()
