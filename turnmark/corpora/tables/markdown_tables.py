"""Reads the Markdown tables of a text: their heads, and each row as "column: cell; column: cell"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from turnmark.corpora.text.segmentation import lines, strip_inline_markdown

_ROW = re.compile(r"[ \t]{0,3}\|")
_RULE = re.compile(r"[ \t]{0,3}\|?(?:[ \t]*:?-+:?[ \t]*\|)*[ \t]*:?-+:?[ \t]*\|?[ \t]*")
_CELL_END = re.compile(r"(?<!\\)\|")
_NUMBERED_CAPTION = re.compile(
    r"[*_]{0,2}(?:Table|Tab\.|Tabelle|Tableau|Tabla|Tabella|Tabela|表)[ \t\xa0]*[A-Z]?\d{0,3}(?:[.-]\d{1,3}){0,3}[a-z]?"
    r"[ \t]*[.:–—-](?=\s)[^\n]{0,300}",
    re.IGNORECASE,
)
_TAG_START = re.compile(r"<(?=[A-Za-z/!?])")
_BOLD = re.compile(r"(?:\*\*|__)[^\n]{1,200}(?:\*\*|__)")


@dataclass(frozen=True, slots=True)
class TableRow:
    """A line of a table.

    Attributes:
        start, end: character range of the whole line in the text.
        cells: the cells as Markdown.
    """

    start: int
    end: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of a text.

    Attributes:
        head: the line of column names and the rule below it; empty if the text begins below them.
        names: the column names as plain text; empty if they are unknown.
        rows: all other lines.
    """

    head: tuple[TableRow, ...]
    names: tuple[str, ...]
    rows: tuple[TableRow, ...]

    @property
    def start(self) -> int:
        """The first character."""
        return (self.head or self.rows)[0].start

    @property
    def end(self) -> int:
        """One past the last character."""
        return (self.rows or self.head)[-1].end


def tables_of(text: str, header: str = "") -> list[TextTable]:
    """Return the tables of a text, in order.

    Args:
        header: the head of the table that the text begins within (`Passage.header`).
    """
    open_names = column_names(header)
    tables = []
    for run in _runs(text):
        headed = len(run) > 1 and bool(_RULE.fullmatch(text[run[1].start : run[1].end]))
        names = tuple(map(strip_inline_markdown, run[0].cells)) if headed else ()
        if not headed and "\n" not in text[: run[0].start].rstrip("\n"):
            names = open_names
        tables.append(TextTable(tuple(run[: 2 * headed]), names, tuple(run[2 * headed :])))
    return tables


def column_names(header: str) -> tuple[str, ...]:
    """Return the names of the columns of a table's head, as plain text; empty if it has no row."""
    run = next(_runs(header), None)
    return tuple(map(strip_inline_markdown, run[0].cells)) if run else ()


def _runs(text: str) -> Iterator[list[TableRow]]:
    """Yield each run of lines that begin with a bar."""
    for is_row, run in groupby(lines(text), lambda line: bool(_ROW.match(line[1]))):
        if is_row:
            yield [TableRow(offset, offset + len(line), cells_of(line)) for offset, line in run]


def cells_of(line: str) -> tuple[str, ...]:
    """Return the cells of a line of a table."""
    inner = line.strip()
    inner = inner.removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return tuple(cell.strip() for cell in _CELL_END.split(inner))


def row_text(names: Sequence[str], cells: Sequence[str]) -> str:
    """Return a row as one line of plain text, each cell after the name of its column: "Port: 993; Service: imaps".

    Empty cells are left out.
    """
    pieces = []
    for at, cell in enumerate(cells):
        words = strip_inline_markdown(cell.replace("\\|", "|"))
        name = names[at].rstrip(" :") if at < len(names) else ""
        if words:
            pieces.append(f"{name}: {words}" if name else words)
    return "; ".join(pieces)


def row_markdown(cells: Sequence[str]) -> str:
    """Return cells as a line of a Markdown table."""
    return marked_row(list(map(without_tags, cells)))


def marked_row(cells: Sequence[str]) -> str:
    """Return cells whose angle brackets are written as they are as a line of a Markdown table."""
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"


def rule_below(names: Sequence[str]) -> str:
    """Return the line of a Markdown table below the column names."""
    return "|" + "---|" * len(names)


def without_tags(line: str) -> str:
    """Escape angle brackets that would be read as HTML."""
    return _TAG_START.sub(r"\\<", line) if "<" in line else line


def head_of(table: str) -> str:
    """Return the first two lines of a table, its column names and the rule below them; empty if it has no rule."""
    first, _, rest = table.partition("\n")
    second = rest.partition("\n")[0]
    return f"{first}\n{second}" if second.strip() and _RULE.fullmatch(second) else ""


def cell_bars(row: str) -> list[int]:
    """Return the offsets of the bars around the cells of a row."""
    return [match.start() for match in _CELL_END.finditer(row)]


def head_from(head: str, skipped: int) -> str:
    """Return the head of a table without its first columns; the last column always remains."""
    names = cells_of(head.partition("\n")[0])
    names = names[min(skipped, len(names) - 1) :] if skipped else ()
    return _as_head(names) if names else head


def _as_head(names: Sequence[str]) -> str:
    return f"| {' | '.join(names)} |\n|{'-|' * len(names)}"


def clip_head(head: str, most: int) -> str:
    """Return the head of a table with each column name cut to `most` characters."""
    names = [name if len(name) <= most else f"{name[:most].rstrip()}…" for name in cells_of(head.partition("\n")[0])]
    return _as_head(names)


def is_caption(paragraph: str) -> bool:
    """Return whether a paragraph next to a table names it: a line in bold, or "Table 3: …"."""
    return bool(_BOLD.fullmatch(paragraph)) or is_numbered_caption(paragraph)


def is_numbered_caption(paragraph: str) -> bool:
    """Return whether a paragraph is a table caption even if it is not next to the table: "Table 3: …"."""
    return bool(_NUMBERED_CAPTION.fullmatch(paragraph))
