"""Determines the level of headings from their style. Bookmarks take precedence, then larger sizes rank higher."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from turnmark.corpora.readers.pdf.page.boxes import Style

MAX_SIZE_DIFFERENCE = 0.08  # of the size; smaller differences are ignored
_MAX_LEVEL = 6


def levels_of(styles: Iterable[Style], known: Mapping[Style, Counter[int]]) -> dict[Style, int]:
    """Return the level, 1 to 6, of each style.

    Args:
        known: for each style of headings with known levels, the count of each level.
    """
    if known:
        return _interpolated_levels({style: levels.most_common(1)[0][0] for style, levels in known.items()}, styles)
    return _ranked_levels(styles)


def _interpolated_levels(known: Mapping[Style, int], styles: Iterable[Style]) -> dict[Style, int]:
    levels = dict(known)
    deepest, smallest = max(known.values()), min(style.size for style in known)
    for style in styles:
        if style in levels:
            continue
        larger = [level for other, level in levels.items() if other.size >= style.size]
        near = [
            level
            for other, level in levels.items()
            if other.bold == style.bold and abs(other.size - style.size) <= MAX_SIZE_DIFFERENCE * style.size
        ]
        if near:
            levels[style] = near[0]
        elif not larger:
            levels[style] = 1
        elif style.size <= smallest:
            levels[style] = min(_MAX_LEVEL, deepest + 1)
        else:
            levels[style] = max(larger)
    return levels


def _ranked_levels(styles: Iterable[Style]) -> dict[Style, int]:
    """Return the levels of styles by decreasing size. If two styles have the same size, the bold one is higher."""
    levels: dict[Style, int] = {}
    level, last = 0, None
    for style in sorted(set(styles), key=lambda style: (-style.size, not style.bold, style.italic)):
        if last is None or last.size - style.size > MAX_SIZE_DIFFERENCE * style.size or last[1:] != style[1:]:
            level += 1
        levels[style] = min(_MAX_LEVEL, level)
        last = style
    return levels
