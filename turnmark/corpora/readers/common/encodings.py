"""Reads plain text, and guesses its encoding if it is not UTF-8 and declares none.

Excel, for example, writes CSV files in Europe in such an encoding.
"""

from __future__ import annotations

import re
from pathlib import Path

from turnmark.corpora.readers.common.prose import Unreadable, decode, parse_text
from turnmark.corpora.readers.registry import ProgressCallback
from turnmark.corpora.types import Document

_CANDIDATES = (
    "windows-1252", "windows-1250", "windows-1251", "windows-1253", "windows-1254", "windows-1255", "windows-1256",
    "windows-1257", "cp874", "cp932", "gb18030", "big5", "cp949",
)  # fmt: skip
"""The encodings that Windows programs write. Rarer encodings would be guessed more often than they occur."""
_WESTERN = "windows-1252"
_LATIN = frozenset({"windows-1250", "windows-1254", "windows-1257"})
_MIN_WESTERN_SHARE = 0.9  # of the best score, with which the Western encoding is taken, since it is far more common
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_SEQUENCE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_SAMPLE_BYTES = 200_000
_MAX_LINE_BYTES = 2_000


def read_text(path: Path, relative: str, _: ProgressCallback) -> Document:
    """Read a text file."""
    text, remarks = decode_or_guess(path.read_bytes())
    document = parse_text(text, relative)
    if document.left_out and not any(map(str.isalnum, document.text)):
        raise Unreadable("contains only data in base64, without words")
    return document.model_copy(update={"remarks": remarks}) if remarks else document


def decode_or_guess(data: bytes, said: str = "") -> tuple[str, tuple[str, ...]]:
    """Decode a text as `decode` does, or with a guessed encoding. Return the text, and a remark if it was guessed.

    Raises:
        Unreadable: the data are not text, or nearly all of them are UTF-8, so that the rest is damage.
    """
    try:
        return decode(data, said), ()
    except Unreadable as error:
        encoding = "" if error.binary else _guess_encoding(data)
        if not encoding:
            raise
        try:
            text = decode(data, encoding)
        except Unreadable:
            raise error from None
    return text, (f"not UTF-8; read as {encoding}, which is a guess: if letters are wrong, save the file as UTF-8",)


def _guess_encoding(data: bytes) -> str:
    """Return the name of the most probable encoding; empty if the data are no text in any of the candidates."""
    if _CONTROL.search(data) or _is_damaged_utf8(data):
        return ""
    from chardet import detect_all

    found = detect_all(
        _telling_lines(data), include_encodings=_CANDIDATES, max_bytes=_SAMPLE_BYTES, ignore_threshold=True
    )
    scores = {str(each["encoding"]).lower(): float(each["confidence"] or 0) for each in found if each["encoding"]}
    best = next(iter(scores), "")
    if best in _LATIN and scores.get(_WESTERN, 0) >= _MIN_WESTERN_SHARE * scores[best]:
        return _WESTERN
    return best


def _is_damaged_utf8(data: bytes) -> bool:
    """Return whether most letters outside of ASCII are UTF-8."""
    sequences = sum(len(each) for each in _SEQUENCE.findall(data))
    others = sum(byte >= 0x80 for byte in data) - sequences
    return sequences > 3 * others


def _telling_lines(data: bytes) -> bytes:
    """Return the lines with other letters than ASCII, which may be far from the beginning of a large file."""
    lines = [line[:_MAX_LINE_BYTES] for line in data.split(b"\n") if not line.isascii()]
    return b"\n".join(lines)[:_SAMPLE_BYTES]
