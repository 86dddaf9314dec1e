"""Filters of a search, such as `date>=2025-01`: the keys and operators, the only parser, and the tests in SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from turnmark.core.errors import ErrorCollector
from turnmark.core.untrusted import one_line, valid_text
from turnmark.corpora.text.languages import code_of

PASSAGE_KEYS = ("document", "title", "path", "section", "page")
"""Keys that are columns of passages."""
FOLDER, LANGUAGE, DATE, INDEX = "folder", "language", "date", "index"
WHERE_KEYS = (*PASSAGE_KEYS, FOLDER, LANGUAGE, DATE, INDEX)
"""The keys of every index. The keys of front matter come from the documents."""
WHERE_HELP = (
    "Only documents that match, e.g. path=bread/*, folder=bread, date>=2025-01, language=de, or a key of front matter "
    "such as tags=baking; repeatable, and all must match"
)
"""Help of `--where`."""
ONE_OF = "in"
"""An operator that nobody types: the value is a list of values as JSON."""

_CONDITION = re.compile(r"\s*([^\s<>=][^<>=]*?)\s*(<=|>=|<|>|=)\s*(.*?)\s*", re.DOTALL)
_DATE = re.compile(r"\d{4}(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?)?")
_WRITTEN_DATE = re.compile(r"(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?(?![\d-])")
_AFTER_DATE = "~"
"""Follows every character of a date, so that a month with it follows all of its days."""
# The first value is the stored one. A stored year without a month is not before a month of the same year.
_DATE_TESTS = {
    "=": "\"value\" GLOB ? || '*'",
    ">=": '"value" >= ?',
    ">": f"\"value\" > ? || '{_AFTER_DATE}'",
    "<": f"\"value\" || '{_AFTER_DATE}' < ?",
    "<=": f"\"value\" || '{_AFTER_DATE}' <= ? || '{_AFTER_DATE}'",
}


class Condition(NamedTuple):
    """A condition of a filter: the value of a key is compared with a glob (`=`), or with a date."""

    key: str
    operator: str
    value: str

    def __str__(self) -> str:
        return f"{self.key}{self.operator}{self.value}"


Where = tuple[Condition, ...]
"""A filter: a passage must meet all of its conditions."""
GivenWhere = str | Sequence[str] | Mapping[str, str] | Where
"""A filter as callers write it: one condition, several, or values by key (`{"path": "a/*", "date>=": "2025"}`)."""


def parse_where(given: GivenWhere, errors: ErrorCollector | None = None) -> Where:
    """Parse a filter.

    Args:
        errors: mistakes are added to it, and the other conditions are returned.

    Raises:
        RequestError: conditions are malformed, and `errors` is None; all of them are named.
    """
    if errors is None:
        where = parse_where(given, errors := ErrorCollector())
        errors.raise_all()
        return where
    parsed = [each if isinstance(each, Condition) else _parse(each, errors) for each in _listed(given or ())]
    return tuple(dict.fromkeys(filter(None, parsed)))


def where_texts(given: GivenWhere) -> tuple[str, ...]:
    """Return the conditions of a filter as text."""
    return tuple(map(str, _listed(given)))


def _listed(given: GivenWhere) -> Sequence[str | Condition]:
    if isinstance(given, str):
        return [given]
    if isinstance(given, Mapping):
        return [f"{key}{'' if str(key).endswith(tuple('<>=')) else '='}{value}" for key, value in given.items()]
    return given


def _parse(text: str, errors: ErrorCollector) -> Condition | None:
    found = _CONDITION.fullmatch(valid_text(str(text)))
    if not found:
        errors.add(f"--where {one_line(repr(text))}: write KEY=GLOB, or a comparison of dates such as date>=2025-01")
        return None
    key, operator, value = found[1].lower(), found[2], found[3]
    if operator != "=" and key in WHERE_KEYS and key != DATE:
        errors.add(f"--where {one_line(text)}: only dates are compared; write {key}=GLOB")
    elif (key == DATE or operator != "=") and not _DATE.fullmatch(value):
        errors.add(f"--where {one_line(text)}: write a date such as 2025, 2025-01 or 2025-01-31 after {operator}")
    elif key == LANGUAGE:
        value = code_of(value.lower())
    return Condition(key, operator, value)


def normal_date(text: str) -> str:
    """Return the date with which a text begins, such as 2025, 2025-01 or 2025-01-31; empty without one."""
    found = _WRITTEN_DATE.match(text)
    date = "-".join(part.zfill(2) for part in found.groups() if part) if found else ""
    return date if _DATE.fullmatch(date) else ""


def in_index(where: Where, name: str, names: Sequence[str] = ()) -> Where | None:
    """Return the filter within one index, without the key `index`, or None if nothing in this index matches.

    A glob for `document` may begin with `INDEX:`, as the ids do if several indexes are searched.

    Args:
        names: the names of all indexes that are searched together.
    """
    kept = []
    for condition in where:
        if condition.key == INDEX:
            if not fnmatchcase(name, literal_brackets(condition.value)):
                return None
            continue
        index, colon, document = condition.value.partition(":")
        if condition.key == "document" and colon and index in names:
            if index != name:
                return None
            condition = condition._replace(value=document)
        kept.append(condition)
    return tuple(kept)


def literal_brackets(glob: str) -> str:
    """Return a glob in which only `*` and `?` are special, although SQLite and fnmatch also treat `[` as special."""
    return glob.replace("[", "[[]")


def is_of_passage(condition: Condition) -> bool:
    """Return whether the columns of a passage decide about a condition."""
    return condition.key in (*PASSAGE_KEYS, FOLDER)


def is_of_fields(condition: Condition) -> bool:
    """Return whether a condition is about the date or the front matter of documents."""
    return condition.key == DATE or condition.key not in WHERE_KEYS


def column_of(condition: Condition) -> str:
    """Return the column of passages that decides about a condition."""
    return "path" if condition.key == FOLDER else condition.key if condition.key in PASSAGE_KEYS else "document"


def sql_tests(where: Where) -> tuple[str, list[str]]:
    """Return the condition in SQL under which a row matches a filter, and its values.

    The row has the columns of a passage. Other keys need the tables `documents` and `fields` of the passages.
    """
    tests = list(map(_test, where))
    return " AND ".join(["1", *(test for test, _ in tests)]), [value for _, values in tests for value in values]


def _test(condition: Condition) -> tuple[str, list[str]]:
    key, operator, value = condition
    glob = literal_brackets(value)
    if operator == ONE_OF:
        return f'"{column_of(condition)}" IN (SELECT value FROM json_each(?))', [value]
    if key == FOLDER:
        return '"path" GLOB ?', [f"{glob.strip('/')}/*"]
    if key in PASSAGE_KEYS:
        return f'"{key}" GLOB ?', [glob]
    if key == LANGUAGE:
        return '"document" IN (SELECT "id" FROM documents WHERE "language" GLOB ?)', [glob]
    is_date = key == DATE or operator != "="
    test = f"\"value\" GLOB '[0-9][0-9][0-9][0-9]*' AND {_DATE_TESTS[operator]}" if is_date else '"value" GLOB ?'
    return f'"document" IN (SELECT "document" FROM fields WHERE "key" = ? AND {test})', [
        key,
        value if is_date else glob,
    ]


def one_of(key: str, values: Sequence[str]) -> Condition:
    """Return the condition that a key has one of some values."""
    return Condition(key, ONE_OF, json.dumps(list(values)))
