"""Sheets: header rows, displayed values, merged cells, their tables as data, broken and huge files. Slides."""

from __future__ import annotations

import re
import zipfile
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from tests.corpora.made import (
    BOMB,
    ODF,
    OLE,
    by_pandoc,
    open_document,
    read_all,
    read_one,
    refused,
    replaced,
    with_part,
    workbook,
)
from tests.corpora.reading import told, write
from turnmark.corpora.readers.office import grid
from turnmark.corpora.readers.office import workbook as workbooks
from turnmark.corpora.readers.office.grid import LARGE_CELLS, SAMPLE_ROWS
from turnmark.corpora.readers.office.number_format import format_value
from turnmark.corpora.tables.cell_numbers import read_number
from turnmark.corpora.tables.data_tables import data_rows
from turnmark.corpora.types import Document, Problem


def tables(document: Document) -> list[list[list[str]]]:
    """Return the cells of each table, without the rule below the header."""
    found: list[list[list[str]]] = []
    for kind, *_, text in told(document):
        if kind == "table":
            rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in text.split("\n")]
            found.append([rows[0], *rows[2:]])
    return found


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (12.344, "0.00", "12.34"), (12.3, "000.00", "012.30"), (1234.5, "#,##0.00", "1,234.50"),
        (0.125, "0.0%", "12.5%"), (-3, "0.0", "-3.0"), (1234.5, '"£"#,##0', "£1,235"),
        (2.5, "0", "3"), (-0.5, "0", "-1"), (2.675, "0.00", "2.68"), (0.125, "0%", "13%"),
        (1e300, "0.0", f"{1e300:.1f}"),
        (12.3, "[$€-407] 0.00", "€ 12.30"), (5, '0 "km"', "5 km"),
        (-5, "0;(0)", "-5"), (1234567, "General", "1234567"), (0.1 + 0.2, "General", "0.3"),
        (1e20, "0.00E+00", "1e+20"), (12345678901234567, "General", "12345678901234600"),
        (12345678901234567, "#,##0", "12,345,678,901,234,600"), (1234.5600000000001, "General", "1234.56"),
        (12.3, "#.##", "12.3"), (7, "00000", "00007"), (True, "General", "TRUE"), (date(2024, 3, 1), "", "2024-03-01"),
        (datetime(2024, 3, 1), "dd/mm/yy", "2024-03-01"), (datetime(2024, 3, 1), "mmm-yy", "March 2024"),
        (datetime(2024, 3, 1, 9, 5), "d/m/yy h:mm", "2024-03-01 09:05"), (time(9, 5), "h:mm", "09:05"),
        (timedelta(hours=27, minutes=3), "", "27:03"),
    ],
)  # fmt: skip
def test_formats_values_as_displayed(value: object, code: str, text: str) -> None:
    assert format_value(value, code) == text


def test_sheet_is_a_section_with_its_table(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["Gates of the mill"], ["as of March"], [],
        [None, "Gate", "Width", "Since"],
        [None, "north", 4.5, date(1868, 5, 1)], [None, "south", 3.25, date(1870, 1, 2)], [None, None, None, None],
        [None, "Keepers", "Nights"], [None, "Ann", 3], [None, "Bo", 4],
    ]  # fmt: skip
    document = read_one(workbook(tmp_path / "mill-gates.xlsx", Gates=rows, Empty=[], Wheels=[["Wheel"], ["old"]]))
    assert document.title == "mill gates"
    assert [text for kind, *_, text in told(document) if kind == "heading"] == ["## Gates", "## Wheels"]
    assert tables(document) == [
        [["Gate", "Width", "Since"], ["north", "4.5", "1868-05-01"], ["south", "3.25", "1870-01-02"]],
        [["Keepers", "Nights"], ["Ann", "3"], ["Bo", "4"]],
    ]
    assert document.text.startswith("## Gates\n\nGates of the mill\n\nas of March\n\n|")


def test_title_above_a_table_is_a_heading_and_notes_are_text(tmp_path: Path) -> None:
    rows = [["Widths"], ["Gate", "Width", "Depth"], ["north", 4, 5], ["south", 3, 6], ["measured in May"]]
    document = read_one(workbook(tmp_path / "a.xlsx", S=rows))
    assert [(kind, text) for kind, *_, text in told(document) if kind != "table"] == [
        ("heading", "## S"), ("heading", "### Widths"), ("paragraph", "measured in May"),
    ]  # fmt: skip
    assert tables(document)[0][0] == ["Gate", "Width", "Depth"]


def test_reads_merged_cells_of_headers_and_rows(tmp_path: Path) -> None:

    book = openpyxl.Workbook()
    for row in (["Gate", 2024, None], [None, "May", "June"], ["north", 1, 2], [None, 3, 4], ["south", 5, 6]):
        book.active.append(row)
    for merged in ("A1:A2", "B1:C1", "A3:A4"):
        book.active.merge_cells(merged)
    hidden = book.create_sheet("Hidden")
    hidden.append(["secret"])
    hidden.sheet_state = "hidden"
    book.save(tmp_path / "a.xlsx")
    document = read_one(tmp_path / "a.xlsx")
    assert tables(document) == [
        [["Gate", "2024 May", "2024 June"], ["north", "1", "2"], ["north", "3", "4"], ["south", "5", "6"]]
    ]
    assert "secret" not in document.text


def test_separates_tables_side_by_side(tmp_path: Path) -> None:
    rows = [["Gate", "Width", None, "Wheel", "Teeth"], ["north", 4, None, "old", 30], ["south", 3, None, None, None]]
    rows += [[f"gate {number}", number, None, None, None] for number in range(5)]
    first, second = tables(read_one(workbook(tmp_path / "a.xlsx", S=rows)))
    assert (first[0], len(first)) == (["Gate", "Width"], 8)
    assert second == [["Wheel", "Teeth"], ["old", "30"]]
    rows = [["Gate", "Width", None, "Wheel", "Teeth"], ["north", 4, None, "old", 30], ["south", 3, None, "new", 20]]
    assert [table[0] for table in tables(read_one(workbook(tmp_path / "b.xlsx", S=rows)))] == [
        ["Gate", "Width"],
        ["Wheel", "Teeth"],
    ]
    rows = [["Gate", "Width", None, "State", "Age"], ["north", 4, None, "old", 30], ["south", 3, None, "old", 20]]
    assert tables(read_one(workbook(tmp_path / "c.xlsx", S=rows)))[0][0] == ["Gate", "Width", "State", "Age"]


def test_escapes_cells_that_look_like_markup(tmp_path: Path) -> None:
    rows = [["Name", "Note"], ["a|b", "first\nsecond"], ["<b>", "# no heading"], ["- x", "1. y"]]
    document = read_one(workbook(tmp_path / "a.xlsx", S=rows))
    (table,) = [text for kind, *_, text in told(document) if kind == "table"]
    assert table.split("\n")[2:] == ["| a\\|b | first second |", "| \\<b> | # no heading |", "| - x | 1. y |"]
    words = ["Dear {{ name }},", "{% if %} !!! [[key]]", "Use <b>"]
    document = read_one(workbook(tmp_path / "b.xlsx", **{"S <1>": [[each] for each in words]}))
    assert document.text == "## S <1>\n\n- Dear {{ name }},\n- {% if %} !!! [[key]]\n- Use \\<b>\n"


_ODS = (
    "<office:spreadsheet><table:table table:name='Gates' table:style-name='{style}'>"
    "<table:table-row><table:table-cell office:value-type='string'><text:p>Gate</text:p></table:table-cell>"
    "<table:table-cell office:value-type='string'><text:p>Since</text:p>"
    "<office:annotation><text:p>a remark</text:p></office:annotation></table:table-cell>"
    "<table:table-cell office:value-type='string'><text:p>Width</text:p></table:table-cell></table:table-row>"
    "<table:table-row><table:table-cell office:value-type='string' table:number-rows-spanned='2'>"
    "<text:p>no<text:span>rth</text:span></text:p></table:table-cell>"
    "<table:table-cell office:value-type='date' office:date-value='1868-05-01'><text:p>01.05.68</text:p>"
    "</table:table-cell><table:table-cell office:value-type='float' office:value='4.499'><text:p>4,50</text:p>"
    "</table:table-cell></table:table-row>"
    "<table:table-row><table:covered-table-cell/><table:table-cell table:number-columns-repeated='2' "
    "office:value-type='string'><text:p>none</text:p></table:table-cell></table:table-row>"
    "<table:table-row table:number-rows-repeated='1048000'><table:table-cell table:number-columns-repeated='1024'/>"
    "</table:table-row></table:table></office:spreadsheet>"
)


def test_reads_open_document_sheets(tmp_path: Path) -> None:
    document = read_one(open_document(tmp_path / "a.ods", _ODS.format(style=""), title="The Gates"))
    assert (document.title, document.date) == ("The Gates", "2024-03-01")
    assert tables(document) == [
        [["Gate", "Since", "Width"], ["north", "1868-05-01", "4,50"], ["north", "none", "none"]]
    ]
    style = "<style:style style:name='h'><style:table-properties table:display='false'/></style:style>"
    assert "no value" in refused(open_document(tmp_path / "b.ods", _ODS.format(style="h"), styles=style))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_reads_csv(tmp_path: Path, delimiter: str) -> None:
    rows = [["Gate", "Width", "Note"], ["north", "4.5", '"wide, and; deep"'], ["south", "3", "x"]]
    text = "\r\n".join(delimiter.join(row) for row in rows)
    document = read_one(write(tmp_path, {"the_gates.csv": text}) / "the_gates.csv")
    assert document.title == "the gates"
    assert tables(document) == [[["Gate", "Width", "Note"], ["north", "4.5", "wide, and; deep"], ["south", "3", "x"]]]


def test_table_continues_below_a_blank_row(tmp_path: Path) -> None:
    rows = [
        ["Gate", "Width"],
        ["north", 4.5],
        [],
        [None, 3],
        [],
        [],
        ["Total", 7.5],
        [],
        ["Wheel", "Teeth"],
        ["old", 30],
    ]
    assert tables(read_one(workbook(tmp_path / "a.xlsx", S=rows))) == [
        [["Gate", "Width"], ["north", "4.5"], ["", "3"], ["Total", "7.5"]], [["Wheel", "Teeth"], ["old", "30"]],
    ]  # fmt: skip
    rows = [["Report", "Q1"], ["Version", 3], [], ["Gate", 2024], ["north", 5]]
    assert tables(read_one(workbook(tmp_path / "b.xlsx", S=rows))) == [
        [["Report", "Q1"], ["Version", "3"]], [["Gate", "2024"], ["north", "5"]],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("a.csv", "sep=;\nGate;Width\nnorth;4,5\n", [["Gate", "Width"], ["north", "4,5"]]),  # for Excel
        ("b.csv", "Gate,Note\nnorth,a\u2028b\n", [["Gate", "Note"], ["north", "a b"]]),  # U+2028 does not end a row
        ("e.csv", 'Gate, Note\nnorth, "a, b"\n', [["Gate", "Note"], ["north", "a, b"]]),
        ("c.tsv", 'Gate\tNote\nnorth\t"open\nsouth\tx\n', [["Gate", "Note"], ["north", '"open'], ["south", "x"]]),
        (
            "d.tsv",
            'Gate\tNote\nnorth\t"a ""b"""\nsouth\t"x\ny"\n',
            [["Gate", "Note"], ["north", 'a "b"'], ["south", "x y"]],
        ),
    ],
)
def test_reads_every_dialect_of_csv(tmp_path: Path, name: str, text: str, rows: list[list[str]]) -> None:
    assert tables(read_one(write(tmp_path, {name: text}) / name)) == [rows]


def test_reports_rows_cut_from_large_sheets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "MAX_ROWS", 10)
    path = workbook(tmp_path / "a.xlsx", Long=[["Gate", "Width"], *([f"g{n}", n] for n in range(30))], B=[["x", "y"]])
    document, problem = workbooks.read_xlsx(path, "a.xlsx", lambda *_: None)
    assert isinstance(document, Document)
    assert isinstance(problem, Problem)
    assert str(problem) == "a.xlsx: only the first 10 rows of the sheet 'Long' are read; split it"
    assert "g8" in document.text
    assert "g9" not in document.text
    assert "## B" in document.text


def test_refuses_broken_or_hostile_sheets(tmp_path: Path) -> None:
    good = workbook(tmp_path / "good.xlsx", S=[["a", "b"], [1, 2]]).read_bytes()
    files = {
        "cut.xlsx": (good[: len(good) // 2], "broken or cut off"),
        "locked.xlsx": (OLE + "EncryptedPackage".encode("utf-16-le"), "asks for a password"),
        "old.xlsx": (OLE + b"\0" * 900, "old format"),
        "page.xls": (b"<html><table><tr><td>1</table>", "rename it to .html"),
        "values.xls": (b"a;b\n1;2\n", "rename it to .csv"),
        "broken.xls": (OLE + b"\0" * 900, "broken workbook"),
        "page.ods": (b"<!doctype html>", "rename it to .html"),
        "empty.csv": (b" \n", "no value in it"),
        "binary.csv": (b"a\0b", "NUL"),
    }
    for name, (content, reason) in files.items():
        (tmp_path / name).write_bytes(content)
        assert reason in refused(tmp_path / name), name
    (tmp_path / "laughs.xlsx").write_bytes(good)
    assert "XML entities" in refused(with_part(tmp_path / "laughs.xlsx", "xl/sharedStrings.xml", BOMB))
    (tmp_path / "twisted.xlsx").write_bytes(good)
    with zipfile.ZipFile(tmp_path / "twisted.xlsx") as packed:
        sheet = packed.read("xl/worksheets/sheet1.xml")
    half = sheet[: len(sheet) // 2]
    assert "broken workbook" in refused(with_part(tmp_path / "twisted.xlsx", "xl/worksheets/sheet1.xml", half))
    assert "rename it to .docx" in refused(Path(by_pandoc(tmp_path / "w.docx").rename(tmp_path / "word.xlsx")))


# --- slides ----------------------------------------------------------------------------------------------------------

SLIDES = """% The Mill
% Ann

# Gates

- shut at night
- open at dawn

::: notes
Show the key.
:::

# Widths

| Gate  | Width |
|-------|-------|
| north | 4.5 m |
"""


def test_slide_is_a_section_with_its_notes(tmp_path: Path) -> None:
    document = read_one(by_pandoc(tmp_path / "a.pptx", SLIDES))
    assert document.title == "The Mill"
    assert [text for kind, *_, text in told(document) if kind == "heading"] == ["## The Mill", "## Gates", "## Widths"]
    assert [text for kind, *_, text in told(document) if kind == "item"] == ["- shut at night", "- open at dawn"]
    assert "**Notes**\n\nShow the key." in document.text
    assert tables(document) == [[["Gate", "Width"], ["north", "4.5 m"]]]


def with_drawing(deck: Path, shown: str, kind: str, data: str) -> Path:
    """Add a drawing to the first slide, which the part `data` describes."""
    frame = f"<p:graphicFrame>{shown}</p:graphicFrame></p:spTree>"
    relation = f'<Relationship Id="rId9" Type="x/{kind}" Target="../drawn.xml"/></Relationships>'
    replaced(deck, "ppt/slides/slide1.xml", "</p:spTree>", frame)
    replaced(deck, "ppt/slides/_rels/slide1.xml.rels", "</Relationships>", relation)
    return with_part(deck, "ppt/drawn.xml", data.encode())


def test_reads_diagrams_and_angle_brackets(tmp_path: Path) -> None:
    deck = by_pandoc(tmp_path / "a.pptx", "# Use `<b>`\n\n- set `<title>`\n- shut\n")
    spaces = 'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram"'
    shown = f'<dgm:relIds {spaces} r:dm="rId9"/>'
    a = "http://schemas.openxmlformats.org/drawingml/2006/main"
    data = f'<dgm:dataModel {spaces} xmlns:a="{a}"><a:p><a:r><a:t>Look first</a:t></a:r></a:p></dgm:dataModel>'
    text = read_one(with_drawing(deck, shown, "diagramData", data)).text
    assert text == "## Use \\<b>\n\n- set \\<title>\n- shut\n- Look first\n"


def test_chart_becomes_a_table(tmp_path: Path) -> None:
    deck = by_pandoc(tmp_path / "a.pptx", "# Sales\n\nThey grow.\n")
    spaces = 'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"'

    def points(*values: object) -> str:
        return "".join(f'<c:pt idx="{at}"><c:v>{value}</c:v></c:pt>' for at, value in enumerate(values))

    data = (
        f'<c:chartSpace {spaces} xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><c:chart><c:title>'
        "<a:p><a:r><a:t>Millions</a:t></a:r></a:p></c:title><c:ser>"
        f"<c:tx>{points('North')}</c:tx><c:cat>{points('2023', '2024')}</c:cat><c:val><c:numCache>"
        f"<c:formatCode>0%</c:formatCode>{points(0.25, 0.5)}</c:numCache></c:val></c:ser></c:chart></c:chartSpace>"
    )
    document = read_one(with_drawing(deck, f'<c:chart {spaces} r:id="rId9"/>', "chart", data))
    assert document.text.startswith("## Sales\n\nThey grow.\n\n|")
    assert tables(document) == [[["Millions", "North"], ["2023", "25%"], ["2024", "50%"]]]


_ODP = (
    "<office:presentation><draw:page>"
    "<draw:frame presentation:class='title'><draw:text-box><text:p>Gates</text:p></draw:text-box></draw:frame>"
    "<draw:frame presentation:class='outline'><draw:text-box><text:list><text:list-item><text:p>shut at night</text:p>"
    "<text:list><text:list-item><text:p>in winter</text:p></text:list-item></text:list></text:list-item></text:list>"
    "</draw:text-box></draw:frame>"
    "<presentation:notes><draw:frame><draw:text-box><text:p>Show the key.</text:p></draw:text-box></draw:frame>"
    "<draw:frame presentation:class='header'><draw:text-box><text:p>Draft</text:p></draw:text-box></draw:frame>"
    "</presentation:notes></draw:page><draw:page draw:style-name='away'><draw:frame><draw:text-box>"
    "<text:p>Hidden</text:p></draw:text-box></draw:frame></draw:page></office:presentation>"
)


_AWAY = (
    "<style:style style:name='away' style:family='drawing-page'>"
    "<style:drawing-page-properties presentation:visibility='hidden'/></style:style>"
)


def test_reads_open_document_slides(tmp_path: Path) -> None:
    document = read_one(open_document(tmp_path / "a.odp", _ODP, title="Template 7", styles=_AWAY))
    assert document.title == "Gates"
    assert document.text == "## Gates\n\n- shut at night\n  - in winter\n\n**Notes**\n\nShow the key.\n"


def test_refuses_slides_without_text_and_other_files(tmp_path: Path) -> None:
    assert "probably pictures" in refused(
        open_document(tmp_path / "a.odp", "<office:presentation><draw:page/></office:presentation>")
    )
    (tmp_path / "b.pptx").write_bytes(by_pandoc(tmp_path / "b.docx").read_bytes())
    assert "rename it to .docx" in refused(tmp_path / "b.pptx")
    assert "cannot be read" in refused(with_part(by_pandoc(tmp_path / "c.pptx"), "ppt/presentation.xml", b"<a>"))
    assert len(read_all(tmp_path / "b.docx")) == 1


# --- Strict Open XML, formulas, charts -------------------------------------------------------------------------------


def strict(path: Path) -> Path:
    """Rewrite an Office file with the namespaces of ISO 29500 Strict."""
    usual = re.compile(rb"http://schemas\.openxmlformats\.org/(\w+ocument|\w+ml)/2006/(?!metadata)")
    with zipfile.ZipFile(path) as packed:
        parts = {name: packed.read(name) for name in packed.namelist() if not name.startswith("[")}
    for name, content in parts.items():
        with_part(path, name, usual.sub(rb"http://purl.oclc.org/ooxml/\1/", content))
    return path


def test_reads_strict_open_xml(tmp_path: Path) -> None:
    usual = tables(read_all(workbook(tmp_path / "a.xlsx", S=[["Gate", "Width"], ["north", 4.5]]))[0])  # type: ignore[arg-type]
    again = read_all(strict(tmp_path / "a.xlsx"))[0]
    assert isinstance(again, Document)
    assert tables(again) == usual == [[["Gate", "Width"], ["north", "4.5"]]]
    text = read_one(by_pandoc(tmp_path / "a.pptx", SLIDES)).text
    assert read_one(strict(tmp_path / "a.pptx")).text == text
    text = read_one(by_pandoc(tmp_path / "a.docx")).text
    assert read_one(strict(tmp_path / "a.docx")).text == text


def test_reports_formulas_without_a_stored_value(tmp_path: Path) -> None:
    rows = [
        ["Gate", "Width", "Page"],
        ["north", "=1+1", '=HYPERLINK("https://x.org","the ""page""")'],
        ["south", 3, "x"],
    ]
    document = read_one(workbook(tmp_path / "a.xlsx", S=rows))
    assert tables(document) == [[["Gate", "Width", "Page"], ["north", "", 'the "page"'], ["south", "3", "x"]]]
    assert document.left_out == {"formulas without a stored value": 1}
    assert document.remarks == (
        "1 formula has no stored value and is blank; open the file in a spreadsheet program and save it",
    )


def test_reads_charts_and_text_boxes_of_sheets(tmp_path: Path) -> None:
    from openpyxl.chart import BarChart, Reference

    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["Month", "Rain"], ["May", 40], ["June", 30]):
        sheet.append(row)
    book.create_sheet("Secret").sheet_state = "hidden"
    chart = BarChart()
    chart.title = "Rain by month"
    chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=3), titles_from_data=True)
    sheet.add_chart(chart, "D1")
    book.save(tmp_path / "a.xlsx")
    document = read_one(tmp_path / "a.xlsx")
    assert document.text.rstrip().endswith("| June | 30 |\n\nChart: Rain by month")
    assert document.left_out == {"hidden sheets": 1}


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "Name;Größe;Preis\nMüller;12;3,50 €\n"),
        ("cp1252", "Nom;Ville\nHélène;Orléans\n"),
        ("cp1252", "Señor;Año\nPeña;2024\n"),
        ("cp1250", "Jméno;Město\nJiří;Kroměříž\n"),
        ("cp1251", "Имя;Город\nИван;Москва\n"),
        ("cp1253", "Όνομα;Πόλη\nΓιώργος;Αθήνα\n"),
        ("cp932", "名前;都市\n田中;東京\n鈴木;大阪\n"),
        ("gb18030", "姓名;城市\n张伟;北京\n王芳;上海\n"),
        ("big5", "姓名;城市;價格\n陳偉;台北;100\n"),
        ("cp949", "이름;도시\n김철수;서울\n"),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".txt", ".md", ".html"])
def test_guesses_encoding(tmp_path: Path, encoding: str, text: str, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(text.encode(encoding))
    document = read_one(path)
    assert text.split("\n")[1].split(";")[1] in document.text
    assert "which is a guess" in document.remarks[0]
    path.write_bytes(text.encode())
    assert read_one(path).remarks == ()


def test_refuses_damaged_utf8_and_binary_data(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("Größe;Fuß;Tür\n".encode() + b"\xff\n")
    assert "not valid UTF-8" in refused(tmp_path / "a.csv")
    (tmp_path / "b.txt").write_bytes(bytes(range(1, 256)))
    assert "not valid UTF-8" in refused(tmp_path / "b.txt")


def with_chart(path: Path) -> Path:
    """Add a chart to an OpenDocument file, as its object 1."""
    spaces = f'{ODF} xmlns:chart="urn:oasis:names:tc:opendocument:xmlns:chart:1.0"'

    def row(*texts: str) -> str:
        cells = "".join(f"<table:table-cell><text:p>{text}</text:p></table:table-cell>" for text in texts)
        return f"<table:table-row>{cells}</table:table-row>"

    numbers = (
        f"<table:table-header-rows>{row('', 'Rain', 'Sun')}</table:table-header-rows><table:table-rows>"
        f"{row('May', '40', '3')}{row('June', '30', '5')}</table:table-rows>"
    )
    chart = (
        f"<office:document-content {spaces}><office:body><office:chart><chart:chart><chart:title>"
        f"<text:p>Weather</text:p></chart:title><table:table table:name='local-table'>{numbers}</table:table>"
        "</chart:chart></office:chart>"
        "</office:body></office:document-content>"
    )
    return with_part(path, "Object 1/content.xml", chart.encode())


_OBJECT = "<draw:frame><draw:object xmlns:xlink='http://www.w3.org/1999/xlink' xlink:href='./Object 1'/></draw:frame>"
_WEATHER = [["Weather", "Rain", "Sun"], ["May", "40", "3"], ["June", "30", "5"]]


def test_reads_charts_of_open_document(tmp_path: Path) -> None:
    text = f"<office:text><text:p>Before.{_OBJECT}</text:p><text:p>After.</text:p></office:text>"
    styles = f"<office:document-styles {ODF}/>".encode()
    document = read_one(with_part(with_chart(open_document(tmp_path / "a.odt", text)), "styles.xml", styles))
    assert tables(document) == [_WEATHER]
    assert document.text.startswith("Before.\n\n| Weather")
    page = f"<office:presentation><draw:page>{_OBJECT}</draw:page></office:presentation>"
    assert tables(read_one(with_chart(open_document(tmp_path / "a.odp", page)))) == [_WEATHER]
    cell = f"<table:table-cell><text:p>Gate</text:p>{_OBJECT}</table:table-cell>"
    sheet = f"<table:table table:name='S'><table:table-row>{cell}</table:table-row></table:table>"
    path = open_document(tmp_path / "a.ods", f"<office:spreadsheet>{sheet}</office:spreadsheet>")
    assert read_one(with_chart(path)).text == "## S\n\nGate\n\nChart: Weather (Rain, Sun)\n"
    without = with_part(open_document(tmp_path / "b.odt", text), "styles.xml", styles)
    assert read_one(without).text == "Before.\n\nAfter.\n"


def test_a_sheet_is_a_table_with_row_numbers_and_stored_values(tmp_path: Path) -> None:
    rows = [["Budget"], [], ["Item", "Amount", "On"], ["Train", 12.345, datetime(2024, 3, 1)], ["Taxi", 8, None]]
    document = read_one(workbook(tmp_path / "book.xlsx", Sheet=rows, Second=[["A", "B"], ["x", 1]]))
    first, second = document.tables
    assert (first.sheet, first.section, first.columns) == ("Sheet", "Sheet › Budget", ("Item", "Amount", "On"))
    assert first.numbers == (4, 5)
    assert first.stored[0] == ("", "12.345", "2024-03-01")
    assert document.text[first.start : first.end].startswith("| Item | Amount | On |")
    assert (second.sheet, second.rows) == ("Second", (("x", "1"),))


@pytest.mark.parametrize(
    ("text", "columns", "rows"),
    [
        # without column names, the first row is a row; years and days may be names
        ("a,1,2.5\nb,2,3.5\nc,3,4.5\n", ("", "", ""), [("a", "1", "2.5"), ("b", "2", "3.5"), ("c", "3", "4.5")]),
        ("Team,2021,2022\nN,5,6\nS,7,8\n", ("Team", "2021", "2022"), [("N", "5", "6"), ("S", "7", "8")]),
        ("Team,1,2,3\nN,5,6,9\nS,7,8,1\n", ("Team", "1", "2", "3"), [("N", "5", "6", "9"), ("S", "7", "8", "1")]),
        # backslashes: before quotation marks in a cell, around every cell, as a part of a text, at the end of a path
        ('"Name","Height"\n"Ann","5\'8\\""\n"Bo","6\'1\\""\n', ("Name", "Height"), [("Ann", "5'8\""), ("Bo", "6'1\"")]),
        ('"No","Title"\n"1","\\"Mull\\""\n"2","after \\"Hof\\" by T"\n"3","\\"a, b\\""\n', ("No", "Title"),
         [("1", '"Mull"'), ("2", 'after "Hof" by T'), ("3", '"a, b"')]),
        ('"No","Path"\n"1","the \\""C:\\a\\"" folder"\n"2","b\\"\n', ("No", "Path"),
         [("1", 'the \\"C:\\a\\" folder'), ("2", "b\\")]),
        ('"Folder","Size"\n"C:\\data\\","60"\n"D:\\old\\","70"\n', ("Folder", "Size"),
         [("C:\\data\\", "60"), ("D:\\old\\", "70")]),
        # rows with one cell more than the header: with names before the first column, or with a delimiter at the end
        ('"mpg","cyl"\n"Mazda RX4",21,6\n"Datsun 710",22.8,4\n', ("", "mpg", "cyl"),
         [("Mazda RX4", "21", "6"), ("Datsun 710", "22.8", "4")]),
        ("car,mpg\nMazda,21,\nDatsun,22.8,\n", ("car", "mpg"), [("Mazda", "21"), ("Datsun", "22.8")]),
        # with a name that is blank, or with a note after the last column
        ("car,mpg,\nMazda,21,\nDatsun,22.8,new\n", ("car", "mpg", ""),
         [("Mazda", "21", ""), ("Datsun", "22.8", "new")]),
        ("car,mpg\nMazda,21,\nOpel,9,\nDatsun,22.8,new\n", ("car", "mpg", ""),
         [("Mazda", "21", ""), ("Opel", "9", ""), ("Datsun", "22.8", "new")]),
        ("Name,,,Total\nAnna,1,2,3\nBen,4,5,9\n", ("Name", "", "", "Total"),
         [("Anna", "1", "2", "3"), ("Ben", "4", "5", "9")]),
        (",,Jan,Feb\nA,Rent,1,2\nB,Food,3,4\n", ("", "", "Jan", "Feb"),
         [("A", "Rent", "1", "2"), ("B", "Food", "3", "4")]),
        (",Total\nAnna,3\nBen,9\n", ("", "Total"), [("Anna", "3"), ("Ben", "9")]),
        ("Name,,Town\nAnn,x,Bonn\nBo,y,Kiel\nCem,z,Ulm\n", ("Name", "", "Town"),
         [("Ann", "x", "Bonn"), ("Bo", "y", "Kiel"), ("Cem", "z", "Ulm")]),
        ("Op,Left,,Right,\nadd,1,2,3,4\n,1,1,1,1\n,0,0,0,0\n", ("Op", "Left", "", "Right", ""),
         [("add", "1", "2", "3", "4"), ("", "1", "1", "1", "1"), ("", "0", "0", "0", "0")]),
        # names over several columns
        (",Plan,,Actual,\nItem,Jan,Feb,Jan,Feb\npump,1,2,3,4\n",
         ("Item", "Plan Jan", "Plan Feb", "Actual Jan", "Actual Feb"), [("pump", "1", "2", "3", "4")]),
        (",2023,,2024,\nItem,Q1,Q2,Q3,Q4\npump,1,2,3,4\n", ("Item", "2023 Q1", "2023 Q2", "2024 Q3", "2024 Q4"),
         [("pump", "1", "2", "3", "4")]),
        (",Plan,,Actual,,\nItem,Jan,Feb,Jan,Feb,Total\npump,1,2,3,4,9\n",
         ("Item", "Plan Jan", "Plan Feb", "Actual Jan", "Actual Feb", "Total"), [("pump", "1", "2", "3", "4", "9")]),
        (",2023,,,2024,,\n,A,,B,A,,B\nItem,x,y,x,x,y,x\npump,1,2,3,4,5,6\n",
         ("Item", "2023 A x", "2023 A y", "2023 B x", "2024 A x", "2024 A y", "2024 B x"),
         [("pump", "1", "2", "3", "4", "5", "6")]),
    ],
)  # fmt: skip
def test_csv_keeps_its_column_names_and_cells(
    tmp_path: Path, text: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]
) -> None:
    (tmp_path / "a.csv").write_text(text)
    (table,) = read_one(tmp_path / "a.csv").tables
    assert (table.columns, list(table.rows)) == (columns, rows)


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("a,b\nx,1\ny,2\n", ""),
        ("mpg,cyl\nMazda,21,6\nDatsun,22,4\n", "the first cells are read as names of the rows"),
        ("a,b,c\nx,1,2\ny,1,2,new\nz,1,2\n", "1 row (row 3) with more cells than the header"),
        ("a,b\nx,1,\ny,2,new\nz,3,\n", "1 row (row 3) with more cells than the header"),
        ("a,,c\nx,1,2\ny,2,3\n", "the table has columns without a name: 2"),
        ("Costs 2024\nTown,Sum\nBonn,3\n", ""),
    ],
)
def test_csv_remarks_columns_that_may_be_aligned_in_two_ways(tmp_path: Path, text: str, remark: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    remarks = read_one(tmp_path / "a.csv").remarks
    assert any(remark in each for each in remarks) if remark else remarks == ()


def test_remarks_columns_that_are_left_out(tmp_path: Path) -> None:
    row = ",".join(f"c{number}" for number in range(1100))
    (tmp_path / "wide.csv").write_text(f"{row}\n{row}\n")
    assert read_one(tmp_path / "wide.csv").remarks == (
        "only the first 1,000 of 1,100 columns of the table are read; split it",
        "the table: only the first 500 of 1,000 columns can be computed with; split it",
    )


def test_leaves_out_hidden_rows(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["Name", "Amount"], ["a", 1], ["secret", 2], ["b", 3]):
        book.active.append(row)
    book.active.row_dimensions[3].hidden = True
    book.save(tmp_path / "a.xlsx")
    document = read_one(tmp_path / "a.xlsx")
    assert tables(document) == [[["Name", "Amount"], ["a", "1"], ["b", "3"]]]
    assert document.tables[0].numbers == (2, 4)
    assert document.left_out == {"hidden rows": 1}
    row = "<table:table-row{}><table:table-cell><text:p>{}</text:p></table:table-cell></table:table-row>"
    rows = row.format("", "seen") + row.format(" table:visibility='collapse'", "secret")
    path = open_document(
        tmp_path / "a.ods", f"<office:spreadsheet><table:table>{rows}</table:table></office:spreadsheet>"
    )
    document = read_one(path)
    assert (document.text, document.left_out) == ("seen\n", {"hidden rows": 1})


def test_digits_with_an_e_may_be_a_code(tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("Prefix,Vendor\n10E451,North\n00E098,South\n", encoding="utf-8")
    (table,) = read_one(tmp_path / "codes.csv").tables
    assert [read_number(row.cells[0]) for row in data_rows(table)][:1] == [None]


def test_a_large_sheet_is_described_and_complete_as_data(tmp_path: Path) -> None:
    rows = LARGE_CELLS // 2
    lines = ["Key,Amount,Team", *(f"K-{number},{number}.5,North" for number in range(rows))]
    (tmp_path / "large.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    document = read_one(tmp_path / "large.csv")
    (table,) = document.tables
    assert f"A table with {rows:,} rows and 3 columns." in document.text
    assert f"Amount: numbers from 0.5 to {rows - 1}.5" in document.text
    assert "Team: text, 1 different values" in document.text
    assert document.text.count("| K-") == SAMPLE_ROWS
    assert document.text[table.start : table.end].startswith("A table with 20,000 rows"), "it includes the description"
    found = list(data_rows(table))
    assert len(found) == rows
    assert (found[-1].number, list(found[-1].cells)) == (rows + 1, [f"K-{rows - 1}", f"{rows - 1}.5", "North"])


def test_many_small_tables_on_one_sheet_are_written_out(tmp_path: Path) -> None:
    block = "Name,Amount\n" + "".join(f"row {number},{number}\n" for number in range(100)) + "\n"
    (tmp_path / "blocks.csv").write_text(block * 210, encoding="utf-8")
    document = read_one(tmp_path / "blocks.csv")
    assert len(document.tables) == 210
    assert document.text.count("| row 99 |") == 210


def test_a_second_row_of_names_belongs_to_the_header(tmp_path: Path) -> None:
    (tmp_path / "game.csv").write_text("Name,Shots,Shots,Fouls\n,Made,%,\nAnn,4/9,44,1\nBen,1/2,50,2\n")
    document = read_one(tmp_path / "game.csv")
    table = document.tables[0]
    assert table.columns == ("Name", "Shots Made", "Shots %", "Fouls")
    assert [row.number for row in data_rows(table)] == [3, 4]
    assert "| Name | Shots Made | Shots % | Fouls |" in document.text
