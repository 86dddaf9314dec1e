"""Shows a few rows of a long table to a model that computes over all of them with SQL.

Rows of a long table fill a prompt, and the answer is seldom among those that a search found. A short table is best read
as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from turnmark.corpora.tables.markdown_tables import tables_of
from turnmark.corpora.types import Passage
from turnmark.retrieval.tables.table_store import TableStore
from turnmark.retrieval.types import Hit

MAX_SHOWN_ROWS = 10
"""Number of shown rows of a longer table after which further passages with its rows are left out."""


def limit_rows(store: TableStore, hits: Iterable[Hit]) -> list[Hit]:
    """Return the hits, but none with rows of a long table of which earlier hits show `MAX_SHOWN_ROWS` rows."""
    shown: Counter[str] = Counter()
    kept = []
    for hit in hits:
        table = store.long_table_of(hit.passage)
        if table is None or shown[table.name] < MAX_SHOWN_ROWS:
            kept.append(hit)
        if table is not None:
            shown[table.name] += count_rows(hit.passage)
    return kept


def rows_left_out(store: TableStore, passages: Sequence[Passage]) -> Iterator[str]:
    """Yield a line for each long table with rows in some passages that says how many rows they leave out."""
    shown: Counter[str] = Counter()
    for passage in passages:
        if (table := store.long_table_of(passage)) is not None:
            shown[table.name] += count_rows(passage)
    for table in store.long_tables:
        if table.name in shown:
            yield f"… {table.rows - shown[table.name]:,} more rows: sql table {table.name}"


def count_rows(passage: Passage) -> int:
    """Return the number of rows of tables in a passage."""
    return sum(len(table.rows) for table in tables_of(passage.text, passage.header))
