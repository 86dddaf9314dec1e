"""Document -> Passages: windows of tokens that end where the text ends a thought.

A window ends before a section or list that would be cut in the middle and fits the next window whole; else at the last
block end, else at the last sentence end of its last quarter, else between words. Positions are characters of the
document throughout, and tokens only count, so what a tokenizer drops is never lost.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from turnmark.corpora.errors import RequestError
from turnmark.corpora.text import CJK, heading_text, sentences, trimmed
from turnmark.corpora.types import Block, Document, Passage

Tokenizer = Callable[[str], Sequence[tuple[int, int]]]
"""Character offsets (start, end) of a text's tokens, in order, special tokens excluded."""

MIN_SIZE = 16  # tokens; below this a title alone fills the window
_PIECE = 200_000  # characters tokenised at a time, which bounds the memory a tokenizer takes
_LONG_TOKEN = 100  # characters; WordPiece makes any run without spaces one unknown token, however long it is
_LONG_STEP = 4  # characters that such a token is counted as one token for
_SLACK = 8  # tokens: a window this near to its size, or cut inside a word, is counted again as it will be indexed

_VISIBLE = re.compile(r"\S")
_REGEX_TOKEN = re.compile(rf"[{CJK}]|[^\W{CJK}]{{1,64}}|[^\w\s]")


def regex_tokens(text: str) -> Sequence[tuple[int, int]]:
    """A Tokenizer without a model: words (of up to 64 characters), single Han and kana characters, punctuation."""
    return [match.span() for match in _REGEX_TOKEN.finditer(text)]


def chunk(document: Document, tokenize: Tokenizer, size: int = 512, overlap: int = 100) -> list[Passage]:
    """The passages of a document, in order; together they hold all of its text.

    Args:
        document: `whole` documents become one passage as they stand.
        tokenize: counts as the model counts that will read the passages.
        size: tokens that a passage's `indexed_text` may have at most.
        overlap: tokens that a passage shares with the one before it, about: it begins at a sentence or item.

    Raises:
        RequestError: `size` is under 16, or `overlap` is negative or more than half of it.
    """
    if size < MIN_SIZE or not 0 <= overlap <= size // 2:
        raise RequestError(
            f"a passage of {size} tokens with an overlap of {overlap}: use a size of {MIN_SIZE} or more and an overlap "
            "from 0 to half the size"
        )
    if document.whole:
        return [_passage(document, 0, len(document.text), document.title, "")]
    return list(_Windows(document, tokenize, size, overlap).cut())


def _passage(document: Document, start: int, end: int, title: str, section: str) -> Passage:
    return Passage(
        id=document.id if document.whole else f"{document.id}-{start}-{end}",
        document=document.id,
        title=title,
        text=document.text[start:end],
        start=start,
        end=end,
        path=document.path,
        section=section,
        page=bisect_right(document.pages, start) or 1 if document.pages else None,
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
        spans = tokenize(text[begin:end])
        if any(last - first > _LONG_TOKEN for first, last in spans):
            for first, last in spans:
                starts.extend(range(begin + first, begin + last, _LONG_STEP if last - first > _LONG_TOKEN else _PIECE))
        else:
            starts.extend([begin + first for first, _ in spans])
        begin = end
    return starts


@dataclass(frozen=True)
class _Unit:
    """A stretch better not cut: a heading with what stands below it, or a list with the line that leads to it."""

    start: int
    end: int


class _Windows:
    """One document's windows."""

    def __init__(self, document: Document, tokenize: Tokenizer, size: int, overlap: int) -> None:
        self.document = document
        self.text = document.text
        self.tokenize = tokenize
        self.size = size
        self.overlap = overlap
        self.starts = _token_starts(self.text, tokenize)
        spans = sentences(self.text)
        leads = [block for block in document.blocks if _leads(block, self.text)]
        lead_ends = {block.end for block in leads}  # a window must not end right after a heading
        self.sentence_starts = [start for start, _ in spans]
        self.sentence_ends = [end for _, end in spans if end not in lead_ends]
        self.block_starts = [block.start for block in document.blocks]
        self.block_ends = sorted({block.end for block in document.blocks} - lead_ends)
        self.headings, self.sections = _sections(document)
        self.units = sorted(_units(document.blocks, self.text), key=lambda unit: (unit.start, -unit.end))
        self.unit_starts = [unit.start for unit in self.units]
        self._prefixes: dict[str, tuple[str, str, int]] = {}

    def skip_space(self, offset: int) -> int:
        """The first position from `at` on that is no white space."""
        match = _VISIBLE.search(self.text, offset)
        return match.start() if match else len(self.text)

    def count(self, start: int, end: int) -> int:
        """Tokens that begin in a range."""
        return bisect_left(self.starts, end) - bisect_left(self.starts, start)

    def heading(self, start: int) -> tuple[str, str, int]:
        """(title, section, the tokens both cost) of a passage that begins at `start`."""
        index = bisect_left(self.headings, start) - 1
        if index + 1 < len(self.headings) and self.headings[index + 1] == start:
            section = self.sections[index + 1][0]
        else:
            section = self.sections[index][1] if index >= 0 else ""
        if section not in self._prefixes:
            self._prefixes[section] = self._fit(section)
        title, section, cost = self._prefixes[section]
        sample = Passage(id="", document="", title=title, text=self.text[start : start + 500], start=0, end=0)
        starts_with_it = title and sample.indexed_text == sample.text
        return title, section, 0 if starts_with_it else cost

    def _fit(self, section: str) -> tuple[str, str, int]:
        """Title and section, shortened until they leave at least half of the window to the text."""
        title = self.document.title
        nearest = section.rsplit(" › ", 1)[-1]
        tokens = self.tokenize(title)
        short = title[: tokens[self.size // 4][0]].rstrip() + "…" if len(tokens) > self.size // 4 else title
        for head, tail in ((title, section), (title, nearest), (title, ""), (short, "")):
            joined = " › ".join(part for part in (head, tail) if part)
            cost = len(self.tokenize(joined + "\n")) if joined else 0
            if cost <= self.size // 2:
                return head, tail, cost
        return "", "", 0

    def cut(self) -> Iterator[Passage]:
        """The passages."""
        begin, last = trimmed(self.text, 0, len(self.text))
        covered = begin  # everything before this is in a passage
        while covered < last:
            limit = self.limit(begin, self.size - self.heading(begin)[2], covered)
            end = last if limit >= last else self.end(begin, limit, covered)
            passage = self.fitted(begin, end, covered)
            yield passage
            covered = passage.end
            if covered < last:
                begin, covered = self.next_start(begin, covered), self.skip_space(covered)

    def limit(self, begin: int, budget: int, covered: int) -> int:
        """The last character position at which a window of `budget` tokens may end; always past `covered`."""
        index = bisect_left(self.starts, begin) + budget
        limit = self.starts[index] if index < len(self.starts) else len(self.text)
        if limit > covered:
            return limit
        next_token = bisect_right(self.starts, covered)
        return self.starts[next_token] if next_token < len(self.starts) else len(self.text)

    def end(self, begin: int, limit: int, covered: int) -> int:
        """Where the window that begins at `begin` ends best, after `covered` and not after `limit`."""
        first = bisect_left(self.starts, begin)
        tokens = max(1, bisect_left(self.starts, limit) - first)
        half = max(self.starts[first + tokens // 2], covered + 1)
        quarter = max(self.starts[first + tokens - tokens // 4 - 1], covered + 1)
        for unit in self.units[bisect_left(self.unit_starts, half) : bisect_right(self.unit_starts, limit)]:
            if unit.end > limit and self.count(unit.start, unit.end) + self.heading(unit.start)[2] <= self.size:
                return unit.start
        for ends in (self.block_ends, self.sentence_ends):
            index = bisect_right(ends, limit) - 1
            if index >= 0 and ends[index] >= quarter:
                return ends[index]
        for index in range(bisect_left(self.starts, limit), bisect_left(self.starts, quarter), -1):
            if index < len(self.starts) and self.starts[index] <= limit and self.text[self.starts[index] - 1].isspace():
                return self.starts[index]
        return limit

    def fitted(self, begin: int, end: int, covered: int) -> Passage:
        """The passage from `begin` to `end`, made shorter where counting again says that it is too long.

        Tokens are counted in the document; cut out of it, half a word may be tokenised into more pieces.
        """
        while True:
            title, section, cost = self.heading(begin)
            start, stop = trimmed(self.text, begin, end)
            passage = _passage(self.document, start, stop, title, section)
            edges = (self.text[max(0, start - 1) : start + 1], self.text[max(0, stop - 1) : stop + 1])
            inside = any(len(edge) == 2 and not re.search(r"\s", edge) for edge in edges)
            if not inside and self.count(start, stop) + cost <= self.size - _SLACK:
                return passage
            over = len(self.tokenize(passage.indexed_text)) - self.size
            if over <= 0:
                return passage
            index = bisect_left(self.starts, end) - over
            shorter = self.starts[index] if index > 0 else 0
            if shorter > max(begin, covered):
                end = shorter
            elif begin < covered:
                begin = self.skip_space(covered)  # the overlap goes first
            elif self.count(begin, end) > 1:
                end = self.starts[bisect_left(self.starts, begin) + self.count(begin, end) // 2]
            else:
                return passage  # one token that is more than a window: nothing is left to give up

    def next_start(self, begin: int, end: int) -> int:
        """Where the window after the one from `begin` to `end` begins: at most at `end`, always after `begin`."""
        follows = self.skip_space(end)
        target = self.starts[max(0, bisect_left(self.starts, end) - self.overlap)] if self.starts else 0
        if not self.overlap or target <= begin:
            return follows
        start = self.nearest(self.block_starts, target, begin, follows)
        if start is None or self.count(*sorted((target, start))) > self.overlap // 2:
            start = self.nearest(self.sentence_starts, target, begin, follows)
        if start is None or self.count(start, follows) > 2 * self.overlap:
            start = min(self.word_start(target), follows)
        capacity = self.size - self.heading(start)[2]
        if self.count(start, follows) > capacity // 2:
            return follows
        # The list that the cut was made for has to fit together with the overlap; else the overlap goes.
        room = self.size - self.heading(follows)[2]
        for unit in self.units[bisect_left(self.unit_starts, follows) : bisect_right(self.unit_starts, follows)]:
            if self.count(follows, unit.end) <= room:
                return follows if self.count(start, unit.end) > capacity else start
        return start

    def nearest(self, starts: list[int], target: int, begin: int, follows: int) -> int | None:
        """Of the positions after `begin` and up to `follows`, the one fewest tokens away from `target`."""
        index = bisect_left(starts, target)
        near = [start for start in starts[max(0, index - 1) : index + 1] if begin < start <= follows]
        return min(near, key=lambda start: (self.count(*sorted((target, start))), start), default=None)

    def word_start(self, target: int) -> int:
        """The start of the first word at or after a token, where there is one within 20 tokens; else the token."""
        index = bisect_left(self.starts, target)
        for near in self.starts[index : index + 20]:
            if near == 0 or self.text[near - 1].isspace():
                return near
        return target


def _leads(block: Block, text: str) -> bool:
    """Whether a block only announces the next: a heading, or a line that ends with a colon."""
    return block.kind == "heading" or (block.kind == "paragraph" and text[block.end - 1] in ":：")


def _sections(document: Document) -> tuple[list[int], list[tuple[str, str]]]:
    """Start of each heading, and the section above it and below it. The title's own heading is no section."""
    starts: list[int] = []
    sections: list[tuple[str, str]] = []
    open_: list[tuple[int, str]] = []
    titled = False
    for block in document.blocks:
        if block.kind != "heading":
            continue
        title = heading_text(document.text[block.start : block.end])
        while open_ and open_[-1][0] >= block.level:
            open_.pop()
        above = " › ".join(name for _, name in open_ if name)
        if not titled and title == document.title:
            titled, title = True, ""
        open_.append((block.level, title))
        starts.append(block.start)
        sections.append((above, " › ".join(name for _, name in open_ if name)))
    return starts, sections


def _units(blocks: Sequence[Block], text: str) -> Iterator[_Unit]:
    """Every section without its subsections, and every list with the line that leads to it."""
    section: int | None = None
    run: int | None = None
    previous: Block | None = None
    for block in blocks:
        if block.kind == "heading":
            if section is not None and previous is not None and previous.kind != "heading":
                yield _Unit(section, previous.end)
            if previous is None or previous.kind != "heading" or section is None:
                section = block.start
        if block.kind == "item" and run is None:
            run = previous.start if previous is not None and _leads(previous, text) else block.start
        elif block.kind != "item" and run is not None and previous is not None:
            yield _Unit(run, previous.end)
            run = None
        previous = block
    if previous is not None:
        if section is not None:
            yield _Unit(section, previous.end)
        if run is not None:
            yield _Unit(run, previous.end)
