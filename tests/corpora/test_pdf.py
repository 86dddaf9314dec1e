"""PDFs: columns, headings, paragraphs, lists, tables, code, running headers, contents, pages; hostile files."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pypdfium2
import pytest

from tests.corpora.made import scan
from tests.corpora.reading import problems, read_pdf, told
from turnmark.core.home import home
from turnmark.corpora.chunking import chunk, regex_tokens
from turnmark.corpora.readers import isolation, read_source
from turnmark.corpora.readers.common.prose import Unreadable
from turnmark.corpora.readers.pdf import document as pdf_document
from turnmark.corpora.readers.pdf.document import read
from turnmark.corpora.readers.pdf.extraction import ocr, page_text
from turnmark.corpora.readers.pdf.extraction.right_to_left import reading_order
from turnmark.corpora.readers.pdf.page.boxes import Segment
from turnmark.corpora.readers.pdf.page.geometry import Box
from turnmark.corpora.readers.pdf.page.page_records import PdfPage, Rule, Word
from turnmark.corpora.readers.pdf.tables.ruled_tables import find_ruled_tables
from turnmark.corpora.readers.registry import no_progress
from turnmark.corpora.readers.report import ReadingReport
from turnmark.corpora.types import Document, Problem

WORDS = (
    "The keeper walks along the river every morning and looks after the gates of the old mill before the water rises."
).split()


def prose(count: int, start: int = 0) -> str:
    """Return this many words in different sentences."""
    return " ".join(WORDS[(start + index) % len(WORDS)] for index in range(count))


def built(
    path: Path, story: Sequence[Any], *, columns: int = 1, furniture: Callable[..., None] | None = None
) -> Document:
    """Return the Document of a PDF that reportlab makes from a story."""
    platypus = pytest.importorskip("reportlab.platypus")
    width, height = 595, 842
    template = platypus.BaseDocTemplate(str(path), pagesize=(width, height), title="")
    inner = (width - 120 - 24 * (columns - 1)) / columns
    frames = [
        platypus.Frame(60 + index * (inner + 24), 70, inner, height - 150, 0, 0, 0, 0) for index in range(columns)
    ]
    template.addPageTemplates([platypus.PageTemplate(frames=frames, onPage=furniture or (lambda *_: None))])
    template.build(list(story))
    return read_pdf(path, path.name)


def text_of(*paragraphs: str, size: float = 10, bold: bool = False, **options: Any) -> list[Any]:
    """Return paragraphs of a story."""
    platypus, styles = pytest.importorskip("reportlab.platypus"), pytest.importorskip("reportlab.lib.styles")
    look = styles.ParagraphStyle(
        "x", fontSize=size, leading=1.2 * size, spaceAfter=size, spaceBefore=size if bold else 0
    )
    for name, value in {"fontName": "Helvetica-Bold" if bold else "Helvetica", **options}.items():
        setattr(look, name, value)
    return [platypus.Paragraph(paragraph, look) for paragraph in paragraphs]


def heading(text: str, size: float = 14) -> list[Any]:
    return text_of(text, size=size, bold=True)


def kinds(document: Document) -> list[str]:
    return [kind for kind, *_ in told(document)]


def test_reads_two_columns_one_after_the_other(tmp_path: Path) -> None:
    first, second = prose(600), prose(500, 7)
    document = built(tmp_path / "a.pdf", [*text_of(first), *text_of(second)], columns=2)
    assert " ".join(document.text.split()) == f"{first} {second}"
    assert kinds(document) == ["paragraph", "paragraph"]


def test_reads_two_short_columns_one_after_the_other(tmp_path: Path) -> None:
    lines = ((60, 712, "The committee reviewed the annual"), (60, 698, "report and"),
             (330, 712, "approved the budget for the"), (330, 698, "coming fiscal year."))  # fmt: skip
    document = drawn(tmp_path / "a.pdf", [[(x, y, 11, text) for x, y, text in lines]], (595, 842))
    assert document.text == (
        "The committee reviewed the annual report and approved the budget for the coming fiscal year."
    )


def test_finds_headings_by_size(tmp_path: Path) -> None:
    story = [
        *heading("The Mill", 20), *text_of(prose(60)),
        *heading("1 Water"), *text_of(prose(60, 3)),
        *heading("1.1 Gates", 12), *text_of(prose(60, 5)),
        *heading("2 Stones"), *text_of(prose(60, 9)),
    ]  # fmt: skip
    document = built(tmp_path / "a.pdf", story)
    assert document.title == "The Mill"
    assert [(level, text) for kind, level, _, text in told(document) if kind == "heading"] == [
        (1, "# The Mill"),
        (2, "## 1 Water"),
        (3, "### 1.1 Gates"),
        (2, "## 2 Stones"),
    ]
    sections = [passage.section for passage in chunk(document, regex_tokens, 100)]
    assert "1 Water › 1.1 Gates" in sections


def test_finds_headings_by_outline(tmp_path: Path) -> None:
    """Bookmarks determine which lines in the body size are headings, and their levels."""
    canvas = pytest.importorskip("reportlab.pdfgen.canvas").Canvas(str(tmp_path / "a.pdf"), pagesize=(595, 842))
    y = 780
    for key, level, title in (("a", 0, "Water"), ("b", 1, "Gates"), ("c", 0, "Stones")):
        canvas.bookmarkPage(key)
        canvas.addOutlineEntry(f"1.{level} {title}", key, level)
        canvas.setFont("Helvetica-Bold", 10)
        canvas.drawString(60, y, title)
        canvas.setFont("Helvetica", 10)
        for line in range(4):
            canvas.drawString(60, y - 14 - 12 * line, prose(14, line))
        y -= 100
    canvas.save()
    document = read_pdf(tmp_path / "a.pdf", "a.pdf")
    found = [text for kind, *_, text in told(document) if kind == "heading"]
    assert found == ["# Water", "## Gates", "# Stones"]


def test_finds_run_in_headings(tmp_path: Path) -> None:
    story = heading("1 Water", 14)
    for number, title in enumerate(("Who opens the gates?", "When do they close?"), 1):
        story += text_of(f"<b>1.{number}. {title}</b> {prose(60, number)}")
    story += text_of(f"<b>Note</b> {prose(60)}", f"<b>3. Bring</b> {prose(60)}")
    document = built(tmp_path / "a.pdf", story)
    found = [(level, text) for kind, level, _, text in told(document) if kind == "heading"]
    assert found == [(1, "# 1 Water"), (2, "## 1.1. Who opens the gates?"), (2, "## 1.2. When do they close?")]
    assert prose(60, 1) in document.text
    assert f"Note {prose(60)}" in document.text


def test_finds_italic_headings_but_not_names(tmp_path: Path) -> None:
    authors = [f"{initial}. Miller, {initial}. Baker, Mill of {initial}" for initial in "ABC"]
    story = heading("The Mills of the River", 20) + text_of(*authors, size=12)
    for number, title in enumerate(("Water", "Stones", "Sails"), 1):
        story += [*heading(title.upper(), 12), *text_of(prose(60, number))]
        story += [*text_of(f"{title} and Gates", size=12, fontName="Helvetica-Oblique"), *text_of(prose(60))]
    found = [text for kind, *_, text in told(built(tmp_path / "a.pdf", story)) if kind == "heading"]
    assert [text.lstrip("# ") for text in found] == [
        "The Mills of the River",
        *("WATER", "Water and Gates", "STONES", "Stones and Gates", "SAILS", "Sails and Gates"),
    ]


def drawn(path: Path, pages: Sequence[Sequence[tuple[float, float, float, str]]], size: tuple[int, int]) -> Document:
    """Return the Document of a PDF with lines of text, given as x, y, size and text for each page."""
    canvas = pytest.importorskip("reportlab.pdfgen.canvas").Canvas(str(path), pagesize=size)
    for page in pages:
        for x, y, letters, text in page:
            canvas.setFont("Helvetica", letters)
            canvas.drawString(x, y, text)
        canvas.showPage()
    canvas.save()
    return read_pdf(path, path.name)


def test_largest_first_line_is_slide_title(tmp_path: Path) -> None:
    titles = ("Water", "Gates", "Stones", "Sails")
    pages = [
        [(30, 230, 12, title), *((40, 200 - 14 * line, 11, f"• {prose(6, number + line)}") for line in range(4))]
        for number, title in enumerate(titles)
    ]
    slides = drawn(tmp_path / "slides.pdf", pages, (363, 272))
    assert [text for kind, *_, text in told(slides) if kind == "heading"] == [f"## {title}" for title in titles]
    portrait = drawn(tmp_path / "letter.pdf", pages, (363, 472))
    assert "heading" not in kinds(portrait), "a line that is hardly larger is no heading elsewhere"


def test_reads_slides_with_an_empty_one(tmp_path: Path) -> None:
    titles = enumerate(("Water", "Gates", "Sails"))
    first, *others = [[(30, 230, 14, title), (40, 200, 11, prose(6, at))] for at, title in titles]
    slides = drawn(tmp_path / "slides.pdf", [first, [], *others], (363, 272))
    assert [text for kind, *_, text in told(slides) if kind == "heading"] == ["## Water", "## Gates", "## Sails"]
    assert len(slides.pages) == 4


@pytest.mark.parametrize("large", ["mf  ff", "8", "42", "𝑎𝑏 = 𝑐𝑑", "4.  4"])
def test_large_notation_and_lone_numbers_are_no_headings(tmp_path: Path, large: str) -> None:
    story = [*heading("The gates"), *text_of(prose(60)), *text_of(large, size=20), *text_of(prose(60, 3))]
    assert "heading" not in kinds(built(tmp_path / "a.pdf", story))[1:]


def test_lone_numbers_that_count_chapters_are_headings(tmp_path: Path) -> None:
    story = [part for number in range(1, 5) for part in (*heading(str(number)), *text_of(prose(60, number)))]
    assert kinds(built(tmp_path / "a.pdf", story)) == ["heading", "paragraph"] * 4


@pytest.mark.parametrize(
    ("over", "number"), [(("Chapter 1", "Chapter 2", "Chapter 3"), True), (("ONE", "TWO", "THREE"), False)]
)
def test_chapter_number_above_a_title_belongs_to_it(tmp_path: Path, over: tuple[str, ...], number: bool) -> None:
    pages = [
        [
            *((60, 780 - 14 * n, 11, prose(9, at + n)) for n in range(5 + 4 * at)),
            (60, 660 - 70 * at, 17, over[at]),
            (60, 600 - 70 * at, 24, title),
            *((60, 540 - 70 * at - 14 * n, 11, prose(9, at + n)) for n in range(15)),
        ]
        for at, title in enumerate(("Water", "Stones", "Sails"))
    ]
    found = [
        text.lstrip("# ") for kind, *_, text in told(drawn(tmp_path / "a.pdf", pages, (595, 842))) if kind == "heading"
    ]
    titles = ["Water", "Stones", "Sails"]
    assert found == ([f"Chapter {at}. {title}" for at, title in enumerate(titles, 1)] if number else titles)


def test_slides_with_one_title_are_one_section(tmp_path: Path) -> None:
    titles = ("Water", "Gates", "Gates", "Gates", "Stones", "Sails")
    pages = [
        [
            (30, 250, 14, title),
            (30, 230, 12, f"How they {WORDS[number + 1]}"),
            *((40, 200 - 14 * line, 10, f"◮ {prose(6, number + line)}") for line in range(4)),
            (300, 8, 14, "The Mill"),
        ]
        for number, title in enumerate(titles)
    ]
    found = told(drawn(tmp_path / "slides.pdf", pages, (363, 272)))
    below = [f"### How they {WORDS[number + 1]}" for number in range(len(titles))]
    assert [text for kind, *_, text in found if kind == "heading"] == [
        "## Water", below[0], "## Gates", *below[1:4], "## Stones", below[4], "## Sails", below[5]
    ]  # fmt: skip
    assert "The Mill" not in " ".join(text for *_, text in found)
    assert sum(kind == "item" for kind, *_ in found) == 4 * len(titles)


def test_removes_large_running_headers_with_raised_letters(tmp_path: Path) -> None:
    """The LaTeX logo, and a name with the page number, are both larger than the text."""
    pages = []
    for number in range(1, 9):
        header = [(60, 800, 12, f"{number} K. Miller")]
        if number % 2:
            header = [(60, 800, 12, "The L"), (90, 803, 9, "A"), (97, 800, 12, f"TEX of mills {number}")]
        text = [(60, 760 - 12 * line, 9, prose(20, number + line)) for line in range(20)]
        pages.append([*header, *text])
    document = drawn(tmp_path / "a.pdf", pages, (595, 842))
    assert "Miller" not in document.text
    assert "mills" not in document.text
    assert document.text.startswith(prose(20, 1))


def test_short_list_next_to_prose_is_a_column(tmp_path: Path) -> None:
    """A list of contents without page numbers, whose entries align with the lines of the text next to it."""
    platypus = pytest.importorskip("reportlab.platypus")
    entries = [f"{number} Mill of {WORDS[number]}s" for number in range(1, 16)]
    story = [platypus.Paragraph("<br/>".join(entries)), platypus.FrameBreak()]
    story += text_of(prose(220), alignment=4, leading=12)
    text = " ".join(built(tmp_path / "a.pdf", story, columns=2).text.split())
    assert text.index(entries[-1]) < text.index(prose(8))
    assert prose(220) in text


def test_paragraph_on_two_pages_has_both(tmp_path: Path) -> None:
    def furniture(canvas: Any, template: Any) -> None:
        canvas.setFont("Helvetica", 9)
        canvas.drawString(60, 800, "The Mill and its River")
        canvas.drawRightString(535, 30, f"Page {canvas.getPageNumber()}")

    document = built(tmp_path / "a.pdf", [*text_of(prose(3000)), *text_of(prose(30, 4))], furniture=furniture)
    assert len(document.pages) >= 3
    assert kinds(document) == ["paragraph", "paragraph"]
    assert " ".join(document.text.split()) == f"{prose(3000)} {prose(30, 4)}"
    assert [document.text[start - 1] for start in document.pages[1:]] == [" "] * (len(document.pages) - 1)
    passages = chunk(document, regex_tokens, 200)
    assert sorted({passage.page for passage in passages if passage.page}) == list(range(1, len(document.pages) + 1))


def test_reads_lists(tmp_path: Path) -> None:
    items = [f"<bullet>&bull;</bullet>Item {index} {prose(20, index)}" for index in range(2)]
    steps = [f"<bullet>{index}.</bullet>Step {prose(20, index)}" for index in (1, 2, 3)]
    story = [
        *text_of("Before the list:"), *text_of(*items, leftIndent=20, bulletIndent=8),
        *text_of("Then do this:"), *text_of(*steps, leftIndent=20, bulletIndent=8), *text_of(prose(30)),
    ]  # fmt: skip
    document = built(tmp_path / "a.pdf", story)
    assert [(kind, number) for kind, _, number, _ in told(document)] == [
        ("paragraph", None), ("item", None), ("item", None), ("paragraph", None),
        ("item", 1), ("item", 2), ("item", 3), ("paragraph", None),
    ]  # fmt: skip
    assert told(document)[1][3] == f"- Item 0 {prose(20)}"
    assert told(document)[5][3] == f"2. Step {prose(20, 2)}"


ROWS = [
    ["Tank", "Volume", "Drained"],
    ["North", "1,200 l", "in May"],
    ["South", "900 l", "never"],
    ["Well", "60 l", "in June"],
]
TABLE = """| Tank | Volume | Drained |
|---|---|---|
| North | 1,200 l | in May |
| South | 900 l | never |
| Well | 60 l | in June |"""


@pytest.mark.parametrize("lines", ["grid", "between", "none"])
def test_reads_tables(tmp_path: Path, lines: str) -> None:
    platypus = pytest.importorskip("reportlab.platypus")
    style: list[tuple[Any, ...]] = {
        "grid": [("GRID", (0, 0), (-1, -1), 0.5, "black")],
        "between": [
            (f"LINE{side}", (0, row), (-1, row), 0.5, "black")
            for side, row in (("ABOVE", 0), ("BELOW", 0), ("BELOW", -1))
        ],
        "none": [],
    }[lines]
    table = platypus.Table(ROWS, colWidths=[90, 90, 90], style=style)
    document = built(tmp_path / "a.pdf", [*text_of(prose(40)), table, *text_of(prose(40, 5), spaceBefore=12)])
    assert kinds(document) == ["paragraph", "table", "paragraph"]
    assert told(document)[1][3] == TABLE


def ruled(words: Sequence[tuple[float, float, str]], rules: Sequence[Rule]) -> tuple[list[list[list[str]]], list[str]]:
    """Return the rows of tables, and the words outside of tables, for positioned words and rules."""
    segments = [Segment([Word(text, x, x + 5 * len(text), y, 10)]) for x, y, text in words]
    tables, rest = find_ruled_tables(segments, rules)
    return [table.rows for table in tables], [segment.text for segment in rest]


def test_finds_table_with_rules_around_header_and_column_groups() -> None:
    words = [(15, 92, "Gate"), (95, 92, "Width"), (135, 92, "Depth")]
    rows = [
        ("north. . . .", "4.5", "2"),
        ("south", "3.2", "1"),
        ("east", "-", "3"),
        ("west", "6.1", "4"),
        ("old", "2.0", "9"),
    ]
    for index, cells in enumerate(rows):
        words += [(x, 78 - 12 * index, cell) for x, cell in zip((15, 95, 135), cells, strict=True)]
    rules = [Rule(10, y, 170, y) for y in (105, 88, 20)] + [Rule(85, 20, 85, 105)]
    tables, rest = ruled(words, rules)
    rows[0] = ("north", "4.5", "2")
    assert (tables, rest) == ([[["Gate", "Width", "Depth"], *map(list, rows)]], [])


def test_finds_table_between_rules_of_two_lengths() -> None:
    words = [(x, y, text) for y in (90, 70) for x, text in ((60, "gate"), (160, "keeper"), (300, "height"))]
    long = [Rule(50, y, 400, y) for y in (100, 80, 60)]
    short = [Rule(58, y - 3, 400, y - 3) for y in (100, 80, 60)]
    (table,), rest = ruled(words, [*long, *short])
    assert table == [["gate", "keeper", "height"]] * 2
    assert not rest


def test_reads_text_in_a_grid_that_is_not_a_table() -> None:
    across = [Rule(50, y, 300, y) for y in (100, 80, 60, 40)]
    down = [Rule(x, 40, x, 100) for x in (50, 200, 300)]
    tables, rest = ruled([(60, 85, "gates"), (60, 65, "stones"), (60, 45, "sails")], [*across, *down])
    assert not tables
    assert rest == ["gates", "stones", "sails"]


def test_cell_over_several_rows_is_in_each_of_them() -> None:
    """Its text is in the middle of its rows, as most programs draw it."""
    across = [Rule(0, y, 300, y) for y in (100, 80, 40, 20)] + [Rule(100, 60, 300, 60)]
    down = [Rule(x, 20, x, 100) for x in (0, 100, 200, 300)]
    words = [(10, 86, "Gate"), (110, 86, "Width"), (210, 86, "Year"), (10, 57, "north"), (110, 66, "4.5"),
             (210, 66, "1931"), (110, 46, "4.6"), (210, 46, "1932"), (10, 26, "south"), (110, 26, "3.2")]  # fmt: skip
    tables, rest = ruled(words, [*across, *down])
    assert tables == [
        [["Gate", "Width", "Year"], ["north", "4.5", "1931"], ["north", "4.6", "1932"], ["south", "3.2", ""]]
    ]
    assert not rest


def test_boxes_and_connectors_of_a_diagram_are_no_table() -> None:
    boxes = {(60, 280): "Upload", (260, 260): "Parse", (80, 180): "Chunk", (300, 150): "Embed", (480, 160): "Index"}
    rules, words = [], []
    for (x, y), text in boxes.items():
        rules += [Rule(x, y, x + 100, y), Rule(x, y + 36, x + 100, y + 36)]
        rules += [Rule(x, y, x, y + 36), Rule(x + 100, y, x + 100, y + 36)]
        words.append((x + 30, y + 12, text))
    rules += [Rule(160, 290, 260, 290), Rule(120, 216, 120, 280), Rule(180, 170, 300, 170), Rule(400, 170, 480, 170)]
    tables, rest = ruled(words, rules)
    assert not tables
    assert sorted(rest) == sorted(boxes.values())


def test_joins_lines_of_a_cell_and_parts_of_a_table(tmp_path: Path) -> None:
    platypus = pytest.importorskip("reportlab.platypus")
    cell = text_of(prose(25))[0]
    rows = [
        ["Gate", "What is done"],
        ["1", cell],
        *[[str(number), f"Look after gate {number}"] for number in range(2, 60)],
    ]
    style = [("GRID", (0, 0), (-1, -1), 0.5, "black")]
    document = built(tmp_path / "a.pdf", [platypus.Table(rows, colWidths=[60, 200], repeatRows=1, style=style)])
    assert kinds(document) == ["table"]
    lines = document.text.split("\n")
    assert lines[2] == f"| 1 | {prose(25)} |"
    assert len(lines) == 2 + 59
    assert lines.count("| Gate | What is done |") == 1
    assert document.text[document.pages[1] :].startswith("| ")


def test_removes_running_headers_page_numbers_and_contents(tmp_path: Path) -> None:
    platypus = pytest.importorskip("reportlab.platypus")

    def furniture(canvas: Any, template: Any) -> None:
        canvas.drawString(60, 800, "The Mill, a Handbook")
        canvas.drawCentredString(297, 30, str(canvas.getPageNumber()))

    entries = [f"{number} Chapter {'. ' * 40} {number + 1}" for number in range(1, 6)]
    story = [*heading("Contents"), *text_of(*entries), platypus.PageBreak()]
    for number in range(1, 6):
        story += [*heading(f"{number} Chapter"), *text_of(prose(60, number)), platypus.PageBreak()]
    document = built(tmp_path / "a.pdf", story, furniture=furniture)
    assert "Handbook" not in document.text
    assert "Contents" not in document.text
    assert ". . ." not in document.text
    assert kinds(document) == ["heading", "paragraph"] * 5
    assert len(document.pages) == 6
    assert document.left_out == {"running headers and page numbers": 12, "lines of contents and indexes": 6}


@pytest.mark.parametrize("size", [(595, 842), (842, 595)])
@pytest.mark.parametrize("height", [60, 560])
@pytest.mark.parametrize("pages", [2, 4, 12])
def test_numbers_that_differ_from_page_to_page_stay(
    tmp_path: Path, size: tuple[int, int], height: int, pages: int
) -> None:
    totals = [f"Total due {(37 * page * page) % 101 + 100}.{(53 * page) % 97:02}" for page in range(pages, 0, -1)]
    drawing = [
        [
            (60, height, 10, total),
            (300, 20, 9, f"Invoice file, page {page} of {pages}"),
            *((60, 500 - 15 * line, 10, prose(12, line)) for line in range(12)),
        ]
        for page, total in enumerate(totals, 1)
    ]
    text = drawn(tmp_path / "a.pdf", drawing, size).text
    assert [total for total in totals if total not in text] == []
    assert "Invoice file" not in text


@pytest.mark.parametrize(
    "lines",
    [
        [f"Chapter {1 + page // 3}, page {page}" for page in range(1, 13)],
        [f"{1 + page // 4}-{1 + page % 4}" for page in range(12)],
        [f"Section {number} of the act" for number in (3, 9, 17, 21, 40, 44, 58, 60, 77, 81, 95, 99)],
        [f"Printed on 2026-11-27, sheet {page}/12" for page in range(1, 13)],
        [*(f"Mills {number}" for number in "i ii iii iv".split()), *(f"Mills {page}" for page in range(1, 9))],
    ],
)
def test_numbers_that_rise_with_the_pages_are_running_headers(tmp_path: Path, lines: list[str]) -> None:
    pages = [
        [(60, 560, 10, line), *((60, 500 - 15 * row, 10, prose(12, row + 20 * at)) for row in range(12))]
        for at, line in enumerate(lines)
    ]
    text = drawn(tmp_path / "a.pdf", pages, (595, 842)).text
    assert [line for line in lines if line in text] == []


def test_pages_with_only_page_numbers_are_empty(tmp_path: Path) -> None:
    numbers = drawn(tmp_path / "numbers.pdf", [[(300, 40, 10, f"Page {page}")] for page in range(1, 5)], (595, 842))
    assert (numbers.text, numbers.blocks, numbers.pages) == ("", (), (0, 0, 0, 0))
    assert problems(tmp_path) == ["numbers.pdf: empty: there is no text in it"]


def test_lines_that_all_pages_repeat_stay_once_if_there_is_little_else(tmp_path: Path) -> None:
    tickets = [[(50, 700, 12, "Concert of the choir"), (50, 680, 12, f"Seat {seat}")] for seat in range(1, 9)]
    document = drawn(tmp_path / "a.pdf", tickets, (595, 842))
    assert document.text.count("Concert of the choir") == 1
    assert all(f"Seat {seat}" in document.text for seat in range(1, 9))
    assert document.left_out == {"running headers and page numbers": 7}


def test_joins_hyphenated_words_and_splits_ligatures(tmp_path: Path) -> None:
    lines = ["The keeper of the mill opens the office of the con-", "federation, whose flood-", "gates are shut.",
             "A confederation needs flood-gates in its middle line."]  # fmt: skip
    canvas = pytest.importorskip("reportlab.pdfgen.canvas").Canvas(str(tmp_path / "a.pdf"))
    for index, line in enumerate(lines):
        canvas.drawString(72, 720 - 14 * index, line)
    canvas.save()
    text = " ".join(read_pdf(tmp_path / "a.pdf", "a.pdf").text.split())
    assert "of the confederation, whose flood-gates are shut." in text
    from turnmark.corpora.readers.pdf.page.letters import normalize_letters

    assert normalize_letters("eﬃcient ﬁnal ﬂood") == "efficient final flood"
    assert normalize_letters("caf´e na¨ıve") == "café naïve"


def test_decodes_ligatures_of_bitmap_fonts(tmp_path: Path) -> None:
    """TeX's bitmap fonts (type 3) have character codes, here those of T1 and TS1, but no names."""
    lines = b"(The \x10unified\x11 \x1dood is de\x1cned.) Tj 0 -14 Td (It o\x1bers su\x1ecient room.) Tj"
    content = b"BT /F 10 Tf 72 700 Td " + lines + b" ET"
    glyph = b"500 0 0 0 500 700 d1 0 0 400 700 re f"
    codes = b" ".join(b"%d /a%d" % (code, code) for code in range(16, 128))
    procedures = b" ".join(b"/a%d 6 0 R" % code for code in range(16, 128))
    font = (
        b"/Subtype /Type3 /FontBBox [0 0 500 700] /FontMatrix [.001 0 0 .001 0 0] /FirstChar 16 "
        b"/LastChar 127 /Widths [" + b"500 " * 112 + b"] /Encoding << /Type /Encoding /Differences [" + codes
        + b"] >> /CharProcs << " + procedures + b" >> /Resources << >>"
    )  # fmt: skip
    (tmp_path / "a.pdf").write_bytes(page_with(content, font, b"", glyph))
    text_read = " ".join(read_pdf(tmp_path / "a.pdf", "a.pdf").text.split())
    assert text_read == "The “unified” flood is defined. It offers sufficient room."


def test_reads_text_in_form_fields(tmp_path: Path) -> None:
    canvas = pytest.importorskip("reportlab.pdfgen.canvas").Canvas(str(tmp_path / "a.pdf"))
    canvas.drawString(40, 440, "The keeper of the gates is called")
    canvas.acroForm.textfield(
        name="keeper", value="Ann Smith", x=220, y=432, width=200, height=20, fontName="Helvetica"
    )
    canvas.save()
    text = " ".join(read_pdf(tmp_path / "a.pdf", "a.pdf").text.split())
    assert text == "The keeper of the gates is called Ann Smith"


def test_reads_pages_from_right_to_left(tmp_path: Path) -> None:
    """The font draws capitals as Hebrew letters. As in any such file, the leftmost letter is drawn first."""
    said = str.maketrans({chr(65 + at): chr(0x5D0 + at) for at in range(26)})

    def line(y: int, *words: str, right: int = 555) -> bytes:
        seen = " ".join(word[::-1] if word.isupper() else word for word in reversed(words))
        return b"BT /F 10 Tf %d %d Td (%s) Tj ET\n" % (right - 5 * len(seen), y, seen.encode())

    first = "ABCD EFG HIJKL MNOP QRS ABCDE FGH IJKLM 2024 NOP QRST ABC DEFG HIJK".split()
    second = ["LMN", "windows 11", "OPQR", "17:30", "STA"]
    cells = [line(500, "GHI"), line(500, "NOP", right=455), line(480, "JKLM"), line(480, "4.5", right=455)]
    rules = b"".join(b"%d %d 100 20 re S\n" % (x, y) for x in (360, 460) for y in (475, 495))
    page = line(700, *first) + line(686, *second) + b"".join(cells) + rules
    page += b"BT /F 10 Tf 60 300 Td (it says so there) Tj ET"
    other = b"BT /F 10 Tf 60 300 Td (it says %s there, and no more than that) Tj ET" % b"FED CBA"
    cmap = (
        b"/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <00> <ff> endcodespacerange "
        b"3 beginbfrange <20> <40> <0020> <41> <5a> <05d0> <61> <7a> <0061> endbfrange endcmap end"
    )
    font = (
        b"/Subtype /Type1 /BaseFont /Helvetica /FirstChar 32 /LastChar 126 /Widths ["
        + b"500 " * 95 + b"] /ToUnicode 6 0 R"
    )  # fmt: skip
    texts = []
    for content in (page, other):
        (tmp_path / "a.pdf").write_bytes(page_with(content, font, b"", cmap))
        texts.append(read_pdf(tmp_path / "a.pdf", "a.pdf").text)
    prose = " ".join([*first, *second])
    table = "| GHI | NOP |\n|---|---|\n| JKLM | 4.5 |"
    assert texts == [
        f"{prose}\n\n{table}\n\nit says so there".translate(said),
        "it says ABC DEF there, and no more than that".translate(said),
    ]


def test_puts_numbers_addresses_and_brackets_of_leftward_text_in_order() -> None:
    """As pdfium returns them, each with its place on the page, where the number says the column from the left."""
    seen = [
        ("א", 30),
        ("ב", 29),
        (" ", 28),
        ("e", 24),
        ("x", 25),
        (".", 23),
        ("f", 21),
        ("i", 22),
        ("@", 20),
        ("h", 19),
    ]
    seen += [(" ", 18), (")", 17), ("2", 15), ("4", 16), (" ", 14), ("ג", 13), ("(", 12), (" ", 11), (".", 6)]
    seen += [("2", 7), ("0", 8)]
    boxes = [Box(left, 0, left + 1, 1) for _, left in seen]
    ordered = reading_order([letter for letter, _ in seen], boxes.__getitem__)
    assert "".join(letter for _, letter, _ in ordered) == "אב h@fi.ex (24 ג) 20."


def test_puts_the_parts_of_a_ligature_from_right_to_left() -> None:
    letters, boxes = "اإلج", [Box(30, 0, 33, 1), Box(24, 0, 27, 1), Box(27, 0, 30, 1), Box(20, 0, 24, 1)]
    assert "".join(letter for _, letter, _ in reading_order(letters, boxes.__getitem__)) == "الإج"


def test_one_illegible_page_does_not_refuse_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "is_installed", lambda _: False)
    private = (
        b"/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <00> <ff> endcodespacerange "
        b"1 beginbfrange <20> <7a> <e020> endbfrange endcmap end"
    )
    words = b"BT /F 10 Tf 60 700 Td (The pump costs 4,500 euros, and the rest of it is a secret) Tj ET"
    font = b"/Subtype /Type1 /BaseFont /Helvetica /FirstChar 32 /LastChar 126 /Widths [" + b"500 " * 95 + b"]"
    (tmp_path / "b.pdf").write_bytes(page_with(words * 3, font + b" /ToUnicode 6 0 R", b"", private))
    (tmp_path / "a.pdf").write_bytes(page_with(words))
    both = pypdfium2.PdfDocument(tmp_path / "a.pdf")
    both.import_pages(pypdfium2.PdfDocument(tmp_path / "b.pdf"))
    both.save(tmp_path / "c.pdf")
    document, problem = read(tmp_path / "c.pdf", "c.pdf", no_progress)
    assert isinstance(document, Document)
    assert document.text.strip() == "The pump costs 4,500 euros, and the rest of it is a secret"
    assert "page 2 without text that can be read" in str(problem)


def test_letters_that_a_font_only_shifts_into_the_private_area_are_legible(tmp_path: Path) -> None:
    shifted = (
        b"/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <00> <ff> endcodespacerange "
        b"1 beginbfrange <21> <7a> <f021> endbfrange endcmap end"
    )
    words = b"BT /F 10 Tf 60 700 Td (The pump costs 4,500 euros, with the seal) Tj ET"
    font = (
        b"/Subtype /Type1 /BaseFont /Helvetica /FirstChar 32 /LastChar 126 /Widths ["
        + b"500 " * 95
        + b"] /ToUnicode 6 0 R"
    )
    (tmp_path / "a.pdf").write_bytes(page_with(words, font, b"", shifted))
    assert read_pdf(tmp_path / "a.pdf", "a.pdf").text.strip() == "The pump costs 4,500 euros, with the seal"
    pictures = b"BT /F 10 Tf 60 700 Td (#$%&'*+,-./:;<=>?@#$%&*+,-./) Tj ET"
    (tmp_path / "b.pdf").write_bytes(page_with(pictures, font, b"", shifted))
    assert page_text.read_page(pypdfium2.PdfDocument(tmp_path / "b.pdf")[0]).unread


def test_leaves_out_white_words_on_white_and_keeps_those_on_dark(tmp_path: Path) -> None:
    canvas = pytest.importorskip("reportlab.pdfgen.canvas").Canvas(str(tmp_path / "a.pdf"), pagesize=(595, 842))
    canvas.drawString(60, 700, "The pump costs 4,500 euros.")
    canvas.rect(50, 590, 300, 30, stroke=0, fill=1)
    canvas.setFillColorRGB(1, 1, 1)
    canvas.drawString(60, 600, "White on dark.")
    canvas.drawString(60, 500, "Praise the candidate.")
    canvas.save()
    document = read_pdf(tmp_path / "a.pdf", "a.pdf")
    assert "White on dark." in document.text
    assert "Praise" not in document.text
    assert document.left_out == {"white words on white": 3}


def test_code_keeps_lines_and_indents(tmp_path: Path) -> None:
    platypus, styles = pytest.importorskip("reportlab.platypus"), pytest.importorskip("reportlab.lib.styles")
    code = "def gate(level):\n    if level > 3:\n        close()\n    return level"
    look = styles.ParagraphStyle("c", fontName="Courier", fontSize=9, leading=11, spaceAfter=10)
    document = built(
        tmp_path / "a.pdf", [*text_of(prose(40)), platypus.Preformatted(code, look), *text_of(prose(40, 5))]
    )
    assert kinds(document) == ["paragraph", "code", "paragraph"]
    assert told(document)[1][3] == f"```\n{code}\n```"


def test_shell_prompt_begins_code_in_any_font(tmp_path: Path) -> None:
    lines = ["Type this at the mill, and it turns:", "$ make water", "$ make mill", "$ 5 are due then."]
    places = [(60, 700 - 40 * (number in (0, 3)) - 12 * number, 10, line) for number, line in enumerate(lines)]
    places[0] = (60, 760, 10, lines[0])
    document = drawn(tmp_path / "a.pdf", [places], (595, 842))
    assert kinds(document) == ["paragraph", "code", "paragraph"]
    assert told(document)[1][3] == "```\n$ make water\n$ make mill\n```"


def test_footnotes_do_not_divide_a_paragraph(tmp_path: Path) -> None:
    def furniture(canvas: Any, template: Any) -> None:
        if canvas.getPageNumber() == 1:
            canvas.setFont("Helvetica", 7)
            canvas.drawString(60, 50, "1 A note at the foot.")

    document = built(tmp_path / "a.pdf", text_of(prose(1400)), furniture=furniture)
    assert len(document.pages) == 2
    assert [text for *_, text in told(document)] == ["1 A note at the foot.", prose(1400)]


@pytest.mark.parametrize(("written", "date"), [("3 March 2021", "2021-03-03"), ("3. Oktober 2021", "2021-10-03")])
def test_reads_title_and_date(tmp_path: Path, written: str, date: str) -> None:
    canvas = pytest.importorskip("reportlab.pdfgen.canvas").Canvas(str(tmp_path / "a-b.pdf"))
    canvas.setTitle("Keeping a Mill")
    canvas.drawString(72, 720, f"Keeping a mill, as of {written}")
    canvas.save()
    document = read_pdf(tmp_path / "a-b.pdf", "a-b.pdf")
    assert (document.title, document.date) == ("Keeping a Mill", date)
    canvas = pytest.importorskip("reportlab.pdfgen.canvas").Canvas(str(tmp_path / "a-b.pdf"))
    canvas.setTitle("Microsoft Word - mill.doc")
    canvas.drawString(72, 720, "Nothing more.")
    canvas.save()
    document = read_pdf(tmp_path / "a-b.pdf", "a-b.pdf")
    assert (document.title, len(document.date)) == ("a b", 10)


# --- scans -----------------------------------------------------------------------------------------------------------


def test_reads_scans_by_ocr(tmp_path: Path) -> None:
    scan(
        tmp_path / "scan.pdf", ["The mill has three gates.", "Each is shut at night."], [], ["The keeper has 14 keys."]
    )
    said: list[str] = []
    (document,) = read_source(tmp_path, report=ReadingReport(tell=said.append))
    assert isinstance(document, Document)
    assert document.text.split("\n\n") == [
        "The mill has three gates. Each is shut at night.",
        "The keeper has 14 keys.",
    ]
    assert document.pages == (0, *[document.text.index("The keeper")] * 2)
    assert "reading scan.pdf, page 1 of 3 (OCR)" in said
    assert any(re.fullmatch(r"reading scan\.pdf, page 3 of 3 \(OCR, confidence [01]\.\d\d\)", line) for line in said)


def test_caches_ocr_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan(tmp_path / "scan.pdf", ["The mill has three gates.", "Each is shut at night."], [])
    first = read_pdf(tmp_path / "scan.pdf", "scan.pdf")
    kept = sorted((home() / "cache" / "ocr").glob("*.json"))
    assert len(kept) == 2
    with monkeypatch.context() as patch:
        patch.setattr(ocr, "_engine", lambda: pytest.fail("a page was read again"))
        assert read_pdf(tmp_path / "scan.pdf", "scan.pdf") == first
    for path in kept:
        path.write_text("{", encoding="utf-8")
    assert read_pdf(tmp_path / "scan.pdf", "scan.pdf") == first


def test_reports_scanned_pages_without_ocr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (ocr, pdf_document):
        monkeypatch.setattr(module, "is_installed", lambda _: False)
    scan(tmp_path / "scan.pdf", ["The mill has three gates."], ["The keeper has 14 keys."])
    with pytest.raises(
        Unreadable, match="without text on its 2 pages, so probably scanned; run OCR on it first, or pip"
    ):
        read_pdf(tmp_path / "scan.pdf", "scan.pdf")
    built(tmp_path / "text.pdf", text_of(prose(40)))
    with pypdfium2.PdfDocument(tmp_path / "text.pdf") as mixed, pypdfium2.PdfDocument(tmp_path / "scan.pdf") as scanned:
        mixed.import_pages(scanned)
        mixed.save(tmp_path / "mixed.pdf")
    document, problem = read(tmp_path / "mixed.pdf", "mixed.pdf", no_progress)
    assert isinstance(document, Document)
    assert prose(40)[:30] in document.text
    assert isinstance(problem, Problem)
    assert problem.what.startswith("pages 2-3 without text that can be read, so probably scanned; to read them: pip")


def test_ocr_evens_sizes_and_places_words_within_lines() -> None:
    corners = [[[10, top], [110, top], [110, bottom], [10, bottom]] for top, bottom in ((90, 50), (40, 30), (20, 9))]
    texts = ["Gates", "shut at night", "by a keeper"]
    words = [word for _, word in ocr.words_of(texts, np.array(corners, dtype=np.float64), 0)]
    ocr.even_sizes([PdfPage(120, 100, words, [])], [PdfPage(120, 100, words, [])])
    heading, *others = words
    assert heading.size == 30
    assert len({word.size for word in others}) == 1
    assert [(word.text, round(word.x0), round(word.x1)) for word in words[1:4]] == [
        ("shut", 10, 41), ("at", 48, 64), ("night", 72, 110),
    ]  # fmt: skip
    assert heading.base == 100 - 50 + 8


# --- hostile files ---------------------------------------------------------------------------------------------------


def raw_pdf(*objects: bytes, root: int = 1) -> bytes:
    """Write a PDF of objects, numbered from 1."""
    body, offsets = b"%PDF-1.7\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = b"trailer << /Size %d /Root %d 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, root, len(body))
    return body + b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table) + trailer


def page_with(
    content: bytes, font: bytes = b"/Subtype /Type1 /BaseFont /Helvetica", more: bytes = b"", *streams: bytes
) -> bytes:
    """Write a PDF of one page with one font, object 5.

    Args:
        streams: objects from 6 on, to which the font refers.
    """
    packed = zlib.compress(content)
    return raw_pdf(
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> "
        + more + b" >> >>",
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(packed), packed),
        b"<< /Type /Font " + font + b" >>",
        *(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream) for stream in streams),
    )  # fmt: skip


def test_reports_hostile_pdfs_and_reads_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each problem says what is wrong. The files after it are read, by the same process or a new one."""
    monkeypatch.setattr(isolation, "MAX_PAGE_SECONDS", 20.0)
    good = page_with(b"BT /F 12 Tf 72 700 Td (The gates are shut.) Tj ET")
    many = b" ".join(b"%d 0 R" % number for number in range(3, 4))
    files = {
        "a-loop.pdf": raw_pdf(
            b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 /Parent 2 0 R >>"
        ),
        "b-pages.pdf": raw_pdf(
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Count 10000 /Kids [" + b" ".join([many] * 10_000) + b"] >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] >>",
        ),
        "c-cut.pdf": good[: len(good) // 3],
        "d-fonts.pdf": page_with(
            b"BT /F 12 Tf 72 700 Td <0001000200030004000500060007> Tj ET",
            b"/Subtype /Type0 /BaseFont /X /Encoding /Identity-H /DescendantFonts "
            b"[<< /Type /Font /Subtype /CIDFontType2 /BaseFont /X "
            b"/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>]",
        ),
        "z-good.pdf": good,
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    found = problems(tmp_path)
    assert [line.split(":")[0] for line in found] == sorted(files)[:-1]
    assert "no page can be opened" in found[0]
    assert "10,000 pages; it may have 5,000 at most" in found[1]
    assert "broken" in found[2]
    assert "without text on its 1 page" in found[3]  # OCR finds no text either
    (document,) = [item for item in read_source(tmp_path) if isinstance(item, Document)]
    assert document.text == "The gates are shut."


def test_abandons_slow_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nested form objects draw one word 10^9 times."""
    forms = []
    for level in range(9):
        inner = b"/N Do " * 10 if level < 8 else b"BT /F 9 Tf (x) Tj ET"
        resources = b"/XObject << /N %d 0 R >>" % (7 + level) if level < 8 else b"/Font << /F 5 0 R >>"
        entries = b"/Type /XObject /Subtype /Form /BBox [0 0 600 800] /Resources << %s >> /Length %d"
        forms.append(b"<< " + entries % (resources, len(inner)) + b" >>\nstream\n%s\nendstream" % inner)
    bomb = raw_pdf(
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R "
        b"/Resources << /XObject << /N 6 0 R >> >> >>",
        b"<< /Length 30 >>\nstream\n/N Do /N Do /N Do /N Do /N Do \nendstream",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        *forms,
    )
    (tmp_path / "a-bomb.pdf").write_bytes(bomb)
    (tmp_path / "b-good.pdf").write_bytes(page_with(b"BT /F 12 Tf 72 700 Td (The gates are shut.) Tj ET"))
    items = read_source(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(isolation, "MAX_PAGE_SECONDS", 2.0)
        first = str(next(items))
    assert "given up after 2 seconds" in first or "stopped its reader" in first
    assert isinstance(next(items), Document)


def test_reader_has_memory_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of 30 million characters, compressed to 30 kB, exceeds the memory limit of the process."""
    pytest.importorskip("resource")
    content = b"BT /F 1 Tf 1 0 0 1 9 9 Tm " + b"(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) Tj " * 1_000_000 + b"ET"
    (tmp_path / "a.pdf").write_bytes(page_with(content))
    (tmp_path / "b.pdf").write_bytes(page_with(b"BT /F 12 Tf 72 700 Td (The gates are shut.) Tj ET"))
    monkeypatch.setattr(isolation, "MAX_PAGE_SECONDS", 120.0)
    items = list(read_source(tmp_path))
    assert "GB of memory" in str(items[0])
    assert isinstance(items[1], Document)


def read_one(path: Path) -> Document:
    """Return the Document of a PDF, read by the reusable process."""
    (document,) = isolation.read_isolated("turnmark.corpora.readers.pdf.document:read", path, path.name)
    assert isinstance(document, Document)
    return document


def test_reuses_process_and_replaces_crashed_one(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(page_with(b"BT /F 12 Tf 72 700 Td (The gates are shut.) Tj ET"))
    read_one(tmp_path / "a.pdf")
    first = isolation._free.queue[-1]
    read_one(tmp_path / "a.pdf")
    assert isolation._free.queue[-1] is first
    first._process.kill()
    first._process.wait()
    with pytest.raises(isolation.Unreadable, match="stopped its reader"):
        read_one(tmp_path / "a.pdf")
    assert read_one(tmp_path / "a.pdf").text == "The gates are shut."
    assert isolation._free.queue[-1] is not first


def test_size_of_the_parent_process_ends_no_worker(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(page_with(b"BT /F 12 Tf 72 700 Td (The gates are shut.) Tj ET"))
    isolation.end_processes()
    large = b"x" * (isolation.MAX_KEPT_BYTES + 1)  # Linux also counts it as the peak memory of the worker
    read_one(tmp_path / "a.pdf")
    del large
    assert not isolation._free.queue[-1].ended


def test_reports_file_without_permission(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_one(tmp_path / "none.pdf")
