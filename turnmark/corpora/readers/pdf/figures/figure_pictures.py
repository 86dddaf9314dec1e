"""Draws the figures of a PDF as pictures, or counts them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import pypdfium2
from PIL import Image, ImageChops

from turnmark.corpora.readers.pdf.figures.figure_places import FigurePlaces
from turnmark.corpora.readers.pdf.page.geometry import Box, box_around
from turnmark.corpora.readers.pdf.page.page_records import PdfFigure, PdfPage
from turnmark.corpora.readers.pdf.page.pdfium_calls import device_point
from turnmark.corpora.readers.pictures.collector import (
    MAX_PICTURES,
    NOT_DRAWABLE,
    TOO_MANY_PICTURES,
    PictureCollector,
    is_large_enough,
)
from turnmark.corpora.readers.pictures.conversion import MAX_PIXELS, encode_image
from turnmark.corpora.readers.pictures.image_size import LONGEST_SIDE
from turnmark.corpora.readers.registry import ProgressCallback
from turnmark.corpora.types import Picture, ShareBox

_DPI = 150  # of a drawing; a picture has its own resolution
_MIN_DENSITY = 100 / 72  # pixels per point, so that labels next to a coarse picture are legible
_VIRTUAL_PIXELS = 100_000  # side of an imagined picture of the page, to measure shares of it
_MIN_SCANNED_WORDS = 30  # that OCR reads on a page; with fewer, the page is a picture
_TRIM_PIXELS = 6  # that stay around a drawing when its empty margin is cut off


def with_described_figures(pages: Sequence[PdfPage], read: Sequence[PdfPage]) -> list[PdfPage]:
    """Return the pages with the figures that are to be described: not the picture of a page that OCR read.

    Args:
        pages: the pages before OCR.
        read: the pages after OCR. A page with hardly any words is a photograph or a drawing rather than a scan.
    """
    return [
        replace(page, figures=[]) if after is not page and len(after.words) >= _MIN_SCANNED_WORDS else page
        for page, after in zip(pages, read, strict=True)
    ]


def take_figures(
    file: pypdfium2.PdfDocument,
    pages: Sequence[PdfPage],
    places: FigurePlaces,
    collector: PictureCollector,
    progress: ProgressCallback,
) -> tuple[Picture, ...]:
    """Write the figures of all pages as pictures, and return them in the order of the text.

    Without a folder, the figures are only counted, and a picture at the same place of several pages counts once.
    """
    if collector.folder is None:
        marks = [figure.mark for page in pages for figure in page.figures]
        for _ in range(marks.count("") + len({*marks} - {""})):
            collector.count()
        return ()
    for index, page in enumerate(pages):
        for box, image, figure in _figure_images(file, index, page.figures, collector):
            progress(index + 1, len(pages))
            encoded = encode_image(image)
            if encoded is not None and is_large_enough(encoded.width, encoded.height):
                start, caption = places.place(index, page, figure)
                collector.add(encoded, caption, index + 1, box, start)
    return tuple(sorted(collector.pictures, key=lambda picture: picture.start))


def _figure_images(
    file: pypdfium2.PdfDocument, index: int, figures: Sequence[PdfFigure], collector: PictureCollector
) -> Iterator[tuple[ShareBox, Image.Image, PdfFigure]]:
    """Yield the figures of a page, each with its place on the page as seen and its picture."""
    if not figures:
        return
    with closing(file[index]) as page:
        try:
            for figure in figures:
                if len(collector.pictures) >= MAX_PICTURES:
                    collector.left_out[TOO_MANY_PICTURES] += 1
                elif figure.pixels > MAX_PIXELS:
                    collector.left_out[NOT_DRAWABLE] += 1
                elif (shares := _shares(page, figure)) is not None:
                    yield _draw(page, figure, shares)
        except pypdfium2.PdfiumError:
            collector.left_out[NOT_DRAWABLE] += 1


def _draw(page: pypdfium2.PdfPage, figure: PdfFigure, shares: ShareBox) -> tuple[ShareBox, Image.Image, PdfFigure]:
    width, height = page.get_size()
    left, top, right, bottom = shares
    longest = max((right - left) * width, (bottom - top) * height, 1.0)
    scale = min(max(figure.density, _MIN_DENSITY) if figure.density else _DPI / 72, LONGEST_SIDE / longest)
    crop = (left * width, (1 - bottom) * height, (1 - right) * width, top * height)
    image = page.render(scale=scale, crop=crop).to_pil().convert("RGB")
    if figure.mark:
        return shares, image, figure
    # What an included drawing clips still counts in its box, so there may be a wide empty margin.
    trimmed = _content_box(image)
    across, down = (right - left) / image.width, (bottom - top) / image.height
    inner = (
        left + trimmed[0] * across, top + trimmed[1] * down, left + trimmed[2] * across, top + trimmed[3] * down
    )  # fmt: skip
    return inner, image.crop(trimmed), figure


def _content_box(image: Image.Image) -> Box:
    """Return the box of a picture without its empty margin, in pixels; its bottom is the upper edge."""
    ground = Image.new("RGB", image.size, image.getpixel((0, 0)))
    whole = Box(0, 0, *image.size)
    found = ImageChops.difference(image, ground).getbbox()
    return Box(*found).grown(_TRIM_PIXELS).within(whole) if found else whole


def _shares(page: pypdfium2.PdfPage, figure: PdfFigure) -> ShareBox | None:
    """Return the place of a figure as shares of the displayed page, or None if the figure is outside of the page."""
    pixels = [device_point(page, (_VIRTUAL_PIXELS, _VIRTUAL_PIXELS), x, y) for x, y in figure.box.corners]
    shares = box_around([(x / _VIRTUAL_PIXELS, y / _VIRTUAL_PIXELS) for x, y in pixels]).within(Box(0, 0, 1, 1))
    width, height = page.get_size()
    # pdfium refuses to draw less than a pixel.
    return shares if (shares[2] - shares[0]) * width >= 1 and (shares[3] - shares[1]) * height >= 1 else None
