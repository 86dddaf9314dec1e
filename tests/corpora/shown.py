"""Makes small pictures for tests, and finds those that a document hands over."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image, ImageDraw

from turnmark.corpora.types import Document


def picture(color: str, size: tuple[int, int] = (200, 100), form: str = "PNG", mode: str = "RGB") -> bytes:
    """Return a small picture with a rectangle of a color."""
    image = Image.new(mode, size, "white")
    ImageDraw.Draw(image).rectangle((10, 10, size[0] // 2, size[1] // 2), fill=color)
    buffer = io.BytesIO()
    image.save(buffer, form)
    return buffer.getvalue()


def stored(folder: Path, document: Document) -> list[bytes]:
    """Return the stored pictures of a document."""
    return [(folder / f"{each.sha256}{each.suffix}").read_bytes() for each in document.pictures]


def before(document: Document) -> list[str]:
    """Return the block that ends where each picture stands."""
    ends = {block.end: document.text[block.start : block.end] for block in document.blocks}
    return [ends[each.start] for each in document.pictures]
