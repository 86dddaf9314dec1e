"""Readable names of stored tables and their columns in SQL, which need no quotation marks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath

MAX_NAME_LENGTH = 40
ROW_NUMBER, TOTAL_COLUMN = "row_number", "is_total"
"""Columns of every stored table: the number of the row in its sheet, and whether the row repeats others."""
TEXT_ENDING = "_text"
"""Ending of the name of the column that has the cells of another column as displayed."""
INTERNAL_PREFIX = "turnmark_"
"""Beginning of the names of the tables that are not tables of documents."""
_ACCENTS = re.compile("[\u0300-\u036f]")
"""Accents, but not the marks of Japanese and Indian letters."""
_KEYWORDS = frozenset(
    """abort action add after all alter always analyze and as asc attach autoincrement before begin between by cascade
    case cast check collate column commit conflict constraint create cross current current_date current_time
    current_timestamp database default deferrable deferred delete desc detach distinct do drop each else end escape
    except exclude exclusive exists explain fail filter first following for foreign from full generated glob group
    groups having if ignore immediate in index indexed initially inner insert instead intersect into is isnull join key
    last left like limit match materialized natural no not nothing notnull null nulls of offset on or order others
    outer over partition plan pragma preceding primary query raise range recursive references regexp reindex release
    rename replace restrict returning right rollback row rows savepoint select set table temp temporary then ties to
    transaction trigger unbounded union unique update using vacuum values view virtual when where window with
    without true false rowid oid _rowid_""".split()
)


def remove_accents(text: str) -> str:
    """Return a text in which letters have no accents and characters their compatible form (NFKC)."""
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def make_slug(text: str, fallback: str, length: int = MAX_NAME_LENGTH) -> str:
    """Return a text as a name: lower case, without accents, words joined by underscores; never a keyword of SQL.

    Args:
        fallback: begins the name if the text is empty or begins with a digit.
        length: maximum number of characters.
    """
    bare = remove_accents(text.replace("ß", "ss").replace("%", " percent ").replace("#", " number "))
    name = re.sub(r"[\W_]+", "_", bare.lower()).strip("_")[:length].rstrip("_")
    if not name:
        return fallback
    if not name[0].isalpha() or name.startswith((INTERNAL_PREFIX, "sqlite_")):
        name = f"{fallback}_{name}"[:length].rstrip("_")
    return f"{name}_" if name in _KEYWORDS else name


def make_unique(name: str, taken: Collection[str], companion: str = "") -> str:
    """Return a name that is not taken: the name itself, or the name with a number.

    Args:
        companion: an ending. The name with this ending is not taken either.
    """
    length = MAX_NAME_LENGTH - len(companion)
    number, result = 1, name
    while result in taken or (companion and result + companion in taken):
        number += 1
        end = f"_{number}"
        result = name[: length - len(end)].rstrip("_") + end
    return result


def table_name(document: str, sheet: str, taken: Collection[str]) -> str:
    """Return the name of a table: the name of the file and, if it has several, of the sheet."""
    stem = PurePosixPath(document).stem or document
    if sheet and make_slug(sheet, "") not in ("", make_slug(stem, "")):
        room = MAX_NAME_LENGTH // 2
        end = make_slug(sheet, "t")[: MAX_NAME_LENGTH - 1 - min(room, len(make_slug(stem, "t")))]
        start = make_slug(stem, "t")[: MAX_NAME_LENGTH - 1 - len(end)].strip("_")
        return make_unique(f"{start}_{end}".strip("_"), taken)
    return make_unique(make_slug(stem, "t"), taken)


def column_names(labels: Sequence[str], typed: Sequence[bool]) -> list[tuple[str, str]]:
    """Return the name of each column, and of the column with its cells as displayed (empty for columns of text).

    The second name is always the first one with `TEXT_ENDING`, so that either name can be told from the other.

    Args:
        typed: whether the column has values other than text.
    """
    taken = {ROW_NUMBER, TOTAL_COLUMN}
    names: list[tuple[str, str]] = []
    for label, has_text in zip(labels, typed, strict=True):
        ending = TEXT_ENDING if has_text else ""
        name = make_unique(make_slug(label, "c", MAX_NAME_LENGTH - len(ending)), taken, ending)
        text_name = f"{name}{TEXT_ENDING}" if has_text else ""
        taken |= {name, text_name}
        names.append((name, text_name))
    return names


def schema_names(indexes: Sequence[str]) -> list[str]:
    """Return the name in SQL of the file of each index: the name of the index, if need be with a number.

    SQLite ignores the case of names, and calls two files of its own `main` and `temp`.
    """
    taken = {"main", "temp"}
    names: list[str] = []
    for index in indexes:
        number, name = 1, index
        while name.lower() in taken:
            number += 1
            name = f"{index}_{number}"
        taken.add(name.lower())
        names.append(name)
    return names


def quote_if_needed(name: str) -> str:
    """Return a name for SQL: between quotation marks if it is a keyword or has other than word characters."""
    is_plain = re.fullmatch(r"[^\W\d]\w*", name) and name.lower() not in _KEYWORDS
    return name if is_plain else quote_name(name)


def quote_name(name: str) -> str:
    """Return a name between quotation marks, for SQL."""
    return '"' + name.replace('"', '""') + '"'
