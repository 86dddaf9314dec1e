r"""Decodes the letters of Rich Text for pandoc.

Pandoc reads the bytes of every code page as Western, and loses the text after a Unicode letter that is followed by its
replacement for older programs (`don\u8217?t`).

Rich Text Format specification 1.9.1: "Character set", "Font table", "Unicode RTF".
"""

from __future__ import annotations

import re

from turnmark.corpora.readers.common.prose import is_utf8, python_encoding
from turnmark.corpora.readers.office.rtf_tables import with_level_rows

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
