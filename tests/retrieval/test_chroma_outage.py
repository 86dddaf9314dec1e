"""A Chroma server that dies while an index is written to it: waited for, then told; the same command goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.retrieval.conftest import ChromaProcess
from turnmark.corpora.errors import TurnmarkError
from turnmark.retrieval import chroma as chroma_module
from turnmark.retrieval.build import build_index
from turnmark.retrieval.chroma import ChromaVectors
from turnmark.retrieval.index import open_index
from turnmark.retrieval.maintenance import remove_index, verify_index
from turnmark.retrieval.registry import open_retriever
from turnmark.retrieval.store import PassageStore
from turnmark.retrieval.types import Query

pytestmark = pytest.mark.server


@pytest.fixture
def chroma(tmp_path: Path) -> Iterator[ChromaProcess]:
    server = ChromaProcess(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def dying(chroma: ChromaProcess, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The server is killed when the first of three pages is stored; `then` is called at that moment."""
    add = ChromaVectors.add
    state: dict[str, Any] = {"then": None, "killed": False}

    def killing(self: ChromaVectors, *args: Any) -> None:
        add(self, *args)
        if not state["killed"]:
            state["killed"] = True
            chroma.kill()
            if state["then"]:
                state["then"]()

    monkeypatch.setattr(PassageStore.pages, "__defaults__", (1,))
    monkeypatch.setattr(ChromaVectors, "add", killing)
    return state


def test_a_server_that_comes_back_is_waited_for(chroma, dying, notes):
    def later() -> None:
        time.sleep(0.3)
        chroma.start()

    back = threading.Thread(target=later)
    dying["then"] = back.start
    spec = f"chroma+{chroma.url}"
    report = build_index(notes, "n", retriever=spec)
    back.join()
    assert dying["killed"]
    assert report.embedded == 3
    index = open_index("n")
    assert verify_index(index) == []
    assert open_retriever(spec, index).search([Query(text="bees")], 1)[0][0].passage.document == "bees.md"
    remove_index("n")


@pytest.mark.slow
def test_a_server_that_stays_away_is_told_with_what_it_has_and_the_same_command_goes_on(
    chroma, dying, notes, monkeypatch, turnmark
):
    monkeypatch.setattr(chroma_module, "PATIENCE", 0.5)
    spec = f"chroma+{chroma.url}"
    with pytest.raises(TurnmarkError) as raised:
        build_index(notes, "n", retriever=spec)
    message = str(raised.value)
    assert f"the Chroma server at {chroma.url} cannot be reached (tried for 0.5 s)" in message
    assert "1 of 3 vectors had been stored as 'turnmark-n-g0001-" in message
    assert "the same command goes on without the model" in message
    ran = turnmark("index", "build", notes, "--name", "n", "--retriever", spec)
    assert ran.code == 1
    assert "cannot be reached (4 tries)" in ran.err
    chroma.start()
    report = build_index(notes, "n", retriever=spec)
    assert (report.embedded, report.kept) == (0, 3)
    assert verify_index(open_index("n")) == []
    remove_index("n")
