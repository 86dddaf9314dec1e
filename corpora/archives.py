"""Data that come as archives: what reading a damaged one raises, and single zipped files, unpacked into the cache."""

from __future__ import annotations

import errno
import lzma
import re
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from turnmark.corpora.catalog import Entry, Origin, matching, shortfalls
from turnmark.corpora.downloading import unsafe
from turnmark.corpora.errors import ErrorCollector, RequestError
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


MAX_MEMBERS = 100_000
MAX_TAR = 8 << 30
"""Bytes that the members of a tar file may declare together: to list them, all of it is decompressed."""
SHOWN = 20


@dataclass(frozen=True)
class _Member:
    """What an archive says of one member."""

    name: str
    size: int
    plain: bool
    folder: bool
    encrypted: bool
    open: Callable[[], IO[bytes]]


@dataclass(frozen=True)
class _Archive:
    """An archive that is open: its members, and what it says of itself."""

    path: Path
    members: Iterable[_Member]
    comment: str


def unpack(archive: Path, entry: Entry, folder: Path) -> tuple[list[str], str, list[str]]:
    """Unpack the files of a benchmark from a zip or tar file into `folder`; the single folder on top is taken off.

    The whole archive is refused when any member is not a plain file inside it: what has one `../` has more to hide.

    Returns:
        The paths that were written, the commit that the archive names as its comment (GitHub's do; else empty), notes.

    Raises:
        RequestError: the archive is damaged, unsafe or too large, or lacks what the benchmark needs.
    """
    if len(entry.origins) != 1:
        names = " and ".join(origin.page for origin in entry.origins)
        reason = entry.why_not or f"it comes from {names}; put their files into one folder and use that"
        raise RequestError(f"{entry.name}: {reason}")
    with _opened(archive) as opened:
        members_by_path, notes = _chosen(archive, _safe(opened), entry)
        for path, member in members_by_path.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            _write(archive, member, target)
    return list(members_by_path), opened.comment if re.fullmatch(r"[0-9a-f]{40}", opened.comment) else "", notes


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
def _opened(archive: Path) -> Iterator[_Archive]:
    if kind_of(archive) == "tar":
        with readable(archive, "tar"), tarfile.open(archive) as opened:
            yield _Archive(archive, _in_tar(archive, opened), str(opened.pax_headers.get("comment", "")).strip())
        return
    with readable(archive), zipfile.ZipFile(archive) as zipped:
        yield _Archive(archive, _in_zip(archive, zipped), zipped.comment.decode("ascii", "replace").strip())


def _in_zip(archive: Path, opened: zipfile.ZipFile) -> Iterator[_Member]:
    if len(opened.infolist()) > MAX_MEMBERS:
        raise RequestError(f"{archive}: {len(opened.infolist()):,} members; at most {MAX_MEMBERS:,} are looked at")
    for member in opened.infolist():
        # orig_filename is what the archive says; zipfile has changed the other already.
        name = member.orig_filename
        yield _Member(
            name=name.removesuffix("/"),
            size=member.file_size,
            plain=stat.S_IFMT(member.external_attr >> 16) in (0, stat.S_IFREG, stat.S_IFDIR),
            folder=name.endswith("/"),
            encrypted=bool(member.flag_bits & 1),
            open=lambda member=member: opened.open(member),  # type: ignore[misc]
        )


def _in_tar(archive: Path, opened: tarfile.TarFile) -> Iterator[_Member]:
    size = 0
    for number, member in enumerate(opened, 1):
        size += max(0, member.size)
        if number > MAX_MEMBERS or size > MAX_TAR:
            raise RequestError(
                f"{archive}: more than {MAX_MEMBERS:,} members or {MAX_TAR:,} bytes; that much is not looked at"
            )
        yield _Member(
            name=member.name.removesuffix("/"),
            size=member.size,
            plain=member.isreg() or member.isdir(),
            folder=member.isdir(),
            encrypted=False,
            open=lambda member=member: _in(opened, member),  # type: ignore[misc]
        )


def _in(opened: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = opened.extractfile(member)
    if content is None:  # plain files alone are opened
        raise tarfile.ReadError(f"{member.name!r} has no content")
    return content


def _safe(opened: _Archive) -> dict[str, _Member]:
    """The members by path, folders left out."""
    members: dict[str, _Member] = {}
    refusals: list[str] = []
    archive = opened.path
    for member in opened.members:
        if reason := unsafe(member.name):
            refusals.append(f"{archive}: the member {member.name!r} {reason}")
        elif not member.plain:
            refusals.append(f"{archive}: the member {member.name!r} is a link or a device, not a file")
        elif member.name in members:
            refusals.append(f"{archive}: the member {member.name!r} is there twice")
        elif not member.folder:
            members[member.name] = member
    if refusals:
        unlisted = [f"{archive}: {len(refusals) - SHOWN} more members like these"] if len(refusals) > SHOWN else []
        raise RequestError([*refusals[:SHOWN], *unlisted, f"{archive}: nothing of it was unpacked"])
    return members


def _chosen(archive: Path, members: Mapping[str, _Member], entry: Entry) -> tuple[dict[str, _Member], list[str]]:
    tops = {name.partition("/")[0] for name in members}
    top = f"{tops.pop()}/" if len(tops) == 1 and all("/" in name for name in members) else ""
    origin = entry.origins[0]
    # A zip of the folder `data` alone has that for its single folder on top.
    for cut in (top, "") if top else ("",):
        members_by_path = {
            name.removeprefix(cut): member
            for name, member in members.items()
            if matching(origin.wanted, name.removeprefix(cut))
        }
        if members_by_path:
            break
    return members_by_path, _measured(archive, members_by_path, entry, origin)


def _measured(archive: Path, members_by_path: Mapping[str, _Member], entry: Entry, origin: Origin) -> list[str]:
    """What is missing of the benchmark; an error for what is too large, encrypted, or needed and not there."""
    errors = ErrorCollector()
    for path, member in members_by_path.items():
        item = matching(origin.wanted, path)
        if item is not None and member.size > item.limit:
            errors.add(f"{archive}: {path} would have {member.size:,} bytes; at most {item.limit:,} are unpacked")
        if member.encrypted:
            errors.add(f"{archive}: {path} is encrypted")
    if (total := sum(member.size for member in members_by_path.values())) > entry.limit:
        errors.add(f"{archive}: {total:,} bytes in all; at most {entry.limit:,} are unpacked")
    errors.raise_all()
    if not members_by_path:
        raise RequestError(f"{archive}: holds no file of {entry.name}; expected an archive of {origin.page}")
    return _part_of_it(origin, members_by_path)


def _part_of_it(origin: Origin, members_by_path: Mapping[str, _Member]) -> list[str]:
    """What an archive lacks: a note each, also for what a download would need, since part of a clone is of use too."""
    eased = origin.model_copy(
        update={"wanted": tuple(item.model_copy(update={"required": False}) for item in origin.wanted)}
    )
    return shortfalls(eased, members_by_path)


def _write(archive: Path, member: _Member, target: Path) -> None:
    """One member; reading stops at the size that it declares, and in a zip file a false one is found by its CRC."""
    remaining = member.size
    with member.open() as source, open(target, "wb") as copy:
        while block := source.read(min(1 << 20, remaining + 1)):
            remaining -= len(block)
            if remaining < 0:
                raise RequestError(f"{archive}: {member.name!r} unpacks to more than it declares; refused")
            copy.write(block)
    if remaining:
        raise RequestError(f"{archive}: {member.name!r} unpacks to less than it declares; refused")
