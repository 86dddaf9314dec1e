"""Vectors that the bundled embedder has computed are there for the next test that asks for the same texts.

The demo documents are indexed, searched and answered from by hundreds of tests, and on two cores most of the suite's
time went into embedding the same sentences. A call is answered from memory only where a model is loaded, runs on
PyTorch, and was given exactly these texts in this order before: beside other texts the last digits may differ. What
tests `retrieval` itself computes everything anew.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOM = 256 * 2**20
"""Bytes of vectors that are kept in a process; what was not asked for longest goes first."""


class Vectors:
    """What calls gave, by what they were for; safe for threads.

    Attributes:
        on: whether anything is remembered and told.
        folder: what the workers of one run share; None: each remembers for itself.
    """

    def __init__(self, room: int = ROOM) -> None:
        self.on = True
        self.folder: Path | None = None
        self._room, self._size, self._lock = room, 0, threading.Lock()
        self._known: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def of(self, key: tuple[Any, ...], compute: Callable[[], Any]) -> Any:
        """What `compute` gives, or gave for the same key; always a copy, for a caller may write into it."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return _copy(self._known[key])
        shared = self.folder / hashlib.sha256(repr(key).encode()).hexdigest() if self.folder else None
        if shared is not None and shared.exists():
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


def _flat(result: Any) -> list[Any]:
    """The arrays of a result: itself, or the vectors, then the tokens of all texts, then their ids."""
    return [result] if isinstance(result, np.ndarray) else [result[0], *result[1], *result[2]]


def _nested(arrays: list[Any]) -> Any:
    half = len(arrays) // 2
    return arrays[0] if len(arrays) == 1 else (arrays[0], arrays[1 : 1 + half], arrays[1 + half :])


def _write(path: Path, arrays: list[Any]) -> None:
    """A file that appears whole."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        np.savez(file, *arrays)
    Path(file.name).replace(path)


def _copy(result: Any) -> Any:
    return result.copy() if isinstance(result, np.ndarray) else type(result)(_copy(part) for part in result)


def _bytes(result: Any) -> int:
    return int(result.nbytes) if isinstance(result, np.ndarray) else sum(map(_bytes, result))


def remember(vectors: Vectors, patch: pytest.MonkeyPatch) -> None:
    """From now on `minilm` computes nothing twice in this process, as long as `vectors` is on."""
    from turnmark.retrieval.embed import Embedder

    def remembered(name: str) -> Callable[[Embedder, Sequence[str], str], Any]:
        plain = getattr(Embedder, name)

        def call(self: Embedder, texts: Sequence[str], role: str) -> Any:
            on_torch = self.name == "minilm" and os.environ.get("TURNMARK_BACKEND") == "torch"
            if not (vectors.on and on_torch and self._loaded is not None):
                return plain(self, texts, role)
            return vectors.of((name, role, *texts), lambda: plain(self, texts, role))

        return call

    for name in ("encode", "encode_both"):
        patch.setattr(Embedder, name, remembered(name))
