"""Joins the scores and the manifests of several indexes that are searched together, as if they were one.

Rows are numbered consecutively: those of the second index follow those of the first. Retrievers therefore work on
several indexes unchanged. Each list contains rows of all indexes and is fused once, so the scores in a list must be
comparable:

- Vectors and SPLADE terms: the same models made all indexes, so cosines and products are comparable.
- BM25 and late interaction: each index stores its own term scores, which are weighted by the idf over all indexes. Only
  the mean passage length is not shared: each index uses its own.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from turnmark.core.errors import RequestError
from turnmark.core.grouping import group_pairs
from turnmark.corpora.text.analysis import unite
from turnmark.retrieval.embedding.array_types import FloatArray, TokenIds
from turnmark.retrieval.ranking.bm25 import BM25, TermScores, lucene_idf
from turnmark.retrieval.ranking.vectors import TokenIndex, TokenVectors
from turnmark.retrieval.search.rebuild_commands import build_command, spec_of_components
from turnmark.retrieval.storage.manifest import Manifest, RankerWeight


def first_rows(counts: Iterable[int]) -> list[int]:
    """Return the first row of each index, given their numbers of rows, followed by the total number of rows."""
    return list(accumulate(counts, initial=0))


class JointBM25(TermScores):
    """BM25 over several indexes, with the idf over all of them."""

    def __init__(self, parts: Sequence[BM25]) -> None:
        super().__init__(unite([part.analyze for part in parts]), sum(part.rows for part in parts))
        self._parts = list(parts)

    def scores(self, text: str) -> NDArray[np.float32]:
        totals = [np.zeros(part.rows, dtype=np.float32) for part in self._parts]
        for term in self.query_terms(text):
            counts = [part.frequency(term) for part in self._parts]
            idf = lucene_idf(self.rows, sum(counts))
            for part, count, total in zip(self._parts, counts, totals, strict=True):
                if count:
                    part.add_scores(term, idf / lucene_idf(part.rows, count), total)
        return np.concatenate(totals)

    def frequency(self, term: str) -> int:
        return sum(part.frequency(term) for part in self._parts)

    def terms(self) -> Collection[str]:
        return frozenset().union(*(part.terms() for part in self._parts))

    def highest(self, term: str) -> float:
        counts = [part.frequency(term) for part in self._parts]
        idf = lucene_idf(self.rows, sum(counts))
        pairs = zip(self._parts, counts, strict=True)
        return max(
            (part.highest(term) * idf / lucene_idf(part.rows, count) for part, count in pairs if count), default=0.0
        )

    def rows_with(self, text: str) -> list[int]:
        starts = first_rows(part.rows for part in self._parts)
        return [start + row for start, part in zip(starts, self._parts, strict=False) for row in part.rows_with(text)]


class JointTokens(TokenVectors):
    """The token vectors of several indexes, with the idf over all of them."""

    def __init__(self, parts: Sequence[TokenIndex]) -> None:
        self._parts = list(parts)
        self._offsets = first_rows(part.rows for part in parts)

    @property
    def rows(self) -> int:
        return self._offsets[-1]

    def document_frequencies(self, ids: TokenIds) -> NDArray[np.int64]:
        frequencies = np.zeros(len(ids), dtype=np.int64)
        for part in self._parts:
            frequencies += part.document_frequencies(ids)
        return frequencies

    def best(self, rows: Sequence[int] | NDArray[np.int64], tokens: FloatArray) -> FloatArray:
        rows = np.asarray(rows, dtype=np.int64)
        cosines = np.zeros((len(rows), len(tokens)), dtype=np.float32)
        for number, part in enumerate(self._parts):
            positions = np.flatnonzero((rows >= self._offsets[number]) & (rows < self._offsets[number + 1]))
            cosines[positions] = part.best(rows[positions] - self._offsets[number], tokens)
        return cosines


def check_comparable(manifests: Sequence[Manifest]) -> None:
    """Raise RequestError for indexes whose scores cannot be compared with those of the first."""
    first = manifests[0]
    problems = []
    for manifest in manifests[1:]:
        if manifest.embedder != first.embedder:
            differs = f"has {_made_with(manifest)}, and {first.name!r} has {_made_with(first)}"
        elif _weighting(manifest) != _weighting(first):
            differs = f"has the BM25 settings {_weighting(manifest)}, and {first.name!r} has {_weighting(first)}"
        else:
            continue
        wanted = manifest.model_copy(update={"embedder": first.embedder, "bm25": first.bm25})
        problems.append(
            f"index {manifest.name!r} {differs}; to search them together, build it again: "
            f"{build_command(wanted, spec_of_components(first))}"
        )
    if problems:
        raise RequestError(problems)


def _joint_languages(manifests: Sequence[Manifest]) -> dict[str, int]:
    return dict(sum((Counter(manifest.languages) for manifest in manifests), Counter[str]()).most_common())


def _joint_weights(manifests: Sequence[Manifest]) -> dict[str, RankerWeight]:
    """Return the lowest weight of each ranker: its list ranks the passages of all indexes at once."""
    weights = group_pairs(each for manifest in manifests for each in manifest.weights.items())
    return {name: min(found, key=lambda weight: weight.share) for name, found in weights.items()}


def _made_with(manifest: Manifest) -> str:
    info = manifest.embedder
    return f"the embedder {info.spec!r} ({info.fingerprint})" if info else "no embedder (built for BM25 only)"


def _weighting(manifest: Manifest) -> str:
    """Return the settings on which the scores of terms depend. Languages may differ, because each language has its own
    terms."""
    return f"k1={manifest.bm25.k1}, b={manifest.bm25.b}"


def joint_manifest(manifests: Sequence[Manifest]) -> Manifest:
    """Return a manifest of what several indexes have in common.

    Indexes that were built for different retrievers are searched by default with the components that all of them have.
    """
    first = manifests[0]
    same_retriever = all(manifest.retriever == first.retriever for manifest in manifests)
    levels = [manifest.sure_from for manifest in manifests if manifest.sure_from is not None]
    return first.model_copy(
        update={
            "name": ",".join(manifest.name for manifest in manifests),
            "documents": sum(manifest.documents for manifest in manifests),
            "passages": sum(manifest.passages for manifest in manifests),
            "languages": _joint_languages(manifests),
            "weights": _joint_weights(manifests),
            "skipped": sum(manifest.skipped for manifest in manifests),
            "digest": hashlib.sha256("\n".join(manifest.digest for manifest in manifests).encode()).hexdigest(),
            "splade": first.splade if all(manifest.splade == first.splade for manifest in manifests) else None,
            "tokens": all(manifest.tokens for manifest in manifests),
            "pending": sum(manifest.pending for manifest in manifests),
            "retriever": first.retriever if same_retriever else "",
            "server": first.server if all(manifest.server == first.server for manifest in manifests) else None,
            "described": None,  # each index has pictures of its own
            "sure_from": max(levels, default=None),
            "created": max(manifest.created for manifest in manifests),
        }
    )
