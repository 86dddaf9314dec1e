"""An index is a folder: a manifest that names the current generation, and that generation's files.

    indexes/NAME/manifest.json      written last and atomically; a folder without it is not an index
    indexes/NAME/g0003/passages.db  the passages and their terms, in SQLite
    indexes/NAME/g0003/exact/ …     the components in the manifest (`turnmark.retrieval.index.components`)

A build adds to the files of the generation and publishes a revision. Whoever has an earlier one open still finds all of
it. Other models, or `index compact`, make a new generation.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from turnmark.core.errors import RequestError, TurnmarkError, unknown_name
from turnmark.core.home import check_name, home
from turnmark.core.plural import count_phrase
from turnmark.core.specs import Spec
from turnmark.corpora.types import Passage, content_hash_of
from turnmark.retrieval.embedding.embedders import Embedder, open_embedder
from turnmark.retrieval.ranking.bm25 import BM25, COUNT_TYPE, POSTINGS, TermScores
from turnmark.retrieval.ranking.conversation_queries import Views
from turnmark.retrieval.ranking.fusion import RankedRows, top_k_of
from turnmark.retrieval.ranking.postings import Postings
from turnmark.retrieval.ranking.vectors import FlatVectors, TokenIndex, TokenVectors
from turnmark.retrieval.search.joint_index import JointBM25, JointTokens, first_rows
from turnmark.retrieval.search.rebuild_commands import (
    build_command,
    describe_cost,
    rebuild_command,
    spec_of_build,
)
from turnmark.retrieval.storage.chroma import ChromaVectors
from turnmark.retrieval.storage.filters import WHERE_KEYS, Where, in_index, is_of_fields, one_of
from turnmark.retrieval.storage.joint_passages import JointStore, Passages
from turnmark.retrieval.storage.manifest import FORMAT, Manifest, ModelInfo, read_manifest
from turnmark.retrieval.storage.passage_store import (
    PASSAGES_FILE,
    IndexRows,
    PassageStore,
    rows_file,
)
from turnmark.retrieval.storage.picture_store import JointPictures, PictureStore, StoredPictures
from turnmark.retrieval.tables.row_finder import RowFinder
from turnmark.retrieval.tables.table_records import TablePart
from turnmark.retrieval.tables.table_store import TableStore
from turnmark.retrieval.tables.table_writer import TABLES_VERSION, tables_file

DENSE, SPARSE = "dense", "splade"
"""Names of the encoders in the list of the contents that they have encoded."""
LOCK_SECONDS = 0.2
"""Time that a build waits for another process, which may only ask whether the index is being built."""
MAX_TITLED_DOCUMENTS = 600
"""Maximum number of documents whose titles are returned; a prompt would have room for less
than a tenth of a larger collection."""

MAX_MASKS = 8
"""Number of filters whose rows are kept, since each list of a search needs them."""

NO_INDEX = "there is no index yet; build one with: turnmark index build SOURCE --name NAME"

T = TypeVar("T")


class SearchableIndex(ABC):
    """A finished index that retrievers search by row.

    `StoredIndex` is the index in one folder. `turnmark.retrieval.index.index_api.Index` consists of one or more of
    these.

    Attributes:
        manifest: describes the index; for several, what they have in common.
    """

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    # -- its files, and those of all parts joined

    @property
    @abstractmethod
    def parts(self) -> Sequence[StoredIndex]:
        """The stored indexes that are searched, in the order of their rows."""

    @cached_property
    def store(self) -> Passages:
        """The passages."""
        stores = [part.store for part in self.parts]
        return stores[0] if len(stores) == 1 else JointStore([part.name for part in self.parts], stores)

    @cached_property
    def bm25(self) -> TermScores:
        """The BM25 index."""
        parts = [part.bm25 for part in self.parts]
        return parts[0] if len(parts) == 1 else JointBM25(parts)

    @cached_property
    def tokens(self) -> TokenVectors:
        """The token vectors of the passages; RequestError without them."""
        self.need_tokens()
        parts = [part.tokens for part in self.parts]
        return parts[0] if len(parts) == 1 else JointTokens(parts)

    @cached_property
    def pictures(self) -> PictureStore | None:
        """The described pictures, or None if the index was built without descriptions."""
        stores = {part.name: part.pictures for part in self.parts if part.pictures is not None}
        return JointPictures(stores) if len(self.parts) > 1 and stores else self.parts[0].pictures

    @property
    def embedder(self) -> Embedder:
        """The embedder that the index was built with; RequestError without one."""
        return self.parts[0].embedder

    def is_current(self) -> bool:
        """Return whether this is the newest generation of the index; True if the index was removed or is damaged."""
        return all(part.is_current() for part in self.parts)

    # -- search by row

    @cached_property
    def _starts(self) -> list[int]:
        """The first row of each part, and the number of all rows."""
        return first_rows(part.manifest.passages for part in self.parts)

    def _under(self, where: Where) -> Iterator[tuple[StoredIndex, int, Where]]:
        """Yield each part in which passages may match a filter, with its first row and its own filter."""
        names = [part.name for part in self.parts] if len(self.parts) > 1 else ()
        for part, start in zip(self.parts, self._starts, strict=False):
            part_where = in_index(where, part.name, names)
            if part_where is not None:
                yield part, start, part_where

    def rows_where(self, where: Where) -> list[int]:
        """Return the rows under a filter."""
        return [start + row for part, start, part_where in self._under(where) for row in part.rows_where(part_where)]

    def nearest(self, vectors: NDArray[np.float32], k: int, where: Where) -> Iterable[RankedRows]:
        """Return the `k` nearest rows of each vector under a filter, with their cosines."""
        found: list[list[tuple[NDArray[np.int64], NDArray[np.float64]]]] = [[] for _ in vectors]
        for part, start, part_where in self._under(where):
            for tops, top in zip(found, part.nearest(vectors, k, part_where), strict=True):
                tops.append((top.rows + start, top.scores))
        for tops in found:
            if tops:
                yield top_k_of(np.concatenate([rows for rows, _ in tops]), np.concatenate([top for _, top in tops]), k)
            else:
                yield RankedRows.from_pairs(())

    def vectors_of(
        self, row_lists: Sequence[NDArray[np.int64]]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Yield, for each list, the rows that have stored vectors, and these vectors."""
        by_part = []
        for part, start, end in zip(self.parts, self._starts, self._starts[1:], strict=False):
            part_rows = [rows[(rows >= start) & (rows < end)] - start for rows in row_lists]
            by_part.append([(rows + start, vectors) for rows, vectors in part.vectors_of(part_rows)])
        for found in zip(*by_part, strict=True):
            yield np.concatenate([rows for rows, _ in found]), np.concatenate([vectors for _, vectors in found])

    def mask(self, where: Where) -> NDArray[np.bool_] | None:
        """Return for each row whether it is under a filter; None for an empty filter."""
        return self._mask(where) if where else None

    @cached_property
    def _mask(self) -> Callable[[Where], NDArray[np.bool_]]:
        @lru_cache(maxsize=MAX_MASKS)
        def mask(where: Where) -> NDArray[np.bool_]:
            mask = np.zeros(self.manifest.passages, dtype=np.bool_)
            mask[self.rows_where(where)] = True
            return mask

        return mask

    def check_where(self, where: Where) -> None:
        """Raise RequestError if no document has a key of a filter."""
        if not any(map(is_of_fields, where)):
            return
        unknown = [part.store.unknown_keys(where) for part in self.parts]
        if lost := [key for key in unknown[0] if all(key in each for each in unknown)]:
            keys = sorted({*WHERE_KEYS, *(key for part in self.parts for key in part.store.fields())})
            raise RequestError([f"--where: {unknown_name('key', key, keys)}" for key in lost])

    def describe_filtered(self, where: Where) -> str:
        """Return how many documents a filter leaves out, in words."""
        every = self.manifest.documents
        left_out = every - len(self.store.documents(self.only(where)))
        return f"the filter {' '.join(map(str, where))} leaves out {left_out:,} of {count_phrase(every, 'document')}"

    def only(self, where: Where) -> Where:
        """Return an equal filter without the key `index`, if only one index is searched."""
        if len(self.parts) > 1:
            return where
        part_where = in_index(where, self.name)
        return (one_of("document", ()),) if part_where is None else part_where

    # -- its tables

    @property
    def table_parts(self) -> Sequence[TablePart]:
        """The files with the stored tables of each index that has some."""
        names = [part.name for part in self.parts]
        return [part.table_part(names) for part in self.parts if part.manifest.tables]

    @cached_property
    def tables(self) -> TableStore | None:
        """The stored tables, or None if there are none."""
        parts = self.table_parts
        return TableStore(parts, is_joint=len(self.parts) > 1) if parts else None

    @cached_property
    def row_finders(self) -> list[RowFinder]:
        """The rows of the large tables of each index that has some."""
        joined = len(self.parts) > 1
        finders = [RowFinder(part, part.name if joined else "") for part in self.table_parts]
        return [finder for finder in finders if finder.has_rows()]

    # -- what it was built for

    def need_tokens(self, retriever: str = "conversational") -> None:
        """Raise RequestError if the index has no token vectors for late interaction."""
        lacks = "has no token vectors for rerank=late"
        self._require(lambda manifest: "" if manifest.tokens else lacks, retriever)

    def model_info(self, name: str, lacks: str, needs: str) -> ModelInfo:
        """Return the manifest's entry of a model; RequestError if the index was built without it.

        Args:
            name: the model's field in the manifest.
            lacks: what an index without the model lacks, for the message.
            needs: a retriever whose index has the model, for the message.
        """
        self._require(lambda manifest: "" if name in manifest.models() else f"has no {lacks}", needs)
        return self.parts[0].manifest.models()[name]

    def check_model(self, retriever: Spec, field: str, kind: str, requested: str) -> None:
        """Raise RequestError if a retriever needs another model than the index was built with.

        Args:
            field: the model's field in the manifest.
            kind: what the model is, for the message.
            requested: spec of the model that the retriever needs.
        """

        def fault(manifest: Manifest) -> str:
            info = manifest.models().get(field)
            if info is None:
                return f"has no {kind}'s terms"
            return "" if info.spec == requested else f"was built with the {kind} {info.spec!r}, not {requested!r}"

        self._require(fault, str(retriever))

    def _require(self, fault: Callable[[Manifest], str], retriever: str) -> None:
        """Raise RequestError for each index with a fault; building it for a retriever corrects the fault."""
        faults = [(part.manifest, fault(part.manifest)) for part in self.parts]
        problems = [
            f"index {manifest.name!r} {what}; build it again: {build_command(manifest, retriever)}"
            for manifest, what in faults
            if what
        ]
        if problems:
            raise RequestError(problems)

    def build_command(self, retriever: str) -> str:
        """Return the command that builds the index for another retriever; several are separated by semicolons."""
        return "; ".join(build_command(part.manifest, retriever) for part in self.parts)

    def embedder_info(self) -> ModelInfo:
        """Return the manifest's entry of the embedder."""
        return self.model_info("embedder", "vectors", "hybrid")

    def check_unchanged(self, fingerprint: str, info: ModelInfo) -> None:
        """Raise RequestError if a model is not the one that the index was built with."""
        if fingerprint != info.fingerprint:
            raise RequestError(
                f"index {self.manifest.name!r} was built with another model under the name {info.spec!r}: "
                f"{info.fingerprint} then, {fingerprint} now; build it again: "
                f"{self.build_command(spec_of_build(self.manifest))}"
            )

    # -- what follows from these

    @property
    def name(self) -> str:
        """The name that the index was built under; for several indexes, their names separated by commas."""
        return self.manifest.name

    @cached_property
    def views(self) -> Views:
        """The vectors of messages in a conversation."""
        return Views(self.embedder)

    @cached_property
    def titles(self) -> list[str]:
        """The titles of the documents, largest first; empty if the index has too many documents to list."""
        return self.store.titles() if self.manifest.documents <= MAX_TITLED_DOCUMENTS else []

    def stored_vectors(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Return the vectors of those texts that are the indexed texts of passages, as stored in the index."""
        text_of = {content_hash_of(text): text for text in texts}
        vectors: dict[str, NDArray[np.float32]] = {}
        for part in self.parts:
            slots = part.store.slots_of(DENSE, list(text_of))
            stored = part.flat.in_slots(list(slots.values()))
            vectors |= {text_of[content]: stored[slot] for content, slot in slots.items() if slot in stored}
        return vectors

    def neighbors(self, passage: Passage) -> list[Passage]:
        """Return all passages of the same document, in reading order; for a row of a large table, the next rows."""
        return self.rows_around(passage.document, passage.start) or self.store.of_document(passage.document)

    def rows_around(self, document: str, start: int) -> list[Passage]:
        """Return the row of a large table at an offset of a document, with the rows next to it; empty if none."""
        return next(filter(None, (finder.around(document, start) for finder in self.row_finders)), [])


class StoredIndex(SearchableIndex):
    """A finished index in its folder, opened read-only. Each component is loaded when it is first used."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        super().__init__(manifest)
        self.folder = folder
        self.files = generation_folder(folder, manifest.generation)

    def open_part(self, name: str, opener: Callable[[Path], T]) -> T:
        """Open one of the index's files or folders; TurnmarkError if it is missing or damaged."""
        path = self.files / name
        try:
            if not path.exists():
                raise FileNotFoundError(f"{path} is missing")
            return opener(path)
        except TurnmarkError:
            raise
        except Exception as error:  # each library raises its own errors for damaged files
            raise TurnmarkError(
                f"index {self.manifest.name!r} is damaged: {name}: {error}; build it again: "
                f"{rebuild_command(self.manifest)}"
            ) from error

    @cached_property
    def rows(self) -> IndexRows:
        """The rows of the revision."""
        return self.open_part(rows_file(self.manifest.revision), IndexRows.read)

    @cached_property
    def store(self) -> PassageStore:
        keys = self.rows.keys
        return self.open_part(PASSAGES_FILE, lambda path: PassageStore(path, self.manifest.revision, keys))

    @cached_property
    def bm25(self) -> BM25:
        postings = Postings(self.store.select, POSTINGS, COUNT_TYPE)
        return BM25(postings, self.rows.keys, self.rows.lengths, self.manifest.bm25, self.manifest.languages)

    @cached_property
    def chroma(self) -> ChromaVectors:
        """The passages' vectors on a Chroma server, if the manifest has one."""
        return self.open_part("chroma", ChromaVectors)

    @cached_property
    def flat(self) -> FlatVectors:
        """The passages' vectors by row."""
        dimension = self.embedder_info().dimension
        return self.open_part("exact", lambda _: FlatVectors(self.files, self.rows.slots, dimension))

    @cached_property
    def embedder(self) -> Embedder:
        info = self.embedder_info()
        embedder = open_embedder(info.spec)
        self.check_unchanged(embedder.fingerprint, info)
        return embedder

    @cached_property
    def pictures(self) -> StoredPictures | None:
        return self.open_part("pictures", StoredPictures) if self.manifest.described else None

    @cached_property
    def tokens(self) -> TokenIndex:
        self.need_tokens()
        dimension = self.embedder_info().dimension
        return self.open_part("tokens", lambda _: TokenIndex(self.files, self.rows.slots, dimension))

    def table_part(self, names: Sequence[str]) -> TablePart:
        """Return the file with the stored tables.

        Args:
            names: the names of all indexes that are searched together.
        """
        name = self.manifest.name
        path = self.open_part(tables_file(self.manifest.tables), lambda path: path)
        joined = names if len(names) > 1 else ()

        def where_in(where: Where) -> Where | None:
            part_where = in_index(where, name, joined)
            return part_where and self.store.of_passages(part_where)

        return TablePart(name, path, where_in)

    def is_current(self) -> bool:
        try:
            newest = read_manifest(self.folder)
        except TurnmarkError:
            return True
        return newest is None or newest == self.manifest

    @property
    def parts(self) -> Sequence[StoredIndex]:
        return (self,)

    def rows_where(self, where: Where) -> list[int]:
        return self.store.rows_where(self.only(where))

    def nearest(self, vectors: NDArray[np.float32], k: int, where: Where) -> Iterable[RankedRows]:
        if self.manifest.server is None:
            return self.flat.nearest(vectors, k, self.mask(where))
        matching = self.store.matching(self.only(where))
        if not all(matching.values()):
            return [RankedRows.from_pairs(())] * len(vectors)
        nearest = self.chroma.query(vectors, k, _clause(matching))
        # The collection may have passages that a later build added.
        rows = self.store.rows_of_keys([int(key) for neighbors in nearest for key, _ in neighbors])
        return (
            RankedRows.from_pairs((rows[int(key)], cosine) for key, cosine in neighbors if int(key) in rows)
            for neighbors in nearest
        )

    def vectors_of(
        self, row_lists: Sequence[NDArray[np.int64]]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        for rows in map(self.flat.known, row_lists):
            yield rows, self.flat.of(rows)

    def source_file(self, path: str) -> Path | None:
        """Return the source file at a passage's `path`, or None if it does not exist or is outside the source."""
        source = Path(self.manifest.source)
        folder = source.parent if source.is_file() else source
        file = (folder / path).resolve()
        return file if path and file.is_file() and file.is_relative_to(folder.resolve()) else None


def _clause(matching: Mapping[str, Sequence[str]]) -> dict[str, Any] | None:
    """Return Chroma's filter for the values that each field may have."""
    clauses = [{key: {"$in": values}} for key, values in matching.items()]
    if len(clauses) > 1:
        return {"$and": clauses}
    return clauses[0] if clauses else None


def indexes_folder() -> Path:
    """Return the folder of all indexes, `$TURNMARK_HOME/indexes`."""
    return home() / "indexes"


def generation_folder(folder: Path, number: int) -> Path:
    """Return the folder of a generation of the index in `folder`."""
    return folder / f"g{number:04d}"


def open_index(name: str) -> StoredIndex:
    """Open the index called `name`."""
    folder = indexes_folder() / check_name(name, "index")
    manifest = read_manifest(folder)
    if manifest is None:
        unknown = unknown_name("index", name, [each.name for each in list_indexes()])
        if folder.is_dir():
            unknown += (
                "; it is being built, and can be asked as soon as its files are read"
                if is_being_built(folder)
                else "; a build of it was interrupted, and the same `index build` command continues it"
            )
        raise RequestError(f"{unknown}. Build one: turnmark index build SOURCE --name {name}")
    if manifest.format != FORMAT:
        raise RequestError(
            f"index {name!r} has format {manifest.format}, this version reads {FORMAT}; build it again "
            f"({describe_cost(manifest)}): {build_command(manifest, spec_of_build(manifest))}"
        )
    if manifest.tables and manifest.tables_version != TABLES_VERSION:
        raise RequestError(
            f"index {name!r} has stored tables of an earlier version; bring it up to date (all files are read again, "
            f"and nothing is embedded): {build_command(manifest, spec_of_build(manifest))}"
        )
    return StoredIndex(folder, manifest)


def only_index(flag: str = "--index") -> str:
    """Return the name of the only index, which is used where none is named.

    Args:
        flag: the flag or argument that names an index, for the message.

    Raises:
        RequestError: there is no index, or several.
    """
    names = [manifest.name for manifest in list_indexes()]
    if not names:
        raise RequestError(NO_INDEX)
    if len(names) > 1:
        raise RequestError(f"{flag} is missing (expected one of: {', '.join(names)})")
    return names[0]


def split_names(names: str) -> list[str]:
    """Return the distinct names in a comma-separated text; a text without a name is returned unchanged."""
    return list(dict.fromkeys(filter(None, map(str.strip, names.split(","))))) or [names]


def list_indexes(internal: bool = False) -> list[Manifest]:
    """Return the manifests of the finished indexes, by name; with `internal` also those kept for benchmarks.

    Folders without a readable manifest are not indexes.
    """
    manifests = []
    for folder in sorted(indexes_folder().glob("*/manifest.json")):
        try:
            manifest = read_manifest(folder.parent)
        except TurnmarkError:
            continue
        if manifest and (internal or not manifest.internal):
            manifests.append(manifest)
    return manifests


def is_being_built(folder: Path) -> bool:
    """Return whether another process builds the index in a folder now."""
    try:
        with lock_index(folder):
            return False
    except (TurnmarkError, OSError):
        return True


def describe_pending(index: StoredIndex) -> str:
    """Return a line that says how much of an index has vectors, or "" if all of it has."""
    manifest = index.manifest
    if not manifest.pending:
        return ""
    done = index.store.select('SELECT count(*) FROM contents WHERE "encoder" = ?', [DENSE])[0][0]
    share = f"{min(done / manifest.passages, 0.99):.0%} of its passages have vectors"
    how = "it is searched by words until then" if manifest.searches_by_words else "the others are found by words"
    command = f"turnmark index build {shlex.quote(manifest.source)} --name {manifest.name}"
    goes_on = "it is being built" if is_being_built(index.folder) else f"{command} goes on"
    return f"index {manifest.name}: {share}; {how}; {goes_on}"


@contextmanager
def lock_index(folder: Path, wait: bool = False) -> Iterator[None]:
    """Hold an index's lock: one process at a time builds or removes it.

    Args:
        wait: wait for another process instead of failing.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / ".lock", timeout=-1 if wait else LOCK_SECONDS)
    try:
        held = lock.acquire()
    except Timeout:
        raise TurnmarkError(
            f"index {folder.name!r} is being built by another process; wait for it, or stop it"
        ) from None
    with held:
        yield
