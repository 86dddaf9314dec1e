"""BM25 in its Lucene variant, over the index terms of each document's language (`turnmark.corpora.text.analysis`).

The index stores how often each passage contains a term. Scores follow from these counts when a query is searched, so
they are the same after any sequence of updates as after a build of the same passages.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from turnmark.core.record import Record
from turnmark.corpora.text.analysis import Analyzer, join_analyzers, open_analyzer
from turnmark.corpora.text.languages import AUTO, ENGLISH, code_of
from turnmark.retrieval.ranking.fusion import RankedRows, top_k
from turnmark.retrieval.ranking.postings import Postings
from turnmark.retrieval.ranking.respelling import spell_codes

MAX_COUNT = 65_535
"""Maximum count of a term in a passage that is stored; more would not change its score."""
CACHED_TERMS = 128
"""Number of terms whose scores are kept in memory. The queries of a turn share most of theirs."""


class BM25Settings(Record):
    """The settings of a BM25 index. The defaults of k1 and b are those of Anserini and Pyserini for passages."""

    k1: float = Field(default=0.9, ge=0, le=10)
    b: float = Field(default=0.4, ge=0, le=1)
    language: str = Field(
        default=AUTO,
        description="a language, such as german; 'auto': that of each document; 'none': no stemming and no stop words",
    )


def analyzer_of(settings: BM25Settings, languages: Iterable[str] = ()) -> Analyzer:
    """Return the analyzer of texts and queries.

    Args:
        languages: codes of the languages of the texts, if the settings leave them to detection. The default is English.
    """
    if settings.language != AUTO:
        return open_analyzer(code_of(settings.language))
    return join_analyzers(tuple(languages) or (ENGLISH,))


POSTINGS, COUNT_TYPE = "postings", "<u2"
"""The table of BM25's postings, and the type of its values: how often a passage contains a term."""


def count_terms(
    texts: Iterable[tuple[int, str, str]], settings: BM25Settings
) -> tuple[dict[str, tuple[array[int], array[int]]], list[tuple[int, int]]]:
    """Return the postings of texts (term -> numbers and counts), and the number of terms of each.

    Args:
        texts: number, text and language of each, by ascending number.
    """
    postings: dict[str, tuple[array[int], array[int]]] = {}
    lengths = []
    for number, text, language in texts:
        terms = analyzer_of(settings, (language,) if language else ())(text)
        for term, count in Counter(terms).items():
            if term not in postings:
                postings[term] = array("i"), array("H")
            numbers, counts = postings[term]
            numbers.append(number)
            counts.append(min(count, MAX_COUNT))
        lengths.append((number, len(terms)))
    return postings, lengths


def lucene_idf(rows: int, frequency: int) -> float:
    """Return the idf of a term in the Lucene variant of BM25."""
    return float(np.log1p((rows - frequency + 0.5) / (frequency + 0.5)))


class TermScores(ABC):
    """BM25 scores of the passages of an index.

    Attributes:
        analyze: turns a text into its index terms.
        rows: the number of passages.
    """

    def __init__(self, analyze: Analyzer, rows: int) -> None:
        self.analyze, self.rows = analyze, rows

    @abstractmethod
    def scores(self, text: str) -> NDArray[np.float32]:
        """Return the score of every row for a query text."""

    @abstractmethod
    def rows_with(self, text: str) -> list[int]:
        """Return the rows that contain every term of a text; none for a text without terms."""

    @abstractmethod
    def frequency(self, term: str) -> int:
        """Return the number of rows that contain a term."""

    @abstractmethod
    def terms(self) -> Collection[str]:
        """Return all terms of the passages."""

    def query_terms(self, text: str) -> list[str]:
        """Return the index terms of a query, with its identifiers and versions spelled as in the index."""
        return self.analyze(spell_codes(text, self))

    @abstractmethod
    def highest(self, term: str) -> float:
        """Return the highest score of a term in any row, or 0 if no row has it."""

    def best_share(self, text: str) -> float:
        """Return how much of a text's terms the best single row has, 0..1; rare terms weigh more."""
        unknown = lucene_idf(self.rows, 0) / 2  # about the score of a term that occurs once
        possible = sum(self.highest(term) or unknown for term in self.query_terms(text))
        return float(self.scores(text).max()) / possible if possible else 0.0

    def top(self, text: str, k: int, rows: NDArray[np.bool_] | None = None) -> RankedRows:
        """Return the `k` best rows with a score above 0.

        Args:
            rows: True for each row that may be found, or None for every row.
        """
        return top_k(self.scores(text), k, rows, positive=True)


class BM25(TermScores):
    """The BM25 index of passages, opened for searching.

    Args:
        postings: the postings of numbered texts, of which the index may contain only some.
        numbers: the number of each row's text, of shape (rows,).
        lengths: the number of terms of each row, of the same shape.
        languages: codes of the languages of the texts, if the settings leave them to detection.
    """

    def __init__(
        self,
        postings: Postings,
        numbers: NDArray[np.int64],
        lengths: NDArray[np.int64],
        settings: BM25Settings,
        languages: Iterable[str] = (),
    ) -> None:
        super().__init__(analyzer_of(settings, languages), len(numbers))
        self._postings, self._settings = postings, settings
        self._row_of = np.full(int(numbers.max(initial=0)) + 1, -1, dtype=np.int32)
        self._row_of[numbers] = np.arange(self.rows, dtype=np.int32)
        relative = lengths / max(float(lengths.mean()), 1e-9) if self.rows else lengths
        self._norms = (settings.k1 * (1 - settings.b + settings.b * relative)).astype(np.float32)
        self._scored = lru_cache(maxsize=CACHED_TERMS)(self._scores_of)

    @classmethod
    def of_texts(cls, texts: Iterable[str], settings: BM25Settings, language: str = ENGLISH) -> BM25:
        """Return the BM25 index of some texts, in memory; row numbers follow their order."""
        db = sqlite3.connect(":memory:", check_same_thread=False)
        db.execute(Postings.schema(POSTINGS))
        postings = Postings(lambda statement, values: db.execute(statement, values).fetchall(), POSTINGS, COUNT_TYPE)
        counted, lengths = count_terms(((row, text, language) for row, text in enumerate(texts)), settings)
        postings.add(db, counted)
        numbers = np.arange(len(lengths), dtype=np.int64)
        return cls(postings, numbers, np.array([length for _, length in lengths], np.int64), settings, (language,))

    def _scores_of(self, term: str) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the rows with a term, in no order, and the term's score in each."""
        numbers, counts = self._postings.of(term)
        known = numbers < len(self._row_of)  # a build may be adding passages
        rows = self._row_of[numbers[known]]
        frequencies = counts[known][rows >= 0].astype(np.float32)
        rows = rows[rows >= 0]
        idf = np.float32(lucene_idf(self.rows, len(rows)))
        return rows, idf * frequencies / (frequencies + self._norms[rows])

    def frequency(self, term: str) -> int:
        return len(self._scored(term)[0])

    def terms(self) -> Collection[str]:
        return self._postings.terms()

    def add_scores(self, term: str, weight: float, total: NDArray[np.float32]) -> None:
        """Add the scores of one term, times `weight`, to the total of every row."""
        rows, scores = self._scored(term)
        total[rows] += scores * np.float32(weight)  # each row occurs once

    def scores(self, text: str) -> NDArray[np.float32]:
        total = np.zeros(self.rows, dtype=np.float32)
        for term in self.query_terms(text):
            self.add_scores(term, 1.0, total)
        return total

    def highest(self, term: str) -> float:
        return float(self._scored(term)[1].max(initial=0.0))

    def score_of(self, query: str, text: str, mean_length: float) -> float:
        """Return the score that a text that is not in the index would have for a query.

        Args:
            mean_length: mean number of terms of the texts in the index.
        """
        terms = self.analyze(text)
        counts, length = Counter(terms), len(terms)
        norm = self._settings.k1 * (1 - self._settings.b + self._settings.b * length / mean_length)
        return sum(
            lucene_idf(self.rows, self.frequency(term)) * counts[term] / (counts[term] + norm)
            for term in self.analyze(query)
            if self.frequency(term)
        )

    def rows_with(self, text: str) -> list[int]:
        terms = set(self.query_terms(text))
        containing = [self._scored(term)[0] for term in terms]
        if not containing:
            return []
        occurrences = np.bincount(np.concatenate(containing), minlength=1)
        return [int(row) for row in np.flatnonzero(occurrences == len(terms))]
