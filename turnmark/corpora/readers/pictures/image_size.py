"""Reads the format and the size of a picture from its first bytes, without decoding it.

It runs on every picture that a document shows, also in processes without limits, so it uses no picture library.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

LONGEST_SIDE = 2_000  # pixels of a stored picture; vision models scale larger ones down themselves
HEAD_BYTES = 256 * 1024
"""Number of bytes that `picture_head` needs. A JPEG may have a preview and a color profile before its size."""
DRAWABLE_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
"""The formats that are decoded, as Pillow names them."""
_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # of JPEG: those that are followed by the size
_TIFF_WIDTH, _TIFF_HEIGHT = 256, 257
_MAX_TIFF_TAGS = 500


class PictureHead(NamedTuple):
    """The format of a picture, and its width and height in pixels; 0 if the first bytes do not say them."""

    format: str
    width: int = 0
    height: int = 0


def picture_head(data: bytes) -> PictureHead | None:
    """Return the format and size of a picture, or None if the bytes are not the start of a picture."""
    try:
        return _head(data)
    except (struct.error, IndexError):
        return None  # it ends too early


def _head(data: bytes) -> PictureHead | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return PictureHead("PNG", *struct.unpack_from(">II", data, 16))
    if data.startswith(b"\xff\xd8\xff"):
        return _jpeg(data)
    if data.startswith((b"GIF87a", b"GIF89a")):
        return PictureHead("GIF", *struct.unpack_from("<HH", data, 6))
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return _webp(data)
    if data.startswith(b"BM"):
        return _bitmap(data)
    if data.startswith((b"II*\0", b"MM\0*")):
        return _tiff(data)
    if data.startswith((b"\xd7\xcd\xc6\x9a", b"\x01\0\x09\0")):
        return PictureHead("WMF")
    if data.startswith(b"\x01\0\0\0") and data[40:44] == b" EMF":
        return PictureHead("EMF")
    start = data[:1000].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith((b"<svg", b"<?xml", b"<!DOCTYPE svg", b"<!--")) and b"<svg" in data[:10_000]:
        return PictureHead("SVG")
    return None


def _jpeg(data: bytes) -> PictureHead:
    at = 2
    while at + 9 < len(data):
        if data[at] != 0xFF:
            at += 1
            continue
        marker = data[at + 1]
        if marker in _FRAME_MARKERS:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return PictureHead("JPEG", width, height)
        if marker == 0xFF:
            at += 1
        elif marker in (0x01, *range(0xD0, 0xD9)):  # markers without content
            at += 2
        else:
            at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return PictureHead("JPEG")


def _webp(data: bytes) -> PictureHead:
    kind = data[12:16]
    if kind == b"VP8X":
        return PictureHead("WEBP", 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little"))
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return PictureHead("WEBP", 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
    width, height = struct.unpack_from("<HH", data, 26)
    return PictureHead("WEBP", width & 0x3FFF, height & 0x3FFF)


def _bitmap(data: bytes) -> PictureHead:
    if struct.unpack_from("<I", data, 14)[0] == 12:  # the header of OS/2
        return PictureHead("BMP", *struct.unpack_from("<HH", data, 18))
    width, height = struct.unpack_from("<ii", data, 18)
    return PictureHead("BMP", abs(width), abs(height))  # the height is negative if the first row is the top one


def _tiff(data: bytes) -> PictureHead:
    order = "<" if data.startswith(b"II") else ">"
    start = struct.unpack_from(f"{order}I", data, 4)[0]
    if start + 2 > len(data):
        return PictureHead("TIFF")  # the size is after the picture
    sizes = {}
    for number in range(min(struct.unpack_from(f"{order}H", data, start)[0], _MAX_TIFF_TAGS)):
        at = start + 2 + 12 * number
        tag, kind = struct.unpack_from(f"{order}HH", data, at)
        if tag in (_TIFF_WIDTH, _TIFF_HEIGHT):
            sizes[tag] = struct.unpack_from(f"{order}{'H' if kind == 3 else 'I'}", data, at + 8)[0]
    return PictureHead("TIFF", sizes.get(_TIFF_WIDTH, 0), sizes.get(_TIFF_HEIGHT, 0))
