"""Checksums of an index, its removal, and the servers that hold a component of it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turnmark.corpora.errors import TurnmarkError
from turnmark.corpora.home import check_name, file_sha256, write_json
from turnmark.retrieval import chroma
from turnmark.retrieval.components import components_of
from turnmark.retrieval.index import Index, indexes_folder, lock_index, open_index
from turnmark.retrieval.manifest import Manifest
from turnmark.retrieval.servers import NOTE, read_note


def delete_served(folder: Path) -> list[str]:
    """Delete what servers hold for the parts in a folder, before the folder is deleted.

    Returns:
        What is left on a server that cannot be reached, or refused; a sentence each.
    """
    leftovers = []
    for note in sorted(folder.rglob(NOTE)):
        try:
            served = read_note(note.parent)
        except ValueError:
            leftovers.append(f"{note} cannot be read; what it names is left on its server")
            continue
        try:
            if served is not None:
                chroma.delete_collection(served)
        except TurnmarkError as error:
            leftovers.append(f"{served} is left on its server: {error}")
    return leftovers


def remove_index(name: str) -> None:
    """Delete an index; the manifest goes first, so that a half-deleted index is not one."""
    folder = indexes_folder() / check_name(name, "index")
    if not folder.is_dir():
        open_index(name)
    with lock_index(folder):
        (folder / "manifest.json").unlink(missing_ok=True)
        leftovers = delete_served(folder)
        shutil.rmtree(folder)
    if leftovers:
        raise TurnmarkError("\n".join(f"index {name!r} is removed, but {problem}" for problem in leftovers))


FILE = "seal.json"
_MAY_CHANGE = {
    "generation", "created", "version", "source", "include", "exclude", "skipped", "internal", "server", "name",
}  # fmt: skip
"""Fields of a manifest that may be rewritten while its generation stays, or that say where it comes from."""


def write_checksums(folder: Path, manifest: Manifest) -> None:
    """Write the SHA-256 of every file of a finished generation, and of its manifest's lasting fields."""
    files = {path.relative_to(folder).as_posix(): file_sha256(path) for path in _files(folder)}
    write_json(folder / FILE, {"manifest": _manifest_digest(manifest), "files": files})


def verify_index(index: Index) -> list[str]:
    """Check an index against itself; an empty list means that it is intact.

    Compares the checksums; if they hold, also what Chroma holds.
    """
    try:
        if problems := list(changed_files(index)):
            return problems
        return [problem for part in components_of(index.manifest) for problem in part.verify(index)]
    except TurnmarkError as error:
        return [str(error)]


def changed_files(index: Index) -> Iterator[str]:
    """Every file that differs from what the build wrote."""
    try:
        content: Any = json.loads((index.files / FILE).read_text(encoding="utf-8"))
        files = {str(name): str(digest) for name, digest in content["files"].items()}
        manifest_digest = str(content["manifest"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        yield f"{FILE} is missing or damaged; the checksums of the files cannot be read"
        return
    if manifest_digest != _manifest_digest(index.manifest):
        yield f"manifest.json is damaged: its SHA-256 differs from the one in {FILE}"
    for name, digest in files.items():
        try:
            if file_sha256(index.files / name) != digest:
                yield f"{name} is damaged: its SHA-256 differs from the one in {FILE}"
        except FileNotFoundError:
            yield f"{name} is missing"
        except OSError as error:
            yield f"{name} cannot be read: {error.strerror or error}"


def _files(folder: Path) -> Iterator[Path]:
    """The files that only a build writes: Chroma writes to its own whenever they are opened."""
    for path in sorted(folder.rglob("*")):
        top = path.relative_to(folder).parts[0]
        skipped = top in ("chroma", FILE) or top.startswith(("kept.", ".", "models"))
        if path.is_file() and not skipped and not top.endswith(("-wal", "-shm", "-journal")):
            yield path


def _manifest_digest(manifest: Manifest) -> str:
    return hashlib.sha256(manifest.model_dump_json(exclude=_MAY_CHANGE, exclude_defaults=True).encode()).hexdigest()
