"""PDFs with dot leaders: price lists, codes and hours are rows of a table, and tables of contents are left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.corpora.reading import read_pdf
from turnmark.corpora.types import Document

FEES = (("Parking for a day", "12"), ("Locker for a week", "15"), ("Lost key", "45"), ("Late return", "5"))
CODES = (("(1) Mescaline", "7381"), ("(2) Peyote", "7415"), ("(3) Ibogaine", "7260"), ("(4) Bufotenine", "7433"))
RISING = (("Chapter fee", "1"), ("Locker", "2"), ("Lost key", "4"), ("Membership", "12"))
MENU = (("Espresso", "2.50"), ("Flat white", "3.60"), ("Apple cake", "4.10"))
HOURS = (("Monday", "9-17"), ("Tuesday", "9-17"), ("Saturday", "10-12"), ("Sunday", "closed"))


def draw_list(canvas: Any, entries: Sequence[tuple[str, str]], joined: bool, top: float = 700) -> None:
    """Draw entries with dot leaders, each in one piece or with its name, dots and number drawn one by one."""
    canvas.setFont("Helvetica", 11)
    for row, (name, number) in enumerate(entries):
        y = top - 18 * row
        begin = 72 + canvas.stringWidth(name, "Helvetica", 11)
        dots = "." * int((440 - begin) / canvas.stringWidth(".", "Helvetica", 11))
        if joined:
            canvas.drawString(72, y, f"{name}{dots}{number}")
            continue
        canvas.drawString(72, y, name)
        canvas.drawString(begin + 5, y, dots)
        canvas.drawString(446, y, number)


def draw_heading(canvas: Any, text: str, top: float = 760) -> None:
    canvas.setFont("Helvetica-Bold", 18)
    canvas.drawString(72, top, text)


def draw_chapter(canvas: Any, title: str) -> None:
    draw_heading(canvas, title)
    canvas.setFont("Helvetica", 11)
    words = "gates open early each morning because rivers rise after rain and keepers must walk along banks".split()
    start = sum(map(ord, title))
    for row in range(20):
        line = " ".join(words[(start * (row + 1) + at * at) % len(words)] for at in range(10))
        canvas.drawString(72, 720 - 15 * row, line)
    canvas.showPage()


def new_canvas(path: Path) -> Any:
    return pytest.importorskip("reportlab.pdfgen.canvas").Canvas(str(path))


def table(entries: Sequence[tuple[str, str]]) -> str:
    rows = [f"| {name} | {number} |" for name, number in entries]
    return "\n".join([rows[0], "|---|---|", *rows[1:]])


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("entries", [FEES, CODES, RISING, MENU, HOURS])
@pytest.mark.parametrize("head", ["Fees", "Contents"])
def test_list_with_leaders_is_a_table(
    tmp_path: Path, entries: Sequence[tuple[str, str]], joined: bool, head: str
) -> None:
    canvas = new_canvas(tmp_path / "a.pdf")
    draw_heading(canvas, head)
    draw_list(canvas, entries, joined)
    canvas.save()
    assert read_pdf(tmp_path / "a.pdf", "a.pdf").text == f"# {head}\n\n{table(entries)}"


def draw_spaced_leaders(canvas: Any, entries: Sequence[tuple[str, str]], way: str) -> None:
    """Draw entries with a space after each dot of their leaders."""
    canvas.setFont("Helvetica", 11)
    for row, (name, number) in enumerate(entries):
        y = 700 - 18 * row
        if way.startswith("in one piece"):
            gap = "" if way.endswith("without a space") else " "
            canvas.drawString(72, y, f"{name}{gap}{' '.join('.' * 30)}{gap}{number}")
            continue
        step = 15 if way == "far apart" else 6
        canvas.drawString(72, y, name)
        for x in range(150, 420, step):
            canvas.drawString(x, y, ". " if way == "dot and space" else ".")
        canvas.drawString(428 - (7 if way == "dot and space" else 0), y, number)


@pytest.mark.parametrize(
    "way", ["in one piece", "in one piece without a space", "dot by dot", "dot and space", "far apart"]
)
@pytest.mark.parametrize("entries", [FEES, MENU, MENU[:2]])
def test_numbers_stay_beside_their_names_with_spaced_leaders(
    tmp_path: Path, entries: Sequence[tuple[str, str]], way: str
) -> None:
    canvas = new_canvas(tmp_path / "a.pdf")
    draw_heading(canvas, "Fees")
    draw_spaced_leaders(canvas, entries, way)
    canvas.save()
    assert read_pdf(tmp_path / "a.pdf", "a.pdf").text == f"# Fees\n\n{table(entries)}"


def test_blanks_of_a_form_and_pauses_in_sentences_are_no_rows(tmp_path: Path) -> None:
    canvas = new_canvas(tmp_path / "a.pdf")
    canvas.setFont("Helvetica", 11)
    canvas.drawString(72, 700, "Name . . . . . . . . . .   Date . . . . . . . . . .")
    canvas.drawString(72, 680, "He waited . . . . . . and left the house without a word.")
    canvas.save()
    assert "|" not in read_pdf(tmp_path / "a.pdf", "a.pdf").text


def test_price_list_in_a_long_document_stays(tmp_path: Path) -> None:
    canvas = new_canvas(tmp_path / "a.pdf")
    for title in ("North", "South", "East", "West", "Centre", "Harbour"):
        draw_chapter(canvas, title)
    draw_heading(canvas, "Fees")
    draw_list(canvas, RISING, joined=False)
    canvas.save()
    assert table(RISING) in read_pdf(tmp_path / "a.pdf", "a.pdf").text


def handbook(path: Path, head: str, offset: int, *, linked: bool = False) -> Document:
    """Make a document of ten chapters with a table of contents, whose page numbers are shifted."""
    titles = [f"{name} gate" for name in "Amber Birch Cedar Dune Elder Fjord Grove Heath Inlet Jetty".split()]
    canvas = new_canvas(path)
    if head:
        draw_heading(canvas, head)
    draw_list(canvas, [(title, str(at + offset)) for at, title in enumerate(titles, 2)], joined=False)
    if linked:
        for row, title in enumerate(titles):
            canvas.linkRect("", title, (72, 697 - 18 * row, 460, 710 - 18 * row))
    canvas.showPage()
    for title in titles:
        if linked:
            canvas.bookmarkPage(title)
        draw_chapter(canvas, "Part" if linked else title)
    canvas.save()
    return read_pdf(path, path.name)


@pytest.mark.parametrize("offset", [0, 12, 340])
@pytest.mark.parametrize("head", ["Contents", ""])
def test_contents_are_recognized_by_the_pages_of_their_titles(tmp_path: Path, head: str, offset: int) -> None:
    text = handbook(tmp_path / "a.pdf", head, offset).text
    assert text.startswith("# Amber gate\n\n")
    assert text.count("Jetty gate") == 1


def test_contents_are_recognized_by_their_links(tmp_path: Path) -> None:
    text = handbook(tmp_path / "a.pdf", "", 700, linked=True).text
    assert "Amber gate" not in text


@pytest.mark.parametrize("number", [12, 7300])
def test_page_of_terms_with_numbers_is_an_index_only_if_they_are_pages(tmp_path: Path, number: int) -> None:
    canvas = new_canvas(tmp_path / "a.pdf")
    for at in range(20):
        draw_chapter(canvas, f"Part {at}")
    canvas.setFont("Helvetica", 11)
    for row, term in enumerate("apple birch cedar dune elder fjord grove heath inlet jetty knoll lagoon".split()):
        canvas.drawString(72, 720 - 18 * row, f"{term}, {number + row % 5}")
    canvas.save()
    assert ("lagoon" in read_pdf(tmp_path / "a.pdf", "a.pdf").text) == (number == 7300)


@pytest.mark.parametrize("head", ["Index", "Departures"])
def test_terms_with_several_numbers_are_left_out_only_under_the_title_of_an_index(tmp_path: Path, head: str) -> None:
    canvas = new_canvas(tmp_path / "a.pdf")
    draw_chapter(canvas, "Part")
    draw_heading(canvas, head)
    canvas.setFont("Helvetica", 11)
    for row, term in enumerate(
        "Amble Barrow Calder Dunmow Exeter Fleet Goole Hatton Ilford Jarrow Kendal Ludlow".split()
    ):
        canvas.drawString(72, 720 - 18 * row, f"{term} {112 + row}, {142 + row}, {255 + row}")
    canvas.save()
    assert ("Ludlow" in read_pdf(tmp_path / "a.pdf", "a.pdf").text) == (head == "Departures")
