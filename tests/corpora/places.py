"""Where the real data lie that some tests read: $TURNMARK_DATA, or shared/data beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import DATA as ROOT


def real_data(relative: str) -> Path:
    """A folder or file of the real data; skips the test where it is not there."""
    path = ROOT / relative
    if not path.exists():
        pytest.skip(f"no {relative} in $TURNMARK_DATA or ../shared/data")
    return path


def beir_corpora() -> list[object]:
    """The real BEIR corpora as test parameters; one that skips where there are none."""
    paths: list[object] = sorted((ROOT / "mt-rag-benchmark/corpora/passage_level").glob("*.jsonl"))
    reason = "no mt-rag-benchmark/corpora in $TURNMARK_DATA or ../shared/data"
    return paths or [pytest.param(Path("none.jsonl"), marks=pytest.mark.skip(reason=reason))]
