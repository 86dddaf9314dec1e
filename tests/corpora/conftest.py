"""Fixtures that several modules of this folder share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder for the pictures of a document."""
    made = tmp_path / "pictures"
    made.mkdir()
    return made
