"""Where the suite keeps what it makes: documents it unpacked, indexes, conversations that are finished."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]


def work_folder() -> Path:
    """`TURNMARK_CONVERSATIONS`, else `.conversations` in the repository. Nothing is created."""
    return Path(os.environ.get("TURNMARK_CONVERSATIONS") or ROOT / ".conversations").expanduser()


def data_folder() -> Path:
    """Where the project's data lie: `TURNMARK_DATA`, else `../shared/data` beside the repository."""
    return Path(os.environ.get("TURNMARK_DATA") or ROOT.parent / "shared" / "data").expanduser()
