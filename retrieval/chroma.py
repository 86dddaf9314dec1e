"""Vectors in Chroma, in a folder or on a server: written once when an index is built, then only read. No telemetry.

For indexes of more passages than a flat file serves (`turnmark.retrieval.flat`), and for servers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.specs import Spec
from turnmark.retrieval.servers import Served, address, read_note, redact

TOKEN = "TURNMARK_CHROMA_TOKEN"
PORT = 8000
CLOUD = ".trychroma.com"
"""Chroma's own service, which reads the token from a header of its own."""

SECONDS = 60.0
TRIES, FIRST_WAIT, LONGEST_WAIT = 4, 0.2, 2.0
PATIENCE = 120.0
"""Seconds that a build waits for a server that went away in the middle: as long as a restart takes, or a move."""

T = TypeVar("T")


def call_server(url: str, call: Callable[[], T], patience: float | None = None) -> T:
    """What a call to the server gives, tried again while the connection fails. Calls must be safe to repeat.

    Args:
        patience: seconds to go on trying; None: a few tries, within about two seconds.

    Raises:
        TurnmarkError: the server cannot be reached, refuses the token, lacks what is asked for, or fails.
    """
    import httpx
    from chromadb.errors import AuthorizationError, ChromaAuthError, NotFoundError
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay, wait_exponential

    retrying = Retrying(
        retry=retry_if_exception_type(httpx.TransportError),
        stop=stop_after_attempt(TRIES) if patience is None else stop_after_delay(patience),
        wait=wait_exponential(FIRST_WAIT, LONGEST_WAIT),
        reraise=True,
    )
    attempts = f"{TRIES} tries" if patience is None else f"tried for {patience:g} s"
    try:
        return retrying(call)
    except TurnmarkError:
        raise
    except httpx.TransportError as error:
        raise TurnmarkError(
            f"the Chroma server at {url} cannot be reached ({attempts}): {redact(error)}; start it, or wait for it"
        ) from None
    except (AuthorizationError, ChromaAuthError):
        raise TurnmarkError(f"the Chroma server at {url} refuses the request; set {TOKEN} in the environment") from None
    except NotFoundError as error:
        raise TurnmarkError(
            f"the Chroma server at {url} lacks something: {redact(error)}; build the index again"
        ) from None
    except Exception as error:  # its client raises a plain Exception for whatever answer it does not know
        if "401" in (message := redact(error)) or "403" in message:
            message += f"; set {TOKEN} in the environment"
        raise TurnmarkError(f"the Chroma server at {url} failed: {message}") from None


def connect(place: Served) -> Any:
    """A client for the place's server, tenant and database; the server is asked for its heartbeat first.

    Raises:
        TurnmarkError: it does not answer as a Chroma server does; see `call_server`.
    """
    import chromadb
    from chromadb.config import Settings
    from chromadb.errors import NotFoundError

    url = place.url
    call_server(url, lambda: _heartbeat(url))

    def opened() -> Any:
        try:
            return chromadb.HttpClient(
                url, port=PORT, ssl=url.startswith("https:"), headers=_headers(url),
                settings=Settings(anonymized_telemetry=False), **dict(place.within),
            )  # fmt: skip
        except (NotFoundError, ValueError) as error:
            if not place.within:
                raise
            place_text = " in ".join(f"{kind} {name!r}" for kind, name in place.within)
            raise TurnmarkError(
                f"the Chroma server at {url} has no {place_text}, or does not let us in: {redact(error)}; whoever "
                "runs it makes tenants and databases (chromadb.AdminClient)"
            ) from None

    client: Any = call_server(url, opened)
    # Chroma's client waits for ever, and has no setting for that.
    session = getattr(getattr(client, "_server", None), "_session", None)
    if session is not None:
        session.timeout = SECONDS
    return client


def _heartbeat(url: str) -> None:
    """Ask with a time limit, which Chroma's own client has not."""
    import httpx

    reply = httpx.get(f"{url}/api/v2/heartbeat", timeout=SECONDS / TRIES, headers=_headers(url))
    if reply.status_code in (401, 403):
        raise TurnmarkError(f"the Chroma server at {url} refuses the request; set {TOKEN} in the environment")
    if not reply.is_success or "heartbeat" not in reply.text:
        raise TurnmarkError(
            f"what answers at {url} is no Chroma server of version 1 (status {reply.status_code} for its heartbeat)"
        )


def _headers(url: str) -> dict[str, str]:
    """The token from the environment, as the server wants it."""
    token = os.environ.get(TOKEN)
    if not token:
        return {}
    in_cloud = (urlsplit(url).hostname or "").endswith(CLOUD)
    return {"X-Chroma-Token": token} if in_cloud else {"Authorization": f"Bearer {token}"}


def greet(place: Served) -> None:
    """Make sure that a Chroma server answers, and has the tenant and the database.

    Raises:
        TurnmarkError: see `connect`.
    """
    connect(place).close()


def remove(place: Served) -> None:
    """Delete a collection, if it is there.

    Raises:
        TurnmarkError: see `call_server`.
    """
    from chromadb.errors import NotFoundError

    client = connect(place)

    def delete() -> None:
        try:
            client.delete_collection(place.name)
        except NotFoundError:
            return

    try:
        call_server(place.url, delete)
    finally:
        client.close()


def place_of(spec: Spec) -> Served:
    """Where a spec puts an index's vectors.

    Raises:
        RequestError: a wrong address.
    """
    base, path = address(spec.url, PORT, spec.name, TOKEN)
    if path:
        raise RequestError(f"retriever {spec.name!r}: an address ends with the port; leave {path!r} out")
    return Served(
        kind="chroma", url=base, name=spec.options.get("collection", ""), tenant=spec.options.get("tenant", ""),
        database=spec.options.get("database", ""),
    )  # fmt: skip


def _name_of(least: int) -> Callable[[str], str]:
    """The converter of a name on a server, of `least` to 100 characters; Chroma's service names tenants by UUID."""

    def convert(text: str) -> str:
        if not re.fullmatch(rf"[A-Za-z0-9][A-Za-z0-9._-]{{{least - 1},99}}", text):
            raise ValueError(f"{least} to 100 letters, digits, '.', '_' and '-', beginning with a letter or digit")
        return text

    return convert


OPTIONS: dict[str, Callable[[str], Any]] = {
    "collection": _name_of(2), "tenant": _name_of(3), "database": _name_of(3),
}  # fmt: skip
"""Options of this retriever beside those of `hybrid`."""

COLLECTION = "passages"

# Chosen so that recall@10 against exact search stays above .99 on the MTRAG pools; a data test measures it.
HNSW: dict[str, Any] = {"space": "cosine", "ef_construction": 200, "max_neighbors": 32, "ef_search": 256}

PAGE = 1000


class ChromaVectors:
    """One Chroma collection: in a folder of its own, or on the server that a note in that folder names.

    Args:
        folder: where Chroma keeps its files; made when `create` is true, else it must be there.
        server: where the collection is created; one that is there by that name is replaced.

    Raises:
        TurnmarkError: Chroma's files are damaged, or its server cannot be reached or lacks the collection.
    """

    def __init__(self, folder: Path, create: bool = False, server: Served | None = None) -> None:
        self._count: int | None = None
        self._patience: float | None = None
        self._folder, self._server = folder, server if create else read_note(folder)
        if self._server is None:
            self._open_files(create)
        else:
            self._open_server(self._server, create)

    def _open_files(self, create: bool) -> None:
        import chromadb
        from chromadb.config import Settings

        with _damage_named(self._folder):
            settings = Settings(anonymized_telemetry=False)
            self._client: Any = chromadb.PersistentClient(str(self._folder), settings=settings)
            self._collection: Any = _created(self._client, COLLECTION) if create else _opened(self._client, COLLECTION)

    def _open_server(self, server: Served, create: bool) -> None:
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
        return call_server(self._server.url, call, patience)

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
                query_embeddings=vectors, n_results=k, where=dict(filters) if filters else None, include=["distances"]
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


def _created(client: Any, name: str) -> Any:
    return client.create_collection(name, configuration={"hnsw": HNSW}, embedding_function=None)


def _opened(client: Any, name: str) -> Any:
    return client.get_collection(name, embedding_function=None)


@contextmanager
def _damage_named(folder: Path) -> Iterator[None]:
    """Chroma's own errors as ours."""
    from chromadb.errors import ChromaError

    try:
        yield
    except ChromaError as error:
        raise TurnmarkError(f"Chroma's files are damaged: {error} ({folder})") from error
