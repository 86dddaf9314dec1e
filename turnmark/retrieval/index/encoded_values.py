"""Writes what models encode to the files of an index, as it is ready. Each distinct text is encoded once.

The files are appended to, and then the list of contents in `passages.db` says which texts they have. A build that is
interrupted between the two leaves an end that the next one overwrites.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from turnmark.core.errors import TurnmarkError
from turnmark.retrieval.index.encoders import TOKENS, VECTORS, WEIGHTS, Encoder, Values
from turnmark.retrieval.ranking.vectors import (
    BITS_FILE,
    END_TYPE,
    ENDS_FILE,
    IDS_FILE,
    SIGNS_FILE,
    VECTORS_FILE,
    round_vectors,
    sign_bytes,
    vector_type,
)
from turnmark.retrieval.search.sparse import sparse_postings
from turnmark.retrieval.storage.passage_writer import PassageWriter

APPENDED_FILES = (VECTORS_FILE, SIGNS_FILE, BITS_FILE, IDS_FILE, ENDS_FILE)


class EncodedValues:
    """The values of one encoder in a generation's folder.

    Args:
        folder: the generation's folder.

    Raises:
        TurnmarkError: a file is shorter than what it has.
    """

    def __init__(self, store: PassageWriter, folder: Path, encoder: Encoder) -> None:
        self._store, self._encoder = store, encoder
        self._slots = store.slots(encoder.name)
        self._files: dict[str, BinaryIO] = {}
        self._ends: NDArray[np.int64] = np.zeros(1, END_TYPE)
        if VECTORS in encoder.kinds:
            self._open(folder, VECTORS_FILE, self._slots * vector_type(encoder.dimension).itemsize)
            self._open(folder, SIGNS_FILE, self._slots * sign_bytes(np.zeros((1, encoder.dimension), np.float32)).size)
        if TOKENS in encoder.kinds:
            self._open(folder, ENDS_FILE, self._slots * END_TYPE.itemsize)
            if self._slots:
                offset = (self._slots - 1) * END_TYPE.itemsize
                self._ends = np.fromfile(folder / ENDS_FILE, END_TYPE, 1, offset=offset)
            vectors, ids = self._ends[0].tolist()
            self._open(folder, BITS_FILE, vectors * -(-encoder.dimension // 8))
            self._open(folder, IDS_FILE, ids * 2)

    def _open(self, folder: Path, name: str, size: int) -> None:
        """Open a file to append to it after its first bytes."""
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        if path.stat().st_size < size:
            raise TurnmarkError(f"{name} is shorter than its contents ({path})")
        file = self._files[name] = path.open("r+b")
        file.truncate(size)
        file.seek(size)

    def add(self, hashes: Sequence[str], values: Values) -> None:
        """Store the values of distinct contents that have none yet, all or nothing."""
        if VECTORS in values:
            vectors = np.stack(values[VECTORS])
            self._files[VECTORS_FILE].write(round_vectors(vectors).tobytes())
            self._files[SIGNS_FILE].write(sign_bytes(vectors).tobytes())
        for signs, ids in values.get(TOKENS, ()):
            self._ends = np.add(self._ends, (len(signs), len(ids)))
            self._files[BITS_FILE].write(signs.tobytes())
            self._files[IDS_FILE].write(ids.tobytes())
            self._files[ENDS_FILE].write(self._ends.tobytes())
        for file in self._files.values():
            file.flush()
        sparse = sparse_postings(self._slots, values[WEIGHTS]) if WEIGHTS in values else None
        self._store.add_contents(self._encoder.name, self._slots, hashes, sparse)
        self._slots += len(hashes)

    def sync(self) -> None:
        """Have the files on disk."""
        for file in self._files.values():
            os.fsync(file.fileno())

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
