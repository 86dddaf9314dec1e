"""How near the sentences of a collection are to its other documents: from which cosine on an answer may be trusted.

Cosines of one embedder have another level in every collection, so a fixed threshold refuses much in one and nothing in
another. A sample of the collection's sentences is searched for in all documents but their own: what they find is near
in topic and is no answer. Thresholds without a language model are set by the quartiles of these cosines
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
"""Sentences that are searched for."""
SHORTEST, LONGEST = 5, 40
"""Words of a sentence in the sample."""
NEIGHBOURS = 60
"""Passages looked at for each: those of its own document are among the nearest."""
LEAST = 30
"""Sentences that found another document, below which nothing is said."""
OF_DOCUMENTS, OF_ROWS = (25, -0.02), (75, -0.03)
"""Percentile and offset of the threshold: for documents cut into sections, which people ask in a few words of their
own, and for rows that are passages already (BEIR), whose questions are written in full. Chosen on the tuning halves of
the conversation suites, and on MTRAG-UN's ClapNQ and FiQA, each checked on the other."""


def sure_from(index: Index) -> float | None:
    """The confidence from which an answer without a model counts as sure; None: the collection is too small to say.

    The sample is the same for the same index.
    """
    picked = _sample(index)
    if len(picked) < LEAST:
        return None
    texts = [sentence for _, sentence in picked]
    vectors = index.embedder.encode(texts, "query")
    nearest = DenseRanker(index).nearest(vectors, [Query(text=text) for text in texts], NEIGHBOURS)
    cosines = []
    for (passage, sentence), rows in zip(picked, nearest, strict=True):
        found = index.store.by_rows(rows.rows.tolist())
        others = [
            float(score)
            for other, score in zip(found, rows.scores, strict=True)
            if not _same_source(passage, sentence, other)
        ]
        cosines += others[:1]
    if len(cosines) < LEAST:
        return None
    are_rows = all(passage.id == passage.document for passage, _ in picked)
    percentile, offset = OF_ROWS if are_rows else OF_DOCUMENTS
    return round(float(np.percentile(cosines, percentile)) + offset, 4)


def _sample(index: Index) -> list[tuple[Passage, str]]:
    """Passages drawn at random, each with one of its sentences."""
    rng = random.Random(0)
    count = index.manifest.passages
    rows = sorted(rng.sample(range(count), min(count, 2 * SAMPLE)))
    picked = []
    for passage in index.store.by_rows(rows):
        texts = [" ".join(passage.text[start:end].split()) for start, end in sentences(passage.text)]
        fitting = [text for text in texts if SHORTEST <= count_words(text) <= LONGEST]
        if fitting:
            picked.append((passage, rng.choice(fitting)))
    rng.shuffle(picked)
    return picked[:SAMPLE]


def _same_source(passage: Passage, sentence: str, other: Passage) -> bool:
    """Whether a passage is of the sentence's own document, of one with the same title, or a copy."""
    same_title = bool(passage.title) and passage.title == other.title
    return other.document == passage.document or same_title or sentence in " ".join(other.text.split())
