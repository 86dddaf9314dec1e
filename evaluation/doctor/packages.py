"""Versions of Turnmark, Python and what both need; the extras that are installed, and what the others are for."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from typing import TYPE_CHECKING

from turnmark.evaluation.doctor.findings import Finding
from turnmark.evaluation.versions import version_of

if TYPE_CHECKING:
    from packaging.requirements import Requirement

KEY_PACKAGES = ("torch", "sentence-transformers", "chromadb", "bm25s", "openai", "llama-index", "pydantic", "numpy")
"""Those whose version a report of a fault should name. The others are named only where something is wrong."""

PURPOSES = {
    "bench": "the comparisons of tests/benchmarks with LlamaIndex and rank-bm25",
    "bertscore": "BERTScore as MTRAG computes it (bert_recall, bert_k_precision)",
    "dev": "the test suite, ruff and mypy",
    "elasticsearch": "retrievers on an Elasticsearch server",
    "language": "telling the language of long texts",
    "local": "local:MODEL, a small language model in this process",
    "openvino": "embedding two to four times as fast on a processor",
    "otel": "OpenTelemetry spans of every step",
    "ray": "building and evaluating on a Ray cluster (--engine ray)",
    "serve": "turnmark serve",
    "vllm": "vllm:MODEL without a URL: a server that is started here",
}


def look() -> Iterator[Finding]:
    """Findings of the sections `versions` and `extras`."""
    yield Finding(section="versions", name="turnmark", state="ok", detail=version_of("turnmark"))
    python = platform.python_version()
    fits = (3, 11) <= sys.version_info[:2] < (3, 14)
    yield Finding(
        section="versions", name="python", state="ok" if fits else "broken",
        detail=f"{python} on {platform.system()} {platform.machine()}",
        advice="" if fits else "Turnmark needs Python 3.11 to 3.13",
    )  # fmt: skip
    needed = _requirements()
    yield from _needed(needed.pop("", []))
    for extra, packages in sorted(needed.items()):
        yield _extra(extra, packages)


def _requirements() -> dict[str, list[Requirement]]:
    """The requirements of the installed distribution that apply here, by extra; '' for those of every installation."""
    from packaging.requirements import Requirement

    try:
        lines = requires("turnmark") or []
    except PackageNotFoundError:
        return {"": []}
    found: dict[str, list[Requirement]] = {"": []}
    for requirement in map(Requirement, lines):
        marker = requirement.marker
        if marker is None or marker.evaluate({"extra": ""}):
            found[""].append(requirement)
            continue
        for extra in _extras_of(str(marker)):
            if marker.evaluate({"extra": extra}):
                found.setdefault(extra, []).append(requirement)
    return found


def _extras_of(marker: str) -> list[str]:
    """The extras that a marker names."""
    import re

    return re.findall(r"""extra\s*==\s*["']([^"']+)["']""", marker)


def _needed(packages: list[Requirement]) -> Iterator[Finding]:
    for requirement in packages:
        problem = _problem(requirement)
        if problem:
            yield Finding(
                section="versions", name=requirement.name, state="broken", detail=problem,
                advice=f"pip install '{requirement.name}{requirement.specifier}'",
            )  # fmt: skip
        elif requirement.name in KEY_PACKAGES:
            yield Finding(section="versions", name=requirement.name, state="ok", detail=version(requirement.name))


def _problem(requirement: Requirement) -> str:
    """Why a requirement is not met; empty where it is."""
    try:
        there = version(requirement.name)
    except PackageNotFoundError:
        return "not installed"
    if not requirement.specifier.contains(there, prereleases=True):
        return f"{there} is installed, {requirement.specifier} is needed"
    return ""


def _extra(extra: str, packages: list[Requirement]) -> Finding:
    """An extra that is there whole, or what of it is missing and what it would be good for."""
    problems = [f"{one.name}: {problem}" for one in packages if (problem := _problem(one))]
    purpose = PURPOSES.get(extra, "")
    if not problems:
        return Finding(section="extras", name=extra, state="ok", detail=purpose)
    advice = f"pip install 'turnmark[{extra}]'" + (f" for {purpose}" if purpose else "")
    return Finding(section="extras", name=extra, state="absent", detail="; ".join(problems), advice=advice)
