"""Folders that one process begins and another resumes, told by their manifest: of a run, of a synthesis."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.types import Record

M = TypeVar("M", bound=Record)
_LEFT_AT_THE_START = re.compile(r"\.lock|\.manifest\.json\.[0-9]+\.part")
"""What is left behind by a process that was killed before its manifest was there."""


def read_manifest(path: Path, kind: type[M], what: str) -> M | None:
    """The manifest that is in `path` already, if there is one. Writes nothing.

    Args:
        what: the folder holds, in a word.

    Raises:
        RequestError: something else is there: a file, a folder of something else.
    """
    if path.exists() and not path.is_dir():
        raise RequestError(f"--out {str(path)!r} is a file; name a folder")
    if not path.is_dir():
        return None
    try:
        return kind.model_validate_json((path / "manifest.json").read_bytes())
    except FileNotFoundError:
        if not all(_LEFT_AT_THE_START.fullmatch(child.name) for child in path.iterdir()):
            raise RequestError(f"--out {str(path)!r} holds files and is no {what}; name another folder") from None
        return None
    except (OSError, ValidationError) as error:
        raise RequestError(f"--out {str(path)!r}: its manifest.json cannot be read; name another folder") from error


def disagreements(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """What two identities disagree on, a line each: `specs.query: 'rewrite' there, 'last-turn' here`."""

    def flat(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from flat(inner, f"{prefix}.{key}" if prefix else key)
        else:
            yield prefix, value

    old, new = dict(flat(there, "")), dict(flat(here, ""))
    return [
        f"{key}: {old.get(key)!r} there, {new.get(key)!r} here"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


def another(path: Path, what: str, differing: list[str]) -> RequestError:
    """The error of a folder that holds something of its kind which differs."""
    first = f"--out {str(path)!r} holds another {what}; name another folder, or ask for the same:"
    return RequestError([first, *(f"  {line}" for line in differing)])


@contextmanager
def locked(path: Path, named: str) -> Iterator[None]:
    """Make the folder, and keep other processes out of it.

    Args:
        named: the folder as an error names it.

    Raises:
        RequestError: it cannot be written.
        TurnmarkError: another process has it open.
    """
    from filelock import FileLock, Timeout

    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path / ".lock", timeout=0)
        lock.acquire()
    except Timeout as error:
        raise TurnmarkError(f"another process is writing {named}; wait, or name another --out") from error
    except OSError as error:
        raise RequestError(f"--out {str(path)!r} cannot be written: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()


def clear_parts(path: Path) -> None:
    """Remove what a process that was killed had begun to write."""
    for part in path.glob(".*.part"):
        part.unlink(missing_ok=True)
