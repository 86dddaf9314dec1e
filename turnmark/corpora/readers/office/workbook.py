"""Reads Excel workbooks (.xlsx with openpyxl, .xls and .xlsb with calamine), CSV and TSV."""

from __future__ import annotations

import csv
import html
import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import date, datetime
from itertools import islice
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from turnmark.core.plural import count_phrase
from turnmark.corpora.readers.common.encodings import decode_or_guess
from turnmark.corpora.readers.common.prose import Unreadable, clean_text, first_line, title_from_name
from turnmark.corpora.readers.markup.markdown import parse_markdown
from turnmark.corpora.readers.office.archive import (
    WORKBOOK,
    OfficeMetadata,
    check_packed,
    count_comments,
    is_strict_part,
    parse_part,
    read_metadata,
    related_parts,
    write_with_usual_names,
)
from turnmark.corpora.readers.office.charts import (
    DRAWING,
    RELATIONSHIP,
    is_fallback,
    paragraph_text,
    picture_mark,
    read_chart,
    read_diagram,
)
from turnmark.corpora.readers.office.grid import (
    EMPTY_CELL,
    MAX_COLUMNS,
    Cell,
    CellBudget,
    Merge,
    Sheet,
    cell_of_text,
    chart_sheet,
    escape_line,
    sheet_text,
)
from turnmark.corpora.readers.office.grid_tables import tables_in
from turnmark.corpora.readers.office.number_format import format_value, round_to_stored_digits
from turnmark.corpora.readers.pictures.collector import PictureCollector
from turnmark.corpora.readers.registry import ProgressCallback
from turnmark.corpora.tables.data_tables import MAX_COLUMNS as MAX_STORED_COLUMNS
from turnmark.corpora.types import Document, Problem, TableData

MAX_SHEETS = 500
_SHEETS_FOLDER = "xl/worksheets/"
_MAX_STREAMED_BYTES = 4 * 1000**3  # for all sheets when unpacked
_MERGE = re.compile(rb'mergeCell [^>]*?ref="([A-Z]{1,3}\d{1,7}:[A-Z]{1,3}\d{1,7})"')
_HIDDEN_ROW = re.compile(rb'<(?:\w+:)?row (?=[^>]*?\bhidden="(?:1|true)")[^>]*?\br="(\d{1,7})"')
_BLANK_FORMULA = re.compile(
    rb'<(?:\w+:)?c r="([A-Z]{1,3}\d{1,7})"[^<>]{0,200}>\s*'
    rb"<(?:\w+:)?f\b[^<>]{0,300}(?:/>|>([^<]{0,2000})</(?:\w+:)?f>)"
    rb"\s*(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</(?:\w+:)?v>)?\s*</(?:\w+:)?c>"
)
_HYPERLINK = re.compile(
    r"HYPERLINK\(\s*(?:\"(?:[^\"]|\"\")*\"|[^,\"]{1,100}),\s*\"((?:[^\"]|\"\")+)\"\s*\)$", re.IGNORECASE
)
_CHUNK_BYTES = 1 << 20
_MAX_MATCH_BYTES = 4_000
_MAX_MERGES = 20_000
_MAX_NUMBERS = 10  # of columns in a remark
_PROGRESS_INTERVAL_ROWS = 5_000  # between two progress messages


def read_xlsx(path: Path, relative: str, progress: ProgressCallback) -> Iterator[Document | Problem]:
    """Read an Excel workbook; each sheet is a section."""
    check_packed(path, WORKBOOK, streamed=_SHEETS_FOLDER)
    with zipfile.ZipFile(path) as packed:
        total = sum(part.file_size for part in packed.infolist())
        if total > _MAX_STREAMED_BYTES:
            raise Unreadable(f"unpacks to {total / 1e9:.1f} GB, more than {_MAX_STREAMED_BYTES // 1000**3}; not opened")
        is_strict = "xl/workbook.xml" in packed.namelist() and is_strict_part(packed.read("xl/workbook.xml"))
    with TemporaryDirectory() as folder:
        usual = Path(folder) / "usual.xlsx"
        if is_strict:
            write_with_usual_names(path, usual)
        yield from _read_workbook(usual if is_strict else path, relative, progress)


def _read_workbook(path: Path, relative: str, progress: ProgressCallback) -> Iterator[Document | Problem]:
    left_out: Counter[str] = Counter()
    pictures = PictureCollector()
    try:
        sheets = list(_xlsx_sheets(path, progress, left_out, pictures))
    except (Unreadable, MemoryError, RecursionError):
        raise
    except Exception:
        # openpyxl is strict about styles that other programs write. calamine ignores styles.
        left_out.clear()
        sheets = _calamine(path, progress, left_out)
    progress(0, 0)
    return documents(sheets, relative, read_metadata(path), left_out, pictures=pictures)


def _xlsx_sheets(
    path: Path, progress: ProgressCallback, left_out: Counter[str], pictures: PictureCollector
) -> Iterator[Sheet]:
    import openpyxl

    with (
        zipfile.ZipFile(path) as packed,
        closing(openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)) as book,
    ):
        left_out["comments"] += count_comments(packed)
        budget = CellBudget()
        for number, worksheet in enumerate(book.worksheets):
            if worksheet.sheet_state != "visible":
                left_out["hidden sheets"] += 1
                continue
            if number >= MAX_SHEETS:
                return
            worksheet.reset_dimensions()  # the size that a file states is often wrong
            sheet = Sheet(worksheet.title)
            part = worksheet._worksheet_path.lstrip("/")
            sheet.hidden = {int(match[1]) - 1 for match in _matches(packed, part, _HIDDEN_ROW)}
            for index, row in enumerate(worksheet.iter_rows()):
                if index % _PROGRESS_INTERVAL_ROWS == 0:
                    progress(0, 0)
                if not sheet.take([_cell(cell.value, cell.number_format) for cell in row], budget):
                    break
            sheet.pack()
            sheet.merges = list(_xlsx_merges(packed, part))
            _note_formulas(sheet, packed, part)
            try:
                sheet.drawn = _drawings_on(packed, part, pictures)
            except Unreadable:
                left_out["broken drawings"] += 1
            yield sheet


def _cell(value: object, code: str | None = None) -> Cell:
    if value is None or value == "":
        return EMPTY_CELL
    if isinstance(value, str):
        return cell_of_text(clean_text(value))
    return Cell(format_value(value, code or "General"), False, _stored_value(value))


def _stored_value(value: object) -> str:
    """Return a number, or a date as ISO, as a text; empty for other values."""
    if isinstance(value, bool):
        return ""
    if isinstance(value, int | float):
        return repr(round_to_stored_digits(value))
    if isinstance(value, datetime):
        return str(value.replace(microsecond=0)).removesuffix(" 00:00:00")
    return value.isoformat() if isinstance(value, date) else ""


def _xlsx_merges(packed: zipfile.ZipFile, part: str) -> Iterator[Merge]:
    """Yield the merged cells of a sheet, which openpyxl does not report when it streams."""
    from openpyxl.utils.cell import range_boundaries

    for match in islice(_matches(packed, part, _MERGE), _MAX_MERGES):
        left, top, right, bottom = range_boundaries(match[1].decode())
        yield Merge(top - 1, left - 1, bottom, right)


def _note_formulas(sheet: Sheet, packed: zipfile.ZipFile, part: str) -> None:
    """Count the formulas without a stored value, which programs other than Excel write. Show the words of links."""
    from openpyxl.utils.cell import coordinate_to_tuple

    for match in _matches(packed, part, _BLANK_FORMULA):
        link = _HYPERLINK.match(html.unescape((match[2] or b"").decode("utf-8", "replace")))
        row, column = (number - 1 for number in coordinate_to_tuple(match[1].decode()))
        if row in sheet.hidden:
            continue
        if link and row < len(sheet.rows):
            cells = sheet.rows[row]
            cells += [EMPTY_CELL] * (column + 1 - len(cells))
            cells[column] = cell_of_text(clean_text(link[1].replace('""', '"')))
        else:
            sheet.blank_formulas += 1


def _matches(packed: zipfile.ZipFile, part: str, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    """Yield the matches of a pattern in a part, which is read piece by piece."""
    with packed.open(part) as content:
        carried = b""
        while chunk := content.read(_CHUNK_BYTES):
            piece = carried + chunk
            end = 0
            for match in pattern.finditer(piece):
                yield match
                end = match.end()
            carried = piece[max(end, len(piece) - _MAX_MATCH_BYTES) :]


# --- what is drawn on a sheet -----------------------------------------------------------------------------------------

_OTHER_BOOK = re.compile(r"'?\[")


def _drawings_on(packed: zipfile.ZipFile, sheet: str, pictures: PictureCollector) -> list[str]:
    """Return the charts, diagrams and text boxes on a sheet as pieces of Markdown, with the marks of pictures.

    The numbers of a chart that are in cells of the workbook are not repeated.

    Args:
        sheet: the part of the sheet.
    """
    pieces: list[str] = []
    for kind, place in related_parts(packed, sheet).values():
        drawing = parse_part(packed, place) if kind == "drawing" else None
        if drawing is not None:
            pieces += _drawn_pieces(packed, place, drawing, pictures)
    return pieces


def _drawn_pieces(packed: zipfile.ZipFile, part: str, drawing: Any, pictures: PictureCollector) -> Iterator[str]:
    related = related_parts(packed, part)
    for node in drawing.iter("{*}chart", "{*}relIds", "{*}txBody", "{*}pic"):
        name = str(node.tag).rpartition("}")[2]
        if any(map(is_fallback, node.iterancestors())):
            continue
        if name == "txBody":
            yield from (escape_line(text) for text in map(paragraph_text, node.iter(f"{DRAWING}p")) if text)
            continue
        if name == "pic":
            if mark := picture_mark(packed, node, related, pictures):
                yield mark
            continue
        _, place = related.get(str(node.get(f"{RELATIONSHIP}id" if name == "chart" else f"{RELATIONSHIP}dm")), ("", ""))
        data = parse_part(packed, place)
        if data is not None and name == "chart":
            yield from _chart_pieces(data)
        elif data is not None and (lines := read_diagram(data)):
            yield "\n".join(f"- {escape_line(line)}" for line in lines)


def _chart_pieces(data: Any) -> Iterator[str]:
    chart = read_chart(data)
    sources = [str(formula.text or "") for formula in data.iter("{*}f")]
    if chart.rows and (not sources or any(map(_OTHER_BOOK.match, sources))):
        yield sheet_text(chart_sheet(chart)).markdown.strip()
    elif chart.words:
        yield escape_line(chart.words)


# --- .xls and .xlsb --------------------------------------------------------------------------------------------------


def read_xls(path: Path, relative: str, progress: ProgressCallback) -> Iterator[Document | Problem]:
    """Read a workbook of Excel 97, or one in the binary format."""
    with path.open("rb") as file:
        head = file.read(1024)
    if head.startswith(b"PK"):
        check_packed(path, WORKBOOK)
    elif not head.strip():
        raise Unreadable("empty: there is no text in it")
    elif not head.startswith(b"\xd0\xcf\x11\xe0") and not head.startswith(b"\t"):
        kind = "an HTML page; rename it to .html" if b"<" in head[:200] else "a text; rename it to .csv or .txt"
        raise Unreadable(f"not an Excel file, but perhaps {kind}")
    left_out: Counter[str] = Counter()
    sheets = _calamine(path, progress, left_out)
    progress(0, 0)
    return documents(sheets, relative, OfficeMetadata(), left_out)


def _calamine(path: Path, progress: ProgressCallback, left_out: Counter[str]) -> list[Sheet]:
    import python_calamine

    try:
        return list(_calamine_sheets(python_calamine.load_workbook(path), progress, left_out))
    except python_calamine.PasswordError as error:
        raise Unreadable("an encrypted Excel file, which asks for a password; save it without one") from error
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # a broken file can raise any error
        raise Unreadable(f"a broken workbook ({first_line(error)}); open it and save it again") from error


def _calamine_sheets(book: Any, progress: ProgressCallback, left_out: Counter[str]) -> Iterator[Sheet]:
    from python_calamine import SheetTypeEnum, SheetVisibleEnum

    budget = CellBudget()
    for number, metadata in enumerate(book.sheets_metadata):
        if metadata.visible != SheetVisibleEnum.Visible or metadata.typ != SheetTypeEnum.WorkSheet:
            left_out["hidden sheets"] += metadata.visible != SheetVisibleEnum.Visible
            continue
        if number >= MAX_SHEETS:
            return
        found = book.get_sheet_by_name(metadata.name)
        sheet = Sheet(metadata.name)
        above, before = found.start or (0, 0)
        for row in found.to_python(skip_empty_area=True):
            if not sheet.take([_cell(value) for value in row], budget):
                break
        sheet.pack()
        for (top, left), (bottom, right) in (found.merged_cell_ranges or [])[:_MAX_MERGES]:
            if top >= above and left >= before:
                sheet.merges.append(Merge(top - above, left - before, bottom + 1 - above, right + 1 - before))
        progress(0, 0)
        yield sheet


# --- CSV and TSV -----------------------------------------------------------------------------------------------------

_DELIMITERS = ",;\t|"
_SAMPLED_CHARACTERS = 200_000
_OPENS, _CLOSES = re.compile(r'^"|\t"', re.MULTILINE), re.compile(r'"\t|"$', re.MULTILINE)


def read_csv(path: Path, relative: str, progress: ProgressCallback) -> Iterator[Document | Problem]:
    """Read values separated by commas, semicolons, tabs or bars."""
    text, remarks = decode_or_guess(path.read_bytes())
    text = clean_text(text)
    csv.field_size_limit(10_000_000)
    delimiter = "\t" if PurePosixPath(relative).suffix.lower() == ".tsv" else _delimiter(text)
    if said := re.match(r"sep=(.)\n", text):  # for Excel
        delimiter, text = said[1], text[said.end() :]
    # In tab-separated values, a quotation mark may be literal. Read as the start of a quoted cell, it would swallow the
    # next rows.
    quotes = delimiter != "\t" or len(_OPENS.findall(text)) == len(_CLOSES.findall(text))
    sheet, budget = Sheet(""), CellBudget()
    escape = "\\" if quotes and _has_escapes(text, delimiter) else None
    widths: list[tuple[int, int]] = []
    try:
        for row in csv.reader(
            io.StringIO(text, newline=""),
            delimiter=delimiter,
            quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
            skipinitialspace=True,
            escapechar=escape,
        ):
            cells = [cell_of_text(value) for value in row]
            if not sheet.take(cells, budget):
                break
            widths.append((len(row), len(cells)))
    except csv.Error as error:
        raise Unreadable(f"not a table of values ({error}); save it again, or as .txt") from error
    sheet.pack()
    progress(0, 0)
    return documents([sheet], relative, OfficeMetadata(), Counter(), (*remarks, *_align_rows(sheet, widths)))


def _align_rows(sheet: Sheet, widths: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Put the column names above their columns, and yield a remark if rows have more cells than the header.

    If every row has one cell more, the rows begin with their names, as R writes them, or end with a note.

    Args:
        widths: for each row, the number of its cells with and without blank ones at the end.
    """
    rows = sheet.rows
    width = widths[0][0] if widths else 0
    wider = [number for number, (_, filled) in enumerate(widths, 1) if filled > width > 1]
    if not wider or [] in rows:  # a delimiter at the end of a row is no cell
        return
    usual = Counter(whole for whole, _ in widths[1:]).most_common(1)[0]
    names = [row[0].text for row in rows[1:]]
    is_named = len(names) > 1 and len({*names}) == len(names) and all(cell.is_words for cell in rows[0])
    if usual == (width + 1, len(widths) - 1) and is_named and 2 * len(wider) > len(widths):
        rows[0][:] = [EMPTY_CELL, *rows[0]]
        yield "every row has one cell more than the header; the first cells are read as names of the rows"
    elif usual[0] <= width + 1:
        count, first = count_phrase(len(wider), "row"), f"row {wider[0]:,}"
        yield f"{count} ({first}) with more cells than the header; cells may stand below the name of another column"


def _has_escapes(text: str, delimiter: str) -> bool:
    """Return whether a backslash before a quotation mark makes the mark literal."""
    sample = text[:_SAMPLED_CHARACTERS]
    if '\\"' not in sample:
        return False

    def agreement(escape: str | None) -> int:
        rows = csv.reader(
            io.StringIO(sample, newline=""), delimiter=delimiter, skipinitialspace=True, escapechar=escape
        )
        widths = Counter(len(row) for row in rows if row)
        return max(widths.values(), default=0)

    # Without escapes, the mark that ends a quoted cell is followed by a delimiter, and one inside it is doubled.
    inside = re.search(rf'\\"[^"\n{re.escape(delimiter)}]', sample) is not None
    try:
        escaped, literal = agreement("\\"), agreement(None)
    except csv.Error:
        return False
    return escaped > literal or (inside and escaped == literal)


def _delimiter(text: str) -> str:
    """Return the delimiter that most of the first lines contain equally often."""
    first_lines = [line for line in text[:50_000].split("\n")[:30] if line.strip()]

    def agreement(delimiter: str) -> tuple[int, int]:
        counts = [line.count(delimiter) for line in first_lines]
        usual = max({*counts} - {0}, key=counts.count, default=0)
        return (counts.count(usual) if usual else 0, usual)

    return max(_DELIMITERS, key=agreement)


# --- documents -------------------------------------------------------------------------------------------------------


def documents(
    sheets: Sequence[Sheet],
    relative: str,
    said: OfficeMetadata,
    left_out: Counter[str],
    remarks: Sequence[str] = (),
    pictures: PictureCollector | None = None,
) -> Iterator[Document | Problem]:
    """Yield the Document of a workbook, and a Problem for each sheet that was read only in part."""
    texts = [sheet_text(sheet) for sheet in sheets]
    markdown = "\n".join(text.markdown for text in texts if text.markdown)
    if not markdown.strip():
        raise Unreadable("empty: there is no value in it")
    document = parse_markdown(markdown, relative, of_site=False, pictures=pictures)
    left_out += Counter(document.left_out)
    left_out["formulas without a stored value"] += sum(sheet.blank_formulas for sheet in sheets)
    left_out["hidden rows"] += sum(sheet.hidden_rows for sheet in sheets)
    tables = tables_in(document, [table for text in texts for table in text.tables])
    update = {
        "title": said.title or title_from_name(relative),
        "tables": tables,
        "date": said.date,
        "left_out": dict(+left_out),
        "remarks": (*remarks, *_remarks(sheets, tables)),
    }
    yield document.model_copy(update=update)
    for sheet in sheets:
        if sheet.cut:
            name = f"the sheet {sheet.name!r}" if sheet.name else "the table"
            rows = sheet.filled_rows
            yield Problem(file=relative, what=f"only the first {rows:,} rows of {name} are read; split it")


def _remarks(sheets: Sequence[Sheet], tables: Sequence[TableData]) -> Iterator[str]:
    """Yield what the owner of a workbook should know: what is missing, and which columns have no name."""
    if blank := sum(sheet.blank_formulas for sheet in sheets):
        formulas = "formula has" if blank == 1 else "formulas have"
        is_or_are = "is" if blank == 1 else "are"
        what = f"{blank:,} {formulas} no stored value and {is_or_are} blank"
        yield f"{what}; open the file in a spreadsheet program and save it"
    for sheet in sheets:
        if sheet.columns > MAX_COLUMNS:
            name = f"the sheet {sheet.name!r}" if sheet.name else "the table"
            yield f"only the first {MAX_COLUMNS:,} of {sheet.columns:,} columns of {name} are read; split it"
    for table in tables:
        name = f"a table of the sheet {table.sheet!r}" if table.sheet else "the table"
        if len(table.columns) > MAX_STORED_COLUMNS:
            computed = f"{MAX_STORED_COLUMNS:,} of {len(table.columns):,}"
            yield f"{name}: only the first {computed} columns can be computed with; split it"
        unnamed = [str(at) for at, label in enumerate(table.columns, 1) if at > 1 and not label]
        if unnamed and any(table.columns):
            numbers = ", ".join(unnamed[:_MAX_NUMBERS]) + (", …" if len(unnamed) > _MAX_NUMBERS else "")
            yield f"{name} has columns without a name: {numbers}"
