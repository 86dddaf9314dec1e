"""Functions of pdfium that use addresses as numbers, which are hashable and faster than pypdfium2's objects.

A handle (a number) is valid only while its page is open. 0 and None mean that there is no object.
"""

from __future__ import annotations

import ctypes
from typing import Any

import pypdfium2.raw as pdfium


def _by_address(function: Any, result: Any, *arguments: Any) -> Any:
    """Return a function of pdfium with other result and argument types."""
    return ctypes.CFUNCTYPE(result, *arguments)(ctypes.cast(function, ctypes.c_void_p).value or 0)


unicode_of = _by_address(pdfium.FPDFText_GetUnicode, ctypes.c_uint, ctypes.c_void_p, ctypes.c_int)
"""(text of a page, index of a character) -> its code point"""
angle_of = _by_address(pdfium.FPDFText_GetCharAngle, ctypes.c_float, ctypes.c_void_p, ctypes.c_int)
"""(text of a page, index of a character) -> an angle that differs between directions, but also between slants"""
_object_of = _by_address(pdfium.FPDFText_GetTextObject, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
_font_of = _by_address(pdfium.FPDFTextObj_GetFont, ctypes.c_void_p, ctypes.c_void_p)
_name_of = _by_address(
    pdfium.FPDFFont_GetBaseFontName, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
)
_color_of = _by_address(pdfium.FPDFPageObj_GetFillColor, ctypes.c_int, ctypes.c_void_p, *[ctypes.c_void_p] * 4)
MIN_WHITE = 250
"""Minimum share of each color in white, of 255."""
font_flags = _by_address(pdfium.FPDFFont_GetFlags, ctypes.c_int, ctypes.c_void_p)
"""font -> its flags (PDF 32000-1, table 123), or -1"""


def address_of(handle: Any) -> int:
    """Return the address of an object of pypdfium2's raw interface."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def font_of(text: int, index: int) -> int | None:
    """Return the font of a character."""
    drawn = _object_of(text, index)
    font: int | None = _font_of(drawn) if drawn else None
    return font


def is_white(text: int, index: int) -> bool:
    """Return whether a character is filled with white."""
    drawn = _object_of(text, index)
    color = [ctypes.c_uint() for _ in range(4)]
    known = drawn and _color_of(drawn, *map(ctypes.byref, color))
    return bool(known) and min(shade.value for shade in color[:3]) >= MIN_WHITE


def device_point(page: Any, size: tuple[int, int], x: float, y: float) -> tuple[int, int]:
    """Return the pixel of a point in a picture of a page, which pdfium turns like the page."""
    across, down = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDF_PageToDevice(page, 0, 0, *size, 0, x, y, across, down)
    return across.value, down.value


def font_name(font: int) -> str:
    """Return the name of a font, up to 255 bytes; empty if it has none."""
    buffer = ctypes.create_string_buffer(256)
    length = min(_name_of(font, buffer, 256), 256)  # including the final zero byte
    return buffer.raw[: max(0, length - 1)].decode("utf-8", "replace")
