"""What the tests of the chat share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import DEMO


@pytest.fixture(scope="session")
def plain_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the index `demo` over the demo documents, for BM25 alone: nothing heavy is loaded to search it."""
    home = tmp_path_factory.mktemp("plain-home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(home))
        from turnmark.retrieval.build import build_index

        build_index(DEMO / "documents", "demo", retriever="bm25")
    return home


@pytest.fixture
def home(tmp_path: Path, plain_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own that has the index of `plain_home`; the test runs in it."""
    made = tmp_path / "home"
    made.mkdir()
    (made / "indexes").symlink_to(plain_home / "indexes")
    monkeypatch.setenv("TURNMARK_HOME", str(made))
    return made
