"""What is kept under `$TURNMARK_HOME`: its folders with their sizes, and the indexes, looked at lightly."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from turnmark.corpora.errors import TurnmarkError
from turnmark.corpora.home import home
from turnmark.evaluation.doctor.findings import Finding, size_of

FOLDERS = ("indexes", "sessions", "cache", "data")
LOW = 1_000_000_000
"""Bytes free below which it is said: an index of a large corpus takes about as much."""


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


def look() -> Iterator[Finding]:
    """Findings of the sections `state` and `indexes`."""
    place = home()
    yield _home(place)
    for name in FOLDERS:
        folder = place / name
        if folder.is_dir():
            yield _folder(name, folder)
        elif os.path.lexists(folder):
            yield Finding(
                section="state", name=name, state="broken", detail=f"{folder} is a file where a folder belongs",
                advice="move it away",
            )  # fmt: skip
        else:
            yield Finding(section="state", name=name, state="absent", detail="made when it is needed")
    yield from _indexes(place / "indexes")


def _home(place: Path) -> Finding:
    existing = next((folder for folder in (place, *place.parents) if folder.exists()), place)
    if not existing.is_dir():
        return Finding(
            section="state", name="home", state="broken", detail=f"{existing} is a file",
            advice="set TURNMARK_HOME to a folder",
        )  # fmt: skip
    if not os.access(existing, os.W_OK):
        return Finding(
            section="state", name="home", state="broken", detail=f"{place} cannot be written",
            advice="set TURNMARK_HOME to a folder of yours",
        )  # fmt: skip
    free = shutil.disk_usage(existing).free
    detail = f"{place}, {size_of(free)} free" + ("" if place.exists() else ", made when it is needed")
    if free < LOW:
        return Finding(section="state", name="home", state="warn", detail=detail, advice="little room for an index")
    return Finding(section="state", name="home", state="ok", detail=detail)


def _folder(name: str, folder: Path) -> Finding:
    entries = sum(not child.name.startswith(".") for child in folder.iterdir())
    detail = f"{size_of(weight(folder))}, {entries} {'entry' if entries == 1 else 'entries'}"
    if name == "sessions" and stat.S_IMODE(folder.stat().st_mode) & 0o077 and os.name == "posix":
        open_to = [path for path in folder.iterdir() if path.is_file() and path.stat().st_mode & 0o077]
        if open_to:
            return Finding(
                section="state", name=name, state="warn", detail=f"{detail}; others may read {len(open_to)} of them",
                advice=f"chmod 600 {folder}/*",
            )  # fmt: skip
    return Finding(section="state", name=name, state="ok", detail=detail)


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
            yield Finding(section="indexes", name=place.name, state="broken", detail=str(error))
            continue
        if manifest is None:
            yield Finding(
                section="indexes", name=place.name, state="warn", detail="a build was interrupted",
                advice=f"the same build command continues it; turnmark index remove {place.name} drops it",
            )  # fmt: skip
        elif manifest.format != FORMAT or not is_whole(Index(place, manifest)):
            lacks = "another format" if manifest.format != FORMAT else "a part is missing"
            yield Finding(
                section="indexes", name=place.name, state="broken", detail=lacks,
                advice=rebuild_command(manifest),
            )  # fmt: skip
        else:
            detail = f"{manifest.passages} passages, {size_of(weight(place))}"
            yield Finding(section="indexes", name=place.name, state="ok", detail=detail)
