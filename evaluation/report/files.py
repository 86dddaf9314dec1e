"""Every table of a report as a file of its own: CSV for whoever computes on, LaTeX for whoever writes a paper."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from turnmark.corpora.home import write_atomic
from turnmark.evaluation.report.overview import Document
from turnmark.evaluation.report.tables import Table

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "†": r"\dag{}", "●": r"$\bullet$", "○": r"$\circ$",
    "◐": r"$\circ\!\bullet$", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def as_csv(table: Table) -> str:
    """Heads in the first line, every cell as it is shown; rows that name the rows below them have that cell alone."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.title for column in table.columns])
    writer.writerows(row.cells for row in table.rows)
    return text.getvalue()


def as_latex(table: Table) -> str:
    """A `tabular` with booktabs' rules; what is said beneath the table is its caption's second part."""
    width = len(table.columns)
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{''.join('lr'[c.number] for c in table.columns)}}}"]
    lines += [r"\toprule", _line(column.title for column in table.columns), r"\midrule"]
    for number, row in enumerate(table.rows):
        if row.kind == "group":
            lines += [r"\midrule"] * bool(number)
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\textbf{{{escaped(row.cells[0])}}}}} \\")
        else:
            bold = row.kind == "ours"
            lines.append(_line(row.cells, r"\textbf{%s}" if bold else "%s"))
    caption = " ".join([table.title, *table.lines])
    lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{escaped(caption)}}}", r"\end{table}", ""]
    return "\n".join(lines)


def escaped(text: str) -> str:
    """A text that LaTeX sets as it is."""
    return "".join(_SPECIAL.get(char, char) for char in " ".join(text.split()))


def _line(cells: Iterable[str], form: str = "%s") -> str:
    return " & ".join(form % escaped(cell) if cell else "" for cell in cells) + r" \\"


def write(documents: Iterable[Document], folder: Path, suffix: str, form: Callable[[Table], str]) -> list[Path]:
    """A file for each table: `NN-title.SUFFIX`, in the order of the report.

    Returns:
        The files, as they were written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for number, table in enumerate(_tables(documents), 1):
        slug = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")[:60].rstrip("-") or "table"
        path = folder / f"{number:02}-{slug}.{suffix}"
        write_atomic(path, form(table))
        written.append(path)
    return written


def _tables(documents: Iterable[Document]) -> Iterator[Table]:
    return (table for document in documents for table in document.tables if table.rows)
