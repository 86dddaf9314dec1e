"""Measures the rankers of an index on the index itself, and derives their weights in a fusion.

A ranker that cannot read the documents must not outvote one that can: an English embedder finds 13% of Chinese
passages, and BM25 finds 90%. So a sample of passages loses one sentence each, and every ranker searches for the
passage with that sentence as the query. All other passages compete with it. The mean reciprocal rank (MRR) of a ranker,
divided by that of BM25, sets the share of its usual weight that it gets; `STEEPNESS` has the figures.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turnmark.corpora.text.segmentation import is_latin, sentences
from turnmark.corpora.types import Passage
from turnmark.retrieval.embedding.embedders import languages_of
from turnmark.retrieval.ranking.bm25 import BM25
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.search.sparse import open_encoder, sparse_of
from turnmark.retrieval.storage.manifest import Manifest, RankerWeight

SAMPLE_SIZE = 150
"""Maximum number of passages that lose a sentence."""
MIN_SAMPLE_SIZE = 5
"""Minimum number of such passages. With fewer, nothing is measured."""
UNMEASURED_SHARE = 0.3
"""Share of its usual weight that a model gets which is neither measured nor made for the languages of the index. Of
documents in another script than Latin it gets none: models with a list of languages read these letter by letter."""
MAX_RANK = 50
"""Ranks below this one count as not found."""
MIN_TERMS, MAX_CHARACTERS = 3, 400
"""Minimum index terms of a sentence that is searched for, and its maximum characters."""
MIN_FAMILIAR_SHARE = 0.8
"""Minimum share of passages in languages that a model was made for, with which the model is at home in an index."""
FULL_RATIO = 0.98
"""Minimum ratio to BM25's MRR at which a model that is not at home keeps its usual weight. Left-out sentences repeat
the words of their passage more often than questions do, so BM25 looks better here than it is: over English handbooks
MiniLM has ratios of .87 to 1.9, and its usual weight is right for all of them."""
STEEPNESS = 12
"""Below that ratio, the share is the ratio raised to this power. XQuAD, MiniLM against BM25, with the best share
found by trying: German and Spanish ratio .91, share .2 to .4; Chinese .43, 0 to .1."""

Ranks = Callable[[Sequence[str], Sequence[str], Sequence[int]], list[int]]
"""A function from queries, the shortened texts that they look for, and the rows of these passages, to their ranks."""


@dataclass(frozen=True)
class _ShortenedPassage:
    """A row, a sentence of its passage, and the indexed text without the sentence."""

    row: int
    sentence: str
    text: str


def measure_weights(index: StoredIndex) -> dict[str, RankerWeight]:
    """Return ranker -> its MRR and the share of its usual weight. The sample is the same for the same index.

    An index that is too small to measure has entries only for models that were not made for its languages.
    """
    rankers = _rankers_of(index)
    sample = _sample(index) if len(rankers) > 1 else []
    if len(sample) < MIN_SAMPLE_SIZE:
        foreign = [name for name in rankers if not _is_at_home(name, index.manifest)]
        share = UNMEASURED_SHARE if foreign and _is_in_latin_script(index) else 0.0
        return {name: RankerWeight(share=share, mrr=0.0, n=0) for name in foreign}
    queries, texts = [left.sentence for left in sample], [left.text for left in sample]
    rows = [left.row for left in sample]
    found = {name: np.array(ranks(queries, texts, rows)) for name, ranks in rankers.items()}
    scores = {name: float(np.mean(np.where(ranks <= MAX_RANK, 1 / ranks, 0.0))) for name, ranks in found.items()}
    shares = {
        name: share_of(score, scores["bm25"], _is_at_home(name, index.manifest)) for name, score in scores.items()
    }
    return {name: RankerWeight(share=shares[name], mrr=round(scores[name], 4), n=len(sample)) for name in rankers}


def share_of(mrr: float, of_bm25: float, at_home: bool) -> float:
    """Return the share of its usual weight that a ranker gets, in 0..1.

    Args:
        at_home: whether the ranker's model was made for the languages of the index.
    """
    if mrr <= 0:
        return 0.0
    if at_home or mrr >= FULL_RATIO * of_bm25:
        return 1.0
    return float(round((mrr / of_bm25) ** STEEPNESS, 2))


def _is_at_home(ranker: str, manifest: Manifest) -> bool:
    """Return whether a ranker's model was made for the languages of an index; True if its languages are not known."""
    if ranker == "bm25" or not manifest.languages:
        return True
    model = manifest.splade if ranker == "splade" else manifest.embedder
    known = languages_of(model.spec) if model else None
    if known is None:
        return True
    familiar = sum(passages for language, passages in manifest.languages.items() if language in known)
    return familiar >= MIN_FAMILIAR_SHARE * manifest.passages


def _is_in_latin_script(index: StoredIndex) -> bool:
    """Return whether most passages of an index are; all models that declare their languages are made for Latin ones."""
    passages = index.store.by_rows(range(min(index.manifest.passages, SAMPLE_SIZE)))
    return 2 * sum(is_latin(passage.text) for passage in passages) >= len(passages)


# --- the rankers -----------------------------------------------------------------------------------------------------


def _rankers_of(index: StoredIndex) -> dict[str, Ranks]:
    """Return the rankers of an index. Late interaction has the weight of `dense`: it reads the same model's tokens."""
    rankers: dict[str, Ranks] = {"bm25": lambda *sample: _bm25_ranks(index.bm25, *sample)}
    if index.manifest.embedder:
        rankers["dense"] = lambda *sample: _dense_ranks(index, *sample)
    if index.manifest.splade:
        rankers["splade"] = lambda *sample: _splade_ranks(index, *sample)
    return rankers


def _bm25_ranks(bm25: BM25, queries: Sequence[str], texts: Sequence[str], rows: Sequence[int]) -> list[int]:
    mean_length = float(np.mean([len(bm25.analyze(text)) for text in texts]))
    return [
        _rank(bm25.scores(query), bm25.score_of(query, text, mean_length), row)
        for query, text, row in zip(queries, texts, rows, strict=True)
    ]


def _splade_ranks(index: StoredIndex, queries: Sequence[str], texts: Sequence[str], rows: Sequence[int]) -> list[int]:
    assert index.manifest.splade is not None, "see `_rankers_of`"
    encoder, postings = open_encoder(index.manifest.splade.spec), sparse_of(index)
    ranks = []
    for query, text, row in zip(encoder.encode(queries, "query"), encoder.encode(texts, "passage"), rows, strict=True):
        weights = dict(zip(*query, strict=True))
        own = sum(weight * weights.get(term, 0.0) for term, weight in zip(*text, strict=True))
        ranks.append(_rank(postings.scores(query), float(own), row))
    return ranks


def _dense_ranks(index: StoredIndex, queries: Sequence[str], texts: Sequence[str], rows: Sequence[int]) -> list[int]:
    vectors, shortened = index.embedder.encode(queries, "query"), index.embedder.encode(texts, "passage")
    ranks = []
    for vector, own, row, top in zip(vectors, shortened, rows, index.nearest(vectors, MAX_RANK + 1, ()), strict=True):
        better = top.rows[top.scores > float(vector @ own)]
        ranks.append(1 + int((better != row).sum()))
    return ranks


def _rank(scores: NDArray[np.float32], own: float, row: int) -> int:
    """Return the rank of a passage by its own score among the scores of the other rows."""
    return 1 + int((scores > own).sum()) - int(scores[row] > own)


# --- the sample ------------------------------------------------------------------------------------------------------


def _sample(index: StoredIndex) -> list[_ShortenedPassage]:
    """Draw passages at random, and leave one sentence out of each."""
    rng = random.Random(0)
    count = index.manifest.passages
    rows = sorted(rng.sample(range(count), min(count, 2 * SAMPLE_SIZE)))
    sample = []
    for row, passage in zip(rows, index.store.by_rows(rows), strict=True):
        pieces = [piece for piece in _pieces(passage) if len(index.bm25.analyze(piece)) >= MIN_TERMS]
        if pieces:
            sentence = rng.choice(pieces)
            text = passage.indexed_text.replace(sentence, " ", 1)
            if len(index.bm25.analyze(text)) >= MIN_TERMS:
                sample.append(_ShortenedPassage(row, sentence, text))
    rng.shuffle(sample)
    return sample[:SAMPLE_SIZE]


def _pieces(passage: Passage) -> list[str]:
    """Return the sentences of a passage, or the words of a passage that is a single sentence.

    Thai has spaces between clauses and no mark between sentences.
    """
    spans = sentences(passage.text)
    pieces = [passage.text[start:end] for start, end in spans if end - start <= MAX_CHARACTERS]
    return pieces if len(spans) > 1 else passage.text.split()
