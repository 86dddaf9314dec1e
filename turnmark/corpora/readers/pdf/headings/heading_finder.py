"""Finds headings: by the outline, as slide titles, by their style, and run in with a paragraph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mode
from typing import NamedTuple

from turnmark.corpora.readers.pdf.headings.outline import Bookmark, Heading, bookmarked_headings
from turnmark.corpora.readers.pdf.headings.styled_headings import (
    MAX_HEADING_LENGTH,
    Body,
    headings_by_style,
    slide_titles,
)
from turnmark.corpora.readers.pdf.layout.page_layout import PageLayout
from turnmark.corpora.readers.pdf.page.boxes import LineOrTable, PdfLine, Segment, join_words
from turnmark.corpora.readers.pdf.page.text_patterns import ends_sentence, numbering_depth

_MAX_RUN_IN_LINES = 3  # of a heading that its paragraph follows on the same line


class RunIn(NamedTuple):
    """A numbered bold heading, e.g. "2.6. Why it fails.", and the rest of its last line, if any."""

    texts: list[str]
    level: int
    rest: PdfLine | None


class Headings:
    """The headings of a document.

    Args:
        lines: the lines of all pages, each with its page, counted from 0.
        bookmarks: the outline of the file.
    """

    def __init__(
        self,
        pages: Sequence[PageLayout],
        lines: Sequence[tuple[int, PdfLine]],
        body: Body,
        bookmarks: Sequence[Bookmark],
    ) -> None:
        found = bookmarked_headings(lines, bookmarks)
        found |= slide_titles(pages, found)
        found = _in_order(found, lines)
        found |= headings_by_style(pages, body, found)
        self._found = _in_order(found, lines)
        self._above_number = _level_offset(self._found)

    def at(self, item: LineOrTable) -> Heading | None:
        """Return the heading that begins at an item."""
        return self._found.get(item) if isinstance(item, PdfLine) else None

    def run_in(self, items: Sequence[LineOrTable], index: int) -> RunIn | None:
        """Return the numbered bold heading at an index whose paragraph follows on the same line or below, if any."""
        texts: list[str] = []
        rest: PdfLine | None = None
        for item in items[index : index + _MAX_RUN_IN_LINES]:
            if not isinstance(item, PdfLine) or item in self._found:
                break
            count = _bold_words(item)
            if not count:
                break
            texts.append(join_words(item.words[:count]))
            rest = _rest_of_line(item, count)
            if rest is not None:
                break
        whole = " ".join(texts)
        depth = numbering_depth(whole)
        if depth < 2 or not ends_sentence(whole) or len(whole) > MAX_HEADING_LENGTH:
            return None
        return RunIn(texts, min(6, max(1, depth + self._above_number)), rest)


def _in_order(headings: Mapping[PdfLine, Heading], lines: Sequence[tuple[int, PdfLine]]) -> dict[PdfLine, Heading]:
    """Return the headings in the order of their lines: of two equally frequent levels, the first one wins."""
    return {line: headings[line] for _, line in lines if line in headings}


def _level_offset(headings: Mapping[PdfLine, Heading]) -> int:
    """Return the difference between the level of a heading and the depth of its number."""
    depths = ((heading.level, numbering_depth(line.text)) for line, heading in headings.items())
    offsets = [level - depth for level, depth in depths if depth]
    return mode(offsets) if offsets else 0


def _bold_words(line: PdfLine) -> int:
    """Return how many words at the start of a line may be a heading."""
    words = line.words
    if not words[0].bold:
        return 0
    count = next((at for at, word in enumerate(words) if not (word.bold or word.mono)), len(words))
    if count < len(words):  # the paragraph may begin with a bold name
        while count > 1 and not ends_sentence(words[count - 1].text):
            count -= 1
    return count


def _rest_of_line(line: PdfLine, count: int) -> PdfLine | None:
    """Return the rest of a line, moved to its margin to align with the lines below, or None if there is none."""
    rest = line.words[count:]
    return PdfLine([Segment([replace(rest[0], x0=line.x0), *rest[1:]])]) if rest else None
