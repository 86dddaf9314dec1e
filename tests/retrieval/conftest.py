"""Documents that tests of retrieval index."""

from __future__ import annotations

from pathlib import Path

import pytest


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
