"""Pictures that documents show: which are handed over to be described, and where they stand."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from tests.corpora.shown import before, picture, stored
from turnmark.corpora.readers import read_file, read_source, source_items
from turnmark.corpora.readers.folder import SourceFile
from turnmark.corpora.readers.report import ReadingReport
from turnmark.corpora.types import Document, Problem


def read_all(root: Path, folder: Path | None) -> tuple[dict[str, Document], list[Problem], ReadingReport]:
    """Read the files of a folder with their pictures."""
    report = ReadingReport()
    documents: dict[str, Document] = {}
    problems: list[Problem] = []
    for file in source_items(root, report=report):
        assert isinstance(file, SourceFile)
        for item in read_file(file.path, file.relative, report, pictures=folder):
            if isinstance(item, Document):
                documents[item.id] = item
            else:
                problems.append(item)
    return documents, problems, report


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "source"
    (made / "img").mkdir(parents=True)
    (tmp_path / "outside.png").write_bytes(picture("black"))
    (made / "img/a.png").write_bytes(picture("red"))
    return made


def test_a_markdown_page_hands_over_its_pictures_where_they_stand(root: Path, folder: Path) -> None:
    uri = "data:image/png;base64," + base64.b64encode(picture("purple")).decode()
    (root / "b.jpg").write_bytes(picture("blue", form="JPEG"))
    (root / "c.bmp").write_bytes(picture("yellow", form="BMP"))
    (root / "d.tif").write_bytes(picture("green", form="TIFF"))
    page = f"""# Title

First ![](img/a.png) paragraph.

![](b.jpg)

- item ![a purple one]({uri})

<p align="center"><img src="d.tif" alt="The green one"></p>

[![](c.bmp)](http://example.org/c.bmp)

Last.
"""
    (root / "page.md").write_text(page)
    document = read_all(root, folder)[0]["page.md"]
    assert document.text == "# Title\n\nFirst paragraph.\n\n- item a purple one\n\nThe green one\n\nLast.\n"
    expected = ["First paragraph.", "First paragraph.", "- item a purple one", "The green one", "The green one"]
    assert before(document) == expected
    assert [each.alt for each in document.pictures] == ["", "", "a purple one", "The green one", ""]
    assert [each.suffix for each in document.pictures] == [".png", ".jpg", ".png", ".png", ".png"]
    assert stored(folder, document)[:2] == [picture("red"), picture("blue", form="JPEG")]


def test_a_file_name_is_no_alternative_text(root: Path, folder: Path) -> None:
    names = ["D:\\Our files\\My shots 3.0\\start screen.png", "_images/orbit_2.svg", "start screen.JPG"]
    texts = ["The window that opens logo.png", "Version 3.0"]
    for number, alt in enumerate([*names, *texts]):
        (root / f"{number}.png").write_bytes(picture(f"#{number:02}4040"))
        (root / f"{number}.html").write_text(f'<p>Text.</p><p><img src="{number}.png" alt="{alt}"></p>')
    documents = read_all(root, folder)[0]
    assert [documents[f"{number}.html"].pictures[0].alt for number in range(5)] == ["", "", "", *texts]


def test_an_html_page_hands_over_its_pictures_with_the_captions_of_figures(root: Path, folder: Path) -> None:
    (root / "b.jpg").write_bytes(picture("blue", form="JPEG"))
    (root / "sub").mkdir()
    page = """<h1>T</h1><p>Some <img src="../img/a.png"> words</p>
    <figure><img src="/b.jpg"><figcaption>Sales by year</figcaption></figure><p>End</p>"""
    (root / "sub/page.html").write_text(page)
    document = read_all(root, folder)[0]["sub/page.html"]
    assert before(document) == ["Some words", "Some words"]
    assert [each.alt for each in document.pictures] == ["", "Sales by year"]


def test_embedded_pictures_of_notes_are_found_by_name(root: Path, folder: Path) -> None:
    (root / "attachments").mkdir()
    (root / "attachments/b c.png").write_bytes(picture("blue"))
    (root / "notes").mkdir()
    (root / "notes/page.md").write_text("# T\n\nBefore.\n\n![[b c.png|300]]\n\n![[a page]]\n\nAfter.\n")
    (root / "notes/page.html").write_text("<p>Words<p><img src='x.gif' data-src='../img/a.png'>")
    documents = read_all(root, folder)[0]
    assert documents["notes/page.md"].text == "# T\n\nBefore.\n\nAfter.\n"
    assert stored(folder, documents["notes/page.md"]) == [picture("blue")]
    assert stored(folder, documents["notes/page.html"]) == [picture("red")]


def test_without_a_folder_pictures_are_counted_and_the_text_is_the_same(root: Path, folder: Path) -> None:
    (root / "page.md").write_text("# T\n\n![](img/a.png)\n\nOne ![](img/a.png) two.\n\n![](icon.png)\n")
    (root / "icon.png").write_bytes(picture("red", (32, 32)))
    plain, _, report = read_all(root, None)
    described, _, _ = read_all(root, folder)
    assert set(plain) == {"page.md"}
    assert set(described) == {"page.md", "img/a.png"}
    assert plain["page.md"].text == described["page.md"].text
    assert plain["page.md"].left_out == {"pictures": 1}
    assert (report.left_out, report.unread) == ({"pictures": 1}, {})


def test_only_pictures_inside_the_source_are_opened(root: Path, folder: Path, tmp_path: Path) -> None:
    (root / "link.png").symlink_to(tmp_path / "outside.png")
    links = ["../outside.png", "link.png", str(tmp_path / "outside.png"), "http://example.org/a.png", "//host/a.png"]
    links += ["file:///etc/a.png", "img/../../outside.png", "%2e%2e/outside.png", "..\\outside.png", "img/a.png%00"]
    page = "\n\n".join(f"![]({link})" for link in links)
    (root / "page.md").write_text(f"# T\n\n{page}\n\nx\n")
    (root / "page.html").write_text("<p>x</p>" + "".join(f'<img src="{link}">' for link in links))
    documents, _, _ = read_all(root, folder)
    assert documents["page.md"].pictures == documents["page.html"].pictures == ()
    assert list(folder.iterdir()) == []


def test_a_picture_file_is_a_document_of_its_own(root: Path, folder: Path) -> None:
    (root / "floor-plan.webp").write_bytes(picture("red", form="WEBP"))
    (root / "icon.png").write_bytes(picture("red", (32, 32)))
    (root / "plain.png").write_bytes(picture("white"))
    (root / "broken.gif").write_bytes(b"GIF89a")
    documents, problems, _ = read_all(root, folder)
    assert set(documents) == {"floor-plan.webp", "img/a.png"}
    document = documents["floor-plan.webp"]
    assert (document.title, document.text, before(document)) == ("floor plan", "floor plan\n", ["floor plan"])
    assert [problem.file for problem in problems] == ["broken.gif"]


def test_unusual_pictures_are_converted_and_transparent_ones_stand_on_white(root: Path, folder: Path) -> None:
    clear = Image.new("RGBA", (100, 100), (0, 0, 0, 0))
    ImageDraw.Draw(clear).rectangle((0, 0, 40, 40), fill="red")
    clear.save(root / "clear.png")
    Image.new("RGB", (5000, 100), "white").save(root / "long.png")
    wide = Image.new("RGB", (4000, 1000), "white")
    ImageDraw.Draw(wide).line((0, 0, 4000, 1000), fill="black", width=20)
    wide.save(root / "wide.png")
    wide.convert("CMYK").save(root / "print.jpg")
    documents, problems, _ = read_all(root, folder)
    assert set(documents) == {"clear.png", "wide.png", "print.jpg", "img/a.png"}
    assert problems == []
    opened = {name: Image.open(io.BytesIO(stored(folder, document)[0])) for name, document in documents.items()}
    assert opened["clear.png"].convert("RGBA").getpixel((90, 90)) == (255, 255, 255, 255)
    assert opened["wide.png"].size == opened["print.jpg"].size == (2000, 500)
    assert opened["print.jpg"].mode == "RGB"


def test_lists_a_screenshot_that_is_too_long_to_be_legible(tmp_path: Path) -> None:
    Image.effect_noise((300, 9000), 60).save(tmp_path / "shot.png")
    report = ReadingReport()
    assert list(read_source(tmp_path, report=report)) == []
    assert report.left_out == {"pictures too long to be legible; cut them into parts": 1}
