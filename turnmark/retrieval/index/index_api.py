"""The index of the Python API and the commands: one finished index, or several that are searched together."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from turnmark.core.console import library_progress
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.untrusted import ellipsize, one_line
from turnmark.corpora.types import Passage, Problem
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.search.joint_index import check_comparable, joint_manifest
from turnmark.retrieval.search.opened_index import (
    SearchableIndex,
    StoredIndex,
    describe_pending,
    open_index,
    split_names,
)
from turnmark.retrieval.search.retriever_factory import default_retriever, open_retriever
from turnmark.retrieval.storage.filters import GivenWhere, parse_where
from turnmark.retrieval.storage.passage_store import DocumentMatch
from turnmark.retrieval.types import Hit, Query, Retriever

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
        if not parts:
            raise RequestError("no index is given; name one, or several")
        manifests = [part.manifest for part in parts]
        check_comparable(manifests)
        super().__init__(manifests[0] if len(manifests) == 1 else joint_manifest(manifests))
        self.problems = tuple(problems)
        self.unread = dict(self.manifest.unread)
        self._parts = tuple(parts)
        self._retrievers: dict[str, Retriever] = {}

    @classmethod
    def build(
        cls,
        source: str | Path,
        name: str,
        *,
        retriever: str | None = None,
        embedder: str | None = None,
        passage_tokens: int | None = None,
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
            passage_tokens: maximum tokens of a passage. If it is None, the previous build's are used, or 256.
            include, exclude: globs for paths relative to the source.
            describe: spec of a model that describes the pictures in the documents, e.g. `openai:gpt-4o-mini`, or `none`
                for no descriptions. If it is None, the previous build's model is used, if there was one.
            budget: limit for the descriptions, e.g. `200k` tokens or `$5`.
        """
        path = Path(source).expanduser()
        with library_progress() as progress:
            report = build_index(
                path, name, retriever=retriever, embedder=embedder, passage_tokens=passage_tokens, include=include,
                exclude=exclude, describe=describe, budget=budget, progress=progress,
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
        errors = ErrorCollector()
        listed = dict.fromkeys(name for text in names for name in split_names(text))
        opened = [errors.collect(open_index, name) for name in listed]
        errors.raise_all()
        parts = [index for index in opened if index is not None]
        for note in filter(None, map(describe_pending, parts)):
            logging.getLogger("turnmark").warning(note)
        return cls(parts)

    @classmethod
    def join(cls, indexes: Sequence[Index]) -> Index:
        """Return an index that searches all given indexes together. An index that occurs twice is searched once."""
        return cls(list({part.name: part for index in indexes for part in index.parts}.values()))

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
        if len(self._parts) == 1 and not name:
            return self._parts[0]
        return next((part for part in self._parts if part.name == name), None)

    @property
    def parts(self) -> Sequence[StoredIndex]:
        return self._parts
