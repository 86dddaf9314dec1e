"""Moves the footnotes of Markdown next to the sentences that refer to them.

A note at the end of a file would be a passage under the last heading, apart from what it explains.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from turnmark.corpora.readers.markup.note_marks import is_mark_text

_DEFINITION = re.compile(r" {0,3}\[\^(?P<name>[^\]\s]{1,60})\]:[ \t]*(?P<words>[^\n]*)$")
_MARK = re.compile(r"`[^`\n]{1,300}`|\[\^(?P<name>[^\]\s]{1,60})\](?!:)")
_INLINE = re.compile(r"(?P<code>`[^`\n]{1,300}`)|(?<=\S)\^\[(?P<words>[^\[\]\n]{1,1000})\]")
_RAISED_MARK = re.compile(r"`[^`\n]{1,300}`|<sup\b[^<>\n]{0,100}>(?P<inner>(?:(?!</sup>)[^\n]){1,300})</sup>")
_LINK_MARKUP = re.compile(r"<[^<>\n]*>|\]\(#[^()\s]*\)|[\[\]\\]")
_FENCE = re.compile(r"[ \t]*(?:>[ \t]?)*(?P<mark>`{3,}(?=[^`]*$)|~{3,})")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_STARTS_BLOCK = re.compile(r"[ \t]*(?:#{1,6}(?:[ \t]|$)|(?:[-*+]|\d{1,9}[.)])[ \t]|\||```|~~~|>)")
_MAX_CELL_NOTE_LENGTH = 300  # characters; a longer note of a table cell follows the table
_INDENT = 4


def place_footnotes(text: str) -> str:
    """Return Markdown with each footnote after the block that refers to it first, and without the footnote marks.

    A short note of a table cell, and a note written inside a sentence (`^[note]`), is put in parentheses. A note
    without a mark stays where it is, and so do notes that raised links in HTML refer to. Takes time linear in the
    length of the text.
    """
    if "[^" not in text and "^[" not in text and "<sup" not in text:
        return text
    lines, notes = _take_definitions(text.split("\n"))
    return "\n".join(_place_notes(lines, notes))


def _take_definitions(lines: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Split off the definitions of footnotes that a mark refers to: the other lines, and name -> lines of the note."""
    marked = {mark["name"] for line, is_code in with_code(lines) if not is_code for mark in _MARK.finditer(line)}
    kept: list[str] = []
    notes: dict[str, list[str]] = {}
    end = 0
    for at, (line, is_code) in enumerate(with_code(lines)):
        if at < end:
            continue
        found = None if is_code else _DEFINITION.match(line)
        if found is None:
            kept.append(line)
            continue
        end = _end_of_note(lines, at + 1, bool(found["words"]))
        body = [found["words"], *(dedented(each) for each in lines[at + 1 : end])]
        while body and not body[-1].strip():
            body.pop()
        if found["name"] in marked and found["name"] not in notes:
            notes[found["name"]] = body[not found["words"] :]
            kept.append("")
        else:
            kept += ["", *body[not found["words"] :], ""]
    return kept, notes


def _end_of_note(lines: list[str], at: int, has_words: bool) -> int:
    """Return the end of a note: the first line that is neither indented nor continues a paragraph."""
    end, after_blank = at, not has_words
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            after_blank = True
        elif line.startswith((" " * _INDENT, "\t")) or not (
            after_blank or _DEFINITION.match(line) or _STARTS_BLOCK.match(line)
        ):
            end, after_blank = at + 1, False
        else:
            break
        at += 1
    return end


def dedented(line: str, width: int = _INDENT) -> str:
    """Return a line of Markdown with up to `width` columns less white space before it."""
    words = line.lstrip()
    return line[: len(line) - len(words)].expandtabs(_INDENT)[width:] + words


def with_code(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield each line of Markdown, and whether it is a line or a fence of a block of code."""
    fence = ""
    for line in lines:
        before, fence = fence, fence_after(line, fence)
        yield line, bool(before or fence)


def fence_after(line: str, fence: str) -> str:
    """Return the fence of the block of code that is open after a line, given that before it; empty if none is."""
    if not fence:
        opening = _FENCE.match(line)
        return opening["mark"] if opening else ""
    stripped = line.lstrip(" \t>").rstrip()
    return "" if stripped.startswith(fence) and not stripped.strip(fence[0]) else fence


def _place_notes(lines: list[str], notes: dict[str, list[str]]) -> Iterator[str]:
    """Yield the lines, with each note after the block of its first mark."""
    waiting: deque[tuple[str, list[str]]] = deque()  # indent or quote marker, and lines of the notes of the open block
    previous = ""
    for line, is_code in with_code(lines):
        if waiting and (is_code or _ends_block(previous, line)):
            yield from _write_notes(waiting, notes, line)
        previous = line
        if is_code:
            yield line
            continue
        is_row = line.lstrip().startswith("|")
        for mark in _MARK.finditer(line):
            note = notes.get(mark["name"] or "")
            if note and not (is_row and _fits_cell(note)):
                waiting.append((_lead(line), notes.pop(mark["name"])))
        yield _without_marks(line, notes if is_row else {})
        if line.lstrip(" >").startswith("#"):
            yield from _write_notes(waiting, notes)
    yield from _write_notes(waiting, notes)


def _ends_block(line: str, following: str) -> bool:
    """Return whether a block ends between two lines. A table and a quotation go on with their next line."""
    if not following.strip(" \t>"):
        return True
    if line.lstrip().startswith("|"):
        return not following.lstrip().startswith("|")
    return bool(_STARTS_BLOCK.match(following.lstrip("> "))) and not line.strip().startswith(">")


def _fits_cell(note: list[str]) -> bool:
    return len(note) == 1 and len(note[0]) <= _MAX_CELL_NOTE_LENGTH


def _lead(line: str) -> str:
    """Return what begins the lines of a paragraph in the same item or quotation."""
    quote = line[: len(line) - len(line.lstrip("> "))] if line.lstrip().startswith(">") else ""
    item = _ITEM.match(line)
    return quote or " " * (len(item.group()) if item else len(line) - len(line.lstrip()))


def _write_notes(
    waiting: deque[tuple[str, list[str]]], notes: dict[str, list[str]], following: str = "."
) -> Iterator[str]:
    """Yield the notes of a block, and the notes that they refer to; `following` is the line after them."""
    while waiting:
        lead, note = waiting.popleft()
        yield lead.rstrip()
        for line in note:
            for mark in _MARK.finditer(line):
                if inner := notes.pop(mark["name"] or "", None):
                    waiting.append((lead, inner))
            yield (lead + _without_marks(line, {})).rstrip()
        if not waiting and following.strip(" \t>"):
            yield lead.rstrip() if following.lstrip().startswith(">") else ""


def _without_marks(line: str, cell_notes: dict[str, list[str]]) -> str:
    """Return a line without footnote marks; notes of a table cell are put in parentheses."""

    def replacement(mark: re.Match[str]) -> str:
        if not mark["name"]:
            return mark.group()
        note = cell_notes.get(mark["name"])
        if note and _fits_cell(note):
            return f" ({_without_marks(note[0], {}).replace('|', chr(92) + '|')})"
        return ""

    line = _MARK.sub(replacement, line) if "[^" in line else line
    line = _RAISED_MARK.sub(_without_raised_mark, line) if "<sup" in line else line
    return _INLINE.sub(lambda found: found["code"] or f" ({found['words'].strip()})", line) if "^[" in line else line


def _without_raised_mark(raised: re.Match[str]) -> str:
    is_mark = "#" in (raised["inner"] or "") and is_mark_text(_LINK_MARKUP.sub("", raised["inner"]))
    return "" if is_mark else raised.group()
