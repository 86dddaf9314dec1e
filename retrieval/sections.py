"""A section that was cut into several passages, put together again for who reads it."""

from __future__ import annotations

from collections.abc import Sequence

from turnmark.corpora.types import CONTINUED, Passage


def section_of(passage: Passage, neighbours: Sequence[Passage]) -> list[Passage]:
    """The passages that make up the full section of a passage, in reading order: itself, if the section was not cut.

    Args:
        neighbours: the passages of the same document, as `neighbours_of` gives them; others are left out.
    """
    ordered = sorted((each for each in neighbours if each.document == passage.document), key=lambda each: each.start)
    position = next((i for i, each in enumerate(ordered) if each.id == passage.id), None)
    if position is None:
        return [passage]
    first, last = position, position + 1
    while first and continues(ordered[first], ordered[first - 1]):
        first -= 1
    while last < len(ordered) and continues(ordered[last], ordered[last - 1]):
        last += 1
    return ordered[first:last]


def continues(passage: Passage, before: Passage) -> bool:
    """Whether a passage goes on with the section of the passage before it."""
    return passage.section.endswith(CONTINUED) and passage.heading == before.heading
