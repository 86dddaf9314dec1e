"""Functions that statements over stored tables may call in addition to SQLite's own."""

from __future__ import annotations

import re
import sqlite3
from functools import lru_cache

from turnmark.corpora.tables.cell_numbers import read_number
from turnmark.corpora.text.segmentation import fold_name
from turnmark.retrieval.tables.sql_names import remove_accents

_MAX_TEXT = 10_000  # characters of a value that a function reads


def add_functions(db: sqlite3.Connection) -> None:
    """Add `number`, `fold` and a LIKE that ignores case in every script to a connection."""
    db.create_function("number", 1, _number, deterministic=True)
    db.create_function("fold", 1, fold, deterministic=True)
    # SQLite's own LIKE ignores the case of English letters only, and some patterns keep it busy for hours, during
    # which it cannot be interrupted.
    db.create_function("like", 2, _is_like, deterministic=True)
    db.create_function("like", 3, _is_like, deterministic=True)


def _number(value: object) -> int | float | None:
    """Return the number in a text: 1234.5 for "about 1,234.5 kg"."""
    if isinstance(value, int | float):
        return value
    text = str(value or "")[:_MAX_TEXT]
    shown = read_number(text.strip())
    if shown is None:
        first = re.search(r"[-−(]?\d+(?:[.,'’\u00a0\u202f]\d+)*", text)
        shown = read_number(first.group().strip("(")) if first else None
    if shown is None:
        return None
    return shown.point if shown.point is not None else shown.comma


def fold(value: object) -> str | None:
    """Return a text in lower case, without accents, and with one space between words."""
    if value is None:
        return None
    return " ".join(remove_accents(fold_name(str(value)[:_MAX_TEXT])).split())


def _is_like(pattern: object, value: object, escape: object = None) -> bool | None:
    """Return whether a value matches a pattern of LIKE, ignoring case."""
    if pattern is None or value is None:
        return None
    pieces = _like_pieces(str(pattern)[:_MAX_TEXT], str(escape) if escape else "")
    text = fold_name(str(value)[: 100 * _MAX_TEXT])
    first, *rest = pieces
    match = first.match(text)
    if match is None:
        return False
    if not rest:
        return match.end() == len(text)
    at = match.end()
    for piece in rest[:-1]:
        match = piece.search(text, at)
        if match is None:
            return False
        at = match.end()
    return any(
        found.end() == len(text) for found in [rest[-1].match(text, max(at, len(text) - _length(rest[-1])))] if found
    )


@lru_cache(maxsize=500)
def _like_pieces(pattern: str, escape: str) -> tuple[re.Pattern[str], ...]:
    """Return the parts of a pattern between its `%`. Each is found where it first occurs, without backtracking."""
    pieces = [""]
    escaped = False
    for character in fold_name(pattern):
        if escape and character == escape and not escaped:
            escaped = True
            continue
        if character == "%" and not escaped:
            pieces.append("")
        else:
            pieces[-1] += "." if character == "_" and not escaped else re.escape(character)
        escaped = False
    return tuple(re.compile(piece, re.DOTALL) for piece in pieces)


def _length(piece: re.Pattern[str]) -> int:
    """Return the number of characters that a part of a pattern matches."""
    return len(re.sub(r"\\(.)", r"\1", piece.pattern, flags=re.DOTALL))
