"""BM25 in its Lucene variant (bm25s), over the index terms of each document's language
(`turnmark.corpora.text.analysis`).

The scores of every term are computed when the index is built, so k1, b and the language belong to the build; searching
sums columns. The files contain only arrays and JSON, never pickles.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from turnmark.core.record import Record
from turnmark.corpora.text.analysis import Analyzer, join_analyzers, open_analyzer
from turnmark.corpora.text.languages import AUTO, ENGLISH, code_of
from turnmark.retrieval.ranking.fusion import RankedRows, top_k
from turnmark.retrieval.ranking.respelling import spell_codes


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


def build_bm25(
    texts: Iterable[str], folder: Path, settings: BM25Settings, languages: Iterable[str] = repeat(ENGLISH)
) -> None:
    """Write the BM25 index of texts, numbered in their order, into `folder`. Holds term ids in memory, not texts.

    Args:
        languages: the language of each text, if the settings leave it to detection.
    """
    import bm25s

    vocabulary: dict[str, int] = {}
    rows: list[NDArray[np.int32]] = []
    for text, language in zip(texts, languages, strict=False):
        terms = analyzer_of(settings, (language,))(text)
        ids = [vocabulary.setdefault(term, len(vocabulary)) for term in terms]
        rows.append(np.asarray(ids, dtype=np.int32))
    model = bm25s.BM25(method="lucene", k1=settings.k1, b=settings.b, backend="numpy")
    model.index((rows, vocabulary), show_progress=False)
    model.save(str(folder), show_progress=False)


def lucene_idf(rows: int, frequency: int) -> float:
    """Return the idf of a term in the Lucene variant of BM25, as bm25s computes it."""
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
    """A BM25 index in its folder, opened for searching.

    Args:
        languages: codes of the languages of the texts, if the settings leave them to detection.
    """

    def __init__(self, folder: Path, settings: BM25Settings, languages: Iterable[str] = ()) -> None:
        # Read here, since importing bm25s takes half a second: it imports scipy.
        self._vocabulary: dict[str, int] = json.loads((folder / "vocab.index.json").read_text(encoding="utf-8"))
        parameters = json.loads((folder / "params.index.json").read_text(encoding="utf-8"))
        self._starts, self._rows, self._scores = (
            np.load(folder / f"{part}.csc.index.npy", mmap_mode="r") for part in ("indptr", "indices", "data")
        )
        self._settings = settings
        super().__init__(analyzer_of(settings, languages), int(parameters["num_docs"]))

    def _part(self, term: str) -> slice:
        """Return the place of a term's rows and scores; empty for an unknown term."""
        number = self._vocabulary.get(term)
        return slice(0, 0) if number is None else slice(int(self._starts[number]), int(self._starts[number + 1]))

    def frequency(self, term: str) -> int:
        part = self._part(term)
        return int(part.stop - part.start)

    def terms(self) -> Collection[str]:
        return self._vocabulary.keys()

    def add_scores(self, term: str, weight: float, total: NDArray[np.float32]) -> None:
        """Add the scores of one term, times `weight`, to the total of every row."""
        part = self._part(term)
        total[self._rows[part]] += self._scores[part] * np.float32(weight)  # each row occurs once

    def scores(self, text: str) -> NDArray[np.float32]:
        total = np.zeros(self.rows, dtype=np.float32)
        for term in self.query_terms(text):
            self.add_scores(term, 1.0, total)
        return total

    def highest(self, term: str) -> float:
        return float(self._scores[self._part(term)].max(initial=0.0))

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
            if term in self._vocabulary
        )

    def rows_with(self, text: str) -> list[int]:
        terms = set(self.query_terms(text))
        if not terms or not terms <= self._vocabulary.keys():
            return []
        holds = np.ones(self.rows, dtype=np.bool_)
        for term in terms:
            contains = np.zeros(self.rows, dtype=np.bool_)
            contains[self._rows[self._part(term)]] = True
            holds &= contains
        return [int(row) for row in np.flatnonzero(holds)]
