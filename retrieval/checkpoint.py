"""What models made of the passages' contents so far, while an index is built: what a killed build continues from.

One SQLite file of its own beside the passages. It goes when the index is finished.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnmark.corpora.errors import TurnmarkError
from turnmark.corpora.types import Passage
from turnmark.retrieval.store import PassageStore

FILE = "kept.db"
_AT_ONCE = 500


class Checkpoint:
    """Bytes by part of the index and content hash.

    Args:
        folder: the generation's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._db = sqlite3.connect(self._path)
        self._all("PRAGMA journal_mode=WAL")
        self._all(
            'CREATE TABLE IF NOT EXISTS kept ("part" TEXT NOT NULL, "hash" TEXT NOT NULL, "value" BLOB NOT NULL, '
            'PRIMARY KEY ("part", "hash"))'
        )

    def _all(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise TurnmarkError(f"{self._path} is damaged: {error}; delete it, and the build begins anew") from error

    def missing(self, store: PassageStore, parts: Sequence[str]) -> Iterator[tuple[str, Passage]]:
        """(content hash, passage) for each content that one of `parts` lacks, once a content, in row order."""
        previous_page: set[str] = set()
        for page in store.pages():
            # What was given just before may not be kept yet.
            handled = previous_page | self.complete([content for _, content, _ in page], parts)
            previous_page = {content for _, content, _ in page}
            for _, content, passage in page:
                if content not in handled:
                    handled.add(content)
                    yield content, passage

    def count_missing(self, store: PassageStore, parts: Sequence[str]) -> int:
        """How many different contents one of `parts` lacks."""
        return sum(len(page) - len(self.complete(page, parts)) for page in store.contents())

    def complete(self, hashes: Sequence[str], parts: Sequence[str]) -> set[str]:
        """Those of some contents that every one of `parts` has."""
        complete: set[str] = set()
        part_marks = ",".join("?" * len(parts))
        for start in range(0, len(hashes), _AT_ONCE):
            hash_batch = list(dict.fromkeys(hashes[start : start + _AT_ONCE]))
            marks = ",".join("?" * len(hash_batch))
            rows = self._all(
                f'SELECT "hash" FROM kept WHERE "part" IN ({part_marks}) AND "hash" IN ({marks}) '
                'GROUP BY "hash" HAVING count(*) = ?',
                [*parts, *hash_batch, len(parts)],
            )
            complete.update(row[0] for row in rows)
        return complete

    def add(self, hashes: Sequence[str], values: Mapping[str, Sequence[bytes]]) -> None:
        """Keep a block for some parts, all of it or nothing; what is there already stays."""
        rows = [(part, content, value) for part in values for content, value in zip(hashes, values[part], strict=True)]
        with self._db:
            self._db.executemany("INSERT OR IGNORE INTO kept VALUES (?, ?, ?)", rows)

    def get(self, part: str, hashes: Sequence[str]) -> list[bytes]:
        """What is kept of some contents, in the order asked; every one must be there."""
        values: dict[str, bytes] = {}
        for start in range(0, len(hashes), _AT_ONCE):
            hash_batch = list(hashes[start : start + _AT_ONCE])
            marks = ",".join("?" * len(hash_batch))
            values.update(
                self._all(
                    f'SELECT "hash", "value" FROM kept WHERE "part" = ? AND "hash" IN ({marks})', [part, *hash_batch]
                )
            )
        return [values[content] for content in hashes]

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def unpacked(vectors: Sequence[bytes]) -> NDArray[np.float32]:
    """Checkpoint vectors as rows."""
    return np.stack([np.frombuffer(vector, dtype=np.float32) for vector in vectors])


def drop_checkpoint(folder: Path) -> None:
    """Delete the file of a finished generation, if it is still there."""
    for path in folder.glob(f"{FILE}*"):
        path.unlink(missing_ok=True)
