"""Where Turnmark keeps its state, how a file is written so that it is never seen half, and zipped files."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import shutil
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

from turnmark.core.errors import RequestError

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def home() -> Path:
    """`$TURNMARK_HOME`, or the platform's data folder for `turnmark`. Nothing is created."""
    configured = os.environ.get("TURNMARK_HOME")
    if configured:
        return Path(configured).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("turnmark", appauthor=False))


def check_name(name: str, kind: str) -> str:
    """A name that becomes a folder: letters, digits, '.', '_' and '-', never a path."""
    if not _SAFE_NAME.fullmatch(name):
        raise RequestError(
            f"{kind} {name!r}: use up to 100 letters, digits, '.', '_' and '-', beginning with a letter or digit"
        )
    return name


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomic(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old content or the new, never a part; flushed to the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def write_json(path: Path, value: Any) -> None:
    """`write_atomic` of a JSON value; NaN and infinity are refused because they are not JSON."""
    write_atomic(path, json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def quiet_libraries() -> None:
    """Telemetry of every library is off, whatever is loaded later; a variable that is set already stays."""
    for name, value in {
        "ANONYMIZED_TELEMETRY": "False",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_WAIT_POLICY": "PASSIVE",  # retrieval/models.py says why
    }.items():
        os.environ.setdefault(name, value)


# MTRAG's largest corpus has 183,408 passages in under 300 MB; ten times that is a bomb.
MAX_UNZIPPED = 3 << 30
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, NotImplementedError, RuntimeError,
    OverflowError, ValueError, OSError,
)  # fmt: skip


def unzip(archive: Path, name: str) -> Path:
    """The file `name` of a zip archive, unpacked into the cache under the archive's own hash."""
    target = home() / "cache" / "unzipped" / file_sha256(archive) / name
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    try:
        with zipfile.ZipFile(archive) as opened:
            members = [member for member in opened.infolist() if Path(member.filename).name == name]
            if len(members) != 1:
                raise RequestError(f"{archive}: expected one file {name!r} in it, found {len(members)}")
            if members[0].file_size > MAX_UNZIPPED:
                raise RequestError(f"{archive}: {name} would unpack to {members[0].file_size:,} bytes; refused")
            # Reading stops at the size that the archive declares, so a false one cannot unpack to more.
            with opened.open(members[0]) as source, open(part, "wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
    except _DAMAGE as error:
        raise RequestError(f"{archive}: not a zip archive that can be read ({error})") from error
    part.replace(target)
    return target
