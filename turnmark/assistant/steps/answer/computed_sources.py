"""The result of a statement over tables as a source, and its text."""

from __future__ import annotations

from collections.abc import Sequence

from turnmark.assistant.citations.provenance import format_cell_value
from turnmark.assistant.llm.prompts.context_budget import shorten
from turnmark.assistant.llm.prompts.tool_definitions import MAX_ARGUMENT_CHARACTERS, SQL_ID, fitting_lines, short_line
from turnmark.core.plural import count_phrase
from turnmark.corpora.tables.column_types import CellValue
from turnmark.corpora.types import Passage
from turnmark.retrieval.tables.sql_queries import LAST_ROWS
from turnmark.retrieval.tables.table_records import MAX_WHOLE_ROWS, QueryResult, StoredTable

MAX_CELL_CHARACTERS = 200
"""Maximum characters of a cell that is shown to a model."""
MAX_SHOWN_ROWS = MAX_WHOLE_ROWS
"""Maximum first rows of a result that are shown."""


def computed_source(statement: str, text: str, tables: Sequence[StoredTable]) -> Passage:
    """Return the result of a statement as a source, at the place of the first table that it read."""
    first = tables[0]
    places = [first.section or first.sheet or first.caption]
    for table in tables[1:]:
        places.append(table_place(table) if table.document != first.document else table.section or table.sheet)
    return Passage(
        id=f"{SQL_ID}{statement}",
        document=first.document,
        title=first.title,
        path=first.path,
        section="; ".join(dict.fromkeys(filter(None, places))),
        page=first.page,
        index=first.index,
        text=text,
        start=first.start,
        end=first.end,
    )


def format_rows(result: QueryResult, tokens: int) -> str:
    """Return the rows of a result as text below their column names; of a long one, its number, first and last rows."""
    count = len(result.rows) + result.cut
    last = (result.last_rows or result.rows)[-LAST_ROWS:]

    def lines(most: int) -> list[str]:
        first = result.rows[:most]
        left = count - len(first) - len(last)
        if left <= 0:
            first, left = (*result.rows, *result.last_rows), 0
        text = [f"{count:,} rows"] * (count > 1)
        text += [" | ".join(result.columns), *map(_line, first)]
        return [*text, f"… {count_phrase(left, 'further row')} …", *map(_line, last)] if left else text

    if not result.rows:
        return f"{' | '.join(result.columns)}\n(no rows)"
    return shorten("\n".join(fitting_lines(lines, min(len(result.rows), MAX_SHOWN_ROWS), tokens)), tokens)


def _line(row: Sequence[CellValue]) -> str:
    return " | ".join(short_line(format_cell_value(value), MAX_CELL_CHARACTERS) for value in row)


def table_place(table: StoredTable) -> str:
    """Return the document of a table and its place there, in one line."""
    path = table.path or table.document
    page = f"page {table.page}" if table.page else ""
    where = " › ".join(filter(None, (path, table.section or table.sheet, table.caption)))
    return short_line(", ".join(filter(None, (where, page))), 2 * MAX_ARGUMENT_CHARACTERS)
