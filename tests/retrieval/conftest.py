"""Documents that tests of retrieval index."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.served import ServerProcess, free_port
from turnmark.corpora.types import Passage
from turnmark.retrieval.storage.passage_store import PassageStore
from turnmark.retrieval.storage.passage_writer import PassageWriter, ReadFile


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def notes(tmp_path) -> Path:
    return write(
        tmp_path / "notes",
        bread="# Bread\n\nMix flour and water. Bake the loaf at 240 degrees.\n",
        boat="# Boat\n\nDrain the fuel tank before winter. Wash the hull.\n",
        bees="# Bees\n\nFeed the bees sugar syrup in autumn.\n",
    )


class Angles:
    """Embeds a text that is a number of degrees as that direction in the plane; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked.append(list(texts))
        return np.array([self.one(float(text)) for text in texts], dtype=np.float32)

    @staticmethod
    def one(degrees: float) -> tuple[float, float]:
        return math.cos(math.radians(degrees)), math.sin(math.radians(degrees))


def content(name: str) -> dict[str, np.ndarray]:
    """Passage id -> vector, all of an index."""
    from turnmark.retrieval.search.opened_index import open_index

    index = open_index(name)
    ids = [passage.id for page in index.store.pages() for _, _, passage in page]
    return dict(zip(ids, index.flat.of(range(len(ids))), strict=True))


def stored_passages(path: Path, documents: Mapping[str, Sequence[Passage]]) -> PassageStore:
    """Write passages into a new file, and return it opened."""
    with closing(PassageWriter(path, revision=1)) as store:
        store.put([ReadFile(name, "", "{}", {name: passages}) for name, passages in documents.items()])
        (count,) = store.select("SELECT count(*) FROM passages")[0]
    return PassageStore(path, 1, np.arange(1, count + 1))


class ChromaProcess(ServerProcess):
    """`chroma run` on one folder and port."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [Path(sys.executable).with_name("chroma"), "run", "--path", folder / "data"]
        command += ["--host", "127.0.0.1", "--port", str(port)]
        super().__init__(command, f"{self.url}/api/v2/heartbeat", folder / "log", {"ANONYMIZED_TELEMETRY": "False"})
