"""Data that come as archives: what reading a damaged one raises, and single zipped files, unpacked into the cache."""

from __future__ import annotations

import errno
import lzma
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turnmark.corpora.errors import RequestError
from turnmark.corpora.home import file_sha256, home

# MTRAG's largest corpus has 183,408 passages in under 300 MB; ten times that is no corpus but a bomb.
MAX_BYTES = 3 << 30


_TARS = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")  # gzip, bzip2 and xz, in which tar files are packed


def kind_of(path: Path) -> str | None:
    """`zip` or `tar` by how a file begins; None where it is neither, or cannot be read."""
    try:
        with open(path, "rb") as file:
            head = file.read(512)
    except OSError:
        return None
    if head.startswith(b"PK"):
        return "zip"
    return "tar" if head.startswith(_TARS) or head[257:262] == b"ustar" else None


@contextmanager
def readable(archive: Path, kind: str = "zip") -> Iterator[None]:
    """What reading a damaged archive raises, as one error with its name.

    Raises:
        RequestError: the archive cannot be read.
    """
    try:
        yield
    except OSError as error:
        # A place before the file's begin, which a damaged directory may name, or damage that a decompressor tells
        # without a number; all else is the disk's own.
        if error.errno not in (errno.EINVAL, None):
            raise
        raise RequestError(f"{archive}: not a {kind} archive that can be read ({error})") from error
    except (
        zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError, NotImplementedError,
        RuntimeError, OverflowError, ValueError,
    ) as error:  # fmt: skip
        raise RequestError(f"{archive}: not a {kind} archive that can be read ({error})") from error


def unzipped(archive: Path, name: str) -> Path:
    """The file `name` of a zip archive, unpacked into the cache under the archive's own hash.

    Only that one member is read, into a path that we choose: nothing in the archive names a place to write to.

    Raises:
        RequestError: the archive is damaged, lacks the file, or unpacks to more than 3 GiB.
    """
    target = home() / "cache" / "unzipped" / file_sha256(archive) / name
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    with readable(archive), zipfile.ZipFile(archive) as opened:
        members = [member for member in opened.infolist() if Path(member.filename).name == name]
        if len(members) != 1:
            raise RequestError(f"{archive}: expected one file {name!r} in it, found {len(members)}")
        if members[0].file_size > MAX_BYTES:
            raise RequestError(f"{archive}: {name} would unpack to {members[0].file_size:,} bytes; refused")
        # Reading stops at the size that the archive declares, so a false one cannot unpack to more.
        with opened.open(members[0]) as source, open(part, "wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
    part.replace(target)
    return target
