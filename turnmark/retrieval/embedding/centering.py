"""Centers the vectors of multilingual embedders, whose cosines are high between all texts.

With multilingual-e5-small, unrelated texts have cosines of .7 to .8, and a question and its passage have .87. A
threshold that was fitted to another model is therefore useless. Cosines within a language are even higher: among
documents in several languages, a wrong passage in the language of the question beats the right one in another language.
The causes are a component that all texts share, and one that all texts of a language share. Both are measured for each
model on the same eight sentences in twenty languages (parallel.json). The mean is subtracted, and the directions in
which the means of the languages differ are removed. The resulting cosines are on the scale of MiniLM's
(docs/measured-once.md has the figures).

The measurement belongs to the model and not to an index. Indexes can therefore be searched together, and an update of
an index keeps the vectors of unchanged passages.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from turnmark.core.specs import Spec, check_options
from turnmark.corpora.downloads.small_models import MULTILINGUAL, resolve_model
from turnmark.retrieval.embedding.array_types import Encoded, FloatArray, measured_arrays, scale_to_unit
from turnmark.retrieval.embedding.embedders import Embedder, TextRole

PARALLEL_TEXTS_FILE = Path(__file__).with_name("parallel.json")
ROLES: tuple[TextRole, ...] = ("query", "passage")


@dataclass(frozen=True)
class Center:
    """What the vectors of a model have in common.

    Attributes:
        means: the mean vector of texts and the mean vector of tokens, for each role: shape (2, 2, dimension).
        directions: orthonormal directions in which languages differ, of shape (languages - 1, dimension).
    """

    means: FloatArray
    directions: FloatArray

    def texts(self, vectors: FloatArray, role: TextRole) -> FloatArray:
        """Return vectors of texts without what they have in common, of length 1."""
        return self._remove(vectors, self.means[ROLES.index(role), 0])

    def tokens(self, vectors: FloatArray, role: TextRole) -> FloatArray:
        """Return vectors of tokens without what they have in common, of length 1."""
        return self._remove(vectors, self.means[ROLES.index(role), 1])

    def _remove(self, vectors: FloatArray, mean: FloatArray) -> FloatArray:
        rest: FloatArray = vectors - mean
        rest -= (rest @ self.directions.T) @ self.directions
        return scale_to_unit(rest)


class CenteredEmbedder(Embedder):
    """An embedder whose vectors are centered. The center is measured when the first text is embedded, and kept in
    the cache (`$TURNMARK_CACHE`).
    """

    def __init__(self, model: str | Path, name: str) -> None:
        super().__init__(model, name)
        self._uncentered = self.fingerprint
        self.fingerprint += "|centered"

    def encode(self, texts: Sequence[str], role: TextRole) -> FloatArray:
        if not texts:
            return super().encode(texts, role)
        return self._center.texts(super().encode(texts, role), role)

    def encode_both(self, texts: Sequence[str], role: TextRole) -> Encoded:
        vectors, tokens, ids = super().encode_both(texts, role)
        if not texts:
            return vectors, tokens, ids
        return self._center.texts(vectors, role), [self._center.tokens(rows, role) for rows in tokens], ids

    @cached_property
    def _center(self) -> Center:
        sentences = PARALLEL_TEXTS_FILE.read_bytes()
        digest = hashlib.sha256(f"{self._uncentered}|{self.backend}|".encode() + sentences).hexdigest()
        return Center(**measured_arrays(f"centers/{digest[:32]}", lambda: self._measure(json.loads(sentences))))

    def _measure(self, parallel: dict[str, list[str]]) -> dict[str, FloatArray]:
        texts = [text for sentences in parallel.values() for text in sentences]
        means, of_languages = [], []
        for role in ROLES:
            vectors, tokens, _ = super().encode_both(texts, role)
            mean_tokens = np.stack([rows.mean(axis=0) for rows in tokens])
            means.append([vectors.mean(axis=0), mean_tokens.mean(axis=0)])
            of_languages.append(vectors.reshape(len(parallel), -1, self.dimension).mean(axis=1) - vectors.mean(axis=0))
        _, _, directions = np.linalg.svd(np.mean(of_languages, axis=0), full_matrices=False)
        directions = directions[: len(parallel) - 1]
        return {"means": np.asarray(means, dtype=np.float32), "directions": directions.astype(np.float32)}


def open_multilingual(spec: Spec) -> CenteredEmbedder:
    """Open `multilingual-e5-small`, which must be fetched."""
    check_options(spec, {}, "embedder")
    return CenteredEmbedder(resolve_model(MULTILINGUAL.name), str(spec))
