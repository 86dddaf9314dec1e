"""Vectors in Chroma: written once when an index is built, then only read. Telemetry is off."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpora.errors import TurnwiseError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COLLECTION = "passages"

# Chosen so that recall@10 against exact search stays above .99 on the MTRAG pools; a data test measures it.
HNSW: dict[str, Any] = {"space": "cosine", "ef_construction": 200, "max_neighbors": 32, "ef_search": 256}

PAGE = 1000


class VectorStore:
    """One Chroma collection in a folder of its own.

    Args:
        folder: where Chroma keeps its files; made when `create` is true, else it must be there.
    """

    def __init__(self, folder: Path, create: bool = False) -> None:
        import chromadb
        from chromadb.config import Settings

        self._copy: tempfile.TemporaryDirectory[str] | None = None
        if not create and not os.access(folder, os.W_OK):
            # Chroma cannot open files that it may not write, even to read.
            self._copy = tempfile.TemporaryDirectory(prefix="turnwise-chroma-")
            folder = Path(shutil.copytree(folder, Path(self._copy.name) / "chroma"))
        with _damage_named(folder):
            self._client: Any = chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))
            if create:
                self._collection: Any = self._client.create_collection(
                    COLLECTION, configuration={"hnsw": HNSW}, embedding_function=None
                )
            else:
                self._collection = self._client.get_collection(COLLECTION, embedding_function=None)
        self._folder = folder

    def add(self, ids: Sequence[str], vectors: NDArray[np.float32], metadata: Sequence[Mapping[str, Any]]) -> None:
        """Add vectors with their passage ids and metadata, in pages that Chroma accepts."""
        for start in range(0, len(ids), PAGE):
            part = slice(start, start + PAGE)
            self._collection.add(
                ids=list(ids[part]), embeddings=vectors[part], metadatas=[dict(row) for row in metadata[part]]
            )

    def count(self) -> int:
        """How many vectors are stored."""
        return int(self._collection.count())

    def query(
        self, vectors: NDArray[np.float32], k: int, where: Mapping[str, Any] | None = None
    ) -> list[list[tuple[str, float]]]:
        """For each vector the `k` nearest passages as (id, cosine), best first, equal cosines by id."""
        k = min(k, self.count())
        if not len(vectors) or not k:
            return [[] for _ in vectors]
        with _damage_named(self._folder):
            found = self._collection.query(
                query_embeddings=vectors, n_results=k, where=dict(where) if where else None, include=["distances"]
            )
        lists = []
        for ids, distances in zip(found["ids"], found["distances"], strict=True):
            pairs = ((identifier, 1.0 - float(distance)) for identifier, distance in zip(ids, distances, strict=True))
            lists.append(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))
        return lists

    def get(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The stored vectors of passages, by id; ids that are not there are left out."""
        import numpy as np

        found: dict[str, NDArray[np.float32]] = {}
        for start in range(0, len(ids), PAGE):
            page = self._collection.get(ids=list(ids[start : start + PAGE]), include=["embeddings"])
            vectors = np.asarray(page["embeddings"], dtype=np.float32)
            found.update(zip(page["ids"], vectors, strict=True))
        return found

    def rows(self) -> Iterator[tuple[str, str]]:
        """Every (passage id, content hash) stored, in pages."""
        for offset in range(0, self.count(), PAGE):
            page = self._collection.get(limit=PAGE, offset=offset, include=["metadatas"])
            yield from ((i, str(m["hash"])) for i, m in zip(page["ids"], page["metadatas"], strict=True))

    def close(self) -> None:
        """Let go of the files. The store cannot be used afterwards."""
        self._client.close()
        if self._copy:
            self._copy.cleanup()


@contextmanager
def _damage_named(folder: Path) -> Iterator[None]:
    """Chroma's own errors as ours.

    Raises:
        TurnwiseError: Chroma could not do what was asked; its files are damaged.
    """
    from chromadb.errors import ChromaError

    try:
        yield
    except ChromaError as error:
        raise TurnwiseError(f"Chroma's files are damaged: {error} ({folder})") from error
