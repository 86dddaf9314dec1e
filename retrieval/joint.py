"""Several indexes searched together, as if they were one.

Rows are numbered through, the second index's after the first's, so every retriever over an index works on them
unchanged: its lists hold rows of all indexes, and are fused once. For that the scores of one list must be comparable:

- Vectors and SPLADE terms: all indexes are made by the same models, so cosines and products are.
- BM25 and late interaction: each index stores its own term scores. They are weighted by the idf over all indexes. Only
  the mean length of passages stays each index's own.

Two indexes may hold documents of the same id: here `Passage.id` and `Passage.document` begin with `INDEX:`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.specs import Spec
from turnmark.corpora.types import Passage
from turnmark.retrieval.bm25 import BM25
from turnmark.retrieval.embed import Embedder
from turnmark.retrieval.fusion import TopK, top_k_of
from turnmark.retrieval.index import MOST_TITLED, Index, open_index, where_in
from turnmark.retrieval.manifest import Manifest, ModelInfo, as_built, build_command
from turnmark.retrieval.store import DocumentEntry, PassageStore, StoredText
from turnmark.retrieval.vectors import Floats, Ids, TokenIndex

T = TypeVar("T")


def names_of(names: str) -> list[str]:
    """Return the names in a list of indexes separated by commas, without repeats."""
    return list(dict.fromkeys(filter(None, map(str.strip, names.split(","))))) or [names]


def open_indexes(names: str) -> Index:
    """Open an index, or several whose names are separated by commas, to search them together.

    Raises:
        RequestError: indexes that are missing, or that cannot be searched together; all of them.
    """
    errors = ErrorCollector()
    opened = [errors.collect(open_index, name) for name in names_of(names)]
    errors.raise_all()
    return join_indexes([index for index in opened if index is not None])


def join_indexes(indexes: Sequence[Index]) -> Index:
    """Return several open indexes as one; a single one as it is."""
    parts = list({part.manifest.name: part for index in indexes for part in index.parts}.values())
    return parts[0] if len(parts) == 1 else JointIndex(parts)


class JointIndex(Index):
    """Several indexes as one.

    Args:
        parts: the indexes, with distinct names.

    Raises:
        RequestError: some were made with another embedder or other BM25 settings than the first; names all of them,
            with the commands that build them again.
    """

    def __init__(self, parts: Sequence[Index]) -> None:
        _check_alike(parts)
        self._parts = tuple(parts)
        self._starts = _starts([part.manifest.passages for part in parts])
        super().__init__(parts[0].folder, _joint_manifest(parts))

    def is_current(self) -> bool:
        return all(part.is_current() for part in self._parts)

    @property
    def parts(self) -> tuple[Index, ...]:
        return self._parts

    def part(self, name: str) -> Index | None:
        return next((part for part in self._parts if part.manifest.name == name), None)

    @cached_property
    def store(self) -> PassageStore:
        return JointStore(self._parts)

    @cached_property
    def bm25(self) -> BM25:
        return JointBM25([part.bm25 for part in self._parts])

    @cached_property
    def tokens(self) -> TokenIndex:
        self.need_tokens()
        return JointTokens([part.tokens for part in self._parts])

    @cached_property
    def embedder(self) -> Embedder:
        return self._parts[0].embedder

    def need_tokens(self, retriever: str = "conversational") -> None:
        self._each(lambda part: part.need_tokens(retriever))

    def model_info(self, name: str, lacks: str, needs: str) -> ModelInfo:
        infos = self._each(lambda part: part.model_info(name, lacks, needs))
        return infos[0]

    def check_model(self, retriever: Spec, kind: str, requested: str, info: ModelInfo | None) -> None:  # noqa: ARG002
        def check(part: Index) -> None:
            made_by = part.manifest.embedder if kind == "embedder" else part.manifest.splade
            part.check_model(retriever, kind, requested, made_by)

        self._each(check)

    def build_command(self, retriever: str) -> str:
        return "; ".join(part.build_command(retriever) for part in self._parts)

    def _each(self, work: Callable[[Index], T]) -> list[T]:
        """Return the result for each index; RequestError with the mistakes of all."""
        errors = ErrorCollector()
        results: list[T] = []
        for part in self._parts:
            try:
                results.append(work(part))
            except RequestError as error:
                errors.problems += error.problems
        errors.raise_all()
        return results

    def mask(self, where: Mapping[str, str]) -> NDArray[np.bool_] | None:
        if not where:
            return None
        mask = np.zeros(self.manifest.passages, dtype=np.bool_)
        mask[self.store.rows_where(where)] = True
        return mask

    def nearest(self, vectors: NDArray[np.float32], k: int, where: Mapping[str, str]) -> Iterable[TopK]:
        rows: list[list[NDArray[np.int64]]] = [[] for _ in vectors]
        cosines: list[list[NDArray[np.float64]]] = [[] for _ in vectors]
        names = [part.manifest.name for part in self._parts]
        for part, start in zip(self._parts, self._starts, strict=False):
            part_where = _where_in(part.manifest.name, names, where)
            tops = part.nearest(vectors, k, part_where) if part_where is not None else ()
            for position, top in enumerate(tops):
                rows[position].append(top.rows + start)
                cosines[position].append(top.scores)
        for position in range(len(vectors)):
            if rows[position]:
                yield top_k_of(np.concatenate(rows[position]), np.concatenate(cosines[position]), k)
            else:
                yield TopK.from_pairs(())

    def vectors_of(
        self, row_lists: Sequence[NDArray[np.int64]]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        by_part = []
        for number, part in enumerate(self._parts):
            start, end = self._starts[number], self._starts[number + 1]
            part_rows = [rows[(rows >= start) & (rows < end)] - start for rows in row_lists]
            by_part.append([(rows + start, vectors) for rows, vectors in part.vectors_of(part_rows)])
        for pieces in zip(*by_part, strict=True):
            yield np.concatenate([rows for rows, _ in pieces]), np.concatenate([vectors for _, vectors in pieces])

    @cached_property
    def titles(self) -> list[str]:
        if self.manifest.documents > MOST_TITLED:
            return []
        return list(dict.fromkeys(chain.from_iterable(part.titles for part in self._parts)))


def _starts(counts: Iterable[int]) -> list[int]:
    """Return the first row of each part, and the number of all rows."""
    return list(accumulate(counts, initial=0))


def _check_alike(parts: Sequence[Index]) -> None:
    """Raise RequestError for indexes whose scores cannot be compared with those of the first."""
    first = parts[0].manifest
    problems = []
    for manifest in (part.manifest for part in parts[1:]):
        if manifest.embedder != first.embedder:
            differs = f"has {_made_with(manifest)}, and {first.name!r} has {_made_with(first)}"
        elif manifest.bm25 != first.bm25:
            differs = f"has the BM25 settings {_settings(manifest)}, and {first.name!r} has {_settings(first)}"
        else:
            continue
        wanted = manifest.model_copy(update={"embedder": first.embedder, "bm25": first.bm25})
        problems.append(
            f"index {manifest.name!r} {differs}; to search them together, build it again: "
            f"{build_command(wanted, as_built(first))}"
        )
    if problems:
        raise RequestError(problems)


def _made_with(manifest: Manifest) -> str:
    info = manifest.embedder
    return f"the embedder {info.spec!r} ({info.fingerprint})" if info else "no embedder (built for BM25 only)"


def _settings(manifest: Manifest) -> str:
    return ", ".join(f"{key}={value}" for key, value in manifest.bm25.model_dump().items())


def _joint_manifest(parts: Sequence[Index]) -> Manifest:
    """Return a manifest that says what all indexes together have."""
    manifests = [part.manifest for part in parts]
    first = manifests[0]
    levels = [manifest.sure_from for manifest in manifests if manifest.sure_from is not None]
    return first.model_copy(
        update={
            "name": ",".join(manifest.name for manifest in manifests),
            "documents": sum(manifest.documents for manifest in manifests),
            "passages": sum(manifest.passages for manifest in manifests),
            "skipped": sum(manifest.skipped for manifest in manifests),
            "digest": hashlib.sha256("\n".join(manifest.digest for manifest in manifests).encode()).hexdigest(),
            "splade": first.splade if all(manifest.splade == first.splade for manifest in manifests) else None,
            "tokens": all(manifest.tokens for manifest in manifests),
            "exact": all(manifest.exact for manifest in manifests),
            "server": first.server if all(manifest.server == first.server for manifest in manifests) else None,
            "sure_from": max(levels, default=None),
            "created": max(manifest.created for manifest in manifests),
        }
    )


def _where_in(name: str, names: Sequence[str], where: Mapping[str, str]) -> dict[str, str] | None:
    """Return a filter for one of several indexes; None: nothing of it matches.

    A glob for `document` may begin with `INDEX:`, as the ids do here.
    """
    part_where = where_in(name, where)
    if part_where is None or "document" not in part_where:
        return part_where
    index, colon, document = part_where["document"].partition(":")
    if not colon or index not in names:
        return part_where
    return {**part_where, "document": document} if index == name else None


class JointStore(PassageStore):
    """The passages of several indexes; only reading."""

    def __init__(self, indexes: Sequence[Index]) -> None:
        self._names = [index.manifest.name for index in indexes]
        self._stores = [index.store for index in indexes]
        self._starts = _starts(index.manifest.passages for index in indexes)

    def _parts(self) -> Iterator[tuple[str, PassageStore, int]]:
        """Yield name, store and first row of each index."""
        return zip(self._names, self._stores, self._starts, strict=False)

    def _named(self, document: str) -> tuple[str, PassageStore, str] | None:
        """Return the index of a document, its store, and the document's id there."""
        name, _, part_document = document.partition(":")
        return (name, self._stores[self._names.index(name)], part_document) if name in self._names else None

    def _split(self, rows: Sequence[int]) -> Iterator[tuple[str, PassageStore, int, list[int]]]:
        """Yield name, store and first row of each index that has some of the rows, with these as it numbers them."""
        for number, (name, store, start) in enumerate(self._parts()):
            part_rows = [row - start for row in rows if start <= row < self._starts[number + 1]]
            if part_rows:
                yield name, store, start, part_rows

    def count(self) -> int:
        return self._starts[-1]

    def by_rows(self, rows: Sequence[int]) -> list[Passage]:
        passages: dict[int, Passage] = {}
        for name, store, start, part_rows in self._split(rows):
            for row, passage in zip(part_rows, store.by_rows(part_rows), strict=True):
                passages[start + row] = _of_index(name, passage)
        return [passages[row] for row in rows]

    def ids_of(self, rows: Sequence[int]) -> dict[int, str]:
        ids: dict[int, str] = {}
        for name, store, start, part_rows in self._split(rows):
            ids |= {start + row: f"{name}:{identifier}" for row, identifier in store.ids_of(part_rows).items()}
        return ids

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        rows: dict[str, int] = {}
        for name, store, start in self._parts():
            part_ids = [identifier.removeprefix(f"{name}:") for identifier in ids if identifier.startswith(f"{name}:")]
            rows |= {f"{name}:{identifier}": start + row for identifier, row in store.rows_of(part_ids).items()}
        return rows

    def of_document(self, document: str) -> list[Passage]:
        named = self._named(document)
        if named is None:
            return []
        name, store, part_document = named
        return [_of_index(name, passage) for passage in store.of_document(part_document)]

    def documents(self, where: Mapping[str, str] | None = None) -> list[DocumentEntry]:
        entries = []
        for name, store, part_where, _ in self._under(where):
            for entry in store.documents(part_where):
                entries.append(entry.model_copy(update={"document": f"{name}:{entry.document}"}))
        return entries

    @cached_property
    def document_count(self) -> int:
        return sum(store.document_count for store in self._stores)

    def documents_of(self, rows: Sequence[int]) -> list[str]:
        documents: list[str] = []
        for name, store, _, part_rows in self._split(rows):
            documents += [f"{name}:{document}" for document in store.documents_of(part_rows)]
        return documents

    def titles(self) -> list[str]:
        return list(dict.fromkeys(chain.from_iterable(store.titles() for store in self._stores)))

    def texts(self, where: Mapping[str, str] | None = None, size: int = 2000) -> Iterator[StoredText]:
        for name, store, part_where, _ in self._under(where):
            for text in store.texts(part_where, size):
                yield text._replace(id=f"{name}:{text.id}", document=f"{name}:{text.document}")

    def pages(self, size: int = 1000) -> Iterator[list[tuple[int, str, Passage]]]:
        for name, store, start in self._parts():
            for page in store.pages(size):
                yield [(start + row, content, _of_index(name, passage)) for row, content, passage in page]

    def matching(self, where: Mapping[str, str]) -> dict[str, list[Any]]:
        raise NotImplementedError("each index has its own values")

    def rows_where(self, where: Mapping[str, str]) -> list[int]:
        rows: list[int] = []
        for _, store, part_where, start in self._under(where):
            rows += [start + row for row in store.rows_where(part_where)]
        return rows

    def _under(self, where: Mapping[str, str] | None) -> Iterator[tuple[str, PassageStore, dict[str, str], int]]:
        """Yield name, store, filter and first row of each index that a filter leaves in."""
        for name, store, start in self._parts():
            part_where = _where_in(name, self._names, where or {})
            if part_where is not None:
                yield name, store, part_where, start


def _of_index(name: str, passage: Passage) -> Passage:
    names = {"index": name, "id": f"{name}:{passage.id}", "document": f"{name}:{passage.document}"}
    return passage.model_copy(update=names)


class JointBM25(BM25):
    """BM25 over several indexes, with the idf over all of them."""

    def __init__(self, parts: Sequence[BM25]) -> None:
        self._parts = list(parts)
        self.analyse = parts[0].analyse
        self.rows = sum(part.rows for part in parts)

    def scores(self, text: str) -> NDArray[np.float32]:
        totals = [np.zeros(part.rows, dtype=np.float32) for part in self._parts]
        for term in self.analyse(text):
            counts = [part.frequency(term) for part in self._parts]
            idf = _lucene_idf(self.rows, sum(counts))
            for part, count, total in zip(self._parts, counts, totals, strict=True):
                if count:
                    part.add_scores(term, idf / _lucene_idf(part.rows, count), total)
        return np.concatenate(totals)

    def rows_with(self, text: str) -> list[int]:
        starts = _starts(part.rows for part in self._parts)
        return [start + row for start, part in zip(starts, self._parts, strict=False) for row in part.rows_with(text)]


def _lucene_idf(rows: int, holding: int) -> float:
    """Return the idf of a term in the Lucene variant of BM25, as bm25s computes it."""
    return float(np.log1p((rows - holding + 0.5) / (holding + 0.5)))


class JointTokens(TokenIndex):
    """The token vectors of several indexes, with the idf over all of them."""

    def __init__(self, parts: Sequence[TokenIndex]) -> None:
        self._parts = list(parts)
        self._offsets = _starts(part.rows for part in parts)
        self.dimension = parts[0].dimension

    @property
    def rows(self) -> int:
        return self._offsets[-1]

    def holding(self, ids: Ids) -> NDArray[np.int64]:
        holding = np.zeros(len(ids), dtype=np.int64)
        for part in self._parts:
            holding += part.holding(ids)
        return holding

    def best(self, rows: Sequence[int] | NDArray[np.int64], tokens: Floats) -> Floats:
        rows = np.asarray(rows, dtype=np.int64)
        cosines = np.zeros((len(rows), len(tokens)), dtype=np.float32)
        for number, part in enumerate(self._parts):
            positions = np.flatnonzero((rows >= self._offsets[number]) & (rows < self._offsets[number + 1]))
            cosines[positions] = part.best(rows[positions] - self._offsets[number], tokens)
        return cosines
