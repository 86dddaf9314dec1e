"""Parses a SELECT, and rewrites it into queries of the rows that its result rests on."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from turnmark.core.errors import RequestError

_MAX_QUERIES = 12
_COMMENT = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)


class RowQuery(NamedTuple):
    """Two queries for the rows of one table that a result rests on: their rowids, and their number."""

    table: str
    row_ids: str
    row_count: str


class Statement:
    """A statement that a model wrote.

    Args:
        most: maximum number of characters.

    Raises:
        RequestError: it is empty, too long or does not begin as a SELECT.
    """

    def __init__(self, text: str, most: int) -> None:
        # Stored cells are composed (NFC), too; names from a Mac have letters and accents apart.
        self.text = unicodedata.normalize("NFC", text).strip().rstrip(";").strip()
        if not self.text:
            raise RequestError("the statement is empty; write one SELECT")
        if len(self.text) > most:
            raise RequestError(f"the statement has more than {most:,} characters; shorten it")
        begins = _COMMENT.match(self.text)
        first = re.match(r"\w*", self.text[begins.end() if begins else 0 :])
        if first is None or first.group().lower() not in ("select", "with", "values"):
            raise RequestError("the statement is refused: it is not a SELECT; write one SELECT over the tables")

    def defined_names(self) -> frozenset[str]:
        """Return the names that the statement defines in WITH, in lower case."""
        from sqlglot import exp

        return frozenset(each.alias.lower() for each in self._tree.find_all(exp.CTE)) if self._tree else frozenset()

    @cached_property
    def _tree(self) -> Any:
        """The parsed statement, or None if it cannot be parsed."""
        import sqlglot

        logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
        try:
            return sqlglot.parse_one(self.text, dialect="sqlite")
        except (sqlglot.errors.SqlglotError, RecursionError, ValueError):
            return None

    def quoted_names(self) -> list[str]:
        """Return the columns without a table that stand between double quotation marks and are not defined in it."""
        if self._tree is None:
            return []
        from sqlglot import exp

        aliases = list(self._tree.find_all(exp.Alias, exp.TableAlias))
        defined = {(each.alias or each.name).lower() for each in aliases}
        defined |= {column.name.lower() for each in aliases for column in each.args.get("columns") or ()}
        columns = self._tree.find_all(exp.Column)
        names = [each.name for each in columns if each.this.args.get("quoted") and not each.table]
        return [name for name in names if name.lower() not in defined]

    def row_queries(self, known: Mapping[str, str]) -> list[RowQuery]:
        """Return queries for the rows of each table in each SELECT; empty if the statement is too complex.

        A SELECT without its aggregates, GROUP BY, HAVING and LIMIT returns the rows that its result rests on. If it
        does not group, its ORDER BY stays, so that the rows come in the same order.

        Args:
            known: lower-case name of a table -> its name.
        """
        if self._tree is None:
            return []
        try:
            queries = list(self._queries(known))
        except (RecursionError, ValueError, AttributeError, KeyError):
            return []
        return queries if len(queries) <= _MAX_QUERIES else []

    def _queries(self, known: Mapping[str, str]) -> Iterator[RowQuery]:
        from sqlglot import exp

        common = self._tree.args.get("with_") or self._tree.args.get("with")
        defined = {each.alias.lower() for each in common.expressions} if common else set()
        for select in self._tree.find_all(exp.Select):
            for source in _sources(select):
                if not isinstance(source, exp.Table) or (source.name.lower() in defined and not source.db):
                    continue
                name = f"{source.db}.{source.name}" if source.db else source.name
                table = _known_name(name.lower(), known)
                if table is None:
                    continue
                alias = exp.to_identifier(source.alias or source.name, quoted=True).sql(dialect="sqlite")
                yield RowQuery(table, *_rewrite(select, alias, common))


def _sources(select: Any) -> list[Any]:
    """Return the tables and subqueries in FROM and JOIN of a SELECT."""
    begin = select.args.get("from_") or select.args.get("from")
    joins = [join.this for join in select.args.get("joins") or ()]
    return [*([begin.this] if begin else []), *joins]


def _known_name(name: str, known: Mapping[str, str]) -> str | None:
    """Return a table by the name in a statement, in which the name of its index may be missing or quoted."""
    if name in known:
        return known[name]
    plain = {key.replace('"', ""): value for key, value in known.items()}
    if name in plain:
        return plain[name]
    ends = [value for key, value in plain.items() if key.endswith(f".{name}")]
    return ends[0] if len(ends) == 1 else None


def _rewrite(select: Any, alias: str, common: Any) -> tuple[str, str]:
    """Return the queries for the rowids of one table of a SELECT, and for their number."""
    from sqlglot import exp

    groups = bool(select.args.get("group") or select.args.get("having")) or any(
        each.find(exp.AggFunc) for each in select.expressions
    )
    query = select.copy()
    for part in ("group", "having", "limit", "offset", "distinct", "windows", "qualify", "with_", "with"):
        query.set(part, None)
    if groups or _mentions_own_names(query):
        query.set("order", None)
    ordered = query.copy()
    query.set("order", None)
    begins = f"{common.sql(dialect='sqlite')} " if common else ""
    for each, column in ((ordered, f"{alias}.rowid"), (query, f"COUNT(DISTINCT {alias}.rowid)")):
        each.set("expressions", [exp.maybe_parse(column, dialect="sqlite")])
    return begins + ordered.sql(dialect="sqlite"), begins + query.sql(dialect="sqlite")


def _mentions_own_names(query: Any) -> bool:
    """Return whether ORDER BY names a result column by its number or alias, which the rewritten query lacks."""
    from sqlglot import exp

    order = query.args.get("order")
    if not order:
        return False
    aliases = {each.alias.lower() for each in query.expressions if isinstance(each, exp.Alias)}
    return any(
        isinstance(each.this, exp.Literal) or each.find(exp.Window)
        or any(column.name.lower() in aliases for column in each.find_all(exp.Column))
        for each in order.expressions
    )  # fmt: skip
