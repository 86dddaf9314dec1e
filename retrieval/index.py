"""An index is a folder: a manifest that names the current generation, and that generation's files.

    indexes/NAME/manifest.json      written last and at once: without it there is no index
    indexes/NAME/g0003/passages.db  SQLite     g0003/bm25/  bm25s     g0003/chroma/  Chroma, unless BM25 only

A build makes a new generation beside the current one and never touches files that can be open.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError

from corpora.errors import RequestError, TurnwiseError
from corpora.home import check_name, home
from corpora.types import Passage, Record
from retrieval.bm25 import BM25, BM25Settings
from retrieval.embed import Embedder, open_embedder
from retrieval.store import PassageStore
from retrieval.vectors import VectorStore

FORMAT = 1

T = TypeVar("T")


class EmbedderInfo(Record):
    """Which embedder made an index's vectors."""

    spec: str
    fingerprint: str
    dimension: int


class Manifest(Record):
    """What an index is and how it was made."""

    format: int = FORMAT
    name: str
    generation: int
    source: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    documents: int
    passages: int
    digest: str
    chunk_size: int
    chunk_overlap: int
    bm25: BM25Settings
    embedder: EmbedderInfo | None
    skipped: int = 0
    internal: bool = Field(default=False, description="kept for a benchmark's corpus; not offered to a person")
    created: str
    version: str


class Index:
    """A finished index, opened read-only. What is not needed is not loaded."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self.files = folder / f"g{manifest.generation:04d}"

    @property
    def fingerprint(self) -> str:
        """Changes whenever a passage, the BM25 settings or the embedder change."""
        made_by = self.manifest.embedder.fingerprint if self.manifest.embedder else "no vectors"
        return f"{self.manifest.digest}|{self.manifest.bm25.model_dump_json()}|{made_by}"

    def _part(self, name: str, opener: Callable[[Path], T]) -> T:
        """Open one of the index's parts.

        Raises:
            TurnwiseError: it is missing or damaged.
        """
        path = self.files / name
        try:
            if not path.exists():
                raise FileNotFoundError(f"{path} is missing")
            return opener(path)
        except (OSError, ValueError, KeyError, sqlite3.Error) as error:
            made = self.manifest
            raise TurnwiseError(
                f"index {made.name!r} is damaged: {name}: {error}; build it again: turnwise index remove {made.name}, "
                f"then turnwise index build {made.source} --name {made.name}"
            ) from error

    @cached_property
    def store(self) -> PassageStore:
        """The passages."""
        return self._part("passages.db", PassageStore)

    @cached_property
    def bm25(self) -> BM25:
        """The BM25 index."""
        return self._part("bm25", lambda path: BM25(path, self.manifest.bm25))

    def is_whole(self) -> bool:
        """Whether all parts that the manifest promises are there (not whether they are undamaged)."""
        parts = ["passages.db", "bm25", *(["chroma"] if self.manifest.embedder else [])]
        return all((self.files / part).exists() for part in parts)

    @cached_property
    def vectors(self) -> VectorStore:
        """The vectors.

        Raises:
            RequestError: the index was built for BM25 only.
        """
        if self.manifest.embedder is None:
            raise RequestError(
                f"index {self.manifest.name!r} was built for BM25 only and has no vectors; search it with --retriever "
                "bm25, or build it again with --retriever hybrid"
            )
        return self._part("chroma", VectorStore)

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder that made the vectors, loaded again.

        Raises:
            RequestError: there are no vectors, or the model under that name is no longer the one that made them.
        """
        info = self.manifest.embedder
        if info is None:
            _ = self.vectors
            raise AssertionError("unreachable: an index without vectors raises above")
        embedder = open_embedder(info.spec)
        if embedder.fingerprint != info.fingerprint:
            raise RequestError(
                f"index {self.manifest.name!r} was built with another model under the name {info.spec!r}: "
                f"{info.fingerprint} then, {embedder.fingerprint} now; build the index again"
            )
        return embedder

    def neighbours(self, passage: Passage) -> list[Passage]:
        """All passages of the same document, in reading order."""
        return self.store.of_document(passage.document)


def indexes_folder() -> Path:
    """`$TURNWISE_HOME/indexes`."""
    return home() / "indexes"


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a finished index, or None where there is none.

    Raises:
        TurnwiseError: it is there but cannot be read.
    """
    path = folder / "manifest.json"
    if not path.is_file():
        return None
    try:
        return Manifest.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        raise TurnwiseError(
            f"{path} cannot be read ({type(error).__name__}); build the index again: turnwise index build SOURCE "
            f"--name {folder.name}"
        ) from error


def open_index(name: str) -> Index:
    """Open the index called `name`.

    Raises:
        RequestError: there is none by that name; the message lists those there are.
    """
    folder = indexes_folder() / check_name(name, "index")
    manifest = read_manifest(folder)
    if manifest is None:
        there = ", ".join(m.name for m in list_indexes()) or "none yet"
        half = (
            " (a build of it was interrupted; the same `index build` command continues it)" if folder.is_dir() else ""
        )
        raise RequestError(
            f"no index is called {name!r}{half}; there are: {there}. "
            f"Build one: turnwise index build SOURCE --name {name}"
        )
    if manifest.format != FORMAT:
        raise RequestError(
            f"index {name!r} has format {manifest.format}, this version reads {FORMAT}; build it again: turnwise index "
            f"build {manifest.source} --name {name}"
        )
    return Index(folder, manifest)


def list_indexes(internal: bool = False) -> list[Manifest]:
    """The finished indexes, by name; with `internal`, those kept for benchmarks too.

    Folders without a readable manifest are not indexes.
    """
    found = []
    for folder in sorted(indexes_folder().glob("*/manifest.json")):
        try:
            manifest = read_manifest(folder.parent)
        except TurnwiseError:
            continue
        if manifest and (internal or not manifest.internal):
            found.append(manifest)
    return found


def remove_index(name: str) -> None:
    """Delete an index; the manifest goes first, so that a half-deleted index is none.

    Raises:
        RequestError: nothing is there by that name.
        TurnwiseError: it is being built.
    """
    folder = indexes_folder() / check_name(name, "index")
    if not folder.is_dir():
        open_index(name)
    with locked(folder):
        (folder / "manifest.json").unlink(missing_ok=True)
        shutil.rmtree(folder)


@contextmanager
def locked(folder: Path, wait: bool = False) -> Iterator[None]:
    """Hold an index's lock: one process at a time builds or removes it.

    Args:
        wait: wait for another process instead of failing.

    Raises:
        TurnwiseError: another process holds it.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / ".lock", timeout=-1 if wait else 0)
    try:
        lock.acquire()
    except Timeout:
        raise TurnwiseError(
            f"index {folder.name!r} is being built by another process; wait for it, or stop it"
        ) from None
    try:
        yield
    finally:
        lock.release()


def verify_index(index: Index, sample: int = 8) -> list[str]:
    """Check an index against itself; an empty list means that everything holds.

    Looks at SQLite's own check, the digest of the passages, the rows of BM25, and the ids and content hashes in Chroma,
    and embeds `sample` passages again.
    """
    parts: list[Callable[[Index], Iterator[str]]] = [_verify_passages, _verify_bm25]
    if index.manifest.embedder is not None:
        parts.append(lambda index: _verify_vectors(index, sample))
    problems: list[str] = []
    for part in parts:
        try:
            problems += part(index)
        except TurnwiseError as error:
            problems.append(str(error))
    return problems


def _verify_passages(index: Index) -> Iterator[str]:
    state = index.store.check()
    if state != "ok":
        yield f"passages.db is damaged: {state}"
    elif index.store.digest() != index.manifest.digest:
        yield "passages.db holds other passages than the manifest says"


def _verify_bm25(index: Index) -> Iterator[str]:
    if index.bm25.rows != index.manifest.passages:
        yield f"bm25 has {index.bm25.rows} rows, the manifest says {index.manifest.passages} passages"


def _verify_vectors(index: Index, sample: int) -> Iterator[str]:
    wanted = {p.id: content for page in index.store.pages() for _, content, p in page}
    stored = dict(index.vectors.rows())
    if lacking := wanted.keys() - stored.keys():
        yield f"chroma lacks {len(lacking)} of {len(wanted)} passages, such as {min(lacking)!r}"
    if strange := stored.keys() - wanted.keys():
        yield f"chroma has {len(strange)} vectors of no passage, such as {min(strange)!r}"
    if stale := [i for i in wanted.keys() & stored.keys() if wanted[i] != stored[i]]:
        yield f"chroma has {len(stale)} vectors of an older content, such as {min(stale)!r}"
    step = max(1, index.manifest.passages // sample)
    passages = index.store.by_rows(range(0, index.manifest.passages, step)[:sample])
    again = index.embedder.encode([p.indexed_text for p in passages], "passage")
    kept = index.vectors.get([p.id for p in passages])
    for passage, vector in zip(passages, again, strict=True):
        if passage.id in kept and float(vector @ kept[passage.id]) < 0.999:
            yield f"the vector of {passage.id!r} is not what {index.embedder.name} gives for its text"


def where_clause(index: Index, where: Mapping[str, str]) -> dict[str, Any] | None:
    """`--where` as Chroma's filter: each glob becomes the list of stored values that it matches."""
    matching = index.store.matching(where)
    clauses = [{key: {"$in": values}} for key, values in matching.items()]
    return {"$and": clauses} if len(clauses) > 1 else clauses[0] if clauses else None
