"""The tools with which a model computes over the tables of the documents: `tables` lists them, `sql` runs a SELECT.

The result of a statement is a numbered source. Its citation carries the statement and the rows that it rests on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from turnmark.assistant.citations.provenance import format_cell_value
from turnmark.assistant.llm.prompts.context_budget import count_tokens, shorten
from turnmark.assistant.llm.prompts.tool_definitions import (
    COUNT_ID,
    MAX_ARGUMENT_CHARACTERS,
    Result,
    define_tool,
    fitting_lines,
    short_line,
)
from turnmark.assistant.steps.answer.answer_llm import format_section
from turnmark.assistant.steps.answer.computed_sources import (
    MAX_CELL_CHARACTERS,
    computed_source,
    format_rows,
    table_place,
)
from turnmark.assistant.steps.retrieve.long_tables import count_rows
from turnmark.assistant.steps.step_results import Computation, SourceList
from turnmark.core.plural import count_phrase
from turnmark.core.untrusted import escape_marks, one_line, quote_lines
from turnmark.corpora.types import Passage
from turnmark.retrieval.storage.filters import Where
from turnmark.retrieval.tables.table_records import MAX_WHOLE_ROWS, QueryResult, StoredTable, TableColumn
from turnmark.retrieval.tables.table_store import FoundTable, TableStore
from turnmark.retrieval.types import Hit

TABLE_TOOLS = (
    define_tool(
        "tables", "Lists the tables that sql reads: columns, units, ranges, values, number of rows, first rows.", "",
        words="all in names, headings or cells; default: all", where="as in search",
    ),
    define_tool(
        "sql", "Runs one SELECT of SQLite over the tables. Each has row_number (in the file) and is_total, too.",
        "statement", statement="with names as listed",
    ),
)  # fmt: skip
MAX_LISTED_TABLES, MAX_LISTED_COLUMNS, MAX_SAMPLE_ROWS = 10, 60, 3
"""Maximum tables that a list describes, and maximum columns and rows that are shown of each."""
MAX_HINTS, MAX_HINT_COLUMNS = 3, 30
"""Maximum tables that are described because the message names them or a section of the first search shows them, and
maximum columns that are shown of each."""
MAX_RELATED_HINTS = 6
"""Maximum tables that are described, with those of the same documents. With no more tables than this in all, every
long one is described."""
MAX_HINT_VALUES = 6
"""Maximum values of a column of text that a hint lists."""
MAX_HINT_ROWS, MAX_HINT_CELL_CHARACTERS = 2, 40
"""Rows that are shown of a table that the message names and no section shows, and maximum characters of their cells."""
_MAX_UNIT_CHARACTERS = 20


class TableTools:
    """The tools `tables` and `sql` of one turn."""

    def __init__(self, message: str, store: TableStore, sources: SourceList) -> None:
        self.message, self.store, self.sources = message, store, sources

    def tables(self, words: str, where: Where, tokens: int) -> Result:
        """Describe the tables that match, best first, as a numbered source."""
        every = self.store.tables(where)
        found = self.store.find(words, where)
        line = count_phrase(len(every), "table")
        if words:
            having = sum(not each.lacks for each in found)
            line = f"{having or 'none'} of {line} {'have' if having > 1 else 'has'} all of “{short_line(words, 60)}”"
        shown = found or [FoundTable(table) for table in every]

        def described(most: int) -> list[str]:
            lines = [line for each in shown[:most] for line in self._described(each)]
            lines += [line for each in shown[:most] for line in self._shown_rows(each.table)]
            left = [each.table.name for each in shown[most:]]
            return lines + ([f"… and {_list_names(left, MAX_LISTED_TABLES, 'more table')}"] if left else [])

        text = shorten("\n".join(fitting_lines(described, MAX_LISTED_TABLES, tokens)), tokens)
        title = f"Tables: {line}"
        passage = Passage(id=f"{COUNT_ID}{title}", document=line, title=title, text=text, start=0, end=len(text))
        [number] = self.sources.number([Hit(passage=passage, score=0.0)])
        return Result(format_section(number, passage), f"{line} [{number}]")

    def _described(self, found: FoundTable) -> Iterator[str]:
        """Yield lines with the name, place and columns of a table, and the words that it lacks."""
        table = found.table
        lacks = f"; lacks {short_line(', '.join(found.lacks), MAX_ARGUMENT_CHARACTERS)}" if found.lacks else ""
        yield f"{table.name}: {table_place(table)}; {_size(table)}{lacks}"
        yield f"  columns: {', '.join(_columns(table, MAX_LISTED_COLUMNS, labels=True))}"

    def _shown_rows(self, table: StoredTable) -> Iterator[str]:
        """Yield the name and the first rows of a table."""
        yield f"first rows of {table.name}:"
        yield from self._first_rows(table, MAX_SAMPLE_ROWS, MAX_LISTED_COLUMNS, MAX_CELL_CHARACTERS)

    def _first_rows(self, table: StoredTable, rows: int, columns: int, characters: int) -> Iterator[str]:
        """Yield the first rows of a table as displayed."""
        for row in self.store.first_rows(table, rows, shown=True):
            cells = ["" if cell is None else short_line(str(cell), characters) for cell in row[:columns]]
            yield f"  {' | '.join(cells)}"

    def sql(self, statement: str, tokens: int) -> Result:
        """Run a statement, and return its rows as a numbered source."""
        result = self.store.run(statement)
        remarks = "\n".join(_remarks(statement, result))
        text = format_rows(result, tokens - count_tokens(statement) - count_tokens(remarks))
        found = count_phrase(len(result.rows) + result.cut, "row")
        if len(result.rows) == 1 and not result.cut:
            found = short_line(" | ".join(map(format_cell_value, result.rows[0])), MAX_ARGUMENT_CHARACTERS)
        if not result.tables:
            return Result(f"{quote_lines(text)}\nIt reads no table, so it is no source.", found)
        passage = computed_source(statement, text, result.tables)
        self.sources.computed[passage.id] = Computation(statement, result)
        [number] = self.sources.number([Hit(passage=passage, score=0.0)])
        return Result(f"{format_section(number, passage)}\n{remarks}".strip(), f"{found} [{number}]")

    def hints(self) -> str:
        """Return a line for each table that the message names or a section shows, for a model that computes at once.

        The other sheets of their workbooks follow, and the long tables if all tables are few.
        """
        numbers_of: dict[str, list[int]] = {}
        every = self.store.tables()
        message = self.message.lower()
        tables = {table.name: table for table in every if _is_named(table, message)}
        for number, hit in enumerate(self.sources.hits, 1):
            for table in every:
                if _shows(hit.passage, table):
                    tables[table.name] = table
                    numbers_of.setdefault(table.name, []).append(number)
        # Small tables are shown as a whole, so they must not displace one that only sql can read.
        first = sorted(tables.values(), key=lambda table: table.name in numbers_of and table.rows <= MAX_WHOLE_ROWS)
        tables = {table.name: table for table in first[:MAX_HINTS]}
        documents = {table.document for table in tables.values()}
        is_few = bool(tables) and len(every) <= MAX_RELATED_HINTS
        related = {
            table.name: table
            for table in every
            if (table.sheet and table.document in documents) or (is_few and table.rows > MAX_WHOLE_ROWS)
        }
        lines = []
        for name, table in [*(tables | related).items()][:MAX_RELATED_HINTS]:
            marks = "".join(f"[{number}]" for number in numbers_of.get(name, ())) or escape_marks(table_place(table))
            size = _size(table)
            if name in numbers_of and table.rows > MAX_WHOLE_ROWS:
                shown = sum(count_rows(self.sources.hits[number - 1].passage) for number in numbers_of[name])
                size += f", {shown} shown" if shown < table.rows else ""  # a section may show other tables, too
            lines.append(f"{marks} {name} ({size}): {escape_marks(', '.join(_columns(table, MAX_HINT_COLUMNS)))}")
            if name in tables and name not in numbers_of:  # nothing else shows how its cells look
                rows = self._first_rows(table, MAX_HINT_ROWS, MAX_HINT_COLUMNS, MAX_HINT_CELL_CHARACTERS)
                lines += map(escape_marks, rows)
        return quote_lines("\n".join(lines)) if lines else ""


def _is_named(table: StoredTable, message: str) -> bool:
    """Return whether a message, in lower case, has the SQL name of a table or the name of its file."""
    names = {table.name.lower(), PurePosixPath(table.path or table.document).name.lower()}
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message) for name in names if name)


def _shows(passage: Passage, table: StoredTable) -> bool:
    """Return whether a passage shows a part of a table."""
    overlaps = passage.document == table.document and table.start < passage.end and passage.start < table.end
    return overlaps or table.has_row(passage)


def _remarks(statement: str, result: QueryResult) -> Iterator[str]:
    """Yield what the model should know about a result: totals among the rows, units, unreadable cells, no match."""
    names = set(re.findall(r"\w+", statement.lower()))
    count = len(result.rows) + result.cut
    if count > MAX_WHOLE_ROWS:
        yield f"Do not list all {count:,} rows: give their number and some. /export writes them to a file."
    for table in result.tables:
        basis = next((each for each in result.basis if each.table == table.name), None)
        totals = 0 if "is_total" in names else table.totals if result.no_basis else basis.totals if basis else 0
        if totals:
            rows = count_phrase(totals, "row")
            yield f"The result includes {rows} of {table.name} with totals of other rows: is_total = 0 leaves them out."
        used = [column for column in table.columns if column.name.lower() in names]
        units = [f"{column.name} in {short_line(column.unit, _MAX_UNIT_CHARACTERS)}" for column in used if column.unit]
        if units:
            yield f"Units: {', '.join(units)}."
        for column in used:
            yield from (f"{column.name}: {remark}; see {column.text_name or column.name}." for remark in column.remarks)
            if column.unparsed:
                cells = count_phrase(column.unparsed, "cell")
                yield f"{cells} of {column.name} could not be read as {column.type}: NULL; see {column.text_name}."
    if all(value in (None, 0) for row in result.rows for value in row):
        yield "Nothing matches. First look how it is spelled: LIKE '%…%', fold(column) = fold('…'), SELECT DISTINCT."


def _columns(table: StoredTable, most: int, labels: bool = False) -> Iterator[str]:
    """Yield each column with its type, unless that is text, its unit, and its range or values.

    Args:
        labels: whether to show the labels that differ from the names, and all listed values.
    """
    for column in table.columns[:most]:
        yield _describe_column(column, labels)
    left = len(table.columns) - most
    if left > 0:
        yield f"… and {count_phrase(left, 'more column')}"


def _describe_column(column: TableColumn, labels: bool) -> str:
    words = [column.name]
    if labels and re.sub(r"\W+", "_", column.label.lower()).strip("_") != column.name.lower():
        words.append(f"“{short_line(column.label, MAX_ARGUMENT_CHARACTERS)}”")
    if column.type != "text":
        words.append(column.type)
    if column.unit:
        words.append(f"in {short_line(column.unit, _MAX_UNIT_CHARACTERS)}")
    if column.low is not None:
        words.append("…".join(dict.fromkeys(map(format_cell_value, (column.low, column.high)))))
    elif column.values and (labels or len(column.values) <= MAX_HINT_VALUES):
        words.append(f"({'; '.join(short_line(value, MAX_HINT_CELL_CHARACTERS) for value in column.values)})")
    if labels and column.unparsed:
        words.append(f"({count_phrase(column.unparsed, 'cell')} NULL, see {column.text_name})")
    if labels and column.remarks:
        words.append(f"({'; '.join(column.remarks)})")
    return " ".join(words)


def _size(table: StoredTable) -> str:
    totals = f", {table.totals:,} of them totals" if table.totals else ""
    return f"{count_phrase(table.rows, 'row')}{totals}"


def _list_names(names: Iterable[str], most: int, noun: str) -> str:
    """Return how many names there are, and the first of them."""
    every = [one_line(name) for name in names]
    shown = ", ".join(every[:most]) + (", …" if len(every) > most else "")
    return f"{count_phrase(len(every), noun)}: {shown}"
