"""Code and tables of a passage: what an answer shows of them, and where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MOST_LINES, MOST_CHARACTERS = 3, 200
"""Of code that is shown with the sentence before it."""
_FENCED = re.compile(
    r"^(?P<mark> {0,7}(?:`{3,}|~{3,}))[^\n]*\n(?P<code>.*?)(?:^ {0,7}(?:`{3,}|~{3,})[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_INDENTED = re.compile(r"(?:(?<=\n\n)|\A)(?:(?: {4}|\t)[^\n]*(?:\n|\Z))+")
_PROMPT = re.compile(r"^\s*(?:[\w.@~:/-]*[$#>%])\s+(?P<command>\S.*)$")
_ROW = re.compile(r"^[ \t]{0,3}\|(?P<cells>[^\n]*)\|?[ \t]*$", re.MULTILINE)
_RULE = re.compile(r"[\s|:+=-]*")


@dataclass(frozen=True)
class Block:
    """A block of code or a row of a table: its place in the passage, and its text on one line ("" if it is too
    long)."""

    start: int
    end: int
    text: str


def code_blocks(text: str) -> list[Block]:
    """The blocks of code in a passage, fenced or indented, in order."""
    fenced = [Block(match.start(), match.end(), _short(match["code"])) for match in _FENCED.finditer(text)]
    indented = [
        Block(match.start(), match.end(), _short(match.group()))
        for match in _INDENTED.finditer(text)
        if not any(block.start <= match.start() < block.end for block in fenced)
    ]
    return sorted([*fenced, *indented], key=lambda block: block.start)


def _short(code: str) -> str:
    """Code in one line: all of it where it is short, else the commands that are typed at a prompt."""
    lines = [line.strip() for line in code.splitlines() if line.strip()]
    typed = [match["command"].strip() for line in lines if (match := _PROMPT.match(line))]
    shown = typed or lines
    joined = "; ".join(shown)
    return joined if 0 < len(shown) <= MOST_LINES and len(joined) <= MOST_CHARACTERS else ""


def table_rows(text: str) -> Iterator[Block]:
    """The rows of a passage's tables that hold data, cells joined by a dash; the row above a rule only names them."""
    rows = [(match.start(), match.end(), match["cells"]) for match in _ROW.finditer(text)]
    rules = {at for at, (_, _, cells) in enumerate(rows) if _RULE.fullmatch(cells)}
    for at, (start, end, cells) in enumerate(rows):
        parts = [part.strip() for part in cells.split("|") if part.strip()]
        data = at not in rules and at + 1 not in rules and len(parts) > 1
        yield Block(start, end, " — ".join(parts) if data else "")
