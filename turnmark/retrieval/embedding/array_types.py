"""Names for the kinds of arrays that models return, and a cache of those that are measured once for a model."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnmark.core.home import home, part_of

FloatArray = NDArray[np.float32]
"""Vectors or scores, as models compute them."""
TokenIds = NDArray[np.int32]
"""Numbers of tokens in a model's vocabulary."""
Encoded = tuple[FloatArray, list[FloatArray], list[TokenIds]]
"""Of some texts: their unit vectors, of shape (texts, dimension), and the unit token vectors and the token ids of each,
special tokens included; the last two are empty if they were not asked for."""


def scale_to_unit(vectors: FloatArray) -> FloatArray:
    """Return the rows scaled to length 1; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def measured_arrays(name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the arrays that were measured once for a model, by name; those missing or damaged are measured now.

    Args:
        name: file below the cache (`$TURNMARK_CACHE`), without its suffix `.npz`.
    """
    path = Path(os.environ.get("TURNMARK_CACHE") or home() / "cache") / f"{name}.npz"
    try:
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)
    except (OSError, ValueError):
        arrays = measure()
    with part_of(path) as part, open(part, "wb") as file:
        np.savez(file, **arrays)
    return arrays
