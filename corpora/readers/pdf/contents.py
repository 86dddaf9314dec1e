"""Finds the lines of tables of contents and indexes, which only point to pages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnmark.corpora.readers.pdf.boxes import PdfLine

_ROMAN = r"[ivxlcdm]{1,7}"
_LEADERS = re.compile(rf"(?:[.·…]\s?){{4,}}\s*(?:[A-Z]-?)?(?:\d{{1,4}}|{_ROMAN})?(?:\s*,\s*\d{{1,4}})*\s*$")
_ENDS_WITH_PAGE = re.compile(rf"\s(?:\d{{1,4}}|{_ROMAN})$")
_INDEX_LINE = re.compile(r"\D,\s?\d{1,4}(?:[,–-]\s?\d{1,4})*,?$")
_HEAD = re.compile(
    r"(?:(?:short|brief|table of|list of)\s+)?(?:table of )?(?:contents|figures|tables|listings|toc)"
    r"|inhalt(?:sverzeichnis)?|table des matières|índice|sommaire",
    re.IGNORECASE,
)
_MAY_BE = re.compile(rf"(?:\d|[.·…]\s?[.·…]|\b{_ROMAN})\s*$")
_MIN_ENTRY_SHARE = 0.6  # of the lines of a page
_MIN_CONTENTS_LINES = 3  # fewer are not a table of contents
_MIN_INDEX_LINES = 10  # an index has more


class Contents:
    """A detector of contents and index lines, which is given one page after the other: contents may span pages."""

    def __init__(self) -> None:
        self._within = False

    def may_be_in(self, texts: Sequence[str]) -> bool:
        """Return whether the next page, which has these texts, may have such lines."""
        return self._within or sum(bool(_MAY_BE.search(text)) for text in texts) >= _MIN_CONTENTS_LINES

    def lines(self, lines: Sequence[PdfLine]) -> list[PdfLine]:
        """Return the lines of the next page that only point to pages."""
        if not lines:
            return []
        texts = [line.text for line in lines]
        if len(lines) > _MIN_INDEX_LINES and sum(
            bool(_INDEX_LINE.search(text)) for text in texts
        ) >= _MIN_ENTRY_SHARE * len(lines):
            return list(lines)
        heads = [index for index, text in enumerate(texts) if _HEAD.fullmatch(text.strip())]
        places = self._places(texts, heads)
        if not places:
            return []
        is_dense = len(places) >= 0.5 * (places[-1] - places[0] + 1)
        gone = set(range(places[0], places[-1] + 1) if is_dense else places)
        gone |= {index for index in heads if any(abs(index - place) < 4 for place in places)}
        return [line for index, line in enumerate(lines) if index in gone]

    def _places(self, texts: Sequence[str], heads: Sequence[int]) -> list[int]:
        """Return the indexes of lines with dot leaders, or of lines that end with a page number if all of them do.

        Args:
            heads: indexes of the lines that are the title of a table of contents.
        """
        leaders = [bool(_LEADERS.search(text)) for text in texts]
        paged = [led or bool(_ENDS_WITH_PAGE.search(text)) for led, text in zip(leaders, texts, strict=True)]
        by_leaders = sum(leaders) >= (1 if self._within else _MIN_CONTENTS_LINES)
        behind = paged[heads[0] + 1 :] if heads else paged
        by_pages = (bool(heads) or self._within) and sum(behind) >= max(
            _MIN_CONTENTS_LINES, _MIN_ENTRY_SHARE * len(behind)
        )
        self._within = by_leaders or by_pages
        if not self._within:
            return []
        marks = paged if by_pages or sum(paged) >= _MIN_ENTRY_SHARE * len(texts) else leaders
        return [index for index, mark in enumerate(marks) if mark]
