r"""Decodes the letters of Rich Text for pandoc, and writes its tables as pandoc reads them.

Pandoc reads the bytes of every code page as Western, and loses the text after a Unicode letter that is followed by its
replacement for older programs (`don\u8217?t`). It ignores the widths of cells, so a cell above two columns would shift
the cells right of it. It also needs a mark in each cell (`\intbl`), which R's package r2rtf does not write.

Rich Text Format specification 1.9.1: "Character set", "Font table", "Unicode RTF", "Table Definitions".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from turnmark.corpora.readers.common.prose import is_utf8, python_encoding

_MARK = re.compile(r"\\\\|\\(?P<word>trowd|cellx|cell|nestcell|row|pard|intbl)(?P<number>-?\d{1,7})?(?![a-z\d]) ?")
_BETWEEN_ROWS = re.compile(r"(?:\\[a-z]+-?\d*|[\s{}])*")
_MAX_EDGE_DIFFERENCE = 60  # twips (1 mm); edges that are closer belong to the same column

Edit = tuple[re.Match[str], str]


@dataclass
class _RichTextRow:
    """A row: its marks, and the right edges of its cells in twips. Rows without edges have those of the row before."""

    edges: list[int]
    marks: list[re.Match[str]] = field(default_factory=list)

    def marks_of(self, word: str) -> list[re.Match[str]]:
        return [mark for mark in self.marks if mark["word"] == word]


def with_level_rows(text: str) -> str:
    r"""Return Rich Text whose rows have a cell for each column of their table, and whose cells have the mark `\intbl`.

    A single cell as wide as the table above or below the other rows is a paragraph, such as a note.
    """
    pieces: list[str] = []
    at = 0
    for mark, replacement in (edit for table in _tables(text) for edit in _edits(table)):
        pieces += [text[at : mark.start()], replacement]
        at = mark.end()
    return "".join(pieces) + text[at:]


def _tables(text: str) -> Iterator[list[_RichTextRow]]:
    """Yield the rows of each table. A row with tables in its cells is in no table."""
    table: list[_RichTextRow] = []
    row = _RichTextRow([])
    for mark in _MARK.finditer(text):
        word = mark["word"]
        if not word:  # an escaped backslash
            continue
        if word == "trowd" and not row.marks_of("cell"):
            row = _RichTextRow([])
        elif word == "cellx" and not row.marks_of("cell"):
            row.edges.append(int(mark["number"] or 0))
        elif word == "pard" and not row.marks_of("cell") and not row.marks_of("trowd"):
            row.marks.clear()  # a paragraph between tables
        row.marks.append(mark)
        if word != "row":
            continue
        if table and not _BETWEEN_ROWS.fullmatch(text, table[-1].marks[-1].end(), row.marks[0].start()):
            yield table
            table = []
        if len(row.marks_of("cell")) == len(row.edges) and not row.marks_of("nestcell"):
            table.append(row)
        row = _RichTextRow(row.edges)
    yield table


def _edits(table: Sequence[_RichTextRow]) -> Iterator[Edit]:
    """Yield the marks of a table that have a replacement, in their order."""
    columns = _column_edges(edge for row in table for edge in row.edges)
    if len(columns) > max((len(row.edges) for row in table), default=0):
        columns = []  # no row has all columns, as in a form
    inner = [index for index, row in enumerate(table) if len(row.edges) > 1]
    for index, row in enumerate(table):
        if inner and not inner[0] < index < inner[-1] and len(row.edges) == 1:
            yield from ((mark, {"cell": "\\par ", "pard": "\\pard "}.get(mark["word"], "")) for mark in row.marks)
            continue
        edges = iter(row.edges)
        before = min(columns, default=0) - 2 * _MAX_EDGE_DIFFERENCE
        for mark in row.marks:
            if mark["word"] == "pard":
                yield mark, "\\pard\\intbl "
            elif mark["word"] == "cell":
                edge = next(edges)
                covered = sum(before + _MAX_EDGE_DIFFERENCE < each <= edge for each in columns)
                yield mark, "\\cell " * max(1, covered)
                before = edge


def _column_edges(edges: Iterable[int]) -> list[int]:
    """Return the right edges of the columns, in twips: of edges that are closer than the limit, the leftmost."""
    columns: list[int] = []
    for edge in sorted(set(edges)):
        if not columns or edge - columns[-1] > _MAX_EDGE_DIFFERENCE:
            columns.append(edge)
    return columns


_CODE_PAGES = {
    0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 134: "gb18030", 136: "cp950", 161: "cp1253",
    162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874",
    238: "cp1250",
}  # fmt: skip
"""Character set of a font -> code page."""
_EAST_ASIAN = frozenset({"cp932", "cp949", "gb18030", "cp950"})
_FONT = re.compile(r"\\f(\d{1,6})(?:\\(?!fcharset)[a-z]+-?\d*|\s)*\\fcharset(\d{1,3})")
_PAGE = re.compile(r"\\ansicpg(\d{1,5})")
_ESCAPED_BYTE = re.compile(r"\\'([0-9a-fA-F]{2})")
_SIGN = re.compile(r"\\'[0-9a-fA-F]{2}|[^\\{}\r\n]")
_BYTE = r"(?:\\'[0-9a-fA-F]{2}|[\x80-\xff])"
_TOKEN = re.compile(
    rf"[{{}}]|\\(?P<word>[a-z]+)(?P<number>-?\d{{1,9}})? ?|\\[^a-z']|(?P<run>(?:{_BYTE}+[@-\[\]-z|~]?)+)"
)
"""Matches a run of bytes. The second byte of a two-byte letter may be an ASCII letter."""


def with_letters(data: bytes) -> str:
    r"""Return Rich Text with `\'e9` (in the code page of its font) and `\u233?` decoded as letters."""
    text = with_level_rows(_with_readable_notes(data.decode("latin-1")))
    if not data.isascii() and is_utf8(data):
        text = re.sub(r"[^\0-\x7f]", lambda letter: f"{{\\uc0\\u{ord(letter.group())} }}", data.decode())
    said = _PAGE.search(text, 0, 10_000)
    usual = python_encoding(f"cp{said[1]}" if said else "") or "cp1252"
    fonts = {font: _CODE_PAGES.get(int(charset), usual) for font, charset in _FONT.findall(text)}
    pieces: list[str] = []
    stack: list[tuple[str, int]] = []
    page, signs, at = usual, 1, 0  # `signs`: number of replacement characters after `\uN`
    while token := _TOKEN.search(text, at):
        pieces.append(text[at : token.start()])
        at = token.end()
        word, number = token["word"], int(token["number"] or 0)
        if token["run"]:
            pieces.append(_letters(token["run"], page))
        elif word == "u":
            pieces.append(chr(number + 0x10000 if number < 0 else number) if -0x8000 <= number < 0x110000 else "")
            for _ in range(signs):
                sign = _SIGN.match(text, at)
                at = sign.end() if sign else at
        elif (
            word == "fmodern" and page in _EAST_ASIAN
        ):  # East Asian letters all have a fixed width, so this does not mark code
            continue
        else:
            # A space ends the control word; otherwise a letter after it would be part of it.
            pieces.append(token.group().rstrip() + " " if word else token.group())
        if token.group() == "{":
            stack.append((page, signs))
        elif token.group() == "}" and stack:
            page, signs = stack.pop()
        elif word == "f":
            page = fonts.get(token["number"] or "", usual)
        elif word == "plain":
            page = usual
        elif word == "uc":
            signs = min(number, 9)
    pieces.append(text[at:])
    return "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_NOTE = re.compile(r"\{(?:\\\*)?\\(?:footnote|annotation)\b")
_ROW_EDGE = re.compile(r"\\(trowd|row)\b")
_BRACE = re.compile(r"\\[{}\\]|[{}]")
_LAYOUT_WORD = re.compile(r"\\(?!u-?\d|')[a-z]+-?\d* ?|\\\*")
_MAX_NOTE_LENGTH = 20_000


def _with_readable_notes(text: str) -> str:
    r"""Return Rich Text with footnotes as pandoc reads them: as `{\footnote`, and inside of table cells as words.

    A footnote inside a cell would end the table, and comments (`\annotation`) are left out.
    """
    pieces: list[str] = []
    at, in_row, edge = 0, False, 0
    while note := _NOTE.search(text, at):
        for mark in _ROW_EDGE.finditer(text, edge, note.start()):
            in_row = mark[1] == "trowd"
        edge, end = note.start(), _group_end(text, note.start())
        pieces.append(text[at : note.start()])
        if end <= note.end():  # its end is missing or too far away
            pieces.append(note.group())
            end = note.end()
        elif "annotation" in note.group():
            pass
        elif in_row:
            words = _LAYOUT_WORD.sub(" ", text[note.end() : end]).replace("{", "").replace("}", "").replace("\\~", " ")
            pieces.append(f" ({' '.join(words.split())})")
        else:
            pieces.append("{\\footnote" + text[note.end() : end])
        at = end
    return "".join(pieces) + text[at:]


def _group_end(text: str, start: int) -> int:
    """Return the end of the group that begins at `start`; `start` if it is not found within a limit."""
    depth = 0
    for brace in _BRACE.finditer(text, start, start + _MAX_NOTE_LENGTH):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if not depth and brace.group() == "}":
            return brace.end()
    return start


def _letters(run: str, page: str) -> str:
    data = _ESCAPED_BYTE.sub(lambda byte: chr(int(byte[1], 16)), run).encode("latin-1")
    return re.sub(r"[\\{}\0-\x1f]", lambda sign: f"\\'{ord(sign.group()):02x}", data.decode(page, "replace"))
