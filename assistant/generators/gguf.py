"""The header of a GGUF file: what a model says of itself, without its weights.

Source: github.com/ggml-org/ggml, docs/gguf.md. The file is untrusted: nothing is read that its sizes do not bound.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_LONGEST_STRING = 1 << 20
_MOST_FIELDS = 1000

Value = str | int | float | bool


def read_header(path: Path) -> dict[str, Value]:
    """The fields before the first list (the vocabulary), by name: the architecture and the context are among them.

    Raises:
        ValueError: the file is not GGUF, or its header is damaged.
        OSError: it cannot be read.
    """
    fields: dict[str, Value] = {}
    with open(path, "rb") as file:
        if file.read(4) != b"GGUF":
            raise ValueError("not a GGUF file")
        version = _number(file, "<I")
        if version not in (2, 3):
            raise ValueError(f"GGUF version {version}; versions 2 and 3 are supported")
        _number(file, "<Q")  # the number of tensors
        for _ in range(min(int(_number(file, "<Q")), _MOST_FIELDS)):
            name, kind = _string(file), int(_number(file, "<I"))
            if kind == _ARRAY:
                break
            if kind == _STRING:
                fields[name] = _string(file)
            elif kind in _NUMBERS:
                fields[name] = _number(file, _NUMBERS[kind])
            else:
                raise ValueError(f"the field {name[:80]!r} has the unknown type {kind}")
    return fields


def context_length(fields: dict[str, Value]) -> int | None:
    """Tokens of the context that the model was made for; None where the header does not say."""
    length = fields.get(f"{fields.get('general.architecture')}.context_length")
    return length if isinstance(length, int) and length > 0 else None


def _number(file: BinaryIO, form: str) -> int | float | bool:
    size = struct.calcsize(form)
    data = file.read(size)
    if len(data) < size:
        raise ValueError("the header ends early")
    value: int | float | bool = struct.unpack(form, data)[0]
    return value


def _string(file: BinaryIO) -> str:
    size = int(_number(file, "<Q"))
    if size > _LONGEST_STRING:
        raise ValueError(f"a text of {size:,} bytes in the header")
    data = file.read(size)
    if len(data) < size:
        raise ValueError("the header ends early")
    return data.decode("utf-8", "replace")
