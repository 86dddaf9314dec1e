"""What `turnmark doctor` looks at of the configuration: its files, and the servers that are named, one GET each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnmark.assistant.generators.openai import OFFICIAL_URL, shown_url
from turnmark.assistant.settings import CONFIG_NAME, PROJECT_NAME, Source, read_source_file
from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.home import home
from turnmark.corpora.specs import parse_spec
from turnmark.evaluation.configured import VARIABLES, Tables
from turnmark.evaluation.doctor.installation import Finding, State, finding

OURS = (
    *VARIABLES.values(),
    "TURNMARK_DATA",
    "TURNMARK_HOME",
    "TURNMARK_CACHE",
    "TURNMARK_BACKEND",
    "TURNMARK_PRECISION",
)
SECONDS = 2.0
OLLAMA_URL = "http://localhost:11434/v1"

KEYS = (
    "OPENAI_API_KEY",
    "OLLAMA_API_KEY",
    "VLLM_API_KEY",
    "HF_TOKEN",
    "TURNMARK_CHROMA_TOKEN",
    "TURNMARK_ELASTIC_API_KEY",
    "ELASTIC_API_KEY",
    "TURNMARK_TOKEN",
)
"""Variables that hold secrets: it is told which are set, and nothing of what is in them."""


def configuration(root: Any) -> tuple[list[Finding], dict[str, str]]:
    """Findings of the section `configuration`; and who names a generator -> its spec.

    Args:
        root: the command line, as typer made it.
    """
    findings: list[Finding] = []
    files: list[Source] = []
    set_here = [name for name in OURS if os.environ.get(name)]
    findings.append(
        finding(
            "configuration",
            "1 environment",
            "ok" if set_here else "absent",
            f"set: {', '.join(set_here)}" if set_here else "nothing of ours is set",
        )
    )
    places = ((Path(PROJECT_NAME).absolute(), "2 project file"), (home() / CONFIG_NAME, "3 user file"))
    for path, name in places:
        try:
            source = read_source_file(path, "project" if name.endswith("project file") else "user")
        except RequestError as error:
            findings.append(finding("configuration", name, "broken", str(error)))
            continue
        if source is None:
            findings.append(finding("configuration", name, "absent", f"none at {path}"))
        else:
            files.append(source)
            detail = f"{path}: {', '.join(source.content) or 'empty'}"
            findings.append(finding("configuration", name, "ok", detail))
    findings += _problems(root, files)
    return findings, dict(_generators(files))


def _problems(root: Any, files: list[Source]) -> Iterator[Finding]:
    problems: tuple[str, ...] = ()
    try:
        tables = Tables(root, files)
        for command in root.commands:
            tables.of(command)
    except RequestError as error:
        problems = error.problems
    for problem in problems:
        yield finding("configuration", "mistake", "broken", problem, "correct the line")


def _generators(files: list[Source]) -> Iterator[tuple[str, str]]:
    if text := os.environ.get("TURNMARK_GENERATOR", "").strip():
        yield "TURNMARK_GENERATOR", text
    for source in files:
        for table, content in source.content.items():
            if not isinstance(content, dict):
                continue
            for key in ("generator", "judge"):
                value = content.get(key)
                for spec in value if isinstance(value, list) else [value]:
                    if isinstance(spec, str):
                        yield f"{source.path.name}: {table}.{key}", spec


# --- endpoints -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A server and who named it. `path` is what is asked for; `key_env` holds its key, if it has one."""

    who: str
    url: str
    path: str
    key_env: str = ""
    needed: bool = True


def endpoints(specs: dict[str, str]) -> Iterator[Finding]:
    """Findings of the section `endpoints`.

    Args:
        specs: who names a generator (a flag's variable, a line of a file) -> its spec.
    """
    places = [*_of_specs(specs), *_of_environment(), *_of_indexes()]
    distinct: dict[tuple[str, str], Place] = {}
    for place in places:
        distinct.setdefault((place.url, place.path), place)
    if not distinct:
        yield finding("endpoints", "none", "absent", "no server is configured; none is needed")
    yield from map(_get, distinct.values())
    set_here = [name for name in KEYS if os.environ.get(name)]
    yield finding(
        "endpoints",
        "keys",
        "ok" if set_here else "absent",
        f"set: {', '.join(set_here)}" if set_here else "no variable that holds a key is set",
    )


def _of_specs(specs: dict[str, str]) -> Iterator[Place]:
    for who, text in specs.items():
        try:
            spec = parse_spec(text)
        except RequestError:
            continue  # told where the configuration is looked at
        key_env = spec.options.get("api_key_env", "")
        if spec.name == "openai":
            url = spec.url or os.environ.get("OPENAI_BASE_URL", "").strip() or OFFICIAL_URL
            yield Place(f"{who}: {spec.name}:{spec.argument}", url, "models", key_env or "OPENAI_API_KEY")
        elif spec.name == "ollama":
            yield Place(f"{who}: ollama:{spec.argument}", spec.url or OLLAMA_URL, "models", key_env or "OLLAMA_API_KEY")
        elif spec.name == "vllm" and spec.url:  # without a URL, a server is started when it is first needed
            yield Place(f"{who}: vllm:{spec.argument}", spec.url, "models", key_env or "VLLM_API_KEY")


def _of_environment() -> Iterator[Place]:
    if url := os.environ.get("OPENAI_BASE_URL", "").strip():
        yield Place("OPENAI_BASE_URL", url, "models", "OPENAI_API_KEY")
    elif os.environ.get("OPENAI_API_KEY"):
        yield Place("OPENAI_API_KEY", OFFICIAL_URL, "models", "OPENAI_API_KEY", needed=False)


def _of_indexes() -> Iterator[Place]:
    from turnmark.retrieval.index import list_indexes

    try:
        manifests = list_indexes(internal=True)
    except (OSError, TurnmarkError):
        return
    for manifest in manifests:
        if manifest.server:
            path = "api/v2/heartbeat" if manifest.server.kind == "chroma" else ""
            yield Place(f"index {manifest.name}", manifest.server.url, path)


def _get(place: Place) -> Finding:
    """One GET. Whatever the server says is no part of the finding; only its status is."""
    import httpx

    url, name = shown_url(place.url), place.who
    key = os.environ.get(place.key_env, "").strip() if place.key_env else ""
    bad: State = "broken" if place.needed else "warn"
    try:
        with httpx.stream(
            "GET",
            f"{place.url.rstrip('/')}/{place.path}",
            timeout=SECONDS,
            follow_redirects=False,
            headers={"Authorization": f"Bearer {key}"} if key else {},
        ) as reply:
            status = reply.status_code
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        why = type(error).__name__ if isinstance(error, ValueError) else str(error) or type(error).__name__
        detail = f"{url} does not answer within {SECONDS:g} s ({why})"
        advice = "start the server, or correct the address"
        return finding("endpoints", name, bad, detail, advice)
    if status in (401, 403):
        advice = f"set {place.key_env}" if place.key_env else "it wants a key"
        state: State = bad if place.key_env else "ok"
        detail = f"{url} answers, and refuses without a valid key ({status})"
        return finding("endpoints", name, state, detail, advice)
    # Some servers have no list of models; that they answer is enough.
    state = "ok" if status < 500 else bad
    advice = "" if status < 500 else "look at the server's own log"
    return finding("endpoints", name, state, f"{url} answers ({status})", advice)
