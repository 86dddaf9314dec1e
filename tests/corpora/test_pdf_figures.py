"""Figures of PDFs: pictures, charts and diagrams on a page, and what only looks like one."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw

from tests.corpora.made import printed, scan
from tests.corpora.reading import read_pdf
from turnmark.corpora.readers import read_file
from turnmark.corpora.readers.pdf.extraction import ocr
from turnmark.corpora.readers.pdf.figures import figure_pictures
from turnmark.corpora.readers.pictures.collector import pictures_into
from turnmark.corpora.types import Document

CAPTION = "Figure 1: Water in the mill pond by month."
BEFORE = "The keeper shuts the gates at night, when the river is low and cold."
AFTER = "Grease each of the wheels in autumn, before the first frost of the year."


def photograph(size: tuple[int, int] = (300, 200), mode: str = "RGB") -> Image.Image:
    """Return a picture of more than one color."""
    image = Image.new(mode, size, "white")
    ImageDraw.Draw(image).ellipse((10, 10, size[0] - 40, size[1] - 20), fill="red")
    return image


def placed(canvas: Any, image: Image.Image, *box: float, **options: Any) -> None:
    """Draw a picture at a place with a width and height."""
    from reportlab.lib.utils import ImageReader

    canvas.drawImage(ImageReader(image), *box, **options)


def page(path: Path, draw: Callable[[Any], None], caption: str = CAPTION) -> Path:
    """Make a PDF of one page with something drawn between two paragraphs."""
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path), pagesize=(400, 500))
    canvas.setFont("Helvetica", 10)
    canvas.drawString(30, 460, BEFORE)
    draw(canvas)
    canvas.setFont("Helvetica", 10)
    if caption:
        canvas.drawString(80, 205, caption)
    canvas.drawString(30, 160, AFTER)
    canvas.save()
    return path


def line_chart(canvas: Any) -> None:
    """Draw a chart with axes, labels and a curve at 100 to 300 by 230 to 400 points."""
    canvas.rect(100, 250, 200, 150)
    points = [(100 + 20 * step, 270 + 60 * (step % 3)) for step in range(11)]
    path = canvas.beginPath()
    path.moveTo(*points[0])
    for point in points[1:]:
        path.lineTo(*point)
    canvas.drawPath(path)
    for x, y in points:
        canvas.circle(x, y, 2, fill=1)
        canvas.line(x, 250, x, 245)
    canvas.setFont("Helvetica", 8)
    for number in range(6):
        canvas.drawString(98 + 40 * number, 235, str(number))
        canvas.drawString(85, 250 + 28 * number, str(10 * number))


def bar_chart(canvas: Any) -> None:
    """Draw a bar chart, which consists of boxes and rules."""
    for number, height in enumerate((40, 90, 120, 30, 70)):
        canvas.rect(110 + 40 * number, 250, 25, height, fill=1)
        canvas.drawString(112 + 40 * number, 238, f"m{number}")
    canvas.line(100, 250, 310, 250)


def described(path: Path, folder: Path) -> Document:
    """Read a PDF with its figures."""
    with pictures_into(folder):
        return read_pdf(path, path.name)


def opened(folder: Path, document: Document) -> list[Image.Image]:
    """Open the stored figures of a document."""
    return [Image.open(folder / f"{each.sha256}{each.suffix}") for each in document.pictures]


@pytest.mark.parametrize("draw", [line_chart, bar_chart])
def test_a_drawn_chart_is_a_picture_at_its_caption(tmp_path: Path, folder: Path, draw: Callable[[Any], None]) -> None:
    path = page(tmp_path / "chart.pdf", draw)
    document = described(path, folder)
    (picture,) = document.pictures
    assert (picture.page, picture.alt) == (1, CAPTION)
    assert document.text[: picture.start].endswith(CAPTION)
    assert picture.box is not None
    left, top, right, bottom = picture.box
    assert left <= 100 / 400
    assert right >= 300 / 400
    assert 1 - 460 / 500 < top <= 1 - 370 / 500
    assert 1 - 250 / 500 <= bottom < 1 - 205 / 500
    plain = read_pdf(path, path.name)
    assert (plain.left_out["pictures"], plain.text, plain.pictures) == (1, document.text, ())


def test_a_picture_without_a_caption_stands_after_the_text_above_it(tmp_path: Path, folder: Path) -> None:
    path = page(tmp_path / "photo.pdf", lambda canvas: placed(canvas, photograph(), 100, 250, 150, 100), "")
    document = described(path, folder)
    (picture,) = document.pictures
    assert document.text[: picture.start].endswith(BEFORE)
    assert (picture.width, picture.height) == (300, 200)
    assert picture.box == pytest.approx((100 / 400, 150 / 500, 250 / 400, 250 / 500), abs=0.01)


def test_strips_are_one_picture_and_masked_pictures_stand_on_white(tmp_path: Path, folder: Path) -> None:
    whole = photograph()

    def strips(canvas: Any) -> None:
        for number in range(20):
            strip = whole.crop((0, 10 * number, 300, 10 * number + 10))
            placed(canvas, strip, 100, 350 - 5 * number - 5, 150, 5)

    document = described(page(tmp_path / "strips.pdf", strips), folder)
    assert [(each.width, each.height) for each in document.pictures] == [(300, 200)]

    clear = Image.new("RGBA", (300, 200), (0, 0, 0, 0))
    ImageDraw.Draw(clear).ellipse((50, 50, 250, 150), fill="blue")
    masked = page(
        tmp_path / "masked.pdf",
        lambda canvas: placed(canvas, clear, 100, 250, 150, 100, mask="auto"),
    )
    (image,) = opened(folder, described(masked, folder))
    assert image.convert("RGB").getpixel((5, 5)) == (255, 255, 255)


def test_a_turned_page_gives_boxes_as_seen(tmp_path: Path, folder: Path) -> None:
    import pypdfium2

    path = page(tmp_path / "chart.pdf", line_chart)
    with pypdfium2.PdfDocument(path) as file:
        file[0].set_rotation(90)
        file.save(tmp_path / "turned.pdf")
    (picture,) = described(tmp_path / "turned.pdf", folder).pictures
    assert picture.box is not None
    left, top, right, bottom = picture.box
    assert picture.height > picture.width  # the chart is wide on its page
    assert 0.4 < left < right < 0.95
    assert 0.1 < top < 0.3
    assert 0.6 < bottom < 0.85


STUDIES = [f"{name} et al. {1990 + number}" for number, name in enumerate(("Abel", "Bergmann", "Castellanos", "Dee"))]


def forest_plot(canvas: Any) -> None:
    """Draw an estimate with its interval for each study, with names at the left and figures at the right."""
    canvas.line(180, 250, 280, 250)
    canvas.setFont("Helvetica", 7)
    for number, study in enumerate(STUDIES):
        height = 380 - 30 * number
        canvas.line(190, height, 260 - 10 * number, height)
        canvas.circle(220, height, 4, fill=1)
        canvas.drawString(60, height - 2, study)
        canvas.drawString(300, height - 2, f"0.{7 + number} [0.2, 1.{number}]")
    diamond = canvas.beginPath()
    for at, (x, y) in enumerate(((200, 265), (220, 271), (240, 265), (220, 259), (200, 265))):
        (diamond.lineTo if at else diamond.moveTo)(x, y)
    canvas.drawPath(diamond, fill=1)
    canvas.drawString(200, 222, "Odds ratio of rust")


def test_labels_at_the_sides_belong_to_their_figure_and_are_no_table(tmp_path: Path, folder: Path) -> None:
    document = described(page(tmp_path / "forest.pdf", forest_plot), folder)
    (picture,) = document.pictures
    assert picture.box is not None
    assert picture.box[0] <= 60 / 400
    assert picture.box[2] >= 340 / 400
    assert {block.kind for block in document.blocks} == {"paragraph"}
    blocks = [document.text[block.start : block.end] for block in document.blocks]
    assert blocks == [
        BEFORE,
        *(f"{study} 0.{7 + number} [0.2, 1.{number}]" for number, study in enumerate(STUDIES)),
        "Odds ratio of rust",
        CAPTION,
        AFTER,
    ]


def test_prose_next_to_a_figure_is_no_label(tmp_path: Path, folder: Path) -> None:
    def draw(canvas: Any) -> None:
        canvas.saveState()
        canvas.translate(80, 0)
        line_chart(canvas)
        canvas.restoreState()
        canvas.setFont("Helvetica", 8)
        for number in range(14):
            canvas.drawString(20, 430 - 14 * number, "and the water goes over the weir")

    (picture,) = described(page(tmp_path / "prose.pdf", draw, ""), folder).pictures
    assert picture.box is not None
    assert picture.box[0] > 150 / 400


def test_a_chart_with_a_legend_and_slanted_labels_keeps_them_apart_from_its_caption(
    tmp_path: Path, folder: Path
) -> None:
    def draw(canvas: Any) -> None:
        line_chart(canvas)
        canvas.setFont("Helvetica", 8)
        for number, name in enumerate(("night", "morning", "evening")):
            canvas.drawString(240, 385 - 10 * number, name)
        canvas.drawCentredString(200, 217, "Months since the flood")
        canvas.saveState()
        canvas.translate(260, 245)
        canvas.rotate(-45)
        canvas.drawString(0, 0, "high water")
        canvas.restoreState()

    document = described(page(tmp_path / "chart.pdf", draw), folder)
    blocks = [document.text[block.start : block.end] for block in document.blocks]
    assert len(document.pictures) == 1
    assert {CAPTION, "Months since the flood"} <= set(blocks)
    assert all(word in document.text for word in ("night", "morning", "evening", "high water"))


def text_box(canvas: Any) -> None:
    canvas.roundRect(80, 240, 240, 90, 8)
    for number in range(6):
        canvas.drawString(90, 315 - 13 * number, "Open the gates before the river rises again.")


def listing(canvas: Any) -> None:
    canvas.setFillGray(0.9)
    for number in range(5):
        canvas.rect(60, 300 - 12 * number, 300, 12, stroke=0, fill=1)
    canvas.setFillGray(0)
    for number in range(5):
        canvas.drawString(64, 303 - 12 * number, f"$ make step{number}")


def formula(canvas: Any) -> None:
    canvas.drawString(150, 310, "a + b + c")
    canvas.line(145, 305, 205, 305)
    canvas.drawString(150, 292, "x + y + z")


def underlines(canvas: Any) -> None:
    for number in range(5):
        canvas.drawString(60, 320 - 16 * number, "Words that somebody has underlined with a thin line.")
        canvas.line(60, 318 - 16 * number, 300, 318 - 16 * number)


@pytest.mark.parametrize("draw", [text_box, listing, formula, underlines])
def test_boxes_of_text_listings_formulas_and_underlines_are_no_figures(
    tmp_path: Path, folder: Path, draw: Callable[[Any], None]
) -> None:
    document = described(page(tmp_path / "page.pdf", draw, ""), folder)
    assert document.pictures == ()


def test_tables_are_no_figures(tmp_path: Path, folder: Path) -> None:
    assert described(printed(tmp_path / "table.pdf"), folder).pictures == ()


def test_icons_in_a_line_and_backgrounds_of_a_page_are_no_figures(tmp_path: Path, folder: Path) -> None:
    def draw(canvas: Any) -> None:
        placed(canvas, photograph((400, 500)), 0, 0, 400, 500)
        placed(canvas, photograph(), 100, 250, 12, 8)
        for number in range(8):
            canvas.drawString(30, 440 - 15 * number, AFTER)

    assert described(page(tmp_path / "page.pdf", draw), folder).pictures == ()


def test_a_logo_on_every_page_is_one_picture(tmp_path: Path, folder: Path) -> None:
    from reportlab.pdfgen.canvas import Canvas

    logo = photograph()
    canvas = Canvas(str(tmp_path / "logo.pdf"), pagesize=(400, 500))
    for number in range(4):
        placed(canvas, logo, 300, 440, 60, 40)
        canvas.drawString(30, 300, f"{BEFORE} {number}")
        canvas.showPage()
    canvas.save()
    assert len(described(tmp_path / "logo.pdf", folder).pictures) == 1
    assert read_pdf(tmp_path / "logo.pdf", "logo.pdf").left_out["pictures"] == 1


def test_scanned_pages_that_ocr_reads_are_no_pictures(tmp_path: Path, folder: Path) -> None:
    pytest.importorskip("rapidocr")
    scan(tmp_path / "scan.pdf", ["The gates are shut at night."] * 12)
    assert described(tmp_path / "scan.pdf", folder).pictures == ()


def test_scanned_pages_are_pictures_if_nothing_reads_them(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan(tmp_path / "scan.pdf", ["The gates are shut at night."] * 12)
    monkeypatch.setattr(ocr, "is_installed", lambda _: False)
    document = described(tmp_path / "scan.pdf", folder)
    assert (document.text.strip(), [each.page for each in document.pictures]) == ("", [1])


def test_very_many_pictures_are_counted(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from reportlab.pdfgen.canvas import Canvas

    monkeypatch.setattr(figure_pictures, "MAX_PICTURES", 5)
    canvas = Canvas(str(tmp_path / "many.pdf"), pagesize=(400, 500))
    for number in range(8):
        image = photograph()
        ImageDraw.Draw(image).rectangle((0, 0, 10 * number + 20, 90), fill="blue")
        placed(canvas, image, 100, 250, 150, 100)
        canvas.drawString(30, 460, BEFORE)
        canvas.showPage()
    canvas.save()
    document = described(tmp_path / "many.pdf", folder)
    assert len(document.pictures) == 5
    assert document.left_out["pictures after the first 1,000 of a file"] == 3
    assert read_pdf(tmp_path / "many.pdf", "many.pdf").left_out["pictures"] == 8


def test_a_picture_of_very_many_pixels_is_counted_and_the_page_read(tmp_path: Path, folder: Path) -> None:
    bomb = Image.new("L", (9_000, 9_000), "white")
    bomb.paste(0, (0, 0, 4_000, 4_000))
    path = page(tmp_path / "bomb.pdf", lambda canvas: placed(canvas, bomb, 100, 250, 150, 100))
    document = described(path, folder)
    assert BEFORE in document.text
    assert (document.pictures, document.left_out["pictures that cannot be drawn"]) == ((), 1)


def test_a_page_of_thousands_of_tiny_pictures_is_read(tmp_path: Path, folder: Path) -> None:
    from reportlab.lib.utils import ImageReader

    speck = ImageReader(Image.effect_noise((8, 8), 80).convert("RGB"))

    def draw(canvas: Any) -> None:
        for number in range(5_000):
            canvas.drawImage(speck, 3.9 * (number % 100), 9.5 * (number // 100), 2, 2)

    document = described(page(tmp_path / "specks.pdf", draw), folder)
    assert BEFORE in document.text
    assert len(document.pictures) <= 1


def test_figures_of_a_file_are_read_in_the_isolated_process(tmp_path: Path, folder: Path) -> None:
    path = page(tmp_path / "chart.pdf", line_chart)
    (document,) = [item for item in read_file(path, path.name, pictures=folder) if isinstance(item, Document)]
    (picture,) = document.pictures
    data = (folder / f"{picture.sha256}{picture.suffix}").read_bytes()
    assert Image.open(io.BytesIO(data)).size == (picture.width, picture.height)
