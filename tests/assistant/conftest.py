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
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "indexes").symlink_to(plain_home / "indexes")
    monkeypatch.setenv("TURNMARK_HOME", str(folder))
    return folder


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back-off in hundredths of a second."""
    monkeypatch.setattr("turnmark.assistant.generators.openai.FIRST_WAIT", 0.02)
    monkeypatch.setattr("turnmark.assistant.generators.openai.JITTER", 0.02)
