"""Leaves out data that a text file contains in base64: pictures in data URIs, attachments of a mail, long certificates.

Such data have no words, and would become hundreds of passages. A key or certificate of a few lines stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

_MIN_LENGTH = 1_500  # characters of base64; less is an example that the text explains
_MIN_URI_LENGTH = 200  # characters in a data URI outside of a link
_MIN_LINE_LENGTH = 40  # of wrapped base64; programs wrap it at 60 to 76 characters
_MIN_KIND_SHARE = 0.03  # of capitals, small letters and digits each; other long words lack one of them
_LETTERS = "[A-Za-z0-9+/_-]"
_MEDIA_TYPE = r"data:[\w.+-]{1,60}/[\w.+-]{1,60}(?:;[\w.+=-]{1,100}){0,5},"
# All lines but the last are full.
_WRAPPED_DATA = rf"{_MEDIA_TYPE}(?<=base64,)\s*(?:[A-Za-z0-9+/]{{{_MIN_LINE_LENGTH},}}\s+)+[A-Za-z0-9+/]+={{0,2}}"
LINKED_DATA_URI = re.compile(
    rf"(?<=[(<\"']){_WRAPPED_DATA}|(?<=[(<]){_MEDIA_TYPE}(?:[^\s()<>]++|\([^\s()<>]*+\))++"
    rf"|(?<=\"){_MEDIA_TYPE}[^\s<>\"]++|(?<='){_MEDIA_TYPE}[^\s<>']++"
)
"""Matches the data of a picture in a link target or attribute."""
_LONG_LINE = rf"{_LETTERS}{{{_MIN_LINE_LENGTH},}}={{0,2}}"
_LAST_LINE = r"[ \t]*\n[ \t>]*(?:[A-Za-z0-9+/_=-]{4})+[ \t]*(?=\n|\Z)"
_URI = re.compile(
    rf"(?P<head>{_MEDIA_TYPE})(?<=base64,)(?P<data>\s*{_LONG_LINE}(?:[ \t]*\n[ \t>]*{_LONG_LINE})*(?:{_LAST_LINE})?)"
)
_RUN = re.compile(rf"(?<!{_LETTERS}){_LETTERS}{{{_MIN_LENGTH},}}={{0,2}}")
_LINE = re.compile(rf"(?P<lead>[ \t>]*)(?P<data>{_LETTERS}+={{0,2}})[ \t]*")
_DATA_HINT = re.compile(rf"data:|{_LETTERS}{{{_MIN_LINE_LENGTH}}}")

EMBEDDED_DATA = "embedded data"
"""Reason in `Document.left_out`: data in base64."""


def without_encoded_data(text: str, left_out: Counter[str]) -> str:
    """Return the text with data in base64 shortened to "…", and the data of a link to "data-uri".

    Args:
        left_out: the pieces of data are counted in it.
    """
    if not _DATA_HINT.search(text):
        return text

    def shortened(found: re.Match[str]) -> str:
        if len(found["data"]) < _MIN_URI_LENGTH:
            return found.group()
        left_out[EMBEDDED_DATA] += 1
        return f"{found['head']}…"

    def dropped(run: re.Match[str]) -> str:
        if not _is_mixed(run.group()):
            return run.group()
        left_out[EMBEDDED_DATA] += 1
        return "…"

    text, linked = LINKED_DATA_URI.subn("data-uri", text)
    if linked:
        left_out[EMBEDDED_DATA] += linked
    text = _RUN.sub(dropped, _URI.sub(shortened, text))
    return "\n".join(_without_blocks(text.split("\n"), left_out))


def _without_blocks(lines: Sequence[str], left_out: Counter[str]) -> Iterator[str]:
    """Yield the lines, with each long block of wrapped base64 replaced by a line "…"."""
    at = 0
    while at < len(lines):
        end = _end_of_block(lines, at)
        found = _LINE.fullmatch(lines[at]) if end > at + 1 else None
        if found and _is_mixed(data := "".join(lines[at:end])) and len(data) >= _MIN_LENGTH:
            left_out[EMBEDDED_DATA] += 1
            yield f"{found['lead']}…"
        else:
            yield from lines[at:end]
        at = end


def _end_of_block(lines: Sequence[str], start: int) -> int:
    """Return the end of the lines of base64 from `start` that are as long as the first; the last may be shorter."""
    first = _LINE.fullmatch(lines[start])
    if first is None or len(first["data"]) < _MIN_LINE_LENGTH:
        return start + 1
    for at in range(start + 1, len(lines)):
        line = _LINE.fullmatch(lines[at])
        if line is None or line["lead"] != first["lead"] or len(line["data"]) > len(first["data"]):
            return at
        if len(line["data"]) < len(first["data"]):
            return at + 1 if len(line["data"]) % 4 == 0 else at
    return len(lines)


def _is_mixed(data: str) -> bool:
    """Return whether data have capitals, small letters and digits, unlike hexadecimal numbers, genes and paths."""
    least = _MIN_KIND_SHARE * len(data)
    return all(sum(map(kind, data)) >= least for kind in (str.isupper, str.islower, str.isdigit))
