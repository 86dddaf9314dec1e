"""Describe the passage file that a run searched, for its manifest."""

from __future__ import annotations

import hashlib
from pathlib import Path

from turnmark.evaluation.records import CorpusUsed

MIN_FULL_SHARE = 0.99
"""Minimum share of the published passages for a corpus to count as full."""


def measure_corpus(path: Path, published: int | None = None) -> CorpusUsed:
    """Read the size, checksum and extent (full, partial, other) of a corpus file in one pass.

    Args:
        published: number of passages of the published corpus, or None if it is unknown.
    """
    digest = hashlib.sha256()
    passages = 0
    with open(path, "rb") as file:
        for line in file:
            digest.update(line)
            passages += not line.isspace()
    extent = "other"
    if published is not None:
        extent = "full" if passages >= MIN_FULL_SHARE * published else "partial"
    return CorpusUsed.model_validate({"passages": passages, "sha256": digest.hexdigest(), "extent": extent})
