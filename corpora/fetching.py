"""A benchmark fetched once into `$TURNMARK_HOME/data/<folder>`: complete and checked, or not there at all.

Files arrive in a folder next to it, each checked against the id that the host lists for it (git's id of a blob, or the
SHA-256 of a large file); an interrupted fetch keeps what is complete. The manifest is written last: it pins the commit
and the SHA-256 of every file. pooch downloads and retries.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, Field, NonNegativeInt, TypeAdapter, ValidationError

from turnmark.corpora.catalog import DataSet, Origin
from turnmark.corpora.console import NoProgress, Progress
from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.home import file_sha256, home, write_atomic
from turnmark.corpora.types import Record

MANIFEST = "turnmark-manifest.json"
RETRIES = 4
SILENCE = 30.0
"""Seconds: the longest wait for the next bytes."""
REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_BLOCK = 1 << 16
_CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}|git:[0-9a-f]{40}")

T = TypeVar("T")


class Hosts(Record):
    """Addresses of the hosts."""

    github_api: str = "https://api.github.com"
    github_raw: str = "https://raw.githubusercontent.com"
    hub: str = "https://huggingface.co"


class FetchedFile(Record):
    """A file as it arrived."""

    path: str = Field(description="relative to the folder, POSIX")
    url: str
    size: int = Field(description="bytes")
    sha256: str = Field(description="in hexadecimal")
    announced: str = Field(description="the checksum that the host listed, `git:HEX` or `sha256:HEX`")


class FetchedFrom(Record):
    """A repository."""

    where: str = Field(description="service and repository")
    commit: str


class FetchManifest(Record):
    """What was fetched, from where, when."""

    name: str
    licence: str
    origins: tuple[FetchedFrom, ...]
    files: tuple[FetchedFile, ...]
    notes: tuple[str, ...] = Field(description="what is missing of a complete copy")
    fetched: str = Field(description="when it was complete, UTC, ISO 8601")


class Fetched(Record):
    """Where a benchmark is now."""

    folder: Path
    manifest: FetchManifest
    new: bool = Field(description="False: it was there already, and every file holds")
    repaired: tuple[str, ...] = Field(default=(), description="files that were missing or changed, fetched again")


class RemoteFile(Record):
    """A file that a host lists."""

    path: str = Field(description="relative to the benchmark's folder, POSIX")
    url: str
    size: int
    checksum: str = Field(description="`sha256:HEX` of its content, or `git:HEX`, git's id of it as a blob (SHA-1)")


def checksum_of(path: Path, kind: str) -> str:
    """`sha256:HEX` of a file's content, or with the kind `git` `git:HEX`, its id as a blob (SHA-1)."""
    if kind == "sha256":
        return f"sha256:{file_sha256(path)}"
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return f"git:{digest.hexdigest()}"


def folder_of(entry: DataSet) -> Path:
    """Where a benchmark lies once it is fetched."""
    return home() / "data" / entry.folder


def manifest_of(entry: DataSet) -> FetchManifest | None:
    """What was fetched of a benchmark; None if nothing was."""
    path = folder_of(entry) / MANIFEST
    try:
        return FetchManifest.model_validate_json(path.read_bytes()) if path.is_file() else None
    except ValidationError as error:
        raise TurnmarkError(f"{path}: cannot be read ({error.error_count()} mistakes); remove its folder") from None


def fetch(
    entry: DataSet, revision: str | None = None, *, hosts: Hosts | None = None, progress: Progress | None = None
) -> Fetched:
    """Fetch a benchmark; of one that is there, fetch again what is missing or changed.

    Args:
        revision: branch, tag or commit; default: what is there, else the branch `main` as it is now.
        progress: gets KiB.
    """
    if revision is not None and not REVISION.fullmatch(revision):
        raise RequestError(f"--revision {revision!r}: a branch, tag or commit was expected")
    folder, reporter = folder_of(entry), progress or NoProgress()
    with _alone(entry):
        manifest = manifest_of(entry)
        if manifest is not None:
            return _repaired(entry, manifest, revision, reporter)
        if folder.exists():
            raise RequestError(
                f"{entry.name}: {str(folder)!r} was not fetched by Turnmark; use it with --data, or move it"
            )
        return _new(entry, revision or "main", hosts or Hosts(), reporter)


@contextmanager
def _alone(entry: DataSet) -> Iterator[None]:
    """One fetch of a benchmark at a time."""
    from filelock import FileLock, Timeout

    folder = folder_of(entry)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder.with_name(f".{entry.folder}.lock"), timeout=0):
            yield
    except Timeout:
        raise TurnmarkError(f"{entry.name}: another command is fetching it") from None


def _new(entry: DataSet, revision: str, hosts: Hosts, progress: Progress) -> Fetched:
    listings = [_listed(origin, revision, hosts) for origin in entry.origins]
    files = [file for _, listed, _ in listings for file in listed]
    if (size := sum(file.size for file in files)) > entry.limit:
        raise TurnmarkError(f"{entry.name}: {size:,} bytes in all; at most {entry.limit:,} are fetched")
    staging = folder_of(entry).with_name(f".{entry.folder}.part")
    wanted = {staging / file.path for file in files}
    for left in [path for path in staging.rglob("*") if path.is_file() and path not in wanted]:
        left.unlink()  # of another commit
    progress.start(f"{entry.name} (KiB)", size >> 10)
    manifest = FetchManifest(
        name=entry.name,
        licence=entry.licence,
        origins=tuple(
            FetchedFrom(where=f"{origin.service} {origin.repository}", commit=commit)
            for origin, (commit, _, _) in zip(entry.origins, listings, strict=True)
        ),
        files=tuple(_arrived(staging, file, progress) for file in files),
        notes=tuple(note for _, _, notes in listings for note in notes),
        fetched=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    write_atomic(staging / MANIFEST, manifest.model_dump_json(indent=2) + "\n")
    staging.rename(folder_of(entry))
    return Fetched(folder=folder_of(entry), manifest=manifest, new=True)


def _arrived(staging: Path, file: RemoteFile, progress: Progress) -> FetchedFile:
    target, kind = staging / file.path, file.checksum.partition(":")[0]
    if target.is_file() and checksum_of(target, kind) == file.checksum:
        progress.advance(file.size >> 10)
    else:
        target.unlink(missing_ok=True)
        download(file.url, target, file.checksum, progress)
    return FetchedFile(
        path=file.path, url=file.url, size=target.stat().st_size, sha256=file_sha256(target), announced=file.checksum
    )


def _repaired(entry: DataSet, manifest: FetchManifest, revision: str | None, progress: Progress) -> Fetched:
    """Fetch again, by the manifest, what is missing or changed; what was there before is kept."""
    folder, commits = folder_of(entry), [origin.commit for origin in manifest.origins]
    if revision is not None and revision not in commits:
        raise RequestError(
            f"{entry.name}: {str(folder)!r} holds commit {', '.join(commits)}; to have {revision!r} remove the folder "
            "first"
        )
    damaged = [
        file
        for file in manifest.files
        if not (folder / file.path).is_file() or file_sha256(folder / file.path) != file.sha256
    ]
    progress.start(f"{entry.name}, again (KiB)", sum(file.size for file in damaged) >> 10)
    for file in damaged:
        path = folder / file.path
        fresh = path.with_name(f"{path.name}.fresh")
        download(file.url, fresh, f"sha256:{file.sha256}", progress)
        if path.exists():
            path.replace(path.with_name(f"{path.name}.before"))  # somebody may have changed it on purpose
        fresh.replace(path)
    return Fetched(folder=folder, manifest=manifest, new=False, repaired=tuple(file.path for file in damaged))


class _Bar:
    """Our progress, in KiB, as a bar of pooch, which counts bytes and resets each bar to fill it at the end."""

    total = 0

    def __init__(self, progress: Progress) -> None:
        self._progress, self._bytes, self._reported = progress, 0, 0

    def update(self, n: int) -> None:
        """So many more bytes."""
        self._bytes += n
        size = min(self._bytes, self.total) >> 10
        self._progress.advance(max(0, size - self._reported))
        self._reported = max(self._reported, size)

    def reset(self) -> None:
        """Count from 0 again."""
        self._bytes = 0

    def close(self) -> None:
        """There is nothing to close."""


def download(url: str, target: Path, checksum: str, progress: Progress | None = None) -> None:
    """Fetch a file, which replaces what is at `target` only if it is right.

    Args:
        checksum: `sha256:HEX`, or `git:HEX`, git's id of the content.
    """
    import pooch
    import requests

    pooch.get_logger().setLevel("ERROR")
    receive = pooch.HTTPDownloader(
        progressbar=_Bar(progress or NoProgress()), chunk_size=_BLOCK, timeout=SILENCE, headers=_HEADERS
    )
    kind = checksum.partition(":")[0]

    def received(url: str, part: str, store: Any) -> None:
        receive(url, part, store)
        if checksum_of(Path(part), kind) != checksum:
            raise ValueError(f"the checksum is not {checksum}")

    store = pooch.create(
        target.parent, base_url="", registry={target.name: None}, urls={target.name: url}, retry_if_failed=RETRIES
    )
    try:
        store.fetch(target.name, downloader=received)
    except (requests.RequestException, ValueError, OSError) as error:
        raise TurnmarkError(f"{url}: {error} (tried {1 + RETRIES} times); what is complete is kept") from error


_HEADERS = {"User-Agent": "turnmark", "Accept-Encoding": "identity"}


# --- what the hosts list ---------------------------------------------------------------------------------------------


def _listed(origin: Origin, revision: str, hosts: Hosts) -> tuple[str, Sequence[RemoteFile], Sequence[str]]:
    """The commit of a repository, its files that are wanted, and notes about those that are missing."""
    commit, rows = (_github if origin.service == "github" else _hub)(origin, revision, hosts)
    below = f"{origin.below}/" if origin.below else ""
    files: list[RemoteFile] = []
    for path, size, checksum, url in rows:
        item = origin.wants(path)
        if item is not None and size > item.limit:
            raise TurnmarkError(f"{origin.repository}: {path} has {size:,} bytes; at most {item.limit:,} are fetched")
        if item is not None and not _CHECKSUM.fullmatch(checksum):
            raise TurnmarkError(f"{origin.repository}: {path}: {checksum!r} is no checksum")
        if item is not None:
            files.append(RemoteFile(path=below + path, url=url, size=size, checksum=checksum))
    return commit, files, origin.shortfalls(file.path.removeprefix(below) for file in files)


Remote = tuple[str, int, str, str]
"""Path, size, checksum and address of a file."""


class _Large(BaseModel):
    oid: str


class _Row(BaseModel):
    """A file or folder, as either host lists it."""

    path: str
    type: str
    size: NonNegativeInt = 0
    mode: str = ""
    sha: str = ""
    oid: str = ""
    lfs: _Large | None = None


class _Tree(BaseModel):
    tree: list[_Row]
    truncated: bool = False


class _Revision(BaseModel):
    sha: Annotated[str, Field(pattern="^[0-9a-f]{40}$")]


def _github(origin: Origin, revision: str, hosts: Hosts) -> tuple[str, Iterator[Remote]]:
    repository = f"{hosts.github_api}/repos/{origin.repository}"
    commit = _asked(f"{repository}/commits/{quote(revision)}", _Revision, origin, revision).sha
    listing = _asked(f"{repository}/git/trees/{commit}?recursive=1", _Tree, origin, revision)
    if listing.truncated:
        raise TurnmarkError(
            f"{repository}: the list of files is cut; clone {origin.page} and name the clone with --data"
        )
    base = f"{hosts.github_raw}/{origin.repository}/{commit}/"
    # 120000 is a symbolic link: a blob too, but its content is a path.
    plain = (row for row in listing.tree if row.type == "blob" and row.mode in ("100644", "100755"))
    return commit, ((row.path, row.size, f"git:{row.sha}", base + quote(row.path)) for row in plain)


def _hub(origin: Origin, revision: str, hosts: Hosts) -> tuple[str, Iterator[Remote]]:
    api = f"{hosts.hub}/api/datasets/{origin.repository}"
    commit = _asked(f"{api}/revision/{quote(revision)}", _Revision, origin, revision).sha
    rows = _asked(f"{api}/tree/{commit}?recursive=true", list[_Row], origin, revision)
    base = f"{hosts.hub}/datasets/{origin.repository}/resolve/{commit}/"
    return commit, (
        (row.path, row.size, f"sha256:{row.lfs.oid}" if row.lfs else f"git:{row.oid}", base + quote(row.path))
        for row in rows
        if row.type == "file"
    )


def _asked(url: str, kind: type[T], origin: Origin, revision: str) -> T:
    """A host's reply."""
    import requests

    try:
        response = requests.get(url, timeout=SILENCE, headers=_HEADERS)
        if response.status_code in (404, 410, 422):
            raise RequestError(f"{origin.repository} has no revision {revision!r}, or is gone ({url})")
        response.raise_for_status()
        return TypeAdapter(kind).validate_json(response.content)
    except requests.RequestException as error:
        raise TurnmarkError(f"{url}: {error}") from error
    except ValidationError as error:
        first: Any = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise TurnmarkError(f"{url}: not a reply that can be read ({where}: {first['msg']})") from None
