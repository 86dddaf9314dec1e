"""SPLADE: a model weights the terms of its vocabulary for a text, and an inverted index sums the weights.

Scores are dot products. A posting takes 6 bytes: an int32 slot and a float16 weight. The rounding of a weight (one part
in 2,000) is smaller than the difference between two CPUs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnmark.core.specs import parse_spec
from turnmark.corpora.chunking import Tokenizer
from turnmark.corpora.downloads.small_models import resolve_model
from turnmark.retrieval.embedding.embedders import TextRole, library_offsets, prompts_of
from turnmark.retrieval.embedding.model_loading import check_finite, load_model, weights_digest
from turnmark.retrieval.ranking.fusion import RankedRows, top_k
from turnmark.retrieval.ranking.postings import Postings
from turnmark.retrieval.search.opened_index import SearchableIndex, StoredIndex
from turnmark.retrieval.storage.passage_writer import SPARSE_POSTINGS, SPARSE_TYPE
from turnmark.retrieval.types import Query

Vector = tuple["NDArray[np.int32]", "NDArray[np.float32] | NDArray[np.float16]"]
"""The terms of a text, ascending, and their weights (float16 where stored); other terms weigh 0."""

# The model scores each of its terms at each token, so a batch takes far more memory than a batch of an embedder.
TEXTS_PER_BATCH = 8
TOKENS_POOLED_AT_ONCE = 64


class SpladeEncoder:
    """A SparseEncoder of sentence-transformers, with the prompts and limits of its configuration.

    Args:
        spec: `splade:MODEL`; MODEL is a folder or a hub name.
    """

    def __init__(self, spec: str) -> None:
        self.name = spec
        self._lock = threading.Lock()
        model = resolve_model(parse_spec(spec).argument)
        self._model: Any = load_model("SparseEncoder", model, f"retriever {self.name!r}")
        for module in self._model.children():
            if hasattr(module, "chunk_size"):
                module.chunk_size = TOKENS_POOLED_AT_ONCE
            if getattr(module, "pooling_strategy", None) == "max":
                module.forward = partial(_pool_maximum_first, module.forward, module.activation_function)
        # Read from an output: for a plain masked language model the library reports the size of the hidden states.
        self.dimension = int(self._model.encode_document(["a"], show_progress_bar=False, save_to_cpu=True).shape[1])
        self.max_tokens = int(self._model.max_seq_length or 512)
        query, passage = prompts_of(model, self._model.prompts)
        self._prompts: dict[TextRole, str] = {"query": query, "passage": passage}
        self.max_tokens -= len(self.tokenizer()(passage)) if passage else 0
        traits = (weights_digest(model), self.dimension, self.max_tokens, self._model.max_active_dims)
        self.fingerprint = "|".join(map(str, (self.name, *traits, repr(query), repr(passage))))

    def encode(self, texts: Sequence[str], role: TextRole) -> list[Vector]:
        """Return the terms and weights of each text, in the order of `texts`; both are empty if no term is active."""
        if not texts:
            return []
        encode = self._model.encode_query if role == "query" else self._model.encode_document
        with self._lock:
            weighted = encode(
                list(texts),
                prompt=self._prompts[role],
                batch_size=TEXTS_PER_BATCH,
                show_progress_bar=False,
                save_to_cpu=True,
            ).coalesce()
        values = weighted.values().float().numpy()
        check_finite(values, self.name)
        rows, terms = weighted.indices().numpy()[:, values != 0]
        terms, weights = terms.astype(np.int32), values[values != 0]
        starts = np.searchsorted(rows, np.arange(len(texts) + 1))
        return [(terms[a:b], weights[a:b]) for a, b in pairwise(starts)]

    def tokenizer(self) -> Tokenizer:
        """Return the model's tokenizer, without special tokens."""
        return library_offsets(self._model)


def _pool_maximum_first(forward: Callable[[Any], Any], activation: str, features: Any) -> Any:
    """Compute `SpladePooling.forward` with its strategy `max` faster, with bit-identical results.

    The original takes the logarithm of every token's score and then the maximum. The logarithm does not change which
    score is the maximum, so here the maximum is taken first.
    """
    import torch

    if "cu_seq_lens_q" in features or torch.is_grad_enabled():
        return forward(features)
    scores, mask = features["token_embeddings"], features["attention_mask"].bool()
    lengths = mask.sum(dim=1).tolist()
    if all(row[:n].all() for row, n in zip(mask, lengths, strict=True)):
        # Padding is at the end, so slices need no copy.
        scores_by_text = [row[:n] for row, n in zip(scores, lengths, strict=True)]
    else:
        scores_by_text = [row[token_mask] for row, token_mask in zip(scores, mask, strict=True)]
    # Scores below 0 count as 0. A text without tokens has the score 0 for every term.
    best = torch.stack([part.amax(dim=0) if len(part) else part.new_zeros(part.shape[1]) for part in scores_by_text])
    best = best.relu_().log1p_()
    features["sentence_embedding"] = best.log1p_() if activation == "log1p_relu" else best
    return features


@lru_cache(maxsize=2)
def open_encoder(spec: str) -> SpladeEncoder:
    """Return the encoder of a spec; each is loaded once in a process."""
    return SpladeEncoder(spec)


class SparseIndex:
    """The weights of the terms of passages, opened for searching.

    Args:
        postings: the postings of encoded texts by slot.
        slots: the slot of each row's text, or -1 for a row that is not encoded.
    """

    def __init__(self, postings: Postings, slots: NDArray[np.int64]) -> None:
        self._postings, self._slots = postings, slots

    def scores(self, vector: Vector) -> NDArray[np.float32]:
        """Return the dot product of a query's vector with every row's."""
        total = np.zeros(int(self._slots.max(initial=-1)) + 2, dtype=np.float32)
        for term, weight in zip(*vector, strict=True):
            slots, weights = self._postings.of(int(term))
            known = slots < len(total) - 1  # a build may be adding texts
            total[slots[known]] += weights[known].astype(np.float32) * weight  # each slot occurs once
        return total[self._slots]  # the last element, which is 0, belongs to rows without a slot


def sparse_postings(first: int, vectors: Sequence[Vector]) -> dict[int, tuple[list[int], list[np.float16]]]:
    """Return the postings of vectors: term -> slots and weights, which are rounded to float16.

    Args:
        first: slot of the first vector.
    """
    postings: dict[int, tuple[list[int], list[np.float16]]] = {}
    for slot, (terms, exact) in enumerate(vectors, first):
        with np.errstate(over="ignore"):
            halves = exact.astype(np.float16)
        check_finite(halves, "the sparse encoder")
        for term, weight in zip(terms.tolist(), halves, strict=True):
            slots, weights = postings.setdefault(term, ([], []))
            slots.append(slot)
            weights.append(weight)
    return postings


# --- the retriever ---------------------------------------------------------------------------------------------------


def sparse_of(index: StoredIndex) -> SparseIndex:
    """Open the terms of the sparse encoder of an index."""
    index.model_info("splade", "SPLADE terms", "splade:MODEL")
    return SparseIndex(Postings(index.store.select, SPARSE_POSTINGS, SPARSE_TYPE), index.rows.sparse_slots)


class SpladeRanker:
    """Ranks by the terms of a sparse encoder."""

    name = "splade"

    def __init__(self, index: SearchableIndex) -> None:
        self._index = index

    def lists(self, texts: Sequence[str], queries: Sequence[Query], k: int) -> list[RankedRows]:
        postings = self._postings
        lists = []
        for vector, query in zip(self._encoder.encode(texts, "query"), queries, strict=True):
            scores = np.concatenate([part.scores(vector) for part in postings])
            lists.append(top_k(scores, k, self._index.mask(query.where), positive=True))
        return lists

    @cached_property
    def _postings(self) -> list[SparseIndex]:
        return [sparse_of(part) for part in self._index.parts]

    @cached_property
    def _encoder(self) -> SpladeEncoder:
        info = self._index.model_info("splade", "SPLADE terms", "splade:MODEL")
        encoder = open_encoder(info.spec)
        self._index.check_unchanged(encoder.fingerprint, info)
        return encoder
