"""Document -> Passages: a passage is a section, under the headings that hold for all of its text.

Small sisters are joined under their parent. A section that does not fit is cut between paragraphs, items or rows, its
further passages marked "(continued)". Positions are characters of the document throughout, and tokens only count, so
what a tokenizer drops is never lost.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from math import ceil

from turnmark.core.errors import RequestError
from turnmark.corpora.text import CJK, heading_text, lines, sentences, trimmed
from turnmark.corpora.types import CONTINUED, Block, Document, Passage

Tokenizer = Callable[[str], Sequence[tuple[int, int]]]
"""Character offsets (start, end) of a text's tokens, in order, special tokens excluded."""

MIN_SIZE = 16  # tokens; below this a title alone fills the passage
JOINED = 0.8  # of the size: sisters are joined up to this
CRUMB = 0.15  # of the size: what is smaller is joined even if the passage gets longer than that
_PIECE = 200_000  # characters tokenised at a time, which bounds the memory a tokenizer takes
_LONG_TOKEN = 100  # characters; WordPiece makes any run without spaces one unknown token, however long it is
_LONG_STEP = 4  # characters that such a token is counted as one token for
_SLACK = 8  # tokens: a passage this near to its size, or cut inside a word, is counted again as it will be indexed

_REGEX_TOKEN = re.compile(rf"[{CJK}]|[^\W{CJK}]{{1,64}}|[^\w\s]")
_BOLD_LINE = re.compile(r"(?:\*\*|__)[^\n]{1,100}(?:\*\*|__)")


def regex_tokens(text: str) -> Sequence[tuple[int, int]]:
    """A Tokenizer without a model: words (of up to 64 characters), single Han and kana characters, punctuation."""
    return [match.span() for match in _REGEX_TOKEN.finditer(text)]


def chunk(document: Document, tokenize: Tokenizer, size: int = 512) -> list[Passage]:
    """The passages of a document, in order; together they hold all of its text, each character once.

    `size` is the most tokens of a passage's `indexed_text`, counted as the model counts that will read it.
    """
    if size < MIN_SIZE:
        raise RequestError(f"a passage of {size} tokens: use a size of {MIN_SIZE} or more")
    if document.is_passage:
        return [_passage(document, 0, len(document.text), document.title, "")]
    cutter = _Cutter(document, tokenize, size)
    return [passage for draft in cutter.drafts(_outline(document)) for passage in cutter.fitted(draft)]


def _passage(document: Document, start: int, end: int, title: str, section: str) -> Passage:
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
        date=document.date,
    )


def _token_starts(text: str, tokenize: Tokenizer) -> array[int]:
    """Where each token of a text starts, in order; the text is tokenised once, in pieces cut at white space."""
    starts = array("Q")
    begin = 0
    while begin < len(text):
        end = min(begin + _PIECE, len(text))
        if end < len(text):
            space = max(text.rfind("\n", begin, end), text.rfind(" ", begin, end))
            end = space if space > begin else end
        for first, last in tokenize(text[begin:end]):
            step = _LONG_STEP if last - first > _LONG_TOKEN else _PIECE
            starts.extend(range(begin + first, begin + max(last, first + 1), step))
        begin = end
    return starts


@dataclass
class _Section:
    """A heading with its own text, from `start` to `end`, and its subsections. The root has no heading."""

    names: tuple[str, ...]
    level: int
    start: int
    end: int
    parts: list[_Section] = field(default_factory=list)


def _outline(document: Document) -> _Section:
    """The tree of sections. The title's own heading is no name; a heading without text belongs to its first part."""
    open_ = [_Section((), 0, 0, len(document.text))]
    last, titled, previous = open_[0], False, ""
    for block in document.blocks:
        if block.kind == "heading":
            while open_[-1].level >= block.level:
                open_.pop()
            name = heading_text(document.text[block.start : block.end])
            if not titled and name == document.title:
                titled, name = True, ""
            above = open_[-1]
            start = above.start if previous == "heading" and not above.parts else block.start
            last.end = start
            last = _Section((*above.names, name) if name else above.names, block.level, start, len(document.text))
            above.parts.append(last)
            open_.append(last)
        previous = block.kind
    return open_[0]


def _leads(block: Block, text: str) -> bool:
    """Whether a block only announces the next: a heading, a title in bold, or a line that ends with a colon."""
    if block.kind != "paragraph":
        return block.kind == "heading"
    return text[block.end - 1] in ":：" or bool(_BOLD_LINE.fullmatch(text, block.start, block.end))


@dataclass(frozen=True)
class _Draft:
    """A passage to be."""

    start: int
    end: int
    names: tuple[str, ...]
    continued: bool = False


class _Cutter:
    """Cuts one document, whose tokens are counted once."""

    def __init__(self, document: Document, tokenize: Tokenizer, size: int) -> None:
        self.document, self.text, self.tokenize, self.size = document, document.text, tokenize, size
        self.tokens = _token_starts(self.text, tokenize)
        self.block_starts = [block.start for block in document.blocks]
        self.heading = cache(self._heading)

    def _heading(self, names: tuple[str, ...]) -> tuple[str, str, int]:
        """Title, section and the tokens both cost, shortened until they leave half of the passage to the text."""
        title = self.document.title
        tokens = self.tokenize(title)
        short = title[: tokens[self.size // 4][0]].rstrip() + "…" if len(tokens) > self.size // 4 else title
        for head, tail in ((title, names), (title, names[-1:]), (title, ()), (short, ())):
            joined = " › ".join(filter(None, (head, *tail)))
            cost = len(self.tokenize(joined + "\n")) if joined else 0
            if cost <= self.size // 2:
                return head, " › ".join(tail), cost
        return "", "", 0

    def count(self, start: int, end: int) -> int:
        """Tokens that begin in a range."""
        return bisect_left(self.tokens, end) - bisect_left(self.tokens, start)

    def passage(self, draft: _Draft) -> Passage:
        """What a draft becomes."""
        title, section, _ = self.heading(draft.names)
        section = f"{section} {CONTINUED}".lstrip() if draft.continued else section
        return _passage(self.document, *trimmed(self.text, draft.start, draft.end), title, section)

    def fits(self, draft: _Draft) -> bool:
        """Whether a draft is no longer than a passage may be.

        Tokens are counted in the document; cut out of it, half a word may be tokenised into more pieces.
        """
        room = self.size - self.heading(draft.names)[2] - self.count(draft.start, draft.end)
        edges = (self.text[max(0, edge - 1) : edge + 1] for edge in (draft.start, draft.end))
        if abs(room) > _SLACK and not any(re.fullmatch(r"\S\S", edge) for edge in edges):
            return room > 0
        return len(self.tokenize(self.passage(draft).indexed_text)) <= self.size

    def fitted(self, draft: _Draft) -> Iterator[Passage]:
        """The passage of a draft; several where counting again says that it is too long."""
        first, last = (bisect_left(self.tokens, edge) for edge in (draft.start, draft.end))
        if last - first < 2 or self.fits(draft):
            yield self.passage(draft)
        else:
            middle = self.tokens[(first + last) // 2]
            yield from self.fitted(replace(draft, end=middle))
            yield from self.fitted(replace(draft, start=middle, continued=True))

    def drafts(self, section: _Section) -> list[_Draft]:
        """The passages of a section and its subsections; what is one passage is joined with the one before it."""
        made: list[_Draft] = []
        alone = False  # whether the last one holds all of a section, or of several
        for drafts in (self.cut(section), *map(self.drafts, section.parts)):
            if alone and len(drafts) == 1 and self.joins(made[-1], drafts[0], section.names):
                made[-1] = _Draft(made[-1].start, drafts[0].end, section.names)
            elif drafts:
                alone = len(drafts) == 1
                made += drafts
        return made

    def joins(self, first: _Draft, second: _Draft, names: tuple[str, ...]) -> bool:
        """Whether two neighbours are small enough to be one passage."""
        counts = [self.count(draft.start, draft.end) for draft in (first, second)]
        small = sum(counts) <= JOINED * self.size or min(counts) <= CRUMB * self.size
        return small and self.fits(_Draft(first.start, second.end, names))

    def cut(self, section: _Section) -> list[_Draft]:
        """A section's own text, in parts of about the same length where it does not fit."""
        drafts: list[_Draft] = []
        room, goal = self.size - self.heading(section.names)[2], 0.0
        for start, end in pairwise([*self.pieces(section, room), section.end]):
            longer = replace(drafts[-1], end=end) if drafts else None
            if longer and self.count(longer.start, start) + self.count(start, end) / 2 <= goal and self.fits(longer):
                drafts[-1] = longer
            elif self.text[start:end].strip():
                drafts.append(_Draft(start, end, section.names, continued=bool(drafts)))
                left = self.count(start, section.end)
                goal = left / max(1, ceil(left / room))
        return drafts

    def pieces(self, section: _Section, room: int) -> Iterator[int]:
        """Where what is better not cut begins: a block with what announces it, an item with those nested in it."""
        begin, previous = section.start, None
        first, last = (bisect_left(self.block_starts, edge) for edge in (section.start, section.end))
        for block in self.document.blocks[first:last]:
            limit = room // 2 if block.kind == "item" and block.level else 0
            limit = room if previous and _leads(previous, self.text) else limit
            if previous and self.count(begin, block.end) > limit:
                yield from self.finer(begin, block.start, previous.kind, room)
                begin = block.start
            previous = block
        yield from self.finer(begin, section.end, previous.kind if previous else "", room)

    def finer(self, begin: int, end: int, kind: str, room: int) -> Iterator[int]:
        """Where a piece begins; of one longer than a passage also its rows or sentences, and words if they are long."""
        rows = lines if kind in ("table", "code") else sentences
        inside = rows(self.text[begin:end]) if self.count(begin, end) > room else ()
        for start, stop in pairwise([begin, *(begin + start for start, _ in inside if start), end]):
            yield start
            index, last = bisect_left(self.tokens, start) + room, bisect_left(self.tokens, stop)
            while index < last:
                spaces = (at for at in range(index, index - room // 4, -1) if self.text[self.tokens[at] - 1].isspace())
                index = next(spaces, index)
                yield self.tokens[index]
                index += room
