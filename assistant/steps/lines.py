"""A passage as the lines a person reads: sentences, list items, table rows, code; with the headings above them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from turnmark.corpora.text import heading_text, list_items, plain, sentences, words
from turnmark.corpora.types import CONTINUED, Passage

Kind = Literal["sentence", "item", "row", "code", "heading"]


@dataclass(frozen=True)
class TextLine:
    """A sentence, list item, table row, block of code or heading of a passage.

    Attributes:
        start, end: characters of the passage's text.
        text: in plain words.
        section: headings above it, joined by ' › '.
        block: lines of one paragraph, list or table have one number.
    """

    kind: Kind
    start: int
    end: int
    text: str
    section: str
    block: int

    @property
    def size(self) -> int:
        """Words."""
        return len(words(self.text))


_CODE = re.compile(
    r"^(?P<mark>[ \t]{0,7}(?:`{3,}|~{3,}))[^\n]*\n.*?(?:^[ \t]{0,7}(?:`{3,}|~{3,})[ \t]*$|\Z)"
    r"|(?:(?<=\n\n)|\A)(?:(?: {4}|\t)(?![-*+•]|\d+[.)])[^\n]*(?:\n|\Z))+",
    re.MULTILINE | re.DOTALL,
)
_HEADING = re.compile(
    r"^ {0,3}(?P<marks>#{1,6})\s+(?P<marked>.*?)\s*#*\s*$"
    r"|^ {0,3}(?![-*+>|#]|\d{1,9}[.)])(?P<ruled>\S[^\n]{0,200})\n {0,3}(?P<rule>=+|-{2,})[ \t]*$",
    re.MULTILINE,
)
_ROW = re.compile(r"^[ \t]{0,3}\|[^\n]*$", re.MULTILINE)
_RULE = re.compile(r"[\s|:+=-]*")


@lru_cache(maxsize=512)
def lines_of(passage: Passage) -> tuple[TextLine, ...]:
    """The lines of a passage, in order. Kept: several steps of a turn look at the same passages."""
    text = passage.text
    code = [match.span() for match in _CODE.finditer(text)]
    headings = [match for match in _HEADING.finditer(text) if not _inside(match.start(), code)]
    rows = [match.span() for match in _ROW.finditer(text) if not _inside(match.start(), code)]
    items = [(item.start, item.end) for item in list_items(text) if not _inside(item.start, code)]
    spans: list[tuple[int, int, Kind]] = [(*match.span(), "heading") for match in headings]
    spans += [(start, end, "code") for start, end in code if not _inside(start, items)]
    spans += [(start, end, "row") for start, end in rows]
    spans += [(start, end, "item") for start, end in items]
    covered = [(start, end) for start, end, _ in spans]
    spans += [(start, end, "sentence") for start, end in sentences(text) if not _inside(start, covered)]
    names = _paths(passage, headings)
    lines: list[TextLine] = []
    block, before = 0, 0
    kind_before: Kind | None = None
    for start, end, kind in sorted(spans):
        gap = text[before:start]
        if kind != kind_before or (kind == "sentence" and gap.count("\n") > 1) or kind in ("heading", "code"):
            block += 1
        raw = text[start:end]
        words_of_line = heading_text(raw) if kind == "heading" else "" if _RULE.fullmatch(raw) else plain(raw)
        section = next((name for at, name in reversed(names) if at <= start), names[0][1])
        lines.append(TextLine(kind, start, end, words_of_line, section, block))
        before, kind_before = end, kind
    return tuple(lines)


def _inside(offset: int, spans: list[tuple[int, int]]) -> bool:
    return any(start <= offset < end for start, end in spans)


def _paths(passage: Passage, headings: list[re.Match[str]]) -> list[tuple[int, str]]:
    """From where in the text which path of headings holds."""
    section = passage.section.removesuffix(CONTINUED).rstrip()
    above = section.split(" › ") if section else []
    open_: list[tuple[int, str]] = []
    paths = [(0, section)]
    for match in headings:
        level = len(match["marks"]) if match["marks"] else 1 if match["rule"][0] == "=" else 2
        while open_ and open_[-1][0] >= level:
            open_.pop()
        open_.append((level, heading_text(match.group())))
        names = [name for _, name in open_ if name != passage.title and name not in above]
        paths.append((match.start(), " › ".join([*above, *names])))
    return paths
