"""A watch over a folder in a thread. Tests wait for its lines with a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, Queue

import pytest

from tests.patience import PATIENCE
from turnmark.retrieval.index.folder_watch import FolderWatch
from turnmark.retrieval.search.opened_index import open_index


class Said:
    """The lines that a watch reports."""

    def __init__(self) -> None:
        self.lines: Queue[str] = Queue()
        self.all: list[str] = []

    def wait_for(self, text: str) -> str:
        """Return the next line that contains a text."""
        ends = time.monotonic() + PATIENCE
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, ends - time.monotonic()))
            except Empty:
                pytest.fail(f"no line contains {text!r}; the lines were: {self.all}")
            self.all.append(line)
            if text in line:
                return line


@contextmanager
def watching(name: str) -> Iterator[Said]:
    """Watch the folder of an index."""
    said = Said()
    watch = FolderWatch(open_index(name).manifest, said.lines.put)
    thread = threading.Thread(target=watch.run)
    thread.start()
    try:
        yield said
    finally:
        watch.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()
