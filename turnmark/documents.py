"""An index over a person's documents: built, opened, searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from turnmark.corpora.home import quiet_libraries
from turnmark.corpora.types import Problem
from turnmark.retrieval import index as stored
from turnmark.retrieval.build import build_index
from turnmark.retrieval.registry import default_retriever, open_retriever
from turnmark.retrieval.types import Hit, Query, Retriever

quiet_libraries()


class Index:
    """A finished index. Made by `Index.build` and `Index.open`.

    Attributes:
        stored: the index itself, with its manifest and its parts.
        problems: what `build` skipped in the source, and where; empty for an index that was opened.
    """

    def __init__(self, index: stored.Index, problems: Sequence[Problem] = ()) -> None:
        self.stored = index
        self.problems = tuple(problems)
        self._retrievers: dict[str, Retriever] = {}

    @classmethod
    def build(
        cls,
        source: str | Path,
        name: str,
        *,
        retriever: str = "conversational",
        embedder: str = "minilm",
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> Index:
        """Build an index, continue an interrupted build, or bring an index up to date with its source.

        Args:
            source: a folder, one file, or a BEIR corpus.jsonl; `~` is the home folder.
            name: what the index is called from now on.
            retriever: the spec that will search it; `bm25` needs no model.
            embedder: `minilm`, or `sentence-transformers:MODEL`.
            include, exclude: globs on the path relative to the source.

        Raises:
            TurnmarkError: a name, a spec or the source is wrong, or another build of this index is running.
        """
        path = Path(source).expanduser()
        report = build_index(path, name, retriever=retriever, embedder=embedder, include=include, exclude=exclude)
        return cls(stored.open_index(name), report.problems)

    @classmethod
    def open(cls, name: str) -> Index:
        """Open a finished index.

        Raises:
            TurnmarkError: no index has that name; the message lists those there are.
        """
        return cls(stored.open_index(name))

    @property
    def name(self) -> str:
        """The name it was built under."""
        return self.stored.manifest.name

    def __len__(self) -> int:
        """The number of passages."""
        return self.stored.manifest.passages

    def __repr__(self) -> str:
        manifest = self.stored.manifest
        return f"Index({manifest.name!r}, {manifest.documents} documents, {manifest.passages} passages)"

    def search(
        self, query: str, k: int = 10, *, retriever: str | None = None, where: Mapping[str, str] | None = None
    ) -> list[Hit]:
        """The `k` best passages for a query, best first.

        Args:
            retriever: a retriever spec; None: the default for this index.
            where: metadata key -> glob that its value must match.

        Raises:
            TurnmarkError: the spec is wrong, or the index lacks what it needs.
        """
        spec = retriever or default_retriever(self.stored)
        if spec not in self._retrievers:
            self._retrievers[spec] = open_retriever(spec, self.stored)
        (hits,) = self._retrievers[spec].search([Query(text=query, where=where or {})], k)
        return hits
