"""Calibrate the minimum cosine of a trusted answer, from the similarity of sentences to other documents.

The same embedder gives different levels of cosines in every collection, so a fixed threshold refuses much in one and
nothing in another. A sample of the collection's sentences is searched in all documents except their own: the hits are
similar in topic, but no answers. The quartiles of these cosines set the threshold without a language model
(docs/measured.md has the figures).
"""

from __future__ import annotations

import random

import numpy as np

from turnmark.corpora.text import count_words, sentences
from turnmark.corpora.types import Passage
from turnmark.retrieval.index import Index
from turnmark.retrieval.search import DenseRanker
from turnmark.retrieval.types import Query

SAMPLE = 300
"""Number of sentences in the sample."""
SHORTEST, LONGEST = 5, 40
"""Minimum and maximum words of a sentence in the sample."""
NEIGHBOURS = 60
"""Number of nearest passages of each sentence; many of them are from its own document."""
LEAST = 30
"""Minimum number of sentences with a hit in another document; with fewer there is no threshold."""
OF_DOCUMENTS, OF_ROWS = (25, -0.02), (75, -0.03)
"""Percentile and offset of the threshold: for documents cut into sections, where people ask in a few words, and for
rows that are passages themselves (BEIR), where questions are written in full. Chosen on the tuning halves of the
conversation suites, and on MTRAG-UN's ClapNQ and FiQA, each checked on the other."""


def sure_from(index: Index) -> float | None:
    """Return the minimum confidence of a sure answer without a model; None if the collection is too small.

    The sample is the same for the same index.
    """
    sample = _sample(index)
    if len(sample) < LEAST:
        return None
    texts = [sentence for _, sentence in sample]
    vectors = index.embedder.encode(texts, "query")
    nearest = DenseRanker(index).nearest(vectors, [Query(text=text) for text in texts], NEIGHBOURS)
    cosines: list[float] = []
    for (passage, sentence), rows in zip(sample, nearest, strict=True):
        neighbours = index.store.by_rows(rows.rows.tolist())
        for neighbour, score in zip(neighbours, rows.scores, strict=True):
            if not _same_source(passage, sentence, neighbour):
                cosines.append(float(score))
                break
    if len(cosines) < LEAST:
        return None
    are_rows = all(passage.id == passage.document for passage, _ in sample)
    percentile, offset = OF_ROWS if are_rows else OF_DOCUMENTS
    return round(float(np.percentile(cosines, percentile)) + offset, 4)


def _sample(index: Index) -> list[tuple[Passage, str]]:
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


def _same_source(passage: Passage, sentence: str, other: Passage) -> bool:
    """Whether another passage is from the same document, from one with the same title, or a copy of the sentence."""
    same_title = bool(passage.title) and passage.title == other.title
    return other.document == passage.document or same_title or sentence in " ".join(other.text.split())
