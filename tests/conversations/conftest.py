"""A small collection and a conversation over it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import DEMO
from tests.conversations.collections import Collection
from tests.conversations.labels import LabelledConversation, LabelledTurn
from tests.conversations.runner import Corpus
from turnmark.core.console import NoProgress

FERRY = LabelledConversation(
    id="ferry",
    half="tuning",
    turn=(
        LabelledTurn(say="How tall is Stack Nell lighthouse?", kind="answer", facts=(r"metres|feet|\bm\b",)),
        LabelledTurn(say="Thank you!", kind="courtesy"),
    ),
)


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """Make a collection of a few demo documents, with an empty journal."""
    monkeypatch.setenv("TURNMARK_CONVERSATIONS", str(tmp_path / "work"))
    return Corpus(
        Collection("demo", lambda: DEMO / "documents", ("almanac/*.md",), "the demo", "nothing"), NoProgress()
    )
