"""The checksums of a generation: written when a build is finished, compared by `turnmark index verify`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnmark.corpora.errors import TurnmarkError
from turnmark.corpora.home import file_sha256, write_json
from turnmark.retrieval.components import components_of

if TYPE_CHECKING:
    from turnmark.retrieval.index import Index
    from turnmark.retrieval.manifest import Manifest

FILE = "seal.json"
_MAY_CHANGE = {
    "generation", "created", "version", "source", "include", "exclude", "skipped", "internal", "server", "name",
}  # fmt: skip
"""Fields of a manifest that may be rewritten while its generation stays, or that say where it comes from."""


def write_checksums(folder: Path, manifest: Manifest) -> None:
    """Write the SHA-256 of every file of a finished generation, and of its manifest's lasting fields."""
    files = {path.relative_to(folder).as_posix(): file_sha256(path) for path in _files(folder)}
    write_json(folder / FILE, {"manifest": _manifest_digest(manifest), "files": files})


def verify_index(index: Index, sample: int = 8) -> list[str]:
    """Check an index against itself; an empty list means that it is intact.

    Compares the checksums, SQLite's own check, the digest of the passages and each part, and embeds `sample` passages
    again.
    """
    checks: list[Callable[[], Iterable[str]]] = [partial(changed_files, index), partial(_check_passages, index)]
    checks += [partial(part.verify, index, sample) for part in components_of(index.manifest)]
    problems: list[str] = []
    for check in checks:
        try:
            problems += check()
        except TurnmarkError as error:
            problems.append(str(error))
    return problems


def changed_files(index: Index) -> Iterator[str]:
    """Every file that differs from what the build wrote; nothing for an index that was built without checksums."""
    path = index.files / FILE
    if not path.exists():
        return
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        files = {str(name): str(digest) for name, digest in content["files"].items()}
        manifest_digest = str(content["manifest"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        yield f"{FILE} is damaged; the checksums of the files cannot be read"
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


def _check_passages(index: Index) -> Iterator[str]:
    state = index.store.check()
    if state != "ok":
        yield f"passages.db is damaged: {state}"
    elif index.store.digest() != index.manifest.digest:
        yield "passages.db holds other passages than the manifest says"


def _files(folder: Path) -> Iterator[Path]:
    """The files that only a build writes: Chroma writes to its own whenever they are opened."""
    for path in sorted(folder.rglob("*")):
        top = path.relative_to(folder).parts[0]
        skipped = top in ("chroma", FILE) or top.startswith(("kept.", ".", "models"))
        if path.is_file() and not skipped and not top.endswith(("-wal", "-shm", "-journal")):
            yield path


def _manifest_digest(manifest: Manifest) -> str:
    return hashlib.sha256(manifest.model_dump_json(exclude=_MAY_CHANGE, exclude_defaults=True).encode()).hexdigest()
