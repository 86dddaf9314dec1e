"""A benchmark fetched once into `$TURNMARK_HOME/data/<folder>`: complete and checked, or not there at all.

What has arrived waits in a folder of its own beside it, so an interrupted fetch goes on where it was, at the same
commit. The manifest is the last file written; then the folder takes its place. It pins the commit, and the SHA-256 of
every file as it arrived: the hosts announce git's id (SHA-1) of most files, and nothing else is published.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import Field, ValidationError

from turnmark.corpora.archives import unpack
from turnmark.corpora.catalog import REVISION, Entry, Hosts, Listing, listed
from turnmark.corpora.console import NoProgress, Progress
from turnmark.corpora.downloading import Downloads, Limits, RemoteFile, checksum_of
from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.home import home, write_atomic
from turnmark.corpora.types import Record

BRANCH = "main"
MANIFEST = "turnmark-manifest.json"

R = TypeVar("R", bound=Record)


class FetchedFile(Record):
    """A file as it arrived."""

    path: str = Field(description="relative to the folder, POSIX")
    url: str = Field(description="where it came from; empty: unpacked from a zip file")
    size: int = Field(description="bytes")
    sha256: str = Field(description="of what arrived, in hexadecimal; computed here")
    announced: str = Field(description="the checksum that the host announced and that held; empty where none was")


class FetchedFrom(Record):
    """A repository, or an archive of one."""

    where: str = Field(description="service and repository, or the name of the zip file")
    commit: str = Field(description="empty where a zip file names none")


class Manifest(Record):
    """What was fetched, from where, when."""

    name: str
    licence: str
    origins: tuple[FetchedFrom, ...]
    files: tuple[FetchedFile, ...]
    notes: tuple[str, ...] = Field(description="what is missing of a complete copy")
    fetched: str = Field(description="when it was complete, UTC, ISO 8601")


class _Plan(Record):
    """What an unfinished fetch is at."""

    revision: str
    listings: tuple[Listing, ...]


class Fetched(Record):
    """Where a benchmark is now."""

    folder: Path
    manifest: Manifest
    new: bool = Field(description="False: it was there already, and every file holds")
    mended: tuple[str, ...] = Field(
        default=(), description="files that were missing or changed, and were fetched again"
    )


def folder_of(entry: Entry) -> Path:
    """Where a benchmark lies when it is fetched."""
    return home() / "data" / entry.folder


def manifest_of(entry: Entry) -> Manifest | None:
    """What was fetched of a benchmark; None where nothing was.

    Raises:
        TurnmarkError: its manifest cannot be read.
    """
    return _read(folder_of(entry) / MANIFEST, Manifest)


def fetch(
    entry: Entry,
    revision: str | None = None,
    *,
    hosts: Hosts | None = None,
    limits: Limits | None = None,
    loopback: bool = False,
    progress: Progress | None = None,
) -> Fetched:
    """Fetch a benchmark, go on with an unfinished fetch, or check what is there and mend it.

    Args:
        revision: branch, tag or commit; default: what is there or begun, else the branch `main` as it is now.
        hosts: where the hosts are; default: the public ones.
        limits: how long is waited.
        loopback: also plain http to this machine, for tests. No command sets it.
        progress: told of every KiB.

    Raises:
        RequestError: the revision cannot be, or the folder there is another or not ours.
        TurnmarkError: a host cannot be reached, or what it sends is not what it announced.
    """
    if revision is not None and not REVISION.fullmatch(revision):
        raise RequestError(f"--revision {revision!r}: a branch, tag or commit was expected")
    reporter = progress or NoProgress()
    with _alone(entry), Downloads(limits, loopback) as web:
        manifest = _there(entry)
        if manifest is not None:
            _same_revision(entry, manifest, revision)
            return _mended(entry, manifest, web, reporter)
        staging = _staging(entry)
        plan = _plan(entry, staging, revision, web, hosts or Hosts())
        files = [file for listing in plan.listings for file in listing.files]
        reporter.start(f"{entry.name} (KiB)", sum(file.size for file in files) >> 10)
        # What the commit no longer holds, or another commit left, is not part of it.
        arrived = [_arrived(staging, file, web, reporter) for file in files]
        origins = [
            FetchedFrom(where=f"{listing.service} {listing.repository}", commit=listing.commit)
            for listing in plan.listings
        ]
        notes = [note for listing in plan.listings for note in listing.notes]
        return _finished(entry, staging, origins, arrived, notes)


def fetch_archive(entry: Entry, archive: Path) -> Fetched:
    """Take a benchmark from a zip file of its repository that somebody downloaded.

    Raises:
        RequestError: the archive cannot be used (`turnmark.corpora.archives.unpack`), or the folder is there already.
    """
    if not archive.is_file():
        raise RequestError(f"--from: {str(archive)!r} is no file")
    with _alone(entry):
        if _there(entry) is not None:
            raise RequestError(f"{entry.name}: {str(folder_of(entry))!r} is there already; remove it first")
        staging = _staging(entry).with_suffix(".unpacked")
        shutil.rmtree(staging, ignore_errors=True)
        try:
            paths, commit, notes = unpack(archive, entry, staging)
            arrived = [_as_it_is(staging / path, path, "", "") for path in paths]
            return _finished(entry, staging, [FetchedFrom(where=archive.name, commit=commit)], arrived, notes)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _alone(entry: Entry) -> Iterator[None]:
    """One fetch of a benchmark at a time."""
    from filelock import FileLock, Timeout

    folder = folder_of(entry)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder.with_name(f".{entry.folder}.lock"), timeout=0):
            yield
    except Timeout:
        raise TurnmarkError(f"{entry.name}: another command is fetching it") from None


def _staging(entry: Entry) -> Path:
    return folder_of(entry).with_name(f".{entry.folder}.part")


def _there(entry: Entry) -> Manifest | None:
    manifest, folder = manifest_of(entry), folder_of(entry)
    if manifest is None and folder.exists():
        raise RequestError(
            f"{entry.name}: {str(folder)!r} is there and was not fetched by Turnmark; use it with --data, or move it"
        )
    return manifest


def _same_revision(entry: Entry, manifest: Manifest, revision: str | None) -> None:
    commits = [origin.commit for origin in manifest.origins]
    if revision is not None and revision not in commits:
        raise RequestError(
            f"{entry.name}: {str(folder_of(entry))!r} holds commit {', '.join(commits) or '?'}; to have {revision!r} "
            "remove the folder first"
        )


def _plan(entry: Entry, staging: Path, revision: str | None, web: Downloads, hosts: Hosts) -> _Plan:
    """The plan of an unfinished fetch, or a new one: then what is left of another is thrown away."""
    path = staging / "plan.json"
    plan = _read(path, _Plan)
    if plan is not None and revision in (None, plan.revision, *(listing.commit for listing in plan.listings)):
        return plan
    plan = _Plan(revision=revision or BRANCH, listings=listed(entry, revision or BRANCH, web, hosts))
    shutil.rmtree(staging, ignore_errors=True)
    write_atomic(path, plan.model_dump_json())
    return plan


def _arrived(staging: Path, file: RemoteFile, web: Downloads, progress: Progress) -> FetchedFile:
    target = staging / file.path
    kind = file.checksum.partition(":")[0]
    if not (target.is_file() and checksum_of(target, kind) == file.checksum):
        web.file(file, target, progress)
    else:
        progress.advance(file.size >> 10)
    return _as_it_is(target, file.path, file.url, file.checksum)


def _as_it_is(target: Path, path: str, url: str, announced: str) -> FetchedFile:
    digest = checksum_of(target, "sha256").removeprefix("sha256:")
    return FetchedFile(path=path, url=url, size=target.stat().st_size, sha256=digest, announced=announced)


def _finished(
    entry: Entry, staging: Path, origins: Sequence[FetchedFrom], files: Sequence[FetchedFile], notes: Sequence[str]
) -> Fetched:
    """The manifest, last; then the folder takes its place."""
    manifest = Manifest(
        name=entry.name,
        licence=entry.licence,
        origins=tuple(origins),
        files=tuple(files),
        notes=tuple(notes),
        fetched=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    write_atomic(staging / MANIFEST, manifest.model_dump_json(indent=2) + "\n")
    (staging / "plan.json").unlink(missing_ok=True)
    staging.rename(folder_of(entry))
    return Fetched(folder=folder_of(entry), manifest=manifest, new=True)


def _mended(entry: Entry, manifest: Manifest, web: Downloads, progress: Progress) -> Fetched:
    """Check every file against the manifest; what is missing or changed is fetched again, and must be the same."""
    folder = folder_of(entry)
    damaged = [
        file
        for file in manifest.files
        if not (folder / file.path).is_file() or checksum_of(folder / file.path, "sha256") != f"sha256:{file.sha256}"
    ]
    if unknown := [file.path for file in damaged if not file.url]:
        raise TurnmarkError(
            f"{entry.name}: missing or changed, and unpacked from a zip file: {', '.join(unknown)}; remove "
            f"{str(folder)!r} and unpack it again"
        )
    progress.start(f"{entry.name}, mended (KiB)", sum(file.size for file in damaged) >> 10)
    for file in damaged:
        path = folder / file.path
        remote = RemoteFile(path=file.path, url=file.url, size=file.size, checksum=f"sha256:{file.sha256}")
        fresh = path.with_name(f"{path.name}.fresh")
        web.file(remote, fresh, progress)
        if path.exists():
            # Somebody may have changed it on purpose.
            path.replace(path.with_name(f"{path.name}.before"))
        fresh.replace(path)
    return Fetched(folder=folder, manifest=manifest, new=False, mended=tuple(file.path for file in damaged))


def _read(path: Path, kind: type[R]) -> R | None:
    try:
        return kind.model_validate_json(path.read_bytes()) if path.is_file() else None
    except ValidationError as error:
        raise TurnmarkError(f"{path}: cannot be read ({error.error_count()} mistakes); remove its folder") from None
