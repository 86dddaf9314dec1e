"""Endpoints by spec: `openai:MODEL[@URL[|URL…]]`, and its preset `ollama:MODEL`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from turnmark.assistant.generators.base import (
    CONTEXT_TOKENS,
    Settings,
)
from turnmark.assistant.generators.fleet import FleetGenerator, Place
from turnmark.assistant.generators.openai import OpenAIGenerator
from turnmark.assistant.generators.options import CACHE, SETTINGS
from turnmark.corpora.errors import RequestError
from turnmark.corpora.specs import Spec, check_options

OFFICIAL_URL = "https://api.openai.com/v1"

# Ollama cuts a longer prompt at its front without a word (its num_ctx); what it has by default, docs.ollama.com/faq.
OLLAMA_CONTEXT = 4096

BETWEEN = "|"
"""Between the URLs of several endpoints, and between the variables with their keys."""


def shown_url(url: str) -> str:
    """The URL without user, password, query and fragment: what names and messages may hold; so of several."""
    return BETWEEN.join(_shown(part) for part in url.split(BETWEEN))


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


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
        keys: of several endpoints, the variable and the key of each.
        more: values of the options that only this kind of endpoint has.
    """

    name: str
    model: str
    url: str
    key_env: str
    key: str
    settings: Settings
    more: Mapping[str, Any]
    keys: tuple[tuple[str, str], ...] = ()

    def generator(self, url: str = "") -> OpenAIGenerator:
        """The generator; `url` in place of its own."""
        url = url or self.url
        if self.keys:
            places = [Place(part, _shown(part), *key) for part, key in zip(url.split(BETWEEN), self.keys, strict=True)]
            return FleetGenerator(self.name, self.model, places, self.settings, self.more.get("patience"))
        label = f"{self.model} at {shown_url(url)}"
        return OpenAIGenerator(self.name, self.model, url, label, self.key_env, self.key, self.settings)


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
    if problem := next(filter(None, map(_url_problem, urls)), ""):
        problems.append(f"{url_env if from_env else label + ': what follows @'} {problem}")
    elif spec.url and any("@" in urlsplit(part).netloc for part in urls):
        problems.append(f"{label}: no user or password in the URL; put the key into {key_env}")
    elif len(set(urls)) < len(urls):
        problems.append(f"{label}: an endpoint is named twice")
    keys, key_problems = _keys(urls, key_env, bool(key_option))
    problems += [f"{label}: {part}" for part in key_problems]
    if problems:
        raise RequestError(problems)
    normal = Spec(spec.name, spec.argument, shown_url(spec.url or from_env), spec.options)
    extra = {key: options.pop(key) for key in list(options) if key not in SETTINGS}
    settings = Settings(**{"context": CONTEXT_TOKENS if url == OFFICIAL_URL else context, **options})
    endpoint_keys = keys if len(urls) > 1 else ()
    return Endpoint(str(normal), spec.argument, url, *keys[0], settings, extra, endpoint_keys)


SEVERAL: Mapping[str, Callable[[str], Any]] = {"patience": SETTINGS["deadline"]}
"""Options that only several endpoints have."""


def _keys(urls: Sequence[str], key_env: str, required: bool) -> tuple[tuple[tuple[str, str], ...], list[str]]:
    """Variable and key for each URL, and what is wrong with them.

    Args:
        key_env: one variable for all, or one for each with `|` between; an empty one stands for no key.
        required: the spec names it, so that it must be set.
    """
    names = key_env.split(BETWEEN) if len(urls) > 1 else [key_env]
    if len(names) == 1:
        names *= len(urls)
    elif len(names) != len(urls):
        return (("", ""),), [f"api_key_env names {len(names)} variables for {len(urls)} URLs; one for all, or for each"]
    keys = tuple((name, os.environ.get(name, "").strip() if name else "") for name in names)
    official = [_host(url) == _host(OFFICIAL_URL) for url in urls]
    needed = [url == OFFICIAL_URL or (required and name != "") for url, name in zip(urls, names, strict=True)]
    lacking = {name for need, (name, key) in zip(needed, keys, strict=True) if need and not key}
    problems = [f"the environment variable {name} is not set; it holds the key" for name in sorted(lacking)]
    if any(official) and not all(official) and BETWEEN not in key_env:
        problems.append(
            "OpenAI's key goes to OpenAI alone; name a variable for each URL: api_key_env=OPENAI_API_KEY|OTHER"
        )
    return keys, problems


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def open_openai(spec: Spec) -> OpenAIGenerator:
    """`openai:MODEL[@URL]`; URL and key default to `OPENAI_BASE_URL` and `OPENAI_API_KEY`."""
    return read_endpoint(spec, preset_url=OFFICIAL_URL, key_env="OPENAI_API_KEY", url_env="OPENAI_BASE_URL").generator()


def open_ollama(spec: Spec) -> OpenAIGenerator:
    """`ollama:MODEL[@URL]`. OpenAI's key is never sent there; `OLLAMA_API_KEY` is, where it is set."""
    return read_endpoint(
        spec, preset_url="http://localhost:11434/v1", key_env="OLLAMA_API_KEY", context=OLLAMA_CONTEXT
    ).generator()
