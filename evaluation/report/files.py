"""Every table of a report as a separate file: CSV for whoever computes on, LaTeX for whoever writes a paper."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from turnmark.corpora.errors import ErrorCollector
from turnmark.corpora.home import write_atomic
from turnmark.evaluation.report.overview import ReportSection
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
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\textbf{{{escape_latex(row.cells[0])}}}}} \\")
        else:
            bold = row.kind == "ours"
            lines.append(_line(row.cells, r"\textbf{%s}" if bold else "%s"))
    caption = " ".join([table.title, *table.lines])
    lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{escape_latex(caption)}}}", r"\end{table}", ""]
    return "\n".join(lines)


def escape_latex(text: str) -> str:
    """A text that LaTeX sets as it is."""
    return "".join(_SPECIAL.get(char, char) for char in " ".join(text.split()))


def _line(cells: Iterable[str], form: str = "%s") -> str:
    return " & ".join(form % escape_latex(cell) if cell else "" for cell in cells) + r" \\"


def write(documents: Iterable[ReportSection], folder: Path, suffix: str, form: Callable[[Table], str]) -> list[Path]:
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


def _tables(documents: Iterable[ReportSection]) -> Iterator[Table]:
    return (table for document in documents for table in document.tables if table.rows)


# --- where a report may be written -----------------------------------------------------------------------------------

_END = 2_000  # bytes at either end of a file


def check_target(flag: str, path: Path, errors: ErrorCollector, marker: str) -> None:
    """Note why a file cannot be written; one that holds the marker of our reports can."""
    above = next((folder for folder in path.absolute().parents if folder.exists()), None)
    if path.is_dir():
        errors.add(f"{flag} {str(path)!r} is a folder; name a file")
    elif above is not None and not above.is_dir():
        errors.add(f"{flag} {str(path)!r}: {str(above)!r} is a file; name another folder")
    elif not path.exists() and not path.is_symlink():
        return
    elif not path.is_file():
        errors.add(f"{flag} {str(path)!r} is no regular file; name one")
    else:
        try:
            ours = not path.stat().st_size or marker.encode() in _ends(path)
        except OSError as error:
            errors.add(f"{flag} {str(path)!r} cannot be read: {error.strerror or error}; name another file")
            return
        if not ours:
            errors.add(f"{flag} {str(path)!r} is there already and is no report of this kind; name another file")


def _ends(path: Path) -> bytes:
    """The first bytes of a file and its last, where a report of ours says what it is."""
    with open(path, "rb") as file:
        head = file.read(_END)
        file.seek(max(len(head), path.stat().st_size - _END))
        return head + file.read(_END)
