"""Adds rows of large tables to the hits of a search, and limits the places that long tables take.

The rows of a long table take one place in a ranking, and only if the message has a word of them. Its other passages
follow all other hits. Without this, an answer in prose comes after many rows of a CSV file.

The rows of large tables are not passages of the index, so no ranking contains them. They are found by their words. If a
row has a larger share of the words of the query than every passage, rows come first. Otherwise they follow the better
half of the passages. If a row has a word that no passage contains, rows follow the best passage alone: the other
passages cannot answer what is asked about this word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from turnmark.corpora.text.function_words import content_words
from turnmark.retrieval.embedding.array_types import scale_to_unit
from turnmark.retrieval.ranking.fusion import RankAndScore
from turnmark.retrieval.search.opened_index import SearchableIndex
from turnmark.retrieval.tables.row_finder import FoundRow, RowFinder
from turnmark.retrieval.tables.search_words import remove_plural, search_words
from turnmark.retrieval.types import Hit, Query

ROWS_LIST = "rows"
"""Name of the ranking of rows in `Hit.found`."""
COSINES_LIST = "dense"
"""Name in `Hit.found` of the best cosine of a row, as of a passage (`turnmark.retrieval.search.retrievers`)."""
DEPTH_WITH_LONG_TABLES = 5
"""Multiple of the hits that are ranked if there are long tables."""
MIN_DIGITS = 5
"""Minimum digits of a number that is treated as a name. Smaller numbers and years occur in many rows by chance."""


def search_depth(index: SearchableIndex, top_k: int) -> int:
    """Return how many hits to rank, so that `top_k` are left if some are passages of long tables."""
    return top_k * DEPTH_WITH_LONG_TABLES if index.tables and index.tables.long_tables else top_k


def with_rows(index: SearchableIndex, query: Query, hits: Sequence[Hit], top_k: int) -> list[Hit]:
    """Return the hits of a query with the rows of large tables that are about it, at most `top_k`."""
    leading, repeated = _one_place_per_table(index, query, hits)
    return [*_with_found_rows(index, query, leading, top_k), *repeated][:top_k]


def _one_place_per_table(index: SearchableIndex, query: Query, hits: Sequence[Hit]) -> tuple[list[Hit], list[Hit]]:
    """Return the hits that keep their places, and the passages of long tables that follow all others."""
    if not index.tables or not index.tables.long_tables:
        return list(hits), []
    leading: list[Hit] = []
    repeated: list[Hit] = []
    shown: set[str] = set()
    words = _words(" ".join(map(" ".join, map(content_words, query.texts()))))
    for hit in hits:
        table = index.tables.long_table_of(hit.passage)
        if table is None or (table.name not in shown and words & _words(hit.passage.indexed_text)):
            leading.append(hit)
            shown |= {table.name} if table else set()
        else:
            repeated.append(hit)
    lowest = min((hit.score for hit in leading), default=0.0)
    repeated = [hit.model_copy(update={"score": min(hit.score, lowest)}) for hit in repeated] if leading else repeated
    return leading, repeated


def _words(text: str) -> set[str]:
    return set(map(remove_plural, search_words(text)))


def _with_found_rows(index: SearchableIndex, query: Query, hits: list[Hit], top_k: int) -> list[Hit]:
    if not index.row_finders:
        return hits
    best: dict[str, FoundRow] = {}
    has_own_words = False
    for text in query.texts():
        for finder in index.row_finders:
            only_here = [word for word in finder.words(text) if _is_only_in_rows(index, finder, word)]
            only_here.sort(key=lambda word: not _is_name(word, text))
            has_own_words |= bool(only_here)
            for row in finder.find(text, top_k, query.where, only_here):
                if row.passage.id not in best or best[row.passage.id].share < row.share:
                    best[row.passage.id] = row
    rows = list(best.values()) if has_own_words else sorted(best.values(), key=lambda row: -row.share)
    rows = rows[: (top_k + 1) // 2]
    if not rows:
        return hits
    leads = max(row.share for row in rows) >= index.bm25.best_share(query.text)
    place = 0 if leads else min(len(hits), 1 if has_own_words else top_k // 2)
    found = _as_hits(rows, _cosines(index, query, rows), _scores(hits, place, len(rows)))
    return [*hits[:place], *found, *hits[place:]][:top_k]


def _is_only_in_rows(index: SearchableIndex, finder: RowFinder, word: str) -> bool:
    """Return whether a row contains a word that no passage contains; False for years and small numbers."""
    terms = index.bm25.analyze(word)
    is_small = word.isdecimal() and len(word) < MIN_DIGITS
    return bool(terms) and not is_small and not any(map(index.bm25.frequency, terms)) and finder.knows(word)


def _is_name(word: str, text: str) -> bool:
    """Return whether a word contains digits or is capitalized within a text."""
    return any(map(str.isdecimal, word)) or bool(re.search(rf"(?<=\W){re.escape(word.title())}\b", text))


def _scores(hits: Sequence[Hit], place: int, count: int) -> list[float]:
    """Return descending scores for hits that are inserted at a place."""
    below = hits[place].score if place < len(hits) else hits[-1].score - 1 if hits else 0.0
    above = hits[place - 1].score if place else below + 1
    return [above - (above - below) * (at + 1) / (count + 1) for at in range(count)]


def _cosines(index: SearchableIndex, query: Query, rows: Sequence[FoundRow]) -> list[float]:
    """Return the best cosine of each row with a text of the query; empty without trusted vectors."""
    if not index.manifest.trusts_cosines():
        return []
    vectors = scale_to_unit(index.embedder.encode([row.passage.indexed_text for row in rows], "passage"))
    texts = np.stack([view.vector for view in index.views.of([("", text) for text in query.texts()])])
    return [float(each) for each in (vectors @ texts.T).max(axis=1)]


def _as_hits(rows: Sequence[FoundRow], cosines: Sequence[float], scores: Sequence[float]) -> list[Hit]:
    hits = []
    for at, (row, score) in enumerate(zip(rows, scores, strict=True)):
        found = {ROWS_LIST: RankAndScore(rank=at + 1, score=row.share)}
        if cosines:
            found[COSINES_LIST] = RankAndScore(rank=1 + sum(each > cosines[at] for each in cosines), score=cosines[at])
        hits.append(Hit(passage=row.passage, score=score, found=found))
    return hits
