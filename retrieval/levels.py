"""Calibrate the minimum cosine of a trusted answer, from the similarity of sentences to other documents.

The same embedder gives different levels of cosines in every collection, so a fixed threshold refuses much in one and
nothing in another. A sample of the collection's sentences is searched in all documents except their own: the hits are
similar in topic, but no answers. The quartiles of these cosines set the threshold without a language model
(docs/measured.md has the figures). Where each document is about something else, other documents are not even similar in
topic: then the sentences are compared with the other sections of all documents, their own included.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from turnmark.corpora.text import count_words, sentences
from turnmark.corpora.types import Passage
from turnmark.retrieval.fusion import RankedRows
from turnmark.retrieval.search import DenseRanker
from turnmark.retrieval.stored import SearchableIndex
from turnmark.retrieval.types import Query

SAMPLE = 300
"""Number of sentences in the sample."""
SHORTEST, LONGEST = 5, 40
"""Minimum and maximum words of a sentence in the sample."""
NEIGHBORS = 60
"""Number of nearest passages of each sentence; many of them are from its own document."""
LEAST = 30
"""Minimum number of sentences with a hit in another document; with fewer there is no threshold."""
OF_DOCUMENTS, OF_ROWS = (25, -0.02), (75, -0.03)
"""Percentile and offset of the threshold: for documents cut into sections, where people ask in a few words, and for
rows that are passages themselves (BEIR), where questions are written in full. Chosen on the tuning halves of the
conversation suites, and on MTRAG-UN's ClapNQ and FiQA, each checked on the other."""
OF_SECTIONS = (25, -0.04)
"""Percentile and offset for documents that are each about something else, by other sections."""
UNRELATED = 0.08
"""Documents are each about something else if their sentences are so much nearer to other sections than to other
documents, in the lower quartile: .12 and .14 for PDF and Office files of many packages, at most .06 for the manuals,
handbooks and wikis of the suites."""


@dataclass(frozen=True)
class _OtherCosines:
    """The cosines of a sentence with the nearest passage of another document, and of another section; None: none was
    among its neighbors.
    """

    document: float | None
    section: float | None


def sure_from(index: SearchableIndex) -> float | None:
    """Return the minimum confidence of a sure answer without a model; None if the collection is too small.

    The sample is the same for the same index.
    """
    sample = _sample(index)
    if len(sample) < LEAST:
        return None
    texts = [sentence for _, sentence in sample]
    vectors = index.embedder.encode(texts, "query")
    neighbors = DenseRanker(index).nearest(vectors, [Query(text=text) for text in texts], NEIGHBORS)
    cosines = [_nearest(index, *drawn, rows) for drawn, rows in zip(sample, neighbors, strict=True)]
    of_documents = [nearest.document for nearest in cosines if nearest.document is not None]
    of_sections = [nearest.section for nearest in cosines if nearest.section is not None]
    if len(of_documents) < LEAST:
        return None
    if all(passage.id == passage.document for passage, _ in sample):
        return _level(of_documents, OF_ROWS)
    quartile = OF_DOCUMENTS[0]
    if np.percentile(of_sections, quartile) - np.percentile(of_documents, quartile) > UNRELATED:
        return _level(of_sections, OF_SECTIONS)
    return _level(of_documents, OF_DOCUMENTS)


def _level(cosines: Sequence[float], rule: tuple[int, float]) -> float:
    percentile, offset = rule
    return round(float(np.percentile(cosines, percentile)) + offset, 4)


def _nearest(index: SearchableIndex, passage: Passage, sentence: str, rows: RankedRows) -> _OtherCosines:
    document = section = None
    for neighbor, score in zip(index.store.by_rows(rows.rows.tolist()), rows.scores.tolist(), strict=True):
        if sentence in " ".join(neighbor.text.split()):
            continue  # its own passage, or a copy
        if section is None and (neighbor.document, neighbor.heading) != (passage.document, passage.heading):
            section = score
        if not _same_source(passage, neighbor):
            document = score
            break
    return _OtherCosines(document, section)


def _sample(index: SearchableIndex) -> list[tuple[Passage, str]]:
    """Draw passages at random, each with one of its sentences."""
    rng = random.Random(0)
    count = index.manifest.passages
    rows = sorted(rng.sample(range(count), min(count, 2 * SAMPLE)))
    sample = []
    for passage in index.store.by_rows(rows):
        texts = [" ".join(passage.text[start:end].split()) for start, end in sentences(passage.text)]
        fitting = [text for text in texts if SHORTEST <= count_words(text) <= LONGEST]
        if fitting:
            sample.append((passage, rng.choice(fitting)))
    rng.shuffle(sample)
    return sample[:SAMPLE]


def _same_source(passage: Passage, other: Passage) -> bool:
    """Whether another passage is from the same document, or from one with the same title."""
    same_title = bool(passage.title) and passage.title == other.title
    return other.document == passage.document or same_title
