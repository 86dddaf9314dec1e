"""The home folder with Turnmark's state, atomic file writing, and unpacking of zip archives."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from turnmark.core.errors import RequestError

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def home() -> Path:
    """Return `$TURNMARK_HOME`, or the platform's data folder for `turnmark`. Creates nothing."""
    configured = os.environ.get("TURNMARK_HOME")
    if configured:
        return Path(configured).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("turnmark", appauthor=False))


def check_name(name: str, kind: str) -> str:
    """Return `name` if it is safe as a folder name: letters, digits, '.', '_' and '-', never a path."""
    if not _SAFE_NAME.fullmatch(name):
        raise RequestError(
            f"{kind} {name!r}: use up to 100 letters, digits, '.', '_' and '-', and start with a letter or digit"
        )
    return name


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_between(path: Path, start: int, end: int) -> str:
    """Return the SHA-256 of a file's bytes from `start` to before `end`, or to the end of a shorter file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(start)
        while start < end and (piece := file.read(min(1 << 20, end - start))):
            digest.update(piece)
            start += len(piece)
    return digest.hexdigest()


@contextmanager
def part_of(path: Path) -> Iterator[Path]:
    """Give a path to write a file to, which replaces `path` at the end, so that readers never see a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_atomic(path: Path, text: str) -> None:
    """Write a text file such that readers see either the old or the new content, never a part; flush it to disk."""
    with part_of(path) as part, open(part, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def write_json(path: Path, value: Any) -> None:
    """Write a JSON value with `write_atomic`; raise ValueError for NaN and infinity, which are not JSON."""
    write_atomic(path, json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def quiet_libraries() -> None:
    """Switch off the telemetry of all libraries; environment variables that are already set keep their values."""
    for name, value in {
        "ANONYMIZED_TELEMETRY": "False",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
        # Read when onnxruntime is imported. Without it, 1.31 stores a device id and looks up a host; its function
        # `disable_telemetry_events` stops neither.
        "ORT_DISABLE_TELEMETRY": "1",
        "TOKENIZERS_PARALLELISM": "false",
        # Threads that spin while they wait make a model six times slower as soon as another program wants a core.
        "OMP_WAIT_POLICY": "PASSIVE",
        # numpy multiplies in blocks on several cores already (`turnmark.retrieval.ranking.vectors.run_on_cores`).
        "OPENBLAS_NUM_THREADS": "1",
    }.items():
        os.environ.setdefault(name, value)


MAX_UNZIPPED_BYTES = 3 << 30
"""MTRAG's largest corpus takes less than 300 MB; an archive ten times as large is treated as a zip bomb."""


def unzip(archive: Path, name: str) -> Path:
    """Unpack the file `name` of a zip archive into the cache, under the archive's hash, and return its path."""
    target = home() / "cache" / "unzipped" / file_sha256(archive) / name
    if target.is_file():
        return target
    with part_of(target) as part:
        try:
            with zipfile.ZipFile(archive) as opened:
                (member,) = (each for each in opened.infolist() if Path(each.filename).name == name)
                if member.file_size > MAX_UNZIPPED_BYTES:
                    raise ValueError(f"it would unpack to {member.file_size:,} bytes")
                # Reading stops at the declared size, so a false declaration cannot unpack to more.
                with opened.open(member) as source, open(part, "wb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
        except Exception as error:  # a damaged archive raises errors of many kinds
            raise RequestError(f"{archive}: not a readable zip archive with one {name} ({error})") from error
    return target
