"""Parse the texts of a turn.

Of a reply: citation marks (`[1]`, `[1, 2]`, `[2-4]`) and sentences with their marks. Of a passage: sentences, list
items, table rows and code, with the headings above them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from turnmark.core.untrusted import CITATION_MARK, CODE_SPAN
from turnmark.corpora.tables.markdown_tables import is_numbered_caption, row_text, tables_of
from turnmark.corpora.text.segmentation import (
    ASIDE,
    heading_text,
    lines,
    list_items,
    reading_words,
    sentences,
    strip_inline_markdown,
    words,
)
from turnmark.corpora.types import Passage, without_continued


def cited_numbers(text: str) -> list[int]:
    """Return the numbers of all citation marks outside code, in order: `[1]`, `[1, 2]` and `[2-4]`."""
    numbers: list[int] = []
    for match in CITATION_MARK.finditer(CODE_SPAN.sub(" ", text)):
        for part in match.group(1).split(","):
            first, _, last = part.replace("–", "-").partition("-")
            begin = int(first)
            end = int(last or first)
            is_range = begin <= end <= begin + 50
            numbers += range(begin, end + 1) if is_range else [begin, end]
    return numbers


_SPACED_MARK = re.compile(
    rf"(?P<before>[ \t]*)(?P<aside>(?={ASIDE})\([^\[]*)?{CITATION_MARK.pattern}(?(aside)\))"
    r"(?P<after>(?:[ \t]+(?=[.,;:!?]+(?:\s|$)))?)",
    re.IGNORECASE,
)


def with_numbers(text: str, numbers: Mapping[int, int]) -> str:
    """Return a text with other numbers in its citation marks outside code.

    Args:
        numbers: new number by old number. Others are removed; a mark or "(see [1])" without a number left goes, too.
    """

    def renumbered(match: re.Match[str]) -> str:
        old = cited_numbers(match.group())
        new = [numbers[number] for number in old if number in numbers]
        if new == old:
            return match.group()
        if not new:
            return ""
        marks = "".join(f"[{number}]" for number in dict.fromkeys(new))
        aside = match["aside"] or ""
        return f"{match['before']}{aside}{marks}{')' if aside else ''}{match['after']}"

    pieces = CODE_SPAN.split(text)  # text and code alternate
    pieces[::2] = [_SPACED_MARK.sub(renumbered, piece) for piece in pieces[::2]]
    return "".join(pieces)


def number_in_order(text: str, sources: int) -> tuple[str, list[int]]:
    """Number the sources of a text in the order in which it cites them; return the text and their old numbers.

    Args:
        sources: number of sources. A mark with a higher number keeps it.
    """
    cited = dict.fromkeys(cited_numbers(text))
    order = [number for number in cited if 1 <= number <= sources]
    numbers = {number: number for number in cited} | {old: new for new, old in enumerate(order, 1)}
    return with_numbers(text, numbers), order


_LEADING_MARKS = re.compile(rf"(?:[ \t]*{CITATION_MARK.pattern})+")
ITEM_MARK = re.compile(r"[-*•][ \t]+|\d{1,3}[.)][ \t]+")
"""The mark at the beginning of a list item: `- `, `3. ` …"""


def without_item_mark(text: str) -> str:
    """Remove the item mark at the beginning of a list item; "see step 3. below" stays unchanged."""
    match = ITEM_MARK.match(text)
    return text[match.end() :] if match else text


@dataclass(frozen=True)
class SpacedSentence:
    """A sentence of a text and the white space before it."""

    gap: str
    text: str


def spaced_sentences(text: str) -> list[SpacedSentence]:
    """Split a text into sentences. Joined in order, gaps and sentences give the text up to its last sentence."""
    spans = sentences(text)
    pieces: list[SpacedSentence] = []
    previous_end = 0
    for number, (start, end) in enumerate(spans):
        start = max(start, previous_end)
        # "It floats. [1] It sinks.": the mark belongs to the sentence before it.
        if number + 1 < len(spans):
            next_start, next_end = spans[number + 1]
            marks = _LEADING_MARKS.match(text, end)
            if marks and "\n" not in text[end:next_start]:
                end = min(marks.end(), next_end)
        start += len(text[start:end]) - len(text[start:end].lstrip())
        if start < end:
            pieces.append(SpacedSentence(text[previous_end:start], text[start:end]))
            previous_end = end
    return pieces


# --- the lines of a passage

LineKind = Literal["sentence", "item", "row", "head", "caption", "code", "heading"]


@dataclass(frozen=True)
class TextLine:
    """A sentence, list item, table row, line of a table's head, caption, block of code or heading of a passage.

    Attributes:
        start, end: characters of the passage's text.
        text: its text without markup. In a row, each cell follows the name of its column. The rule of a table has none.
        section: headings above it, joined by ' › '.
        block: number of its paragraph, list or table within the passage.
    """

    kind: LineKind
    start: int
    end: int
    text: str
    section: str
    block: int

    @property
    def can_answer(self) -> bool:
        """Whether the line can answer a question. Headings, captions and table heads only name lines that can."""
        return self.kind not in ("heading", "head", "caption")

    def says_more(self, *known: str) -> bool:
        """Return whether it has two words, or a number, that are not in its headings or in other known texts."""
        new = {*words(self.text)}.difference(words(self.section), *map(words, known))
        return len(new) > 1 or any(map(str.isdigit, "".join(new)))

    def heading(self, title: str) -> str:
        """Return the heading above it, or the title of its document if there is none."""
        return self.section.rpartition(" › ")[2] or title

    def in_context(self, title: str) -> str:
        """Return the text to embed. A row, which is not a sentence, is preceded by the heading above it.

        Args:
            title: title of the document.
        """
        if self.kind != "row":
            return self.text
        name = self.heading(title)
        return f"{name}: {self.text}" if name else self.text

    @property
    def size(self) -> int:
        """Length in words."""
        return reading_words(self.text)


_CODE_BLOCK = re.compile(
    r"^(?P<mark>[ \t]{0,7}(?:`{3,}|~{3,}))[^\n]*\n.*?(?:^[ \t]{0,7}(?:`{3,}|~{3,})[ \t]*$|\Z)"
    r"|(?:(?<=\n\n)|\A)(?:(?: {4}|\t)(?![-*+•]|\d+[.)])[^\n]*(?:\n|\Z))+",
    re.MULTILINE | re.DOTALL,
)
_HEADING = re.compile(
    r"^ {0,3}(?P<marks>#{1,6})\s+(?P<marked>.*?)\s*#*\s*$"
    r"|^ {0,3}(?![-*+>|#]|\d{1,9}[.)])(?P<ruled>\S[^\n]{0,200})\n {0,3}(?P<rule>=+|-{2,})[ \t]*$",
    re.MULTILINE,
)


@lru_cache(maxsize=512)
def lines_of(passage: Passage) -> tuple[TextLine, ...]:
    """Split a passage into lines, in order. Cached: several steps of a turn read the same passages."""
    text = passage.text
    # Code first: what looks like a heading, row or item inside code is code.
    code = [match.span() for match in _CODE_BLOCK.finditer(text)]
    headings = [match for match in _HEADING.finditer(text) if not _is_inside(match.start(), code)]
    tables = [table for table in tables_of(text, passage.header) if not _is_inside(table.start, code)]
    items = [(item.start, item.end) for item in list_items(text) if not _is_inside(item.start, code)]
    spans: list[tuple[int, int, LineKind]] = [(*match.span(), "heading") for match in headings]
    spans += [(start, end, "code") for start, end in code if not _is_inside(start, items)]
    table_texts: dict[int, str] = {}
    for table in tables:
        spans += [(line.start, line.end, "head") for line in table.head]
        spans += [(row.start, row.end, "row") for row in table.rows]
        table_texts |= {row.start: row_text(table.names, row.cells) for row in table.rows}
        table_texts |= {line.start: "; ".join(filter(None, table.names)) for line in table.head[:1]}
    spans += [(start, end, "item") for start, end in items]
    covered = [(start, end) for start, end, _ in spans]
    captioned = [(offset, offset + len(line)) for offset, line in lines(text) if _is_caption(line)]
    spans += [(start, end, "caption") for start, end in captioned if not _is_inside(start, covered)]
    covered += captioned
    spans += [(start, end, "sentence") for start, end in sentences(text) if not _is_inside(start, covered)]
    paths = _heading_paths(passage, headings)
    text_lines: list[TextLine] = []
    block = 0
    previous_end = 0
    previous_kind: LineKind | None = None
    for start, end, kind in sorted(spans):
        new_paragraph = kind == "sentence" and text[previous_end:start].count("\n") > 1
        new_kind = kind != previous_kind and (previous_kind, kind) != ("head", "row")
        if new_kind or new_paragraph or kind in ("heading", "code"):
            block += 1
        raw = text[start:end]
        if kind == "heading":
            line_text = heading_text(raw)
        elif kind in ("head", "row"):
            line_text = table_texts.get(start, "")
        else:
            line_text = strip_inline_markdown(raw)
        section = next((path for path_start, path in reversed(paths) if path_start <= start), paths[0][1])
        text_lines.append(TextLine(kind, start, end, line_text, section, block))
        previous_end = end
        previous_kind = kind
    return tuple(text_lines)


def _is_caption(line: str) -> bool:
    return is_numbered_caption(line) or bool(_CAPTION_TITLE.fullmatch(line.strip()))


_CAPTION_TITLE = re.compile(r"(\*\*|__)[^\W\d]{3,14} [A-Z]?\d{1,3}(?:[.-]\d{1,3}){0,3}[.:] [^\n*]{1,200}\1")
"""A line in bold such as "Figure 2.3. The window" or "Example 4: A letter"; other lines in bold often say something."""


def _is_inside(offset: int, spans: list[tuple[int, int]]) -> bool:
    return any(start <= offset < end for start, end in spans)


def _heading_paths(passage: Passage, headings: list[re.Match[str]]) -> list[tuple[int, str]]:
    """Return pairs of an offset in the text and the path of the headings above the text after it."""
    section = without_continued(passage.section)
    above = section.split(" › ") if section else []
    open_headings: list[tuple[int, str]] = []  # level and text
    paths = [(0, section)]
    for match in headings:
        level = _heading_level(match)
        while open_headings and open_headings[-1][0] >= level:
            open_headings.pop()
        open_headings.append((level, heading_text(match.group())))
        names = [name for _, name in open_headings if name != passage.title and name not in above]
        paths.append((match.start(), " › ".join([*above, *names])))
    return paths


def _heading_level(heading: re.Match[str]) -> int:
    if heading["marks"]:
        return len(heading["marks"])
    return 1 if heading["rule"][0] == "=" else 2
