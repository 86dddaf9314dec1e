"""A zipped file of a benchmark, such as MTRAG's passages, unpacked once into the cache."""

from __future__ import annotations

import lzma
import shutil
import struct
import zipfile
import zlib
from pathlib import Path

from turnmark.corpora.errors import RequestError
from turnmark.corpora.home import file_sha256, home

# MTRAG's largest corpus has 183,408 passages in under 300 MB; ten times that is no corpus but a bomb.
MAX_BYTES = 3 << 30
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, NotImplementedError, RuntimeError,
    OverflowError, ValueError, OSError,
)  # fmt: skip


def unzipped(archive: Path, name: str) -> Path:
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
            if members[0].file_size > MAX_BYTES:
                raise RequestError(f"{archive}: {name} would unpack to {members[0].file_size:,} bytes; refused")
            # Reading stops at the size that the archive declares, so a false one cannot unpack to more.
            with opened.open(members[0]) as source, open(part, "wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
    except _DAMAGE as error:
        raise RequestError(f"{archive}: not a zip archive that can be read ({error})") from error
    part.replace(target)
    return target
