"""Adapts the readers of LlamaIndex to the table of readers.

With the entry point `".hwp" = "turnmark.corpora.readers.llama_index:read"`, a file type is read by LlamaIndex's reader
for it. `adapted(MyReader())` adapts any other reader.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

from turnmark.core.extras import require_extra
from turnmark.corpora.readers.common.prose import Unreadable, clean_text, parse_text
from turnmark.corpora.readers.registry import ProgressCallback, ReadFunction
from turnmark.corpora.types import Document


def read(path: Path, relative: str, progress: ProgressCallback) -> Document:
    """Read a file with LlamaIndex's reader for its suffix."""
    require_extra("llama-index", f"the reader of {relative!r}")
    from llama_index.core import SimpleDirectoryReader

    suffix = PurePosixPath(relative).suffix.lower()
    classes: dict[str, Any] = SimpleDirectoryReader.supported_suffix_fn()
    if suffix not in classes:
        raise Unreadable(f"LlamaIndex has no reader for {suffix}; it has: {', '.join(sorted(classes))}")
    try:
        reader = classes[suffix]()
    except ImportError as error:
        raise _missing_package_error(classes[suffix].__name__, error) from error
    document = adapted(reader)(path, relative, progress)
    assert isinstance(document, Document)
    return document


def adapted(reader: Any) -> ReadFunction:
    """Return a reader that calls `load_data` of a LlamaIndex reader."""

    def read_adapted(path: Path, relative: str, _: ProgressCallback) -> Document:
        try:
            parts = reader.load_data(path)
        except ImportError as error:
            raise _missing_package_error(type(reader).__name__, error) from error
        return parse_text(clean_text("\n\n".join(part.text or "" for part in parts)), relative)

    return read_adapted


def _missing_package_error(name: str, error: ImportError) -> Unreadable:
    return Unreadable(f"LlamaIndex's {name} needs a package that is not installed ({error})")
