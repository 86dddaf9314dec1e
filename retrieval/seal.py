"""The checksums of a generation: written when it is finished, read by `turnmark index verify`.

A SHA-256 of every file that only a build writes. Chroma writes into its own files whenever they are opened, so of its
vectors a number each is kept: the product with a fixed vector, which damage changes and opening does not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpora.home import file_sha256, write_json
from retrieval.kept import Kept, unpacked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from retrieval.index import Index, Manifest
    from retrieval.store import PassageStore

SEAL = "seal.json"
PRODUCTS = "products.npy"

# What Chroma stores is normalised once more, and read back from its own arithmetic.
_OFF = 2e-3
_MAY_CHANGE = {
    "generation", "created", "version", "source", "include", "exclude", "skipped", "internal", "server", "name",
}  # fmt: skip
"""Of a manifest: what may be written anew over a generation that stays, or says where it comes from."""


def seal(folder: Path, manifest: Manifest, store: PassageStore, kept: Kept) -> None:
    """Write the checksums of a finished generation, all of whose files are closed or will not change.

    Args:
        kept: what the models made, of which Chroma was given the vectors.
    """
    import numpy as np

    if manifest.embedder:
        products = [
            _product(unpacked([vector]))
            for page in store.pages()
            for vector in kept.get("chroma", [content for _, content, _ in page])
        ]
        np.save(folder / PRODUCTS, np.concatenate(products))
    files = {path.relative_to(folder).as_posix(): file_sha256(path) for path in _files(folder)}
    told = {"manifest": _of_manifest(manifest), "files": files}
    write_json(folder / SEAL, {**told, "itself": _of_itself(told)})


def broken(index: Index) -> Iterator[str]:
    """Every file that is not what was written, with its name; nothing where an index was built without checksums."""
    path = index.files / SEAL
    if not path.exists():
        return
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        files = {str(name): str(digest) for name, digest in content["files"].items()}
        of_manifest = str(content["manifest"])
        if content.pop("itself") != _of_itself(content):
            raise ValueError("not what was written")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        yield f"{SEAL} is damaged; the checksums of the files cannot be read"
        return
    if of_manifest != _of_manifest(index.manifest):
        yield "manifest.json is damaged: it is not what was written"
    for name, digest in files.items():
        found = index.files / name
        try:
            if file_sha256(found) != digest:
                yield f"{name} is damaged: its SHA-256 is not what was written"
        except FileNotFoundError:
            yield f"{name} is missing"
        except OSError as error:
            yield f"{name} cannot be read: {error.strerror or error}"


def strange_vectors(index: Index) -> Iterator[str]:
    """Passages whose vector in Chroma is not the one that was put there; nothing without checksums.

    Raises:
        TurnmarkError: Chroma's files cannot be read.
    """
    import numpy as np

    path = index.files / PRODUCTS
    if not path.is_file():
        return
    try:
        wanted = np.load(path, allow_pickle=False)
    except (OSError, ValueError):
        return  # its own checksum tells
    if len(wanted) != index.manifest.passages:
        return
    strange: list[str] = []
    for page in index.store.pages():
        ids = [passage.id for _, _, passage in page]
        found = index.vectors.get(ids)
        rows = [(number, found[i]) for (number, _, _), i in zip(page, ids, strict=True) if i in found]
        if rows:
            off = np.abs(_product(np.stack([vector for _, vector in rows])) - wanted[[row for row, _ in rows]])
            strange += [page[at][2].id for at in np.flatnonzero(~(off < _OFF))]
    if strange:
        yield f"chroma has {len(strange)} vectors that are not those that were put there, such as {strange[0]!r}"


def _product(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Of each vector, brought to length 1, the product with a fixed one of length sqrt(dimension)."""
    import numpy as np

    fixed = np.random.default_rng(20200714).standard_normal(vectors.shape[1])
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    with np.errstate(all="ignore"):
        made: NDArray[np.float32] = (vectors @ fixed / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return made


def _files(folder: Path) -> Iterator[Path]:
    """What a build alone writes: all but Chroma's folder, what a build goes on from, and the checksums themselves."""
    for path in sorted(folder.rglob("*")):
        top = path.relative_to(folder).parts[0]
        if path.is_file() and top not in ("chroma", SEAL) and not top.startswith(("kept.", ".", "models")):
            if top.endswith(("-wal", "-shm", "-journal")):
                continue
            yield path


def _of_itself(told: Any) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _of_manifest(manifest: Manifest) -> str:
    told = manifest.model_dump_json(exclude=_MAY_CHANGE, exclude_defaults=True)
    return hashlib.sha256(told.encode()).hexdigest()
