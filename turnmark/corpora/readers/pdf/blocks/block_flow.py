"""Joins the blocks of all columns, so that a block that spans columns or pages is one block."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from turnmark.corpora.readers.pdf.blocks.column_blocks import ColumnReader
from turnmark.corpora.readers.pdf.blocks.markdown_writer import BlockDraft
from turnmark.corpora.readers.pdf.headings.heading_finder import Headings
from turnmark.corpora.readers.pdf.headings.outline import Bookmark
from turnmark.corpora.readers.pdf.headings.styled_headings import body_of
from turnmark.corpora.readers.pdf.layout.page_layout import PageLayout
from turnmark.corpora.readers.pdf.page.text_patterns import (
    chapter_number,
    ends_sentence,
    hyphenated_start,
    number_of,
    numbering_depth,
)

_MAX_SKIPPED_NOTES = 7  # footnotes and captions that may interrupt a block
_MAX_SKIPPED_FLOATS = 2  # tables and captions at the top of a column that may interrupt a block
_MIN_COUNTED_SHARE = 0.6  # of the numbers that are headings; they follow the number before them
_MAX_TABLE_SHIFT = 6  # points between the left edges of two parts of a table


def drafts_of(pages: Sequence[PageLayout], bookmarks: Sequence[Bookmark]) -> list[BlockDraft]:
    """Return the blocks of all pages in order."""
    lines = [(page.page, line) for page in pages for column in page.columns for line in column.lines]
    body = body_of([line for _, line in lines])
    headings = Headings(pages, lines, body, bookmarks)
    drafts: list[BlockDraft] = []
    title: list[str] = []  # title of the previous slide
    for page in pages:
        for place, column in enumerate(page.columns):
            made = ColumnReader(page.page, column, headings, body).read()
            if page.aside:
                drafts += map(_as_aside, made)
                continue
            if page.wide and not place and made and made[0].kind == "heading":
                before, title = title, made[0].texts
                del made[: title == before]  # the slide continues the previous one
            _append(drafts, made)
    drafts = _with_chapter_numbers(drafts)
    _lower_lone_numbers(drafts)
    if sum(not page.aside for page in pages) > 2:
        _lower_front_matter(drafts)
    return drafts


def _as_aside(draft: BlockDraft) -> BlockDraft:
    """Return a block of text in another direction: it interrupts the page and cannot be one of its headings."""
    draft.note = True
    if draft.kind == "heading":
        draft.kind, draft.level = "paragraph", 0
    return draft


def _append(drafts: list[BlockDraft], column: list[BlockDraft]) -> None:
    """Append the blocks of the next column. The block that continues the open one is joined to it."""
    recent = range(len(drafts) - 1, max(-1, len(drafts) - 1 - _MAX_SKIPPED_NOTES), -1)
    open_at = next((index for index in recent if not drafts[index].note), None)
    if open_at is not None:
        last = drafts[open_at]
        heads = column[: _MAX_SKIPPED_FLOATS + 1]
        floats = [draft.note or draft.kind == "table" for draft in heads]
        place = next((at for at, is_float in enumerate(floats) if last.kind == "table" or not is_float), None)
        if place is not None and _continues(last, column[place], floated=place > 0):
            first = column.pop(place)
            if first.kind == "table" and first.rows[0][1] == last.rows[0][1]:
                first.rows.pop(0)  # the repeated header
            last.extend(first)
            drafts.append(drafts.pop(open_at))
    drafts += column


def _continues(last: BlockDraft, first: BlockDraft, floated: bool) -> bool:
    """Return whether a block continues in the first block of the next column. `floated`: floats separate them."""
    if last.kind != first.kind and (last.kind, first.kind) != ("item", "paragraph"):
        return False
    if last.kind == "table":
        columns = len(last.rows[0][1]), len(first.rows[0][1])
        return columns[0] == columns[1] and abs(last.x0 - first.x0) < _MAX_TABLE_SHIFT and not floated
    if last.kind == "code":
        return not floated
    if first.kind != "paragraph" or first.note or not last.texts[-1]:
        return False
    lower = first.texts[0][:1].islower()
    if hyphenated_start(last.texts[-1]) and lower:
        return True
    if ends_sentence(last.texts[-1]):
        return False
    return lower or (last.full and not floated and not first.indented)


def _with_chapter_numbers(drafts: Sequence[BlockDraft]) -> list[BlockDraft]:
    """Join a chapter number above a title to the title, and remove a number that is spelled out."""
    kept: list[BlockDraft] = []
    number = ""
    for draft, following in zip(drafts, [*drafts[1:], None], strict=False):
        title = " ".join(following.texts) if following is not None and following.kind == "heading" else ""
        over = draft.kind == "heading" and bool(title) and number_of(title) is None
        said = chapter_number(" ".join(draft.texts)) if over else None
        if said is not None:
            number = said
            continue
        if number:
            draft.prepend(f"{number}.")
        number = ""
        kept.append(draft)
    return kept


def _lower_lone_numbers(drafts: Sequence[BlockDraft]) -> None:
    """Turn headings that are only a number into paragraphs, unless they count the chapters of the document.

    Large numbers are also those of a figure, of a clock, or the meter of music.
    """
    alone = [draft for draft in drafts if draft.kind == "heading" and not draft.bookmarked]
    numbers = [(draft, number) for draft in alone if (number := number_of(" ".join(draft.texts))) is not None]
    steps = [second - first for (_, first), (_, second) in pairwise(numbers)]
    if not steps or steps.count(1) < _MIN_COUNTED_SHARE * len(steps):
        for draft, _ in numbers:
            draft.kind, draft.level = "paragraph", 0


def _lower_front_matter(drafts: Sequence[BlockDraft]) -> None:
    """Turn authors, versions and dates below the title into paragraphs: they are large, but not headings."""
    later = {draft.style for draft in drafts if draft.kind == "heading" and draft.page > 0}
    titled = False
    for draft in drafts:
        if draft.kind == "table" or draft.page > 0:
            break
        if draft.kind == "heading":
            lone = draft.style not in later and not draft.bookmarked
            if titled and lone and not numbering_depth(" ".join(draft.texts)):
                draft.kind, draft.level = "paragraph", 0
            titled = True
