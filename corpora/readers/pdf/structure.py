"""Columns of lines to headings, paragraphs, list items, tables and code, and those to a Markdown text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from turnmark.corpora.readers.pdf.glyphs import Word
from turnmark.corpora.readers.pdf.layout import Column, Item, Line, Segment, Table, joined_words
from turnmark.corpora.text import CJK
from turnmark.corpora.types import Block, BlockKind

MAX_HEADING = 200  # characters
_LARGER = 1.1  # times the size of the text: a heading
_SAME_SIZE = 0.08  # of the size: what differs less is one size
_LEADING = 1.35  # times the usual distance of lines: a new paragraph
_INDENT = 0.8  # of the size
_RUN_IN_LINES = 3  # that a heading has at most that its paragraph goes on after
_REPEATED = 3  # headings of one style, from which on it is a style of headings
_BULLETS = "•‣◦▪▫–—*·■□○●✓✔➢➤»►▶▸▷◮◆◇❖∙⋄-"
_BULLET = re.compile(rf"(?P<mark>[{re.escape(_BULLETS)}])(?P<space>\s+|$)")
_ENUMERATED = re.compile(
    r"(?P<mark>\(?(?P<number>\d{1,3})[.)]|\(?[a-z][.)]|\([A-Z]\)|\(?[ivx]{2,4}[.)])(?P<space>\s+|$)"
)
_NUMBERING = re.compile(
    r"(?:(?P<word>chapter|appendix|part|section|kapitel|anhang|chapitre|annexe)\s+)?"
    r"(?P<number>[A-Z](?=[.\s:])|\d{1,3}|(?<=\s)[IVX]{1,5})(?P<more>(?:\.\d{1,3})*)[.:)]?(?=\s|$)",
    re.IGNORECASE,
)
_CAPTION = re.compile(
    r"(?:figure|fig\.|table|listing|algorithm|example|abbildung|tabelle)\s+[A-Z]?\d{1,3}(?:[.-]\d{1,3})*\s*[.:]",
    re.IGNORECASE,
)
_BOX = re.compile(
    r"(?:note|tip|hint|warning|caution|important|danger|attention|remark|see also"
    r"|achtung|hinweis|warnung|remarque)s?[:!.]?",
    re.IGNORECASE,
)
"""Titles of boxes: no heading of what follows the box."""
_ENDS = re.compile(r"[.!?:;。！？：][\"”’')\]»]*$")
_PROMPT = re.compile(r"\$ (?=[A-Za-z_./~])")  # of a shell; what is typed is often bold, in a font of another name
_FOOTNOTE = re.compile(r"(?:[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}|\d{1,3}|[*†‡§¶])\s*(?=\S)")
_HYPHEN = re.compile(r"(?P<word>[^\W\d_]{2,})-$")
_INITIALS = re.compile(r"(?:[A-Z]\.[ -]?){2,}|[A-Z]\.[ -][A-Z][\w’'-]+[^\w\s,]?,")
"""A name, "A. N. Author" or "R. Dowd, …": no appendix of this letter."""
_FIRST_WORD = re.compile(r"[^\W\d_]+")
_HAN = re.compile(f"[{CJK}]")


Style = tuple[float, bool, bool]  # size to the half point, bold, italic


@dataclass
class OutlineEntry:
    """A bookmark: its title, its depth from 1, and the 0-based page it leads to."""

    title: str
    level: int
    page: int
    used: bool = False


@dataclass
class Draft:
    """A block to be: its pieces of text, each with the 0-based page it is on."""

    kind: BlockKind
    parts: list[tuple[int, list[str]]]
    level: int = 0
    number: int | None = None
    rows: list[tuple[int, list[str]]] = field(default_factory=list)
    x0: float = 0.0
    style: Style | None = None  # of a heading
    bookmarked: bool = False  # whether a bookmark says that it is a heading
    full: bool = False  # whether its last line reaches the right edge, so that it may go on in the next column
    note: bool = False  # a footnote or a caption, over which a paragraph goes on
    indented: bool = False

    @property
    def last(self) -> str:
        return self.parts[-1][1][-1] if self.parts and self.parts[-1][1] else ""


@dataclass
class Laid:
    """The columns of one page."""

    page: int
    columns: list[Column]
    wide: bool = False  # whether it is wider than high, as a slide is


@dataclass
class RunIn:
    """A numbered heading in bold, "2.6. Why it fails.", and the rest of its last line."""

    texts: list[str]
    level: int
    rest: Line | None


def style_of(line: Line) -> Style:
    """The look of a line."""
    return round(line.size * 2) / 2, line.bold, line.share("italic") > 0.9


class Structure:
    """The blocks of a document, from its pages."""

    def __init__(self, pages: Sequence[Laid], outline: Sequence[OutlineEntry]) -> None:
        self.pages = pages
        self.lines = [(page.page, line) for page in pages for column in page.columns for line in column.lines]
        self.body = self._body_size()
        self.mono_text = self._is_typewritten()
        self.headings: dict[int, int] = {}  # id of a heading's first line: its level
        self.heading_lines: dict[int, int] = {}  # id of that line: how many lines it has
        self._by_outline(outline)
        self.bookmarked = set(self.headings)
        self._by_slides()
        self._by_style()
        self.numbers_at = self._level_of_numbers()

    def _body_size(self) -> float:
        sizes: Counter[float] = Counter()
        for _, line in self.lines:
            if not line.mono:
                sizes[round(line.size * 2) / 2] += len(line.text)
        return sizes.most_common(1)[0][0] if sizes else 10.0

    def _is_typewritten(self) -> bool:
        mono = sum(len(line.text) for _, line in self.lines if line.mono)
        return mono > 0.7 * max(1, sum(len(line.text) for _, line in self.lines))

    # --- headings ----------------------------------------------------------------------------------------------------

    def _by_outline(self, outline: Sequence[OutlineEntry]) -> None:
        """Lines that say what a bookmark says, on its page."""
        if not outline:
            return
        by_page: dict[int, list[Line]] = {}
        for page, line in self.lines:
            by_page.setdefault(page, []).append(line)
        top = min(entry.level for entry in outline)
        for entry in outline:
            title = _squeezed(entry.title)
            if not title:
                continue
            for page in (entry.page, entry.page + 1):
                found = _find(by_page.get(page, ()), title, self.headings)
                if found:
                    first, count = found
                    self.headings[id(first)] = min(6, entry.level - top + 1)
                    self.heading_lines[id(first)] = count
                    break

    def _by_slides(self) -> None:
        """The titles of slides: the first line of each, if it is larger than all other lines; so may be the second."""
        slides = [page for page in self.pages if page.wide and page.columns]
        if len(slides) < max(3, 0.8 * len(self.pages)):
            return
        for page in slides:
            items = [item for column in page.columns for item in column.items]
            for place, line in enumerate(items[:2]):
                if not isinstance(line, Line) or id(line) in self.headings or not _says_words(line.text):
                    break
                if place and (_BULLET.match(line.text) or _ENUMERATED.match(line.text) or _ENDS.search(line.text)):
                    break
                sizes = [item.size for item in items[place + 1 :] if isinstance(item, Line)]
                if not sizes or line.size <= (1 + _SAME_SIZE / 2) * max(sizes):
                    break
                self.headings[id(line)] = 2 + place
                self.heading_lines[id(line)] = 1

    def _level_of_numbers(self) -> int:
        """What is added to the depth of a number to get the level of its heading."""
        levels: Counter[int] = Counter()
        for _, line in self.lines:
            depth = _depth(line.text)
            if depth and id(line) in self.headings:
                levels[self.headings[id(line)] - depth] += 1
        return levels.most_common(1)[0][0] if levels else 0

    def run_in(self, items: Sequence[Item], index: int) -> RunIn | None:
        """The numbered heading in bold that begins at an item, with its paragraph behind it in the same line or below.

        Returns:
            None: none begins here.
        """
        texts: list[str] = []
        rest: Line | None = None
        for item in items[index : index + _RUN_IN_LINES]:
            if not isinstance(item, Line) or id(item) in self.headings:
                break
            words = item.words
            count = next((at for at, word in enumerate(words) if not (word.bold or word.mono)), len(words))
            while 1 < count < len(words) and not _ENDS.search(words[count - 1].text):
                count -= 1  # the paragraph may begin with a name in bold
            if not count or not words[0].bold:
                break
            texts.append(joined_words(words[:count]))
            if count < len(words):
                # The rest of the line begins at the margin, so that it looks like the lines below it.
                rest = Line([Segment([replace(words[count], x0=item.x0), *words[count + 1 :]])])
                break
        whole = " ".join(texts)
        depth = _depth(whole)
        if depth < 2 or not _ENDS.search(whole) or len(whole) > MAX_HEADING:
            return None
        return RunIn(texts, min(6, max(1, depth + self.numbers_at)), rest)

    def _by_style(self) -> None:
        """Lines that look like headings: larger than the text, or bold and apart; numbered ones by their number."""
        known: dict[Style, Counter[int]] = {}
        for _, line in self.lines:
            if id(line) in self.headings:
                known.setdefault(style_of(line), Counter())[self.headings[id(line)]] += 1
        candidates: list[tuple[Line, int, bool]] = []
        for page in self.pages:
            for column in page.columns:
                candidates += self._candidates(column)
        # Where headings are bold, text that is a little larger is no heading: authors, quotations in large letters.
        bold = sum(line.bold for line, _, _ in candidates) + sum(style[1] for style in known)
        if bold >= _REPEATED:
            often = Counter(style_of(line) for line, _, _ in candidates)
            candidates = [
                found
                for found in candidates
                if found[0].bold
                or found[0].size > 1.3 * self.body
                or style_of(found[0]) in known
                or _depth(found[0].text)
                or (style_of(found[0])[2] and often[style_of(found[0])] >= _REPEATED)
            ]
        styles = self._style_levels([line for line, _, _ in candidates], known)
        depths: dict[Style, int] = {}
        for line, _, _ in candidates:
            if depth := _depth(line.text):
                style = style_of(line)
                depths[style] = min(depths.get(style, 9), depth)
        for line, count, _ in candidates:
            style = style_of(line)
            level = styles.get(style)
            if level is None:
                continue
            depth = _depth(line.text)
            if depth and style in depths and style not in known:
                level += depth - depths[style]
            self.headings[id(line)] = min(6, level)
            self.heading_lines[id(line)] = count

    def _candidates(self, column: Column) -> Iterator[tuple[Line, int, bool]]:
        """First lines of what may be headings, each with how many lines it has."""
        items = column.items
        index = 0
        while index < len(items):
            item = items[index]
            if not isinstance(item, Line) or id(item) in self.headings:
                index += self.heading_lines.get(id(item), 1) if isinstance(item, Line) else 1
                continue
            count = self._heading_length(items, index)
            if count:
                yield item, count, item.bold
            index += max(1, count)

    def _heading_length(self, items: Sequence[Item], index: int) -> int:
        """How many lines the heading that begins at an item has; 0 if none begins there."""
        line = items[index]
        assert isinstance(line, Line)
        larger = line.size >= _LARGER * self.body
        text = line.text.strip()
        if not larger and not (line.bold and line.size > 0.93 * self.body):
            return 0
        if line.mono and not larger and not self.mono_text:
            return 0
        if not _says_words(text) and not re.fullmatch(r"[IVX\d]{1,5}\.?", text):
            return 0
        if _CAPTION.match(text) or _BULLET.match(text) or (text[0].islower() and not larger):
            return 0
        count, style = 1, style_of(line)
        while index + count < len(items) and count < 5:
            following, before = items[index + count], items[index + count - 1]
            if not isinstance(following, Line) or id(following) in self.headings:
                break
            if style_of(following)[:2] != style[:2] or before.base - following.base > 1.7 * line.size:
                break
            if _NUMBERING.match(following.text) and _NUMBERING.match(text):
                break
            count += 1
        whole = " ".join(item.text for item in items[index : index + count] if isinstance(item, Line))
        if len(whole) > MAX_HEADING or count > 4:
            return 0
        if larger:
            return count
        if len(line.segments) > 1 and not _depth(text):
            return 0  # the header of a table
        # Bold text of the usual size: alone, apart from what is above it, and no sentence.
        above = items[index - 1] if index else None
        gap = above.base - line.base if isinstance(above, Line) else 99.0
        below = items[index + count] if index + count < len(items) else None
        last = items[index + count - 1]
        assert isinstance(last, Line)
        leads = below is not None and (isinstance(below, Table) or last.base - below.base < 4 * line.size)
        apart = gap > 1.25 * _LEADING * line.size or above is None
        if isinstance(below, Line) and (abs(below.base - last.base) < 1 or below.x0 > line.x0 + line.size):
            return 0  # a term, whose definition is indented below it
        numbered = bool(_depth(whole))
        sentence = bool(re.search(r"[.,;:]$", whole)) and not numbered
        return count if leads and apart and not sentence and count <= 3 and len(whole) <= 120 else 0

    def _style_levels(self, lines: Sequence[Line], known: dict[Style, Counter[int]]) -> dict[Style, int]:
        """The level of each style: larger is higher; those of bookmarks are as their bookmarks say."""
        counts = Counter(style_of(line) for line in lines)
        levels = {style: found.most_common(1)[0][0] for style, found in known.items() if found.total() >= 1}
        if levels:
            deepest = max(levels.values())
            smallest = min(size for size, _, _ in levels)
            for style in list(counts):
                near = [
                    known_style
                    for known_style in levels
                    if known_style[1] == style[1] and abs(known_style[0] - style[0]) <= _SAME_SIZE * style[0]
                ]
                if style in levels:
                    continue
                if near:
                    levels[style] = levels[near[0]]
                elif style[0] > max(size for size, _, _ in levels):
                    levels[style] = 1
                elif style[0] <= smallest:
                    levels[style] = min(6, deepest + 1)
                else:
                    larger = [level for known_style, level in levels.items() if known_style[0] >= style[0]]
                    levels[style] = max(larger, default=1)
            return levels
        ranked = sorted(counts, key=lambda style: (-style[0], not style[1], style[2]))
        level, last = 0, None
        for style in ranked:
            if last is None or last[0] - style[0] > _SAME_SIZE * style[0] or last[1:] != style[1:]:
                level += 1
            levels[style] = min(6, level)
            last = style
        return levels

    # --- blocks ------------------------------------------------------------------------------------------------------

    def drafts(self) -> list[Draft]:
        """The blocks of all pages in order; what runs over columns and pages is one block."""
        drafts: list[Draft] = []
        title: list[str] = []  # of the last slide
        for page in self.pages:
            for place, column in enumerate(page.columns):
                made = _ColumnReader(self, page.page, column).read()
                if page.wide and not place and made and made[0].kind == "heading":
                    before, title = title, made[0].parts[0][1]
                    del made[: title == before]  # a slide that goes on
                _append(drafts, made)
        return self._without_front_matter(_with_chapter_numbers(drafts))

    def _without_front_matter(self, drafts: list[Draft]) -> list[Draft]:
        """Authors, versions and dates below the title are large, but no headings."""
        if len(self.pages) < 3:
            return drafts
        later = {draft.style for draft in drafts if draft.kind == "heading" and draft.parts[0][0] > 0}
        titled = False
        for draft in drafts:
            if not draft.parts or draft.parts[0][0] > 0:
                break
            if draft.kind != "heading":
                continue
            lone = draft.style not in later and not draft.bookmarked
            if titled and lone and not _depth(" ".join(draft.parts[0][1])):
                draft.kind, draft.level = "paragraph", 0
            titled = True
        return drafts


_CHAPTER = re.compile(
    r"(?P<said>(?:chapter|appendix|part|kapitel|anhang|chapitre|annexe)\s+)?"
    r"(?:(?P<number>\d{1,3}|[IVX]{1,5}|[A-Z])\.?"
    r"|(?:twenty|thirty)?-?(?:one|two|three|four|five|six|seven|eight|nine)|ten|eleven|twelve"
    r"|(?:thir|four|fif|six|seven|eigh|nine)teen|twenty|thirty)",
    re.IGNORECASE,
)


def _with_chapter_numbers(drafts: list[Draft]) -> list[Draft]:
    """A chapter's number over its title is part of it; one that is spelled out goes."""
    kept: list[Draft] = []
    number = ""
    for draft, following in zip(drafts, [*drafts[1:], None], strict=True):
        match = None
        if draft.kind == "heading" and following is not None and following.kind == "heading":
            match = _CHAPTER.fullmatch(" ".join(text for _, texts in draft.parts for text in texts))
        if match:
            number = match.group() if match["number"] else ""
            continue
        if number:
            draft.parts[0][1][0] = f"{number.rstrip('.')}. {draft.parts[0][1][0]}"
            number = ""
        kept.append(draft)
    return kept


def _append(drafts: list[Draft], column: list[Draft]) -> None:
    """The blocks of the next column behind those before, the first joined to the last where it goes on."""
    if column:
        target = _open(drafts)
        table = target is not None and drafts[target].kind == "table"
        place = next((index for index, draft in enumerate(column[:3]) if table or not _is_float(draft)), None)
        first = column[place] if place is not None else None
        if target is not None and first is not None and _continues(drafts[target], first, floated=place != 0):
            last = drafts.pop(target)
            if first.kind == "table" and first.rows[0][1] == last.rows[0][1]:
                first.rows.pop(0)
            last.rows += first.rows
            last.parts += first.parts
            last.full = first.full
            drafts.append(last)
            del column[place : place + 1]  # type: ignore[operator]
    drafts.extend(column)


def _is_float(draft: Draft) -> bool:
    return draft.note or draft.kind == "table"


def _open(drafts: Sequence[Draft]) -> int | None:
    """Which block may go on: the last, footnotes and floats left out."""
    for index in range(len(drafts) - 1, max(-1, len(drafts) - 8), -1):
        if not drafts[index].note:
            return index
    return None


def _continues(last: Draft, first: Draft, floated: bool) -> bool:
    if last.kind == "table" and first.kind == "table":
        return len(last.rows[0][1]) == len(first.rows[0][1]) and abs(last.x0 - first.x0) < 6 and not floated
    if last.kind == "code" and first.kind == "code":
        return not floated
    if last.kind not in ("paragraph", "item") or first.kind != "paragraph" or not last.last or first.note:
        return False
    begins = first.parts[0][1][0]
    if _HYPHEN.search(last.last) and begins[:1].islower():
        return True
    if _ENDS.search(last.last):
        return False
    return begins[:1].islower() or (last.full and not floated and not first.indented)


@dataclass
class _ColumnReader:
    """Turns one column into blocks."""

    structure: Structure
    page: int
    column: Column

    def __post_init__(self) -> None:
        lines = self.column.lines
        self.right = sorted(line.x1 for line in lines)[int(len(lines) * 0.9)] if lines else 0.0
        self.left = min((line.x0 for line in lines), default=0.0)
        gaps = [
            above.base - below.base
            for above, below in pairwise(self.column.items)
            if isinstance(above, Line) and isinstance(below, Line) and abs(above.size - below.size) < 0.5
        ]
        usual = Counter(round(gap, 0) for gap in gaps if 0.8 < gap / max(self.structure.body, 1) < 2.2)
        self.leading = float(usual.most_common(1)[0][0]) if usual else 1.25 * self.structure.body
        self.markers: list[float] = []  # where the marks of open lists are
        self.made: list[Draft] = []
        self.lines: list[Line] = []  # of the block so far
        self.item: tuple[int, int | None, float] | None = None  # level, number and text's place of the open item
        self.number = 0
        self.noting = False  # whether the footnotes have begun

    def read(self) -> list[Draft]:
        """The column's blocks."""
        items = self.column.items
        note = self._notes_begin()
        index = 0
        while index < len(items):
            item = items[index]
            if isinstance(item, Table) and item.terms:
                self._close()
                self.made += [Draft("paragraph", [(self.page, [" ".join(filter(None, row))])]) for row in item.rows]
                index += 1
            elif isinstance(item, Table):
                self._close()
                rows = [(self.page, row) for row in item.rows]
                self.made.append(Draft("table", [], rows=rows, x0=item.x0))
                index += 1
            elif id(item) in self.structure.headings:
                self._close()
                count = self.structure.heading_lines[id(item)]
                texts = [line.text for line in items[index : index + count] if isinstance(line, Line)]
                level = self.structure.headings[id(item)]
                whole = " ".join(texts)
                if _BOX.fullmatch(whole):
                    self.made.append(Draft("paragraph", [(self.page, [f"**{whole}**"])]))
                else:
                    draft = Draft("heading", [(self.page, texts)], level=level, style=style_of(item))
                    draft.bookmarked = id(item) in self.structure.bookmarked
                    self.made.append(draft)
                self.markers.clear()
                index += count
            elif index < note and self._at_beginning(item) and (run_in := self.structure.run_in(items, index)):
                self._close()
                self.made.append(Draft("heading", [(self.page, run_in.texts)], level=run_in.level))
                self.markers.clear()
                if run_in.rest is not None:
                    self._take(run_in.rest)
                index += len(run_in.texts)
            elif self._is_code(item, index):
                self._close()
                count = self._code_length(index)
                lines = [line for line in items[index : index + count] if isinstance(line, Line)]
                self.made.append(Draft("code", [(self.page, _code(lines))]))
                index += count
            else:
                if index >= note:
                    self._note(item)
                else:
                    self._take(item)
                index += 1
        self._close()
        return self.made

    def _notes_begin(self) -> int:
        """The index of the footnotes' first line: smaller text at the end of the column that begins with a mark."""
        items = self.column.items
        first = len(items)
        for index in range(len(items) - 1, -1, -1):
            item = items[index]
            if not isinstance(item, Line) or item.size > 0.93 * self.structure.body:
                break
            if _FOOTNOTE.match(item.text):
                first = index
        return first

    def _note(self, line: Line) -> None:
        """One more line of the footnotes."""
        if _FOOTNOTE.match(line.text):
            self._close()
        self.noting = True
        self.lines.append(line)

    def _is_code(self, line: Line, index: int) -> bool:
        if self.structure.mono_text or not (line.mono or _PROMPT.match(line.text)):
            return False
        above = self.column.items[index - 1] if index else None
        if self.lines and isinstance(above, Line) and not above.mono:
            near = above.base - line.base < 1.25 * self.leading
            return not (near and abs(self.lines[-1].x0 - line.x0) < 0.5 * line.size)
        return True

    def _code_length(self, index: int) -> int:
        items = self.column.items
        count = 1
        while index + count < len(items):
            item, above = items[index + count], items[index + count - 1]
            if not isinstance(item, Line) or id(item) in self.structure.headings:
                break
            if (item.share("mono") < 0.75 and not _PROMPT.match(item.text)) or above.base - item.base > 3.2 * item.size:
                break
            count += 1
        return count

    def _take(self, line: Line) -> None:
        """One more line of text."""
        marker = self._marker(line)
        if marker is not None:
            self._close()
            number, content = marker
            level = self._level(line.x0)
            self.item = (level, number, content)
            self.number = number or 0
            self.lines = [line]
            return
        if self.lines and self._begins(line):
            inside = self.item is not None and abs(line.x0 - self.item[2]) < 0.6 * line.size
            self._close()
            if not inside and self.markers and line.x0 < self.markers[0] + 2:
                self.markers.clear()
        self.lines.append(line)

    def _marker(self, line: Line) -> tuple[int | None, float] | None:
        """The number of a list item that begins here, and where its text begins."""
        match = _BULLET.match(line.text) or _ENUMERATED.match(line.text)
        if match is None:
            return None
        rest = line.text[match.end() :]
        words = line.words
        content = words[1].x0 if len(words) > 1 else line.x0 + 1.5 * line.size
        number = int(match["number"]) if "number" in match.groupdict() and match["number"] else None
        begins = not self.lines or self._begins(line) or self._is_list_place(line.x0)
        gap = len(words) > 1 and words[1].x0 - words[0].x1 > 0.45 * line.size
        if match["mark"] in "-–—*·" and not begins and not gap:
            return None
        if match["mark"] not in _BULLETS:
            follows = number is not None and number in (1, self.number + 1)
            if not (begins and (gap or follows or number is None)) and not (follows and gap):
                return None
        if not rest.strip() and match["mark"] in "-–—*":
            return None
        return number, content

    def _is_list_place(self, x0: float) -> bool:
        return any(abs(x0 - marker) < 3 for marker in self.markers)

    def _level(self, x0: float) -> int:
        while self.markers and x0 < self.markers[-1] - 3:
            self.markers.pop()
        if not self.markers or x0 > self.markers[-1] + 4:
            self.markers.append(x0)
        return len(self.markers) - 1

    def _at_beginning(self, line: Line) -> bool:
        return not self.lines or self._begins(line)

    def _begins(self, line: Line) -> bool:
        """Whether a line begins a new paragraph."""
        above = self.lines[-1]
        gap, size = above.base - line.base, max(line.size, 1.0)
        if gap > _LEADING * max(min(self.leading, 2.0 * size), 1.0 * size) or gap < 0:
            return True
        if abs(line.size - above.size) > _SAME_SIZE * size and min(len(line.text), len(above.text)) > 3:
            return True
        if above.bold != line.bold and above.bold and len(self.lines) == 1 and above.x1 < self.right - 3 * size:
            return True
        if _CAPTION.match(line.text):
            return True
        short = above.x1 < self.right - 0.2 * (self.right - self.left)
        if self.item is not None:
            content = self.item[2]
            if line.x0 < self.lines[0].x0 - 0.5 * size:
                return True
            return bool(line.x0 > content + 1.5 * size and len(self.lines) > 1 and line.x0 > self.lines[-1].x0 + size)
        if len(self.lines) == 1:
            outdent = above.x0 - line.x0
            if outdent > 3.5 * size or (outdent > _INDENT * size and short):
                return True
            indent = line.x0 - above.x0
            return bool(indent > _INDENT * size and short)
        usual = min(item.x0 for item in self.lines[1:])
        if line.x0 > usual + _INDENT * size:
            return True
        if line.x0 < usual - _INDENT * size:
            return True
        return bool(
            short
            and above.x1 < self.right - 0.3 * (self.right - self.left)
            and _ENDS.search(above.text)
            and line.text[:1].isupper()
        )

    def _close(self) -> None:
        """The block so far is complete."""
        lines, self.lines = self.lines, []
        item, self.item = self.item, None
        if not lines:
            return
        texts = [line.text for line in lines]
        full = lines[-1].x1 > self.right - 2.5 * lines[-1].size
        if item is not None:
            match = _BULLET.match(texts[0]) or _ENUMERATED.match(texts[0])
            assert match is not None
            level, number, _ = item
            mark = "-" if match["mark"] in _BULLETS else match["mark"]
            texts[0] = texts[0][match.end() :]
            if number is None and mark != "-":
                texts[0], mark = f"{mark} {texts[0]}", "-"
            self.made.append(Draft("item", [(self.page, texts)], level, number, x0=lines[0].x0, full=full))
            return
        indented = lines[0].x0 > self.left + _INDENT * lines[0].size
        note = self.noting or bool(_CAPTION.match(texts[0]))
        self.made.append(
            Draft("paragraph", [(self.page, texts)], x0=lines[0].x0, full=full, note=note, indented=indented)
        )


def _code(lines: Sequence[Line]) -> list[str]:
    """Lines of code with the spaces that they have on the page."""
    widths = sorted((word.x1 - word.x0) / len(word.text) for line in lines for word in line.words)
    width = max(widths[len(widths) // 2], 0.5)
    left = min(line.x0 for line in lines)
    gaps = sorted(above.base - below.base for above, below in pairwise(lines))
    usual = gaps[len(gaps) // 3] if gaps else 0.0
    texts: list[str] = []
    for above, line in pairwise([None, *lines]):
        assert line is not None
        if above is not None and usual and above.base - line.base > 1.6 * usual:
            texts.append("")
        text = " " * min(80, round((line.x0 - left) / width))
        before: Word | None = None
        for word in line.words:
            if before is not None:
                gap = (word.x0 - before.x1) / width
                text += " " * min(80, max(round(gap), int(word.spaced and gap > 0.3)))
            text += word.text
            before = word
        texts.append(text)
    return texts


# --- headings by outline ---------------------------------------------------------------------------------------------


def _squeezed(text: str) -> str:
    """Letters and digits alone, without the number in front."""
    match = _NUMBERING.match(text.strip())
    rest = text.strip()[match.end() :] if match else text
    squeezed = "".join(letter for letter in rest.casefold() if letter.isalnum())
    return squeezed or "".join(letter for letter in text.casefold() if letter.isalnum())


def _find(lines: Sequence[Line], title: str, taken: dict[int, int]) -> tuple[Line, int] | None:
    """The lines that say a title: the first of them, and how many; the largest of several."""
    found: list[tuple[float, Line, int]] = []
    for index, line in enumerate(lines):
        if id(line) in taken:
            continue
        whole = ""
        for count in range(1, 6):
            if index + count > len(lines):
                break
            whole = f"{whole} {lines[index + count - 1].text}".strip()
            squeezed = _squeezed(whole)
            if squeezed == title or "".join(c for c in whole.casefold() if c.isalnum()) == title:
                found.append((line.size + 0.5 * line.bold, line, count))
                break
            if len(squeezed) > len(title) + 20:
                break
    if not found:
        return None
    _, line, count = max(found, key=lambda each: each[0])
    return line, count


def _says_words(text: str) -> bool:
    """Whether a text is more than single letters, as they stand in drawings and formulas."""
    return bool(re.search(r"[^\W\d_]{2}", text) or _HAN.search(text))


def _depth(text: str) -> int:
    """How deep a numbered heading is by its number: 1 of "2 Methods", 3 of "2.1.4 …"; 0 without a number."""
    match = _NUMBERING.match(text.strip())
    if match is None or not text.strip()[match.end() :].strip() or _INITIALS.match(text.strip()):
        return 0
    return 1 + match["more"].count(".")


# --- text ------------------------------------------------------------------------------------------------------------


def vocabulary(pages: Sequence[Laid]) -> set[str]:
    """The words that are in the middle of lines, in lower case: what words at the ends of lines are compared with."""
    words: set[str] = set()
    for page in pages:
        for column in page.columns:
            for line in column.lines:
                for word in line.words[:-1]:
                    words.add(word.text.lower().strip(".,;:!?()[]\"'“”‘’"))
    return words


class Writer:
    """Writes blocks as Markdown and notes where each block and each page begins."""

    def __init__(self, page_count: int, words: set[str]) -> None:
        self.parts: list[str] = []
        self.blocks: list[Block] = []
        self.pages: list[int] = [0]
        self.length = 0
        self._count = page_count
        self._words = words

    def _reach(self, page: int) -> None:
        """Pages up to this 0-based one begin here, if they have not begun yet."""
        while len(self.pages) <= page:
            self.pages.append(self.length)

    def _write(self, piece: str) -> None:
        self.parts.append(piece)
        self.length += len(piece)

    def finish(self) -> tuple[str, tuple[Block, ...], tuple[int, ...]]:
        """The text, its blocks, and the offset at which each page begins."""
        self._reach(self._count - 1)
        return "".join(self.parts), tuple(self.blocks), tuple(self.pages)

    def add(self, draft: Draft) -> None:
        """Append a block."""
        if draft.kind != "table" and not any(text.strip() for _, texts in draft.parts for text in texts):
            return
        if self.parts:
            follows = draft.kind == "item" and self.blocks[-1].kind == "item"
            self._write("\n" if follows else "\n\n")
        indent = "  " * min(draft.level, 8) if draft.kind == "item" else ""
        self._write(indent)
        self._reach(draft.rows[0][0] if draft.kind == "table" else draft.parts[0][0])
        start = self.length
        if draft.kind == "table":
            self._table(draft)
        elif draft.kind == "code":
            self._code(draft)
        else:
            lead = {
                "heading": "#" * draft.level + " ",
                "item": f"{draft.number}. " if draft.number is not None else "- ",
            }
            self._write(lead.get(draft.kind, ""))
            self._prose(draft)
        self.blocks.append(Block(kind=draft.kind, start=start, end=self.length, level=draft.level, number=draft.number))

    def _table(self, draft: Draft) -> None:
        for index, (page, row) in enumerate(draft.rows):
            if index:
                self._write("\n")
            self._reach(page)
            cells = (" ".join(cell.split()).replace("|", r"\|") for cell in row)
            self._write(f"| {' | '.join(cells)} |")
            if not index:
                self._write("\n|" + "---|" * len(row))

    def _code(self, draft: Draft) -> None:
        fence = "```"
        while any(fence in text for _, texts in draft.parts for text in texts):
            fence += "`"
        self._write(fence)
        for page, texts in draft.parts:
            self._write("\n")
            self._reach(page)
            self._write("\n".join(texts))
        self._write(f"\n{fence}")

    def _prose(self, draft: Draft) -> None:
        """Lines as one, words that are divided at the ends of lines whole again."""
        text = ""
        for page, texts in draft.parts:
            for index, line in enumerate(texts):
                line = " ".join(line.split())
                joined = self._joined(text, line)
                if index == 0 and text:
                    # What is before the first blank of this page's part may belong to a word of the page before.
                    written = joined[: len(joined) - len(line)]
                    self._write(written)
                    self._reach(page)
                    text = line
                else:
                    text = joined
        self._write(text)

    def _joined(self, text: str, line: str) -> str:
        if not text or not line:
            return text or line
        match = _HYPHEN.search(text)
        first = _FIRST_WORD.match(line)
        if match and first and line[0].islower():
            whole = (match["word"] + first.group()).lower()
            kept = f"{match['word']}-{first.group()}".lower()
            keeps = kept in self._words and whole not in self._words
            return text + line if keeps else text[:-1] + line
        if re.search(r"\w-$", text) and line[:1].isalnum():
            return text + line
        if _HAN.match(text[-1]) and _HAN.match(line[0]):
            return text + line
        if re.search(r"https?://\S*/$", text) and not line[:1].isupper():
            return text + line
        return f"{text} {line}"
