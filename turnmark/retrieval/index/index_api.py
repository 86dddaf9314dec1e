"""The index of the Python API and the commands: one finished index, or several that are searched together."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.untrusted import ellipsize, one_line
from turnmark.corpora.types import Passage, Problem
from turnmark.retrieval.embedding.embedders import Embedder
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.joint_index import (
    JointBM25,
    JointStore,
    JointTokens,
    check_comparable,
    first_rows,
    joint_manifest,
)
from turnmark.retrieval.ranking.bm25 import TermScores
from turnmark.retrieval.ranking.fusion import RankedRows, top_k_of
from turnmark.retrieval.ranking.vectors import TokenVectors
from turnmark.retrieval.search.opened_index import (
    SearchableIndex,
    StoredIndex,
    describe_pending,
    open_index,
    split_names,
)
from turnmark.retrieval.search.retriever_factory import default_retriever, open_retriever
from turnmark.retrieval.storage.filters import GivenWhere, Where, in_index, parse_where
from turnmark.retrieval.storage.passage_store import DocumentMatch, Passages
from turnmark.retrieval.storage.picture_store import JointPictures, PictureStore
from turnmark.retrieval.types import Hit, Query, Retriever

T = TypeVar("T")
MAX_WORDS_CHARACTERS = 80
"""Length to which words are cut in a message."""


class Index(SearchableIndex):
    """A finished index, or several that are searched together.

    `Index.build`, `Index.open` and `Index.join` return one. `len(index)` is the number of passages, and iterating over
    an index yields them.

    Attributes:
        parts: the stored indexes, in the order of their rows.
        problems: what `build` skipped in the source, and where; empty after `open`.
        unread: the number of files of types that are not read, by suffix.
    """

    def __init__(self, parts: Sequence[StoredIndex], problems: Sequence[Problem] = ()) -> None:
        manifests = [part.manifest for part in parts]
        check_comparable(manifests)
        super().__init__(manifests[0] if len(manifests) == 1 else joint_manifest(manifests))
        self.problems = tuple(problems)
        self.unread = dict(self.manifest.unread)
        self._parts = tuple(parts)
        self._only = parts[0] if len(parts) == 1 else None
        self._starts = first_rows(manifest.passages for manifest in manifests)
        self._retrievers: dict[str, Retriever] = {}

    @classmethod
    def build(
        cls,
        source: str | Path,
        name: str,
        *,
        retriever: str | None = None,
        embedder: str | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        describe: str | None = None,
        budget: str | None = None,
    ) -> Index:
        """Build an index, continue an interrupted build, or bring an index up to date with its source.

        If the embedder does not know the languages of the documents, the logger `turnmark` warns and says what to do.

        Args:
            source: a folder, one file, or a BEIR corpus.jsonl; `~` is the home folder.
            name: the index's name.
            retriever: spec of the retriever to build for; `bm25` needs no model. The default is that of
                `turnmark index build`.
            embedder: `minilm`, `multilingual-e5-small` or `sentence-transformers:MODEL`. The default
                is that of `turnmark index build`.
            include, exclude: globs for paths relative to the source.
            describe: spec of a model that describes the pictures in the documents, e.g. `openai:gpt-4o-mini`, or `none`
                for no descriptions. If it is None, the previous build's model is used, if there was one.
            budget: limit for the descriptions, e.g. `200k` tokens or `$5`.
        """
        path = Path(source).expanduser()
        report = build_index(
            path, name, retriever=retriever, embedder=embedder, include=include, exclude=exclude, describe=describe,
            budget=budget,
        )  # fmt: skip
        if report.advice:
            logging.getLogger("turnmark").warning("index %s: %s", name, report.advice)
        return cls([open_index(name)], report.problems)

    @classmethod
    def open(cls, *names: str) -> Index:
        """Open a finished index, or several that are searched together.

        Args:
            names: names of indexes; one text may also contain several names separated by commas.

        Raises:
            RequestError: names every index that is missing or cannot be searched together with the first.
        """
        listed = [name for text in names for name in split_names(text)]
        if not listed:
            raise RequestError("no index is given; name one, or several")
        errors = ErrorCollector()
        opened = [errors.collect(open_index, name) for name in dict.fromkeys(listed)]
        errors.raise_all()
        parts = [index for index in opened if index is not None]
        for note in filter(None, map(describe_pending, parts)):
            logging.getLogger("turnmark").warning(note)
        return cls(parts)

    @classmethod
    def join(cls, indexes: Sequence[Index]) -> Index:
        """Return an index that searches all given indexes together. An index that occurs twice is searched once."""
        parts = list({part.manifest.name: part for index in indexes for part in index.parts}.values())
        if not parts:
            raise RequestError("no index is given; name one, or several")
        return cls(parts)

    def __len__(self) -> int:
        """Return the number of passages."""
        return self.manifest.passages

    def __iter__(self) -> Iterator[Passage]:
        """Yield all passages in the order of their row numbers."""
        for page in self.store.pages():
            yield from (passage.as_stored() for _, _, passage in page)

    def __repr__(self) -> str:
        return f"Index({self.name!r}, {self.manifest.documents} documents, {self.manifest.passages} passages)"

    def search(self, query: str, top_k: int = 10, *, retriever: str | None = None, where: GivenWhere = ()) -> list[Hit]:
        """Return the `top_k` best passages for a query, best first.

        The query is spelled as in the documents: codes, and words that no document has.

        Args:
            query: a question or search words.
            top_k: the maximum number of passages.
            retriever: a retriever spec, or None for the index's default.
            where: a filter: a condition such as `"date>=2025-01"`, several, or values by key, e.g.
                `{"path": "handbook/*"}`.
        """
        spec = retriever or default_retriever(self)
        if spec not in self._retrievers:
            self._retrievers[spec] = open_retriever(spec, self)
        opened = self._retrievers[spec]
        (hits,) = opened.search([Query(text=opened.respell(query), where=parse_where(where))], top_k)
        return [hit.model_copy(update={"passage": hit.passage.as_stored()}) for hit in hits]

    def documents(self, words: str = "", where: GivenWhere = ()) -> list[DocumentMatch]:
        """Return the documents by id, or those with a passage that contains all of the words, best match first.

        Args:
            words: compared by word stem, as in a search; "" for all documents.
            where: a filter, as in `search`.
        """
        conditions = parse_where(where)
        self.check_where(conditions)
        entries = self.store.documents(self.only(conditions))
        if not words.strip():
            return [DocumentMatch(**entry.model_dump()) for entry in entries]
        if not self.bm25.analyze(words):
            shown = ellipsize(one_line(words), MAX_WORDS_CHARACTERS)
            raise RequestError(f"words: {shown!r} contains only words that are too common; use rarer ones")
        counts = Counter(self.store.documents_of(self.bm25.rows_with(words)))
        for finder in self.row_finders:
            counts.update(finder.counts(words))
        matching = [
            DocumentMatch(**entry.model_dump(), matches=counts[entry.document])
            for entry in entries
            if entry.document in counts
        ]
        return sorted(matching, key=lambda match: (-(match.matches or 0), match.document))

    def part(self, name: str) -> StoredIndex | None:
        """Return the stored index of a passage or citation by its field `index`, or None if it is not searched here.

        The field is empty if only one index is searched.
        """
        if self._only is not None and not name:
            return self._only
        return next((part for part in self._parts if part.manifest.name == name), None)

    # -- as retrievers see it

    @property
    def parts(self) -> Sequence[StoredIndex]:
        return self._parts

    @cached_property
    def store(self) -> Passages:
        return self._only.store if self._only is not None else JointStore(self._parts)

    @cached_property
    def bm25(self) -> TermScores:
        return self._only.bm25 if self._only is not None else JointBM25([part.bm25 for part in self._parts])

    @cached_property
    def tokens(self) -> TokenVectors:
        self.need_tokens()
        return self._only.tokens if self._only is not None else JointTokens([part.tokens for part in self._parts])

    @cached_property
    def pictures(self) -> PictureStore | None:
        if self._only is not None:
            return self._only.pictures
        parts = {part.manifest.name: part.pictures for part in self._parts}
        stores = {name: store for name, store in parts.items() if store is not None}
        return JointPictures(stores) if stores else None

    @property
    def embedder(self) -> Embedder:
        return self._parts[0].embedder

    def is_current(self) -> bool:
        return all(part.is_current() for part in self._parts)

    def rows_where(self, where: Where) -> list[int]:
        return [start + row for part, start, part_where in self._under(where) for row in part.rows_where(part_where)]

    def nearest(self, vectors: NDArray[np.float32], k: int, where: Where) -> Iterable[RankedRows]:
        if self._only is not None:
            return self._only.nearest(vectors, k, where)
        return self._nearest_of_all(vectors, k, where)

    def vectors_of(
        self, row_lists: Sequence[NDArray[np.int64]]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        return self._only.vectors_of(row_lists) if self._only is not None else self._vectors_of_all(row_lists)

    # -- several indexes

    def _under(self, where: Where) -> Iterator[tuple[StoredIndex, int, Where]]:
        """Yield each part in which passages may match a filter, with its first row and its own filter."""
        if self._only is not None:
            yield self._only, 0, where
            return
        names = [part.manifest.name for part in self._parts]
        for part, start in zip(self._parts, self._starts, strict=False):
            part_where = in_index(where, part.manifest.name, names)
            if part_where is not None:
                yield part, start, part_where

    def _nearest_of_all(self, vectors: NDArray[np.float32], k: int, where: Where) -> Iterator[RankedRows]:
        rows: list[list[NDArray[np.int64]]] = [[] for _ in vectors]
        cosines: list[list[NDArray[np.float64]]] = [[] for _ in vectors]
        for part, start, part_where in self._under(where):
            for position, top in enumerate(part.nearest(vectors, k, part_where)):
                rows[position].append(top.rows + start)
                cosines[position].append(top.scores)
        for position in range(len(vectors)):
            if rows[position]:
                yield top_k_of(np.concatenate(rows[position]), np.concatenate(cosines[position]), k)
            else:
                yield RankedRows.from_pairs(())

    def _vectors_of_all(
        self, row_lists: Sequence[NDArray[np.int64]]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        by_part = []
        for number, part in enumerate(self._parts):
            start, end = self._starts[number], self._starts[number + 1]
            part_rows = [rows[(rows >= start) & (rows < end)] - start for rows in row_lists]
            by_part.append([(rows + start, vectors) for rows, vectors in part.vectors_of(part_rows)])
        for found in zip(*by_part, strict=True):
            yield np.concatenate([rows for rows, _ in found]), np.concatenate([vectors for _, vectors in found])
