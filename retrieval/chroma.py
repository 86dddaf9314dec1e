"""Vectors in Chroma, in a folder or on a server: written once when an index is built, then only read. No telemetry.

For indexes of more passages than a flat file serves (`turnmark.retrieval.flat`), and for servers.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from turnmark.corpora.errors import TurnmarkError
from turnmark.retrieval.servers import Served, noted

COLLECTION = "passages"

# Chosen so that recall@10 against exact search stays above .99 on the MTRAG pools; a data test measures it.
HNSW: dict[str, Any] = {"space": "cosine", "ef_construction": 200, "max_neighbors": 32, "ef_search": 256}

PAGE = 1000

T = TypeVar("T")


class ChromaVectors:
    """One Chroma collection: in a folder of its own, or on the server that a note in that folder names.

    Args:
        folder: where Chroma keeps its files; made when `create` is true, else it must be there.
        server: where the collection is created; one that is there by that name is replaced.

    Raises:
        TurnmarkError: Chroma's files are damaged, or its server cannot be reached or lacks the collection.
    """

    def __init__(self, folder: Path, create: bool = False, server: Served | None = None) -> None:
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._count: int | None = None
        self._patience: float | None = None
        self._folder, self._server = folder, server if create else noted(folder)
        if self._server is None:
            self._open_files(create)
        else:
            self._open_server(self._server, create)

    def _open_files(self, create: bool) -> None:
        import chromadb
        from chromadb.config import Settings

        if not create and not os.access(self._folder, os.W_OK):
            # Chroma cannot open files that it may not write, even to read.
            self._copy = tempfile.TemporaryDirectory(prefix="turnmark-chroma-")
            self._folder = Path(shutil.copytree(self._folder, Path(self._copy.name) / "chroma"))
        with _damage_named(self._folder):
            settings = Settings(anonymized_telemetry=False)
            try:
                self._client: Any = chromadb.PersistentClient(str(self._folder), settings=settings)
            except Exception:
                _drop_half_opened(self._folder)
                raise
            self._collection: Any = _created(self._client, COLLECTION) if create else _opened(self._client, COLLECTION)

    def _open_server(self, server: Served, create: bool) -> None:
        from turnmark.retrieval.chroma_server import PATIENCE, connect, remove

        if create:
            remove(server)
            self._patience = PATIENCE
        self._client = connect(server)
        make = _created if create else _opened
        self._collection = self._ask(lambda: make(self._client, server.name))

    def _ask(self, call: Callable[[], T], patience: float | None = None) -> T:
        """What a call to Chroma gives, its errors named; a server is asked again while the connection fails."""
        if self._server is None:
            with _damage_named(self._folder):
                return call()
        from turnmark.retrieval.chroma_server import asked

        return asked(self._server.url, call, patience)

    def add(self, ids: Sequence[str], vectors: NDArray[np.float32], metadata: Sequence[Mapping[str, Any]]) -> None:
        """Add vectors with their passage ids and metadata, in pages that Chroma accepts."""
        for start in range(0, len(ids), PAGE):
            part = slice(start, start + PAGE)
            page = {
                "ids": list(ids[part]),
                "embeddings": vectors[part],
                "metadatas": [dict(row) for row in metadata[part]],
            }
            self._count = None
            # An id that is there is passed over, so a page can be sent again.
            self._ask(partial(self._collection.add, **page), self._patience)

    def count(self) -> int:
        """How many vectors are stored. Asked once: a finished collection is only read."""
        if self._count is None:
            self._count = int(self._ask(self._collection.count))
        return self._count

    def query(
        self, vectors: NDArray[np.float32], k: int, filters: Mapping[str, Any] | None = None
    ) -> list[list[tuple[str, float]]]:
        """For each vector the `k` nearest passages as (id, cosine), best first, equal cosines by id."""
        k = min(k, self.count())
        if not len(vectors) or not k:
            return [[] for _ in vectors]
        response = self._ask(
            lambda: self._collection.query(
                query_embeddings=vectors, n_results=k, filters=dict(filters) if filters else None, include=["distances"]
            )
        )
        lists = []
        for ids, distances in zip(response["ids"], response["distances"], strict=True):
            pairs = ((identifier, 1.0 - float(distance)) for identifier, distance in zip(ids, distances, strict=True))
            lists.append(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))
        return lists

    def get(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The stored vectors of passages, by id; ids that are not there are left out."""
        stored: dict[str, NDArray[np.float32]] = {}
        for start in range(0, len(ids), PAGE):
            id_batch = list(ids[start : start + PAGE])
            page = self._ask(partial(self._collection.get, ids=id_batch, include=["embeddings"]))
            vectors = np.asarray(page["embeddings"], dtype=np.float32)
            stored.update(zip(page["ids"], vectors, strict=True))
        return stored

    def rows(self) -> Iterator[tuple[str, str]]:
        """Every (passage id, content hash) stored, in pages."""
        for offset in range(0, self.count(), PAGE):
            page = self._ask(partial(self._collection.get, limit=PAGE, offset=offset, include=["metadatas"]))
            yield from ((i, str(m["hash"])) for i, m in zip(page["ids"], page["metadatas"], strict=True))

    def close(self) -> None:
        """Let go of the files. The store cannot be used afterwards."""
        self._client.close()
        if self._copy:
            self._copy.cleanup()


def _created(client: Any, name: str) -> Any:
    return client.create_collection(name, configuration={"hnsw": HNSW}, embedding_function=None)


def _opened(client: Any, name: str) -> Any:
    return client.get_collection(name, embedding_function=None)


def _drop_half_opened(folder: Path) -> None:
    """Chroma keeps what it could not open, and gives it out when the same folder is opened again."""
    from chromadb.api.shared_system_client import SharedSystemClient

    opened = getattr(SharedSystemClient, "_identifier_to_system", None)
    if isinstance(opened, dict):
        opened.pop(str(folder), None)


@contextmanager
def _damage_named(folder: Path) -> Iterator[None]:
    """Chroma's own errors as ours."""
    from chromadb.errors import ChromaError

    try:
        yield
    except ChromaError as error:
        raise TurnmarkError(f"Chroma's files are damaged: {error} ({folder})") from error
