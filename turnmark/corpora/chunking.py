"""Cuts a Document into Passages. A passage is a section with the headings that apply to all of its text.

Small sibling sections are joined under their parent's heading. A section that does not fit is cut between paragraphs,
items or rows, and its further passages are marked "(continued)". All positions are characters of the document; tokens
are only counted, so text that a tokenizer drops is not lost.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, pairwise
from math import ceil

from turnmark.core.errors import RequestError
from turnmark.corpora.tables.data_tables import captions_of
from turnmark.corpora.tables.markdown_tables import cell_bars, clip_head, head_from, head_of
from turnmark.corpora.text.segmentation import CJK, heading_text, lines, sentences, trim_range
from turnmark.corpora.types import CONTINUED_MARK, Block, Document, Passage

Tokenizer = Callable[[str], Sequence[tuple[int, int]]]
"""Character offsets (start, end) of a text's tokens, in order, special tokens excluded."""

MIN_SIZE = 16  # tokens; in a smaller passage the title alone would fill it
MAX_JOINED_SHARE = 0.8  # of the size, up to which sibling sections are joined
MAX_SMALL_SHARE = 0.15  # of the size; a smaller section is joined even beyond MAX_JOINED_SHARE
_TOKENIZED_LENGTH = 200_000  # characters tokenized at a time, to bound the tokenizer's memory
_MAX_TOKEN_LENGTH = 100  # characters; WordPiece turns any longer run without spaces into one unknown token
_LONG_TOKEN_STEP = 4  # characters of such a run that count as one token
_MIN_SLACK_TOKENS = 8  # a draft this near to the size, or cut inside a word, is counted again as it will be indexed

_MAX_HEADER_SHARE = 1 / 3  # of the size, for a table head that is repeated above a later part
_NAME_LENGTHS = (24, 12, 6)  # characters; column names are shortened step by step until they fit

_REGEX_TOKEN = re.compile(rf"[{CJK}]|[^\W{CJK}]{{1,64}}|[^\w\s]")
_WORD = re.compile(r"\w")
_BOLD_LINE = re.compile(r"(?:\*\*|__)[^\n]{1,100}(?:\*\*|__)")
_MAX_LABEL_LENGTH = 60
_SENTENCE_END = re.compile(r"[.!?…。！？।؟۔][\"'”’»)\]*_]*(?:\s*\[\d+\])*\Z")


def regex_tokens(text: str) -> Sequence[tuple[int, int]]:
    """Tokenize without a model: words of up to 64 characters, single Han and kana characters, punctuation."""
    return [match.span() for match in _REGEX_TOKEN.finditer(text)]


def chunk(document: Document, tokenize: Tokenizer, size: int = 512) -> list[Passage]:
    """Cut a document into passages, in order. Together they contain all of its text, each character once.

    Args:
        tokenize: the tokenizer of the model that will embed the passages.
        size: the largest number of tokens of a passage's `indexed_text`.
    """
    if size < MIN_SIZE:
        raise RequestError(f"a passage of {size} tokens: use a size of {MIN_SIZE} or more")
    if document.is_passage:
        return [_passage(document, 0, len(document.text), document.title, "")]
    cutter = _Cutter(document, tokenize, size)
    return [passage for draft in cutter.drafts(_outline(document)) for passage in cutter.fitted(draft)]


def _passage(document: Document, start: int, end: int, title: str, section: str, header: str = "") -> Passage:
    return Passage(
        id=document.id if document.is_passage else f"{document.id}-{start}-{end}",
        document=document.id,
        title=title,
        text=document.text[start:end],
        start=start,
        end=end,
        path=document.path,
        section=section,
        page=bisect_right(document.pages, start) or 1 if document.pages else None,
        page_starts=document.pages[bisect_right(document.pages, start, lo=1) : bisect_left(document.pages, end, lo=1)],
        date=document.date,
        header=header,
    )


def _token_starts(text: str, tokenize: Tokenizer) -> array[int]:
    """Return the start of each token of a text. The text is tokenized once, in pieces cut at white space."""
    starts = array("Q")
    begin = 0
    while begin < len(text):
        end = min(begin + _TOKENIZED_LENGTH, len(text))
        if end < len(text):
            space = max(text.rfind("\n", begin, end), text.rfind(" ", begin, end))
            end = space if space > begin else end
        for first, last in tokenize(text[begin:end]):
            step = _LONG_TOKEN_STEP if last - first > _MAX_TOKEN_LENGTH else _TOKENIZED_LENGTH
            starts.extend(range(begin + first, begin + max(last, first + 1), step))
        begin = end
    return starts


@dataclass
class _SectionNode:
    """A heading with the text directly below it (`start` to `end`), and its subsections. The root has no heading."""

    names: tuple[str, ...]
    level: int
    start: int
    end: int
    subsections: list[_SectionNode] = field(default_factory=list)


def _outline(document: Document) -> _SectionNode:
    """Return the tree of sections. A heading that repeats the title adds no name; a heading without text is joined to
    its first subsection.
    """
    root = _SectionNode((), 0, 0, len(document.text))
    open_sections = [root]
    last = root
    title_seen, previous_kind = False, ""
    for block in document.blocks:
        if block.kind == "heading":
            while open_sections[-1].level >= block.level:
                open_sections.pop()
            name = heading_text(document.text[block.start : block.end])
            name = name if _WORD.search(name) else ""  # a line of notes or of other signs names nothing
            if not title_seen and name == document.title:
                title_seen, name = True, ""
            parent = open_sections[-1]
            parent_is_empty = previous_kind == "heading" and not parent.subsections
            start = parent.start if parent_is_empty else block.start
            last.end = start
            names = (*parent.names, name) if name else parent.names
            last = _SectionNode(names, block.level, start, len(document.text))
            parent.subsections.append(last)
            open_sections.append(last)
        previous_kind = block.kind
    return root


def _leads(block: Block, text: str) -> bool:
    """Return whether a block introduces the next one: a heading, a line that ends with a colon, a title in bold, or a
    short line that is no sentence, such as the term above its definition.
    """
    if block.kind != "paragraph":
        return block.kind == "heading"
    line = text[block.start : block.end]
    is_label = len(line) <= _MAX_LABEL_LENGTH and "\n" not in line and not _SENTENCE_END.search(line)
    return is_label or line[-1] in ":：" or bool(_BOLD_LINE.fullmatch(line))


@dataclass(frozen=True)
class _PassageDraft:
    """A passage before it is cut: a range of the text and the headings above it."""

    start: int
    end: int
    names: tuple[str, ...]
    continued: bool = False


class _Cutter:
    """Cuts one document into passages. The document is tokenized once."""

    def __init__(self, document: Document, tokenize: Tokenizer, size: int) -> None:
        self.document, self.text, self.tokenize, self.size = document, document.text, tokenize, size
        self.tokens = _token_starts(self.text, tokenize)
        self.block_starts = [block.start for block in document.blocks]
        self.description_starts = [described.start for described in document.descriptions]
        self.captions = captions_of(document)
        self.header_cost = cache(lambda header: len(tokenize(header + "\n")) if header else 0)
        self.heading = cache(self._heading)
        self.head = cache(self._head)
        self.captioned_head = cache(self._captioned_head)

    def _heading(self, names: tuple[str, ...]) -> tuple[str, str, int]:
        """Return title, section and their number of tokens, shortened to leave half of the passage to the text."""
        title = self.document.title
        title_tokens = self.tokenize(title)
        title_limit = self.size // 4
        short = title
        if len(title_tokens) > title_limit:
            short = title[: title_tokens[title_limit][0]].rstrip() + "…"
        for head, tail in ((title, names), (title, names[-1:]), (title, ()), (short, ())):
            joined = " › ".join(filter(None, (head, *tail)))
            cost = self.header_cost(joined)
            if cost <= self.size // 2:
                return head, " › ".join(tail), cost
        return "", "", 0

    def header(self, start: int) -> str:
        """Return what is repeated above a passage: the mark of the description in which it begins, and the head of the
        table in which it begins.
        """
        return "\n\n".join(filter(None, (self._mark_above(start), self._head_above(start))))

    def _mark_above(self, start: int) -> str:
        """Return the mark of the description that a position is in; empty if it is not below such a mark."""
        at = bisect_right(self.description_starts, start) - 1
        if at < 0 or not self.document.descriptions[at].start < start < self.document.descriptions[at].end:
            return ""
        mark = self.description_starts[at]
        return self.text[mark : self.text.find("\n", mark)]

    def _head_above(self, start: int) -> str:
        """Return the head of the table that a position is in; empty if it is not below such a head."""
        at = self._table(start)
        if at is None or start <= self.block_starts[at] + len(self.head(at)):
            return ""
        return self.captioned_head(at, self._cells_before(start)) if self.head(at) else ""

    def _cells_before(self, start: int) -> int:
        """Return the number of cells of a row that end before a position within it."""
        row = self.text[self.text.rfind("\n", 0, start) + 1 : start]
        return max(0, len(cell_bars(row)) - (not self.text.startswith("|", start))) if row.strip() else 0

    def _table(self, start: int) -> int | None:
        """Return the number of the table that a position is in."""
        at = bisect_right(self.block_starts, start) - 1
        if at < 0 or self.document.blocks[at].kind != "table" or start >= self.document.blocks[at].end:
            return None
        return at

    def _head(self, at: int) -> str:
        block = self.document.blocks[at]
        return head_of(self.text[block.start : block.end])

    def _ends_partial_row(self, start: int, end: int) -> bool:
        """Return whether a passage that starts within a row ends where the next row begins, which needs all names."""
        at = self._table(start)
        return (
            at is not None and at == self._table(end) and self.text[end - 1] == "\n" and self._cells_before(start) > 0
        )

    def _captioned_head(self, at: int, skipped: int) -> str:
        """Return the column names of a table below its caption, shortened to leave most of the passage to the rows.

        Args:
            skipped: number of cells that are missing at the start of the first row, and whose names are left out.
        """
        caption, head = self.captions[at], head_from(self.head(at), skipped)
        headers = [f"{caption}\n\n{head}"] if caption else []
        headers += [head, *(clip_head(head, most) for most in _NAME_LENGTHS)]
        fitting = (header for header in headers if self.header_cost(header) <= _MAX_HEADER_SHARE * self.size)
        return next(fitting, "")

    def count(self, start: int, end: int) -> int:
        """Return the number of tokens that begin in a range."""
        return bisect_left(self.tokens, end) - bisect_left(self.tokens, start)

    def passage(self, draft: _PassageDraft) -> Passage:
        """Return the passage of a draft."""
        title, section, _ = self.heading(draft.names)
        section = f"{section} {CONTINUED_MARK}".lstrip() if draft.continued else section
        start, end = trim_range(self.text, draft.start, draft.end)
        return _passage(self.document, start, end, title, section, self.header(start))

    def fits(self, draft: _PassageDraft) -> bool:
        """Return whether the passage of a draft is within the size.

        Tokens are counted in the document. A word cut in two may have more tokens, so near the limit the cut text is
        counted again.
        """
        start, _ = trim_range(self.text, draft.start, draft.end)
        above = self.heading(draft.names)[2] + self.header_cost(self.header(start))
        room = self.size - above - self.count(draft.start, draft.end)
        edges = [self.text[max(0, edge - 1) : edge + 1] for edge in (draft.start, draft.end)]
        cuts_word = any(re.fullmatch(r"\S\S", edge) for edge in edges)
        if abs(room) > _MIN_SLACK_TOKENS and not cuts_word:
            return room > 0
        return len(self.tokenize(self.passage(draft).indexed_text)) <= self.size

    def fitted(self, draft: _PassageDraft) -> Iterator[Passage]:
        """Yield the passage of a draft, or several if an exact count shows that it is too long."""
        first, last = (bisect_left(self.tokens, edge) for edge in (draft.start, draft.end))
        if last - first < 2 or self.fits(draft):
            yield self.passage(draft)
        else:
            middle = self.tokens[self._middle(first, last)]
            yield from self.fitted(replace(draft, end=middle))
            yield from self.fitted(replace(draft, start=middle, continued=True))

    def _middle(self, first: int, last: int) -> int:
        """Return the token between two others at which a line begins, if there is one near the middle; else a word.

        A row of a table that is cut in two would lose the places of its cells.
        """
        middle, reach = (first + last) // 2, (last - first) // 4
        near = sorted(range(max(first + 1, middle - reach), middle + reach + 1), key=lambda at: abs(at - middle))
        before = {at: self.text[self.tokens[at - 1] : self.tokens[at]] for at in near}
        lines_begin = (at for at in near if "\n" in before[at] and self.may_begin(self.tokens[at]))
        words_begin = (at for at in near if before[at][-1:].isspace())
        return next(chain(lines_begin, words_begin), middle)

    def drafts(self, section: _SectionNode) -> list[_PassageDraft]:
        """Return the drafts of a section and its subsections; small neighbors are joined."""
        joined: list[_PassageDraft] = []
        last_is_complete = False  # whether the last draft contains one or more complete sections
        for drafts in (self.cut(section), *map(self.drafts, section.subsections)):
            if last_is_complete and len(drafts) == 1 and self.joins(joined[-1], drafts[0], section.names):
                joined[-1] = _PassageDraft(joined[-1].start, drafts[0].end, section.names)
            elif drafts:
                last_is_complete = len(drafts) == 1
                joined += drafts
        return joined

    def joins(self, first: _PassageDraft, second: _PassageDraft, names: tuple[str, ...]) -> bool:
        """Return whether two neighboring drafts are small enough to be one passage."""
        counts = [self.count(draft.start, draft.end) for draft in (first, second)]
        small = sum(counts) <= MAX_JOINED_SHARE * self.size or min(counts) <= MAX_SMALL_SHARE * self.size
        return small and self.fits(_PassageDraft(first.start, second.end, names))

    def cut(self, section: _SectionNode) -> list[_PassageDraft]:
        """Return drafts of the text directly below a heading, of about equal length if it does not fit into one."""
        drafts: list[_PassageDraft] = []
        room = self.size - self.heading(section.names)[2]
        goal = 0.0  # tokens that the current draft should have
        for start, end in pairwise([*self.pieces(section, room), section.end]):
            extended = replace(drafts[-1], end=end) if drafts else None
            if (
                extended
                and not self._ends_partial_row(extended.start, start)
                and self.count(extended.start, start) + self.count(start, end) / 2 <= goal
                and self.fits(extended)
            ):
                drafts[-1] = extended
            elif self.text[start:end].strip():
                drafts.append(_PassageDraft(start, end, section.names, continued=bool(drafts)))
                remaining = self.count(start, section.end)
                free = room - self.header_cost(self.header(start))
                goal = remaining / max(1, ceil(remaining / free))
        return drafts

    def pieces(self, section: _SectionNode, room: int) -> Iterator[int]:
        """Yield the starts of pieces that should stay whole: a block with the block that introduces it, an item with
        the items nested in it.
        """
        begin, previous = section.start, None
        first, last = (bisect_left(self.block_starts, edge) for edge in (section.start, section.end))
        for block in self.document.blocks[first:last]:
            limit = 0  # tokens up to which the block is joined to the piece before it
            if previous and _leads(previous, self.text):
                limit = room
            elif block.kind == "item" and block.level:
                limit = room // 2
            if previous and self.count(begin, block.end) > limit:
                yield from self.finer(begin, block.start, previous.kind, room)
                begin = block.start
            previous = block
        yield from self.finer(begin, section.end, previous.kind if previous else "", room)

    def finer(self, begin: int, end: int, kind: str, room: int) -> Iterator[int]:
        """Yield the start of a piece. If the piece is longer than a passage, also the starts of its rows or sentences,
        and of cells or words in those that are too long.
        """
        starts = [begin]
        if self.count(begin, end) > room:
            split = lines if kind in ("table", "code") else sentences
            starts += [begin + offset for offset, _ in split(self.text[begin:end]) if offset]
        if kind == "table":
            starts = [start for start in starts if start == begin or self.may_begin(start)]
            starts = [cell for row in pairwise([*starts, end]) for cell in self._cell_starts(*row, room)]
        for start, stop in pairwise([*starts, end]):
            yield start
            index = bisect_left(self.tokens, start) + room
            last = bisect_left(self.tokens, stop)
            while index < last:
                index = self._word_start(index, index - room // 4)
                yield self.tokens[index]
                index += room

    def _cell_starts(self, start: int, end: int, room: int) -> list[int]:
        """Return where a row of a table starts, and where its cells start if the row is longer than a passage."""
        if self.count(start, end) <= room:
            return [start]
        bars = [start + offset for offset in cell_bars(self.text[start:end].rstrip())]
        return [start, *bars[1:-1]]

    def may_begin(self, start: int) -> bool:
        """Return whether a passage may begin at a line of a table: it may not begin at the rule or the first row."""
        at = self._table(start)
        return at is None or start == self.block_starts[at] or start > self.block_starts[at] + len(self.head(at)) + 1

    def _word_start(self, index: int, lowest: int) -> int:
        """Return the last token from `index` down to above `lowest` that follows white space; `index` if none does."""
        candidates = range(index, lowest, -1)
        return next((each for each in candidates if self.text[self.tokens[each] - 1].isspace()), index)
