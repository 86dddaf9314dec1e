"""Pictures in Office files, books, notebooks and markup languages."""

from __future__ import annotations

import base64
import json
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from tests.corpora.made import by_pandoc
from tests.corpora.shown import before, picture, stored
from turnmark.corpora.readers import read_file
from turnmark.corpora.types import Document

PAGE = """# Gates

The keeper shuts them at night.

![The north gate](gate.png)

Then ![the wheel](wheel.jpg) turns.

Again:

![](gate.png)

![](icon.png)

| Gate | Look |
|------|------|
| west | ![](west.png) |
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "source"
    made.mkdir()
    (made / "gate.png").write_bytes(picture("red"))
    (made / "wheel.jpg").write_bytes(picture("blue", form="JPEG"))
    (made / "west.png").write_bytes(picture("green"))
    (made / "icon.png").write_bytes(picture("red", (32, 32)))
    return made


def read(path: Path, folder: Path | None) -> Document:
    """Read the only document of a file, with its pictures if there is a folder for them."""
    (document,) = read_file(path, path.name, pictures=folder)
    assert isinstance(document, Document), document
    return document


@pytest.mark.parametrize("suffix", [".docx", ".odt", ".epub", ".fb2"])
def test_pictures_of_texts_stand_where_they_are_shown(root: Path, folder: Path, suffix: str) -> None:
    path = by_pandoc(root / f"mill{suffix}", PAGE, f"--resource-path={root}")
    document, plain = read(path, folder), read(path, None)
    assert plain.left_out["pictures"] == len(document.pictures)
    assert stored(folder, document)[:2] == [picture("red"), picture("blue", form="JPEG")]
    after_paragraph = before(document)[:2]
    assert after_paragraph[0] in ("The north gate", "The keeper shuts them at night.")
    assert after_paragraph[1].startswith("Then")
    assert " ".join(document.text.split()) == " ".join(plain.text.replace("|  |", "| |").split())


def test_pictures_of_cells_stand_after_their_table(root: Path, folder: Path) -> None:
    document = read(by_pandoc(root / "mill.docx", PAGE, f"--resource-path={root}"), folder)
    assert stored(folder, document)[-1] == picture("green")
    assert before(document)[-1].startswith("| Gate | Look |")


def test_pictures_of_a_slide_stand_on_that_slide(root: Path, folder: Path) -> None:
    deck = "# One\n\n![A red gate](gate.png)\n\n# Two\n\nWords.\n\n# Three\n\n![](wheel.jpg)\n"
    path = by_pandoc(root / "deck.pptx", deck, f"--resource-path={root}")
    document, plain = read(path, folder), read(path, None)
    assert document.text == plain.text
    assert plain.left_out == {"pictures": 2}
    assert [document.text[: each.start].count("## ") for each in document.pictures] == [1, 3]


def test_slides_of_pictures_only_are_read_if_these_are_described(root: Path, folder: Path) -> None:
    with zipfile.ZipFile(root / "deck.odp", "w") as packed:
        packed.writestr("mimetype", "application/vnd.oasis.opendocument.presentation")
        packed.writestr("Pictures/a.png", picture("red"))
        packed.writestr(
            "content.xml",
            """<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
            xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"
            xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0"
            xmlns:xlink="http://www.w3.org/1999/xlink"><office:body><office:presentation><draw:page><draw:g><draw:frame>
            <draw:image xlink:href="Pictures/a.png"/><svg:desc>A red gate</svg:desc></draw:frame></draw:g></draw:page>
            </office:presentation></office:body></office:document-content>""",
        )
    document = read(root / "deck.odp", folder)
    assert [each.alt for each in document.pictures] == ["A red gate"]
    (problem,) = read_file(root / "deck.odp", "deck.odp")
    assert "slides without text" in str(problem)


def test_pictures_of_a_sheet_stand_behind_it(root: Path, folder: Path) -> None:
    import openpyxl
    from openpyxl.drawing.image import Image as SheetPicture

    book = openpyxl.Workbook()
    for name, file in (("north", "gate.png"), ("west", "west.png")):
        sheet = book.create_sheet(name)
        sheet.append(["gate", "width"])
        sheet.append([name, 4.5])
        sheet.add_image(SheetPicture(str(root / file)), "E5")
    book.save(root / "gates.xlsx")
    document = read(root / "gates.xlsx", folder)
    assert [block.splitlines()[-1] for block in before(document)] == ["| north | 4.5 |", "| west | 4.5 |"]
    assert read(root / "gates.xlsx", None).left_out == {"pictures": 2}


def test_output_of_a_notebook_has_pictures(root: Path, folder: Path) -> None:
    data = {"image/png": base64.b64encode(picture("red")).decode(), "text/plain": ["<Figure>"]}
    output = {"output_type": "display_data", "data": data, "metadata": {}}
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Flow\n", "\n", "![The wheel](wheel.jpg)"]},
        {"cell_type": "code", "execution_count": 1, "metadata": {}, "source": ["plot()"], "outputs": [output]},
    ]
    (root / "flow.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    document = read(root / "flow.ipynb", folder)
    assert stored(folder, document) == [picture("blue", form="JPEG"), picture("red")]


def test_markup_languages_show_files_inside_the_source(root: Path, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.png").write_bytes(picture("black"))
    (root / "page.rst").write_text(
        "Gates\n=====\n\nText.\n\n.. image:: gate.png\n   :alt: The north gate\n\n.. image:: ../outside.png\n\nEnd.\n"
    )
    document = read(root / "page.rst", folder)
    assert [each.alt for each in document.pictures] == ["The north gate"]


def test_pictures_that_cannot_be_drawn_are_counted(root: Path, folder: Path) -> None:
    (root / "drawing.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="200" height="200"></svg>')
    (root / "cut.png").write_bytes(picture("red")[:80])
    Image.new("1", (20_000, 20_000)).save(root / "bomb.png")
    (root / "page.md").write_text("# T\n\n![](drawing.svg)\n\n![](cut.png)\n\n![](bomb.png)\n")
    document = read(root / "page.md", folder)
    assert (document.pictures, document.left_out) == ((), {"pictures that cannot be drawn": 3})


def test_data_uris_of_any_length_are_read(root: Path, folder: Path) -> None:
    noise = Image.effect_noise((2_600, 2_600), 90).convert("RGB")
    noise.save(root / "noise.bmp")
    uri = "data:image/bmp;base64," + base64.b64encode((root / "noise.bmp").read_bytes()).decode()
    assert len(uri) > 20_000_000
    (root / "page.md").write_text(f"# T\n\nBefore.\n\n![]({uri})\n\nAfter.\n")
    document = read(root / "page.md", folder)
    (found,) = document.pictures
    assert (found.width, found.height, before(document)) == (2_000, 2_000, ["Before."])
    assert read(root / "page.md", None).left_out["pictures"] == 1
    (root / "page.html").write_text(f"<h1>T</h1><p>Before.<p><img src='{uri}'><p>After.")
    assert "After." in read(root / "page.html", folder).text
