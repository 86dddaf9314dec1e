"""The headings of a document: by its outline, as titles of slides, by their looks, and run in with a paragraph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from turnmark.corpora.readers.pdf.body import Body
from turnmark.corpora.readers.pdf.boxes import LineOrTable, PdfLine, Segment, joined_words
from turnmark.corpora.readers.pdf.draft import Heading
from turnmark.corpora.readers.pdf.layout import PageLayout
from turnmark.corpora.readers.pdf.outline import Bookmark, bookmarked_headings
from turnmark.corpora.readers.pdf.styled_headings import MAX_HEADING_LENGTH, headings_by_style, slide_titles
from turnmark.corpora.readers.pdf.text_patterns import ends_sentence, numbering_depth

_MAX_RUN_IN_LINES = 3  # that a heading has at most that its paragraph goes on after


class RunIn(NamedTuple):
    """A numbered heading in bold, "2.6. Why it fails.", and the rest of its last line, None if there is no rest."""

    texts: list[str]
    level: int
    rest: PdfLine | None


class Headings:
    """The headings of a document.

    Args:
        lines: of all pages, each with its page, counted from 0.
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
        """The heading that begins at an item."""
        return self._found.get(item) if isinstance(item, PdfLine) else None

    def run_in(self, items: Sequence[LineOrTable], index: int) -> RunIn | None:
        """The numbered heading in bold that begins at an index, with its paragraph behind it in the same line or below.

        Returns:
            None: none begins here.
        """
        texts: list[str] = []
        rest: PdfLine | None = None
        for item in items[index : index + _MAX_RUN_IN_LINES]:
            if not isinstance(item, PdfLine) or item in self._found:
                break
            count = _bold_words(item)
            if not count:
                break
            texts.append(joined_words(item.words[:count]))
            rest = _rest_of_line(item, count)
            if rest is not None:
                break
        whole = " ".join(texts)
        depth = numbering_depth(whole)
        if depth < 2 or not ends_sentence(whole) or len(whole) > MAX_HEADING_LENGTH:
            return None
        return RunIn(texts, min(6, max(1, depth + self._above_number)), rest)


def _in_order(headings: Mapping[PdfLine, Heading], lines: Sequence[tuple[int, PdfLine]]) -> dict[PdfLine, Heading]:
    """The headings in the order of their lines: of two levels that are as frequent the first is taken."""
    return {line: headings[line] for _, line in lines if line in headings}


def _level_offset(headings: Mapping[PdfLine, Heading]) -> int:
    """What is added to the depth of a number to get the level of its heading."""
    levels = Counter[int]()
    for line, heading in headings.items():
        if depth := numbering_depth(line.text):
            levels[heading.level - depth] += 1
    return levels.most_common(1)[0][0] if levels else 0


def _bold_words(line: PdfLine) -> int:
    """How many words of a line, from its first, may be a heading."""
    words = line.words
    if not words[0].bold:
        return 0
    count = next((at for at, word in enumerate(words) if not (word.bold or word.mono)), len(words))
    if count < len(words):  # the paragraph may begin with a name in bold
        while count > 1 and not ends_sentence(words[count - 1].text):
            count -= 1
    return count


def _rest_of_line(line: PdfLine, count: int) -> PdfLine | None:
    """The rest of a line at its margin, so that it looks like the lines below it; None if there is no rest."""
    rest = line.words[count:]
    return PdfLine([Segment([replace(rest[0], x0=line.x0), *rest[1:]])]) if rest else None
