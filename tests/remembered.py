"""A memory of the vectors of the bundled embedder, shared by all tests that embed the same texts.

Hundreds of tests index and search the demo documents, and on two cores most of the suite's time went into embedding
the same sentences. Later runs read the vectors too. A call is answered from memory only if the model has embedded
exactly these texts in this order before. Tests of `retrieval` itself compute everything again.
"""

from __future__ import annotations

import hashlib
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from turnmark.retrieval.embedding.embedders import WEIGHTS_SHA256

ROOM = 256 * 2**20
"""Maximum bytes of vectors in a process; the least recently used are removed first."""


UNUSED_SECONDS = 7 * 24 * 3600
"""Age after which stored vectors that no run has read are removed."""


class Vectors:
    """Results of calls by their key; safe to use from many threads.

    Attributes:
        on: whether results are stored and reused.
        folder: folder that all workers and later runs share; None: nothing is shared.
    """

    def __init__(self, room: int = ROOM) -> None:
        self.on = True
        self.folder: Path | None = None
        self._room, self._size, self._lock = room, 0, threading.Lock()
        self._known: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def of(self, key: tuple[Any, ...], compute: Callable[[], Any]) -> Any:
        """Return the result for a key, computed if it is new. It is a copy, because a caller may write into it."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return _copy(self._known[key])
        shared = self.folder / hashlib.sha256(repr(key).encode()).hexdigest() if self.folder else None
        if shared is not None and shared.exists():
            shared.touch()
            with np.load(shared) as stored:
                result = _nested([stored[name] for name in stored.files])
        else:
            result = compute()
            if shared is not None:
                _write(shared, _flat(result))
        with self._lock:
            if key not in self._known:
                self._known[key] = _copy(result)
                self._size += _bytes(result)
            while self._size > self._room:
                self._size -= _bytes(self._known.popitem(last=False)[1])
        return result


def shared_folder(cache: Path) -> Path:
    """Return the folder of vectors below `cache`, one per version of the libraries; remove what is no longer used."""
    versions = "-".join(version(name) for name in ("openvino", "tokenizers"))
    folder = cache / "vectors" / f"{WEIGHTS_SHA256[:12]}-{versions}"
    folder.mkdir(parents=True, exist_ok=True)
    for path in (cache / "vectors").glob("*/*"):
        with suppress(FileNotFoundError):  # another worker has removed it
            if time.time() - path.stat().st_mtime > UNUSED_SECONDS:
                path.unlink()
    return folder


def _flat(result: Any) -> list[Any]:
    """Return the arrays of a result: the array itself, or the vectors, the tokens of all texts and their ids."""
    return [result] if isinstance(result, np.ndarray) else [result[0], *result[1], *result[2]]


def _nested(arrays: list[Any]) -> Any:
    half = len(arrays) // 2
    return arrays[0] if len(arrays) == 1 else (arrays[0], arrays[1 : 1 + half], arrays[1 + half :])


def _write(path: Path, arrays: list[Any]) -> None:
    """Write the file in one step, so that no other worker reads half of it."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        np.savez(file, *arrays)
    Path(file.name).replace(path)


def _copy(result: Any) -> Any:
    return result.copy() if isinstance(result, np.ndarray) else type(result)(_copy(part) for part in result)


def _bytes(result: Any) -> int:
    return int(result.nbytes) if isinstance(result, np.ndarray) else sum(map(_bytes, result))


def remember(vectors: Vectors, patch: pytest.MonkeyPatch) -> None:
    """Patch `minilm` to compute nothing twice in this process while `vectors` is on."""
    from turnmark.retrieval.embedding.embedders import Embedder

    def remembered(name: str) -> Callable[[Embedder, Sequence[str], str], Any]:
        plain = getattr(Embedder, name)

        def call(self: Embedder, texts: Sequence[str], role: str) -> Any:
            if not (vectors.on and self.name == "minilm"):
                return plain(self, texts, role)
            self._backend.runner()  # loaded as without the memory: tests break the model's files
            return vectors.of((name, self.backend, role, *texts), lambda: plain(self, texts, role))

        return call

    for name in ("encode", "encode_both"):
        patch.setattr(Embedder, name, remembered(name))
