"""Fixtures that the tests of the assistant share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.assistant.notes import BERG, KETTLE, RADIO, TOASTER, notes
from tests.conftest import DEMO
from turnmark.retrieval.index.build import build_index


@pytest.fixture(scope="session")
def plain_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a home with the index `demo` over the demo documents. It has only BM25, so searching loads nothing heavy."""
    home = tmp_path_factory.mktemp("plain-home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(home))
        build_index(DEMO / "documents", "demo", retriever="bm25")
    return home


@pytest.fixture(scope="session")
def kitchen_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a home with the indexes `n` (a kettle, a toaster and its maker) and `radio` (how to reset a radio)."""
    home = tmp_path_factory.mktemp("kitchen-home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(home))
        build_index(notes(home / "n", kettle=KETTLE, toaster=TOASTER, berg=BERG), "n", retriever="bm25")
        build_index(notes(home / "radio", **RADIO), "radio", retriever="bm25")
    return home


@pytest.fixture
def in_home_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Path]:
    """Enter a new home that has the indexes of another home."""

    def enter(built: Path) -> Path:
        folder = tmp_path / "home"
        folder.mkdir()
        (folder / "indexes").symlink_to(built / "indexes")
        monkeypatch.setenv("TURNMARK_HOME", str(folder))
        return folder

    return enter


@pytest.fixture
def home(plain_home: Path, in_home_of: Callable[[Path], Path]) -> Path:
    """Enter a home with the index of `plain_home`."""
    return in_home_of(plain_home)


@pytest.fixture
def kitchen(kitchen_home: Path, in_home_of: Callable[[Path], Path]) -> Path:
    """Enter a home with the indexes of `kitchen_home`."""
    return in_home_of(kitchen_home)


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the back-off to hundredths of a second."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.02)
    monkeypatch.setattr("turnmark.assistant.llm.generators.openai.BROKEN_REPLY_WAIT_SECONDS", 0.02)
