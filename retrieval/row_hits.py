"""Adds rows of large tables to the hits of a search.

The rows are no passages of the index, so no ranking contains them. They are found by their words. If a row has a larger
part of the words of the query than every passage, rows come first; otherwise they follow the best passages.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from turnmark.retrieval.stored import SearchableIndex
from turnmark.retrieval.table_rows import FoundRow
from turnmark.retrieval.types import Found, Hit, Query

ROWS_LIST = "rows"
"""Name of the ranking of rows in `Hit.found`."""
COSINES_LIST = "dense"


def with_rows(index: SearchableIndex, query: Query, hits: Sequence[Hit], top_k: int) -> list[Hit]:
    """Return the hits of a query with the rows of large tables that are about it, at most `top_k`."""
    if not index.row_finders:
        return list(hits)
    best: dict[str, FoundRow] = {}
    for text in query.texts():
        for finder in index.row_finders:
            for row in finder.find(text, top_k, query.where):
                if row.passage.id not in best or best[row.passage.id].share < row.share:
                    best[row.passage.id] = row
    rows = sorted(best.values(), key=lambda row: -row.share)[: (top_k + 1) // 2]
    if not rows:
        return list(hits)
    leads = rows[0].share >= index.bm25.best_share(query.text)
    place = 0 if leads else min(len(hits), top_k // 2)
    found = _as_hits(rows, _cosines(index, query, rows), _scores(hits, place, len(rows)))
    return [*hits[:place], *found, *hits[place:]][:top_k]


def _scores(hits: Sequence[Hit], place: int, count: int) -> list[float]:
    """Return descending scores for hits that are inserted at a place."""
    below = hits[place].score if place < len(hits) else hits[-1].score - 1 if hits else 0.0
    above = hits[place - 1].score if place else below + 1
    return [above - (above - below) * (at + 1) / (count + 1) for at in range(count)]


def _cosines(index: SearchableIndex, query: Query, rows: Sequence[FoundRow]) -> list[float]:
    """Return the best cosine of each row with a text of the query; empty without trusted vectors."""
    if not index.manifest.trusts_cosines():
        return []
    vectors = index.embedder.encode([row.passage.indexed_text for row in rows], "passage")
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    texts = np.stack([view.vector for view in index.views.of([("", text) for text in query.texts()])])
    return [float(each) for each in (vectors @ texts.T).max(axis=1)]


def _as_hits(rows: Sequence[FoundRow], cosines: Sequence[float], scores: Sequence[float]) -> list[Hit]:
    hits = []
    for at, (row, score) in enumerate(zip(rows, scores, strict=True)):
        found = {ROWS_LIST: Found(rank=at + 1, score=row.share)}
        if cosines:
            found[COSINES_LIST] = Found(rank=1 + sum(each > cosines[at] for each in cosines), score=cosines[at])
        hits.append(Hit(passage=row.passage, score=score, found=found))
    return hits
