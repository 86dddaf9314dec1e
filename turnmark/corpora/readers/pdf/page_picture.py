"""Draws a page of a PDF with a passage highlighted."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path

import pypdfium2
from PIL import Image, ImageChops, ImageDraw

from turnmark.core.grouping import join_neighbors
from turnmark.corpora.readers.common.prose import Unreadable
from turnmark.corpora.readers.pdf.extraction import ocr
from turnmark.corpora.readers.pdf.extraction.page_text import placed_words, read_page
from turnmark.corpora.readers.pdf.page.geometry import Box, box_around
from turnmark.corpora.readers.pdf.page.pdfium_calls import device_point
from turnmark.corpora.types import ShareBox

WIDTH_PIXELS = 1200  # of the picture
MAX_HEIGHT_PIXELS = 4000  # a very long page is drawn at a smaller scale
MAX_WORDS = 5000  # of a page, and of a passage, that are compared
MIN_MATCHED_WORDS = 4  # in the same order; a shorter match is a coincidence
HIGHLIGHT_COLOR = (255, 235, 120)
FRAME, FRAME_PIXELS = (230, 120, 0), 4  # color and width of the line around a picture

PixelBox = tuple[float, float, float, float]  # left, top, right, bottom, in pixels
PageWord = tuple[str, PixelBox]


def page_picture(path: Path, number: int, marked: str, framed: Sequence[ShareBox] = ()) -> bytes:
    """Draw a page as PNG.

    Args:
        number: number of the page, from 1.
        marked: text of a passage. Its words are highlighted where they appear in the same order on the page. In a
            scan, this works if the page was read by OCR on this machine.
        framed: boxes of pictures that get a frame.

    Raises:
        Unreadable: the PDF cannot be drawn, or has no such page.
    """
    try:
        with pypdfium2.PdfDocument(path) as document:
            if not 1 <= number <= len(document):
                raise Unreadable(f"has no page {number}; it has {len(document)}")
            page = document[number - 1]
            width, height = page.get_size()
            scale = min(WIDTH_PIXELS / max(width, 1), MAX_HEIGHT_PIXELS / max(height, 1))
            image = page.render(scale=scale).to_pil().convert("RGB")
            unread = read_page(page).unread
            words = _recognized_words(page, image.width) if unread else _drawn_words(page, image.size)
            boxes = find_marked_boxes(list(words), _plain_words(marked))
    except pypdfium2.PdfiumError as error:
        raise Unreadable(f"cannot be drawn ({error})") from error
    return _png(image, boxes, framed)


def _png(image: Image.Image, boxes: Sequence[PixelBox], framed: Sequence[ShareBox]) -> bytes:
    marks = Image.new("RGB", image.size, "white")
    draw = ImageDraw.Draw(marks)
    for left, top, right, bottom in boxes:
        draw.rectangle((left - 2, top - 2, right + 2, bottom + 2), fill=HIGHLIGHT_COLOR)
    image = ImageChops.multiply(image, marks)
    draw = ImageDraw.Draw(image)
    for left, top, right, bottom in framed:
        start = left * image.width - FRAME_PIXELS, top * image.height - FRAME_PIXELS
        end = right * image.width + FRAME_PIXELS, bottom * image.height + FRAME_PIXELS
        draw.rectangle((start, end), outline=FRAME, width=FRAME_PIXELS)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def find_marked_boxes(page: Sequence[PageWord], passage: Sequence[str]) -> list[PixelBox]:
    """Return the boxes of the words on a page that a passage has in the same order, with neighbors joined."""
    page, passage = page[:MAX_WORDS], passage[:MAX_WORDS]
    matcher = SequenceMatcher(None, [word for word, _ in page], passage, autojunk=False)
    shortest = min(MIN_MATCHED_WORDS, len(passage))
    boxes: list[PixelBox] = []
    for match in matcher.get_matching_blocks():
        if match.size >= max(shortest, 1):
            boxes += _join_boxes(box for _, box in page[match.a : match.a + match.size])
    return boxes


def _join_boxes(boxes: Iterable[PixelBox]) -> list[PixelBox]:
    def join(before: PixelBox, box: PixelBox) -> PixelBox | None:
        left, top, right, bottom = box
        same_line = min(bottom, before[3]) - max(top, before[1]) > 0.5 * min(bottom - top, before[3] - before[1])
        if not same_line or left < before[0] or left - before[2] >= 2 * (before[3] - before[1]):
            return None
        return before[0], min(top, before[1]), max(right, before[2]), max(bottom, before[3])

    return join_neighbors(boxes, join)


def _plain_words(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(char if char.isalnum() else " " for char in plain).split()


def _drawn_words(page: pypdfium2.PdfPage, size: tuple[int, int]) -> Iterator[PageWord]:
    """Yield the parts of words between their punctuation, each with its share of the word's box, in pixels."""
    for text, box, degrees in placed_words(page):
        width = box.width / max(len(text), 1)
        at = 0
        for part in _plain_words(text):
            at = max(at, text.casefold().find(part, at))
            piece = box._replace(left=box.left + at * width, right=min(box.right, box.left + (at + len(part)) * width))
            at += len(part)
            yield part, _pixels(page, size, piece.turned(-degrees))


def _recognized_words(page: pypdfium2.PdfPage, width: int) -> Iterator[PageWord]:
    """Yield the words that OCR read on a page, each with its part of the line box, in pixels of the picture."""
    read = ocr.read_cached(page)
    if read is None:
        return
    for degrees, word in read.words:
        box, scale = ocr.box_of(word).turned(-degrees), width / read.width
        edges = (box.left, read.height - box.top, box.right, read.height - box.bottom)
        left, top, right, bottom = (edge * scale for edge in edges)
        for text in _plain_words(word.text):
            yield text, (left, top, right, bottom)


def _pixels(page: pypdfium2.PdfPage, size: tuple[int, int], box: Box) -> PixelBox:
    return box_around([device_point(page, size, x, y) for x, y in box.corners])
