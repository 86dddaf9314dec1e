"""Where a report may be written: nobody's file is overwritten, but an earlier report of the same kind is."""

from __future__ import annotations

from pathlib import Path

from turnmark.corpora.errors import ErrorCollector

_END = 2_000  # bytes at either end of a file


def check_target(flag: str, path: Path, errors: ErrorCollector, marker: str) -> None:
    """Note why a file cannot be written; one that holds the marker of our reports can."""
    above = next((folder for folder in path.absolute().parents if folder.exists()), None)
    if path.is_dir():
        errors.add(f"{flag} {str(path)!r} is a folder; name a file")
    elif above is not None and not above.is_dir():
        errors.add(f"{flag} {str(path)!r}: {str(above)!r} is a file; name another folder")
    elif not path.exists() and not path.is_symlink():
        return
    elif not path.is_file():
        errors.add(f"{flag} {str(path)!r} is no regular file; name one")
    else:
        try:
            ours = not path.stat().st_size or marker.encode() in _ends(path)
        except OSError as error:
            errors.add(f"{flag} {str(path)!r} cannot be read: {error.strerror or error}; name another file")
            return
        if not ours:
            errors.add(f"{flag} {str(path)!r} is there already and is no report of this kind; name another file")


def _ends(path: Path) -> bytes:
    """The first bytes of a file and its last, where a report of ours says what it is."""
    with open(path, "rb") as file:
        head = file.read(_END)
        file.seek(max(len(head), path.stat().st_size - _END))
        return head + file.read(_END)
