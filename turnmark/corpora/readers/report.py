"""Reports on reading for the user: the file being read, and the file types that are not read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

# Nobody expects text from these types, so they are not counted as unread.
_UNCOUNTED_SUFFIXES = frozenset(
    """.jpe .jfif .svg .svgz .ico .icns .psd .xcf .heic .avif .raw
    .mp3 .ogg .oga .opus .flac .wav .m4a .aac .mid .mp4 .m4v .mov .avi .mkv .webm .ogv .mpg .mpeg
    .ttf .otf .woff .woff2 .eot .css .scss .sass .less .map .lock .pyc .pyo .pyd .o .a .so .dll .dylib .exe .class
    .jar .wasm""".split()
)

MAX_UNREAD_NAMES = 2_000
"""Maximum names of unread files that are kept."""


@dataclass
class ReadingReport:
    """Observations made while reading a source, other than its documents.

    Attributes:
        tell: called with a description of what is being read.
        unread: number of files whose type is not read, by suffix.
        left_out: number of files that are left out for another reason, by reason.
        unread_files: the first `MAX_UNREAD_NAMES` files that `unread` counts, relative to the source.
        unopened: folders that cannot be opened, relative to the source.
    """

    tell: Callable[[str], None] = lambda _: None
    unread: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    unread_files: list[str] = field(default_factory=list)
    unopened: list[str] = field(default_factory=list)

    def count_unread(self, relative: str) -> None:
        """Count a file of an unsupported type."""
        suffix = PurePosixPath(relative).suffix.lower()
        if suffix not in _UNCOUNTED_SUFFIXES:
            self.unread[printable_path(suffix)] += 1
            if len(self.unread_files) < MAX_UNREAD_NAMES:
                self.unread_files.append(printable_path(relative))


def describe_unread(unread: Mapping[str, int]) -> str:
    """Return a line such as "3 files of types that are not read: .doc 2, .zip 1"; empty if there are none."""
    total = sum(unread.values())
    if not total:
        return ""
    ordered = sorted(unread.items(), key=lambda entry: (-entry[1], not entry[0], entry[0]))
    if total == 1:
        return f"1 file is not read: {ordered[0][0] or 'its name has no suffix'}"
    counts = [f"{suffix or 'no suffix'} {count:,}" for suffix, count in ordered[:12]]
    if len(ordered) > 12:
        counts.append(f"{len(ordered) - 12} more types")
    return f"{total:,} files of types that are not read: {', '.join(counts)}"


def describe_left_out(left_out: Mapping[str, int]) -> str:
    """Return a line such as "left out: running headers 120, hidden slides 2"; empty if nothing was left out."""
    ordered = sorted(left_out.items(), key=lambda entry: (-entry[1], entry[0]))
    counts = [f"{reason} {count:,}" for reason, count in ordered if count]
    return f"left out: {', '.join(counts)}" if counts else ""


def printable_path(relative: str) -> str:
    """Return a path that can be printed even if its bytes on disk are not UTF-8."""
    return os.fsencode(relative).decode("utf-8", "backslashreplace")
