"""What the tests remember of the bundled embedder is what it computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.conftest import VECTORS
from tests.remembered import Vectors
from turnmark.retrieval.embed import open_embedder

TEXTS = ["How do I sharpen a kitchen knife?", "On a wet stone, from heel to tip."]


@pytest.mark.parametrize("texts", [1, 3])
def test_another_process_of_the_run_gets_what_one_computed(tmp_path: Path, texts: int) -> None:
    def computed() -> object:
        arrays = [np.full((2, 3), place, dtype=np.float32) for place in range(texts)]
        return np.ones((texts, 4), dtype=np.float32), arrays, [array[0].astype(np.int32) for array in arrays]

    writer, reader = Vectors(), Vectors()
    writer.folder = reader.folder = tmp_path
    first = writer.of(("both", "a"), computed)
    again = reader.of(("both", "a"), lambda: pytest.fail("computed twice"))
    for ours, theirs in zip(_parts(first), _parts(again), strict=True):
        assert ours.dtype == theirs.dtype
        assert (ours == theirs).all()


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
