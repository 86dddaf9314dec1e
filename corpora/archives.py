"""Data that come as archives: a repository as a zip or tar file, and single zipped files, unpacked into the cache.

Nothing in an archive names a place to write to: what is unpacked are plain files whose paths a benchmark wants, never
more of them than they declare, and never more than the benchmark takes.
"""

from __future__ import annotations

import errno
import lzma
import re
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from turnmark.corpora.catalog import Entry, matching, shortfalls
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.home import file_sha256, home

# MTRAG's largest corpus has 183,408 passages in under 300 MB; ten times that is no corpus but a bomb.
MAX_BYTES = 3 << 30
MAX_TAR = 8 << 30
"""Bytes that the members of a tar file may declare together: to list them, all of it is decompressed."""
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


class _Member(NamedTuple):
    """A plain file of an archive."""

    size: int
    open: Callable[[], IO[bytes] | None]


def unpack(archive: Path, entry: Entry, folder: Path) -> tuple[list[str], str, list[str]]:
    """Unpack the files of a benchmark from a zip or tar file into `folder`; the single folder on top is taken off.

    Returns:
        The paths that were written, the commit that the archive names as its comment (GitHub's do; else empty), notes.

    Raises:
        RequestError: the archive is damaged or too large, or lacks what the benchmark needs.
    """
    if len(entry.origins) != 1:
        names = " and ".join(origin.page for origin in entry.origins)
        reason = entry.why_not or f"it comes from {names}; put their files into one folder and use that"
        raise RequestError(f"{entry.name}: {reason}")
    with _opened(archive) as (members, comment):
        chosen = _chosen(archive, members, entry)
        for path, member in chosen.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            _write(archive, path, member, target)
    # Part of a clone is of use too, so what a download would need is a note here.
    notes = shortfalls(entry.origins[0], chosen, strict=False)
    return list(chosen), comment if re.fullmatch(r"[0-9a-f]{40}", comment) else "", notes


def unpacked(archive: Path, entry: Entry) -> Path:
    """The folder of what `unpack` takes from an archive: in the cache, under the archive's SHA-256, made once.

    Raises:
        RequestError: as `unpack`, and where the file is no archive at all.
    """
    from filelock import FileLock

    if kind_of(archive) is None:
        raise RequestError(f"{str(archive)!r} is neither a folder nor a zip or tar archive that can be read")
    folder = home() / "cache" / "data" / file_sha256(archive) / entry.folder
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = folder.with_name(f".{entry.folder}.part")
    with FileLock(folder.with_name(f".{entry.folder}.lock")):
        if not folder.is_dir():
            shutil.rmtree(part, ignore_errors=True)
            try:
                unpack(archive, entry, part)
                part.rename(folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return folder


@contextmanager
def _opened(archive: Path) -> Iterator[tuple[dict[str, _Member], str]]:
    """The plain files of an archive by their paths, and its comment."""
    if kind_of(archive) == "tar":
        with readable(archive, "tar"), tarfile.open(archive) as tar:
            members, size = {}, 0
            for entry in tar:
                size += max(0, entry.size)
                if size > MAX_TAR:
                    raise RequestError(f"{archive}: more than {MAX_TAR:,} bytes; that much is not looked at")
                if entry.isreg():
                    members[entry.name] = _Member(entry.size, partial(tar.extractfile, entry))
            yield members, str(tar.pax_headers.get("comment", "")).strip()
        return
    with readable(archive), zipfile.ZipFile(archive) as zipped:
        yield (
            {
                info.filename: _Member(info.file_size, partial(zipped.open, info))
                for info in zipped.infolist()
                if not info.is_dir() and (info.external_attr >> 28) in (0, 0o10)  # neither a link nor a device
            },
            zipped.comment.decode("ascii", "replace").strip(),
        )


def _chosen(archive: Path, members: Mapping[str, _Member], entry: Entry) -> dict[str, _Member]:
    """What the benchmark wants, by its paths in the repository; an error for what is too large, or where none is."""
    tops = {name.partition("/")[0] for name in members}
    top = f"{tops.pop()}/" if len(tops) == 1 and all("/" in name for name in members) else ""
    patterns, errors = entry.origins[0].wanted, ErrorCollector()
    chosen: dict[str, _Member] = {}
    # A zip of the folder `data` alone has that for its single folder on top.
    for cut in (top, ""):
        for name, member in members.items():
            path = name.removeprefix(cut)
            item = matching(patterns, path)
            if item is not None and member.size > item.limit:
                errors.add(f"{archive}: {path} would have {member.size:,} bytes; at most {item.limit:,} are unpacked")
            if item is not None:
                chosen[path] = member
        if chosen:
            break
    if (total := sum(member.size for member in chosen.values())) > entry.limit:
        errors.add(f"{archive}: {total:,} bytes in all; at most {entry.limit:,} are unpacked")
    if not chosen:
        errors.add(f"{archive}: holds no file of {entry.name}; expected an archive of {entry.origins[0].page}")
    errors.raise_all()
    return chosen


def _write(archive: Path, path: str, member: _Member, target: Path) -> None:
    """One member; reading stops at the size that it declares, and in a zip file a false one is found by its CRC."""
    remaining = member.size + 1
    source = member.open()
    assert source is not None, "plain files alone are opened"
    with source, open(target, "wb") as copy:
        while block := source.read(min(1 << 20, remaining)):
            remaining -= len(block)
            copy.write(block)
    if remaining != 1:
        raise RequestError(f"{archive}: {path!r} does not unpack to the {member.size:,} bytes that it declares")
