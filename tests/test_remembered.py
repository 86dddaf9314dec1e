"""What the tests remember of the bundled embedder is what it computes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import VECTORS
from turnmark.retrieval.embed import open_embedder

TEXTS = ["How do I sharpen a kitchen knife?", "On a wet stone, from heel to tip."]


def test_the_bundled_embedder_gives_from_memory_what_it_gives_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = open_embedder("minilm")
    embedder.encode(["load the model"], "passage")
    assert VECTORS.on
    for call in (embedder.encode, embedder.encode_both):
        again = [call(TEXTS, "passage") for _ in range(2)][1]
        monkeypatch.setattr(VECTORS, "on", False)
        anew = call(TEXTS, "passage")
        monkeypatch.setattr(VECTORS, "on", True)
        assert np.concatenate([np.ravel(part) for part in _parts(again)]).tolist() == pytest.approx(
            np.concatenate([np.ravel(part) for part in _parts(anew)]).tolist(), abs=1e-6
        )


def _parts(value: object) -> list[np.ndarray]:
    return [value] if isinstance(value, np.ndarray) else [array for part in value for array in _parts(part)]  # type: ignore[attr-defined]
