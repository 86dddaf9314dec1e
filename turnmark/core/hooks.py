"""Functions that a package needs from one above it. `turnmark/__init__.py` sets them, so that imports point back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _raise_unset(_: str, __: str | None) -> Any:
    raise NotImplementedError("turnmark/__init__.py sets this function")


describer_opener: Callable[[str, str | None], Any] = _raise_unset
"""Opens the model that describes pictures, from its spec and a budget
(`turnmark.retrieval.index.picture_descriptions`).
"""
