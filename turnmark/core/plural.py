"""Counts with their noun."""

from __future__ import annotations


def count_phrase(count: int, noun: str) -> str:
    """Return a count with its noun, e.g. `1 table` or `1,200 tables`."""
    return f"{count:,} {noun}{'s'[: count != 1]}"
