"""Calibrates the minimum cosine of a trusted answer from the similarity of sentences to other documents.

The same embedder gives different levels of cosines in every collection, so a fixed threshold refuses much in one and
nothing in another. A sample of the collection's sentences is searched in all documents except their own. These hits
have a similar topic but are not answers, and a quartile of their cosines sets the threshold without a language model
(docs/measured-once.md has the figures). If every document has its own topic, other documents are not even similar in
topic. The sentences are then compared with the other sections of all documents, including their own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from turnmark.corpora.text.segmentation import UNSPACED_LETTER, count_words, reading_words, sentences
from turnmark.corpora.types import Passage
from turnmark.retrieval.ranking.fusion import RankedRows
from turnmark.retrieval.search.opened_index import SearchableIndex
from turnmark.retrieval.search.retrievers import DenseRanker
from turnmark.retrieval.types import Query

SAMPLED_SENTENCES = 300
"""Number of sentences in the sample."""
MIN_SENTENCE_WORDS, MAX_SENTENCE_WORDS = 5, 40
"""Minimum and maximum words of a sentence in the sample."""
NEIGHBORS_PER_SENTENCE = 60
"""Number of nearest passages of each sentence; many of them are from its own document."""
MIN_COMPARED_SENTENCES = 30
"""Minimum number of sentences with a hit in another document. With fewer sentences there is no threshold."""
DOCUMENTS_RULE, ROWS_RULE = (25, -0.02), (75, -0.03)
"""Percentile and offset of the threshold. The first pair is for documents cut into sections, where questions are short.
The second is for rows that are passages themselves (BEIR), where questions are full sentences. The first was chosen on
the tuning halves of the conversation suites. The second was chosen on MTRAG-UN's ClapNQ and FiQA, each checked on the
other."""
SECTIONS_RULE = (25, -0.04)
"""Percentile and offset for collections in which every document has its own topic. It applies to cosines with other
sections."""
MIN_UNRELATED_GAP = 0.08
"""Minimum difference of two lower quartiles, the cosines with other sections and those with other documents, above
which every document counts as having its own topic. It is .12 and .14 for PDF and Office files of many packages, and at
most .06 for the manuals, handbooks and wikis of the suites."""


@dataclass(frozen=True)
class _OtherCosines:
    """The cosines of a sentence with the nearest passage of another document and with that of another section.

    A cosine is None if there is no such passage among the sentence's neighbors.
    """

    document: float | None
    section: float | None


def calibrate_sure_score(index: SearchableIndex) -> float | None:
    """Return the minimum confidence of a sure answer without a model, or None if the collection is too small.

    The sample depends only on the index.
    """
    sample = _sample(index)
    if len(sample) < MIN_COMPARED_SENTENCES:
        return None
    texts = [sentence for _, sentence in sample]
    vectors = index.embedder.encode(texts, "query")
    neighbors = DenseRanker(index).nearest(vectors, [Query(text=text) for text in texts], NEIGHBORS_PER_SENTENCE)
    cosines = [_nearest_others(index, *drawn, rows) for drawn, rows in zip(sample, neighbors, strict=True)]
    of_documents = [nearest.document for nearest in cosines if nearest.document is not None]
    of_sections = [nearest.section for nearest in cosines if nearest.section is not None]
    if len(of_documents) < MIN_COMPARED_SENTENCES:
        return None
    if all(passage.id == passage.document for passage, _ in sample):
        return _threshold(of_documents, ROWS_RULE)
    quartile = DOCUMENTS_RULE[0]
    if np.percentile(of_sections, quartile) - np.percentile(of_documents, quartile) > MIN_UNRELATED_GAP:
        return _threshold(of_sections, SECTIONS_RULE)
    return _threshold(of_documents, DOCUMENTS_RULE)


def _threshold(cosines: Sequence[float], rule: tuple[int, float]) -> float:
    percentile, offset = rule
    return round(float(np.percentile(cosines, percentile)) + offset, 4)


def _nearest_others(index: SearchableIndex, passage: Passage, sentence: str, rows: RankedRows) -> _OtherCosines:
    document = section = None
    for neighbor, score in zip(index.store.by_rows(rows.rows.tolist()), rows.scores.tolist(), strict=True):
        if sentence in " ".join(neighbor.text.split()):
            continue  # the sentence's own passage, or a copy of it
        if section is None and (neighbor.document, neighbor.heading) != (passage.document, passage.heading):
            section = score
        same_title = passage.title and passage.title == neighbor.title
        if neighbor.document != passage.document and not same_title:
            document = score
            break
    return _OtherCosines(document, section)


def _sample(index: SearchableIndex) -> list[tuple[Passage, str]]:
    """Draw passages at random, each with one of its sentences."""
    rng = random.Random(0)
    count = index.manifest.passages
    rows = sorted(rng.sample(range(count), min(count, 2 * SAMPLED_SENTENCES)))
    sample = []
    for passage in index.store.by_rows(rows):
        texts = [" ".join(passage.text[start:end].split()) for start, end in sentences(passage.text)]
        fitting = [text for text in texts if MIN_SENTENCE_WORDS <= _length(text) <= MAX_SENTENCE_WORDS]
        if fitting:
            sample.append((passage, rng.choice(fitting)))
    rng.shuffle(sample)
    return sample[:SAMPLED_SENTENCES]


def _length(text: str) -> int:
    """Return the length of a sentence in words; in a script without spaces, in about as many English words."""
    return max(count_words(text), reading_words(text)) if UNSPACED_LETTER.search(text) else count_words(text)
