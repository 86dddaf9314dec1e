"""The result of a statement over tables as a source, and its text."""

from __future__ import annotations

from collections.abc import Sequence

from turnmark.assistant.citations.provenance import format_cell_value
from turnmark.assistant.llm.prompts.context_budget import shorten
from turnmark.assistant.llm.prompts.tool_definitions import MAX_ARGUMENT_CHARACTERS, SQL_ID, fitting_lines, short_line
from turnmark.core.plural import count_phrase
from turnmark.corpora.types import Passage
from turnmark.retrieval.tables.table_records import QueryResult, StoredTable

MAX_CELL_CHARACTERS = 200
"""Maximum characters of a cell that is shown to a model."""


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
    """Return the rows of a result as text, as many as fit, below their column names."""

    def lines(most: int) -> list[str]:
        shown = [" | ".join(result.columns)]
        for row in result.rows[:most]:
            shown.append(" | ".join(short_line(format_cell_value(value), MAX_CELL_CHARACTERS) for value in row))
        left = len(result.rows) - most + result.cut
        return shown + ([f"… and {count_phrase(left, 'more row')}"] if left > 0 else [])

    if not result.rows:
        return f"{' | '.join(result.columns)}\n(no rows)"
    return shorten("\n".join(fitting_lines(lines, len(result.rows), tokens)), tokens)


def table_place(table: StoredTable) -> str:
    """Return the document of a table and its place there, in one line."""
    path = table.path or table.document
    page = f"page {table.page}" if table.page else ""
    where = " › ".join(filter(None, (path, table.section or table.sheet, table.caption)))
    return short_line(", ".join(filter(None, (where, page))), 2 * MAX_ARGUMENT_CHARACTERS)
