"""Determines the title and the date of a document from its metadata and its first pages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date

from turnmark.corpora.readers.pdf.draft import BlockDraft
from turnmark.corpora.readers.pdf.letters import normalize_letters
from turnmark.corpora.readers.prose import is_meaningful_title
from turnmark.corpora.text import words

_OPENING_BLOCKS = 40  # in which a title must appear
_MIN_WORD_SHARE = 0.7  # of the words of a title that the opening contains
_PDF_DATE = re.compile(r"(?:D:)?(\d{4})(\d{2})(\d{2})")
_MONTHS = "january february march april may june july august september october november december".split()
_WRITTEN_DATE = re.compile(
    r"(?P<iso>(?:19|20)\d{2}-\d{2}-\d{2})(?!\d)"
    r"|(?P<month>[A-Z][a-z]{2,8})\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?,? (?P<year>(?:19|20)\d{2})"
    r"|(?P<day2>\d{1,2})(?:st|nd|rd|th)?\.? (?P<month2>[A-Z][a-z]{2,8})\.?,? (?P<year2>(?:19|20)\d{2})"
)


def title_of(metadata: Mapping[str, str], drafts: Sequence[BlockDraft]) -> str:
    """Return the title in the metadata if the first pages contain it; else the largest line of the first page."""
    said = " ".join(normalize_letters(metadata.get("Title", "")).split())
    headings = [draft for draft in drafts if draft.kind == "heading" and draft.page == 0]
    largest = min(headings, key=lambda draft: draft.level, default=None)
    heading = " ".join(largest.texts) if largest else ""
    if not is_meaningful_title(said) or not heading:
        return said if is_meaningful_title(said) else heading
    opening = {*words(" ".join(text for draft in drafts[:_OPENING_BLOCKS] for text in draft.texts))}
    title = words(said)
    return said if sum(word in opening for word in title) >= _MIN_WORD_SHARE * len(title) else heading


def date_of(metadata: Mapping[str, str], opening: str) -> str:
    """Return the first full date in the opening, or else the date in the metadata.

    Returns:
        A date such as "2024-03-31"; empty if there is none.
    """
    for match in _WRITTEN_DATE.finditer(opening):
        if match["iso"]:
            return match["iso"]
        name = (match["month"] or match["month2"]).lower()
        month = next((index for index, full in enumerate(_MONTHS, 1) if full.startswith(name[:3])), 0)
        if day := _iso_date(match["year"] or match["year2"], month, match["day"] or match["day2"]):
            return day
    for key in ("ModDate", "CreationDate"):
        said = _PDF_DATE.match(metadata.get(key, ""))
        if said and (day := _iso_date(said[1], int(said[2]), said[3])):
            return day
    return ""


def _iso_date(year: str, month: int, day: str) -> str:
    """Return a date in ISO 8601; empty if there is no such day."""
    try:
        return date(int(year), month, int(day)).isoformat()
    except ValueError:
        return ""
