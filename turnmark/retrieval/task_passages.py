"""Turns the passages of a benchmark task into hits, in the order given or ranked. There is no index."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from statistics import fmean
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from turnmark.corpora.chunking import chunk, regex_tokens
from turnmark.corpora.readers.markdown import blocks
from turnmark.corpora.readers.prose import shorten_title
from turnmark.corpora.types import Document, Passage
from turnmark.retrieval.types import Found, Hit

Embed = Callable[[Sequence[str]], "NDArray[np.float32]"]
"""A function that returns the unit vectors of texts, in order, of shape (texts, dimension)."""

DENSE = "dense"

MAX_PASSAGE_TOKENS = 180
"""Maximum words and punctuation marks of a passage with its title. Each is about 1.3 WordPiece tokens, and MiniLM reads
256 of them."""


def cut_passages(identity: str, title: str, text: str) -> list[Passage]:
    """Cut a text of a task into passages, in order. The text is parsed as Markdown, which includes plain text.

    The passages have no path, since `identity` is an id from the data.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    title = shorten_title(" ".join(title.split()))
    return chunk(
        Document(id=identity, title=title, text=text, blocks=tuple(blocks(text))), regex_tokens, MAX_PASSAGE_TOKENS
    )


def hits_of(passages: Sequence[Passage]) -> list[Hit]:
    """Return passages as hits in the order given, with score 1 / rank and no list in `found`."""
    return [Hit(passage=passage, score=1 / rank) for rank, passage in enumerate(passages, 1)]


def ranked_by(passages: Sequence[Passage], texts: Sequence[str], embed: Embed | None) -> list[Hit]:
    """Return passages as hits, best first; ties keep the order given.

    The score is the mean cosine of the texts with a passage's `indexed_text`, from -1 to 1. The texts are wordings of
    one question (the message and its rewrite). The maximum would not work instead of the mean: a rewrite that names the
    topic would lift every passage of that topic, whatever the message asks about it. `found` has a
    list for each text, with the names that a retriever uses for a message and its variants; `similarity` is therefore
    the best cosine.

    Args:
        texts: wordings of the question, at least one; the message first.
        embed: called once for the texts and once for each run of passages of the same document. Vectors then do not
            depend on the other passages, and `cache_by_list` recognizes a document. None: as `hits_of`.
    """
    if embed is None or not passages:
        return hits_of(passages)
    text_vectors = embed(list(texts))
    cosines: list[list[float]] = []  # one row for each passage, one column for each text
    for run in _runs(passages):
        products = embed([passage.indexed_text for passage in run]) @ text_vectors.T
        cosines.extend([float(cosine) for cosine in row] for row in products)
    found: list[dict[str, Found]] = [{} for _ in passages]
    for number in range(len(texts)):
        name = f"{DENSE}+{number}" if number else DENSE
        for rank, position in enumerate(_best_first([row[number] for row in cosines]), 1):
            found[position][name] = Found(rank=rank, score=cosines[position][number])
    means = [fmean(row) for row in cosines]
    hits: list[Hit] = []
    for position in _best_first(means):
        hits.append(Hit(passage=passages[position], score=means[position], found=found[position]))
    return hits


def nearest_among(passages: Sequence[Passage], texts: Sequence[str], embed: Embed | None) -> list[float]:
    """Return the cosine of each text with the nearest passage; empty without passages or an embedder."""
    if embed is None or not passages:
        return []
    text_vectors = embed(list(texts))
    cosines = [embed([passage.indexed_text for passage in run]) @ text_vectors.T for run in _runs(passages)]
    return [float(cosine) for cosine in np.concatenate(cosines).max(axis=0)]


def _best_first(scores: Sequence[float]) -> list[int]:
    return sorted(range(len(scores)), key=lambda position: (-scores[position], position))


def _runs(passages: Sequence[Passage]) -> Iterator[list[Passage]]:
    return (list(run) for _, run in groupby(passages, key=lambda passage: passage.document))


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MAX_CACHED_VECTORS = 8192
"""Default capacity of `cache_by_list` and `cache_by_text`: 12 MiB at the bundled model's 384 dimensions."""


class Cache(Generic[K, V]):
    """A cache of the most recently used values, which are computed in batches. Safe to call from many threads.

    Args:
        compute: returns the values of keys, in order; must also be safe to call from many threads.
        capacity: maximum total weight of the cached values.
        weigh: returns the weight of a value; by default every value weighs 1.
    """

    def __init__(
        self, compute: Callable[[Sequence[K]], Iterable[V]], capacity: int, weigh: Callable[[V], int] = lambda _: 1
    ) -> None:
        self._compute, self._capacity, self._weigh = compute, capacity, weigh
        self._values: OrderedDict[K, V] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, keys: Sequence[K]) -> list[V]:
        """Return the values of keys, in order; missing values are computed in one call."""
        unique = list(dict.fromkeys(keys))
        with self._lock:
            values = {key: self._values[key] for key in unique if key in self._values}
        missing = [key for key in unique if key not in values]
        if missing:
            values.update(zip(missing, self._compute(missing), strict=True))
        with self._lock:
            for key in unique:
                self._keep(key, values[key])
        return [values[key] for key in keys]

    def _keep(self, key: K, value: V) -> None:
        weight = self._weigh(value)
        if weight > self._capacity:
            return  # it would displace everything else
        if key not in self._values:
            self._values[key] = value
            self._weight += weight
        self._values.move_to_end(key)
        while self._weight > self._capacity:
            self._weight -= self._weigh(self._values.popitem(last=False)[1])


def cache_by_list(embed: Embed, capacity: int = MAX_CACHED_VECTORS) -> Embed:
    """Return an `Embed` that caches the vectors of each list of texts; its arrays are shared and read-only.

    The key is the complete list: the last digits of a vector depend on the texts embedded with it, so a cache by text
    would depend on the order of calls.
    """

    def compute(lists: Sequence[tuple[str, ...]]) -> list[NDArray[np.float32]]:
        arrays = [embed(list(texts)) for texts in lists]
        for array in arrays:
            array.setflags(write=False)
        return arrays

    cache: Cache[tuple[str, ...], NDArray[np.float32]] = Cache(compute, capacity, len)
    return lambda texts: cache.get([tuple(texts)])[0]


def cache_by_text(embed: Embed, capacity: int = MAX_CACHED_VECTORS) -> Embed:
    """Return an `Embed` that caches the vector of each text, because the steps of a turn embed the same sentences."""
    cache: Cache[str, NDArray[np.float32]] = Cache(embed, capacity)

    def vectors(texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack(cache.get(texts)) if texts else embed([])

    return vectors
