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

from turnmark.core.errors import TurnmarkError
from turnmark.retrieval.index.encoders import TOKENS, VECTORS, WEIGHTS, Encoder, Values
from turnmark.retrieval.ranking.vectors import (
    BITS_FILE,
    IDS_FILE,
    SIGNS_FILE,
    STARTS_FILE,
    VECTORS_FILE,
    sign_bytes,
    stack_vectors,
    unpack_tokens,
)
from turnmark.retrieval.search.sparse import sparse_postings
from turnmark.retrieval.storage.passage_writer import PassageWriter

APPENDED_FILES = (VECTORS_FILE, SIGNS_FILE, BITS_FILE, IDS_FILE, STARTS_FILE)


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
        self._tokens = 0
        if VECTORS in encoder.kinds:
            self._open(folder, VECTORS_FILE, self._slots * encoder.dimension * 4)
            width = sign_bytes(np.zeros((1, encoder.dimension), np.float32)).shape[1]
            self._open(folder, SIGNS_FILE, self._slots * width)
        if TOKENS in encoder.kinds:
            self._open(folder, STARTS_FILE, self._slots * 8)
            if self._slots:
                (self._tokens,) = np.fromfile(folder / STARTS_FILE, "<i8", 1, offset=(self._slots - 1) * 8).tolist()
            self._open(folder, BITS_FILE, self._tokens * -(-encoder.dimension // 8))
            self._open(folder, IDS_FILE, self._tokens * 4)

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
            vectors = stack_vectors(values[VECTORS])
            self._files[VECTORS_FILE].write(vectors.tobytes())
            self._files[SIGNS_FILE].write(sign_bytes(vectors).tobytes())
        for packed in values.get(TOKENS, ()):
            signs, ids = unpack_tokens(packed)
            self._tokens += len(ids)
            self._files[BITS_FILE].write(signs.tobytes())
            self._files[IDS_FILE].write(ids.tobytes())
            self._files[STARTS_FILE].write(np.int64(self._tokens).tobytes())
        for file in self._files.values():
            file.flush()
        sparse = sparse_postings(self._slots, values[WEIGHTS]) if WEIGHTS in values else None
        self._store.add_contents(self._encoder.name, self._slots, hashes, sparse)
        self._slots += len(hashes)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been encoded."""
        return not self._slots

    def sync(self) -> None:
        """Have the files on disk."""
        for file in self._files.values():
            os.fsync(file.fileno())

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
