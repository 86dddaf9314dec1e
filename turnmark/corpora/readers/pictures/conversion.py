"""Decodes a picture with Pillow and encodes it so that a vision model can read it: upright, on white, not too large.

A decoder of untrusted bytes may crash or need much memory, so this runs only in a process with limits
(`turnmark.corpora.readers.isolation`).
"""

from __future__ import annotations

import io
import warnings
from typing import NamedTuple

from PIL import Image, ImageOps

from turnmark.corpora.readers.pictures.image_size import DRAWABLE_FORMATS, LONGEST_SIDE

MAX_PIXELS = 60_000_000  # of a picture that is decoded; a larger one counts as not drawable
MAX_KEPT_BYTES = 4 * 1024**2  # of a picture that is stored as it is
_MAX_PNG_BYTES = 2 * 1024**2  # a larger one is a photograph, and is stored as JPEG
_JPEG_QUALITY = 88
_MAX_PLAIN_RANGE = 8  # between the darkest and the brightest value of a picture of one color
_SUFFIXES = {"PNG": ".png", "JPEG": ".jpg", "GIF": ".gif", "WEBP": ".webp"}
_KEPT_MODES = ("1", "L", "P", "RGB")
_ORIENTATION_TAG = 0x0112  # of EXIF


class EncodedPicture(NamedTuple):
    """A picture as it is stored."""

    data: bytes
    suffix: str
    width: int
    height: int


class NotDrawableError(Exception):
    """Raised for a picture that is broken, too large, or of a kind that cannot be decoded."""


def encode_picture(data: bytes) -> EncodedPicture | None:
    """Return a picture as it is to be stored, or None if it has only one color.

    Raises:
        NotDrawableError: it cannot be decoded.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data), formats=DRAWABLE_FORMATS) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise NotDrawableError(f"{image.width:,} x {image.height:,} pixels")
                kept = _SUFFIXES.get(image.format or "") if _is_plain(image) else None
                image.load()
                if kept and len(data) <= MAX_KEPT_BYTES:
                    return None if _has_one_color(image) else EncodedPicture(data, kept, *image.size)
                return encode_image(image, is_photograph=image.format == "JPEG")
    except (NotDrawableError, MemoryError):
        raise
    except Exception as error:  # Pillow raises anything for broken files
        raise NotDrawableError(type(error).__name__) from error


def encode_image(image: Image.Image, is_photograph: bool = False) -> EncodedPicture | None:
    """Return a decoded picture as it is to be stored, or None if it has only one color."""
    upright = _on_white(ImageOps.exif_transpose(image))
    if _has_one_color(upright):
        return None
    upright.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
    if not is_photograph:
        buffer = io.BytesIO()
        upright.save(buffer, "PNG")
        if buffer.tell() <= _MAX_PNG_BYTES:
            return EncodedPicture(buffer.getvalue(), ".png", *upright.size)
    buffer = io.BytesIO()
    upright.save(buffer, "JPEG", quality=_JPEG_QUALITY)
    return EncodedPicture(buffer.getvalue(), ".jpg", *upright.size)


def _is_plain(image: Image.Image) -> bool:
    """Return whether a picture needs no change: one upright, opaque frame of moderate size in common colors."""
    return (
        max(image.size) <= LONGEST_SIDE
        and image.mode in _KEPT_MODES
        and "transparency" not in image.info
        and getattr(image, "n_frames", 1) == 1
        and image.getexif().get(_ORIENTATION_TAG, 1) == 1
    )


def _on_white(image: Image.Image) -> Image.Image:
    """Return a picture in RGB or gray, with white where it is transparent."""
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        colored = image.convert("RGBA")
        ground = Image.new("RGBA", colored.size, "white")
        return Image.alpha_composite(ground, colored).convert("RGB")
    if image.mode in ("1", "L"):
        return image.convert("L")
    if image.mode.startswith("I") or image.mode == "F":  # values beyond 255
        low, high = image.getextrema()
        scale = 255 / max(float(high) - float(low), 1e-9)  # type: ignore[arg-type]
        return image.convert("F").point(lambda value: (value - low) * scale).convert("L")
    return image.convert("RGB")


def _has_one_color(image: Image.Image) -> bool:
    shown = image if image.mode in ("L", "RGB") else image.convert("RGB")
    ranges = shown.getextrema()
    pairs = ranges if isinstance(ranges[0], tuple) else (ranges,)
    return all(high - low <= _MAX_PLAIN_RANGE for low, high in pairs)
