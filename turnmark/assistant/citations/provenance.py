"""Show how a computed source was made: its statement, and the rows that it rests on."""

from __future__ import annotations

from collections.abc import Iterator

from turnmark.assistant.types import Citation
from turnmark.core.plural import count_phrase
from turnmark.core.untrusted import make_printable, one_line

SIGNIFICANT_DIGITS = 15
"""Maximum digits of a real number that are shown; further digits come from its binary form and mean nothing."""


def format_cell_value(value: object) -> str:
    """Return a value of a row as text on one line."""
    if value is None:
        return "NULL"
    return f"{value:.{SIGNIFICANT_DIGITS}g}" if isinstance(value, float) else one_line(value)


def provenance_lines(citation: Citation) -> Iterator[str]:
    """Yield the statement of a computed source, and the rows that it rests on; nothing for a passage."""
    if not citation.statement:
        return
    yield "computed with:"
    for line in make_printable(citation.statement).splitlines():
        yield f"  {line}"
    if not citation.basis:
        yield "the rows that it rests on are not known"
    for part in citation.basis:
        shown = f", the first {len(part.rows)}" if part.count > len(part.rows) else ""
        yield f"rests on {count_phrase(part.count, 'row')} of {one_line(part.table)}{shown}:"
        yield f"  {' | '.join(map(one_line, part.columns))}"
        for row in part.rows:
            yield f"  {' | '.join(map(format_cell_value, row))}"
