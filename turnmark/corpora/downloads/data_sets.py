"""Fetches the benchmarks' repositories into `$TURNMARK_HOME/data/<folder>`; the folder appears when it is complete.

Files are downloaded into a staging folder and checked against the id that the host lists (git's blob id, or the SHA-256
of a large file). An interrupted fetch keeps complete files. The manifest is written last; it contains the commit and
the checksum of every file. A failed download is tried again, and a file is replaced only by a complete one.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, Field, NonNegativeInt, TypeAdapter, ValidationError

from turnmark.core.console import NoProgress, Progress
from turnmark.core.errors import RequestError, TurnmarkError, unknown_name
from turnmark.core.home import file_sha256, home, part_of, write_atomic
from turnmark.core.record import Record, mistakes_in

MANIFEST = "turnmark-manifest.json"
RETRIES = 4
TIMEOUT_SECONDS = 30.0
"""Seconds to wait for the next bytes of a reply."""
GITHUB_API, GITHUB_RAW = "https://api.github.com", "https://raw.githubusercontent.com"
HUB = "https://huggingface.co"
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_BLOCK_BYTES = 1 << 16
_HEADERS = {"User-Agent": "turnmark", "Accept-Encoding": "identity"}

T = TypeVar("T")


class Origin(Record):
    """A repository, and which of its files are fetched."""

    service: Literal["github", "huggingface"]
    repository: str = Field(description="owner/name")
    wanted: tuple[str, ...] = Field(description="regular expressions for full paths in the repository")
    below: str = Field(default="", description="subfolder for its files, with a trailing '/'")

    @property
    def page(self) -> str:
        """The repository's web page."""
        host = "https://github.com" if self.service == "github" else f"{HUB}/datasets"
        return f"{host}/{self.repository}"

    def wants(self, path: str) -> bool:
        """Return whether a path in the repository is fetched."""
        return any(re.fullmatch(pattern, path, re.ASCII) for pattern in self.wanted)


class DataSet(Record):
    """A data set that can be fetched, or the reason why it cannot."""

    name: str
    benchmarks: tuple[str, ...] = Field(description="names of its benchmarks in `eval`")
    folder: str = Field(description="its folder's name, which the loaders look for in TURNMARK_DATA")
    licence: str = Field(description="as the authors state it")
    origins: tuple[Origin, ...] = ()
    limit: int = Field(default=0, description="largest total size in bytes; more is refused")
    why_not: str = Field(default="", description="why it cannot be fetched; empty if it can")


# One folder of Compound-QA's repository is called Knowleage, and type names are written with '_' or '-'.
CATALOG: dict[str, DataSet] = {
    entry.name: entry
    for entry in TypeAdapter(tuple[DataSet, ...]).validate_json(Path(__file__).with_name("datasets.json").read_bytes())
}


def entry_named(name: str) -> DataSet:
    """Return the data set with a name, or the one that serves the benchmark of that name."""
    entry = next((entry for entry in CATALOG.values() if name == entry.name or name in entry.benchmarks), None)
    if entry is None:
        raise RequestError(unknown_name("data set", name, CATALOG))
    if entry.why_not:
        raise RequestError(f"{name}: {entry.why_not}")
    return entry


# --- what is there ---------------------------------------------------------------------------------------------------


class FetchedFile(Record, extra="ignore"):
    """A file as the host lists it."""

    path: str = Field(description="relative to the benchmark's folder, POSIX")
    url: str
    size: int = Field(description="bytes")
    announced: str = Field(
        description="`sha256:HEX` of its content, or `git:HEX`, its blob id in git (SHA-1)",
        pattern="^(sha256:[0-9a-f]{64}|git:[0-9a-f]{40})$",
    )


class FetchOrigin(Record):
    """A repository at a commit."""

    where: str = Field(description="service and repository")
    commit: str


class FetchManifest(Record, extra="ignore"):
    """The record of a fetch: what, from where, when."""

    name: str
    licence: str
    origins: tuple[FetchOrigin, ...]
    files: tuple[FetchedFile, ...]
    fetched: str = Field(description="time of completion, UTC, ISO 8601")


class FetchResult(Record):
    """The result of `fetch`."""

    folder: Path
    manifest: FetchManifest
    new: bool = Field(description="False: it had been fetched before")
    repaired: tuple[str, ...] = Field(default=(), description="files that were missing or changed, fetched again")


def checksum_of(path: Path, kind: str) -> str:
    """Return `sha256:HEX` of a file's content, or for the kind `git` `git:HEX`, its blob id (SHA-1)."""
    if kind == "sha256":
        return f"sha256:{file_sha256(path)}"
    prefix = f"blob {path.stat().st_size}\0".encode()
    with open(path, "rb") as file:
        return f"git:{hashlib.file_digest(file, lambda: hashlib.sha1(prefix, usedforsecurity=False)).hexdigest()}"


def _has_checksum(path: Path, checksum: str) -> bool:
    return path.is_file() and checksum_of(path, checksum.partition(":")[0]) == checksum


def folder_of(entry: DataSet) -> Path:
    """Return the folder that a data set is fetched into."""
    return home() / "data" / entry.folder


def manifest_of(entry: DataSet) -> FetchManifest | None:
    """Read the manifest of a fetched data set, or return None if it was not fetched."""
    path = folder_of(entry) / MANIFEST
    try:
        return FetchManifest.model_validate_json(path.read_bytes()) if path.is_file() else None
    except ValidationError as error:
        raise TurnmarkError(f"{path}: cannot be read ({error.error_count()} mistakes); remove its folder") from None


# --- fetching --------------------------------------------------------------------------------------------------------


def fetch(entry: DataSet, revision: str | None = None, progress: Progress | None = None) -> FetchResult:
    """Fetch a data set. If it was fetched before, fetch only the files that are missing or changed. `progress` counts
    KiB.

    `revision` is a branch, tag or commit; default: the commit fetched before, or else the branch `main`.
    """
    if revision is not None and not _REVISION.fullmatch(revision):
        raise RequestError(f"--revision {revision!r}: expected a branch, tag or commit")
    from filelock import FileLock, Timeout

    folder = folder_of(entry)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder.with_name(f".{entry.folder}.lock"), timeout=0):
            return _fetch(entry, folder, revision, progress or NoProgress())
    except Timeout:
        raise TurnmarkError(f"{entry.name}: another command is fetching it") from None


def _fetch(entry: DataSet, folder: Path, revision: str | None, progress: Progress) -> FetchResult:
    manifest = manifest_of(entry)
    if manifest is not None:
        commits = [origin.commit for origin in manifest.origins]
        if revision is not None and revision not in commits:
            raise RequestError(
                f"{entry.name}: {str(folder)!r} contains commit {', '.join(commits)}; to have {revision!r} remove the "
                "folder first"
            )
        repaired = _receive(folder, manifest, progress, keep_changed=True)
        return FetchResult(folder=folder, manifest=manifest, new=False, repaired=tuple(repaired))
    if folder.exists():
        raise RequestError(f"{entry.name}: {str(folder)!r} was not fetched by Turnmark; use it with --data, or move it")
    manifest = _list_files(entry, revision or "main")
    staging = folder.with_name(f".{entry.folder}.part")
    listed_paths = {staging / file.path for file in manifest.files}
    for path in list(staging.rglob("*")):
        if path.is_file() and path not in listed_paths:
            path.unlink()  # left by the fetch of another commit
    _receive(staging, manifest, progress)
    write_atomic(staging / MANIFEST, manifest.model_dump_json(indent=2) + "\n")
    staging.rename(folder)
    return FetchResult(folder=folder, manifest=manifest, new=True)


def _receive(folder: Path, manifest: FetchManifest, progress: Progress, keep_changed: bool = False) -> list[str]:
    """Fetch the files that are missing from a folder or changed, and return their paths. With `keep_changed`, the old
    file is kept as PATH.before.
    """
    lacking = [file for file in manifest.files if not _has_checksum(folder / file.path, file.announced)]
    progress.start(f"{manifest.name} (KiB)", sum(file.size for file in lacking) >> 10)
    for file in lacking:
        target = folder / file.path
        if keep_changed and target.exists():  # the user may have changed it on purpose
            shutil.copyfile(target, target.with_name(f"{target.name}.before"))
        download(file.url, target, file.announced, progress)
    return [file.path for file in lacking]


def download(url: str, target: Path, checksum: str, progress: Progress) -> None:
    """Fetch a file, and replace `target` by it if its checksum is right (`checksum_of` explains the form)."""
    import requests
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_incrementing

    def receive(part: Path) -> None:
        with (
            requests.get(url, stream=True, timeout=TIMEOUT_SECONDS, headers=_HEADERS) as response,
            open(part, "wb") as file,
        ):
            response.raise_for_status()
            for block in response.iter_content(_BLOCK_BYTES):
                file.write(block)
                progress.advance(len(block) >> 10)
        if not _has_checksum(part, checksum):
            raise ValueError(f"the checksum is not {checksum}")

    retrying = Retrying(
        retry=retry_if_exception_type((requests.RequestException, ValueError)),
        stop=stop_after_attempt(1 + RETRIES),
        wait=wait_incrementing(1, 1),
        reraise=True,
    )
    try:
        with part_of(target) as part:
            retrying(receive, part)
    except (requests.RequestException, ValueError, OSError) as error:
        raise TurnmarkError(f"{url}: {_reason(error)} (tried {1 + RETRIES} times); complete files are kept") from error


def _reason(error: Exception) -> str:
    """Return why a download failed, in a few words if no connection was made."""
    import requests

    if isinstance(error, requests.ConnectionError | requests.Timeout):
        return "cannot be reached (is the network up? HTTPS_PROXY names a proxy)"
    return str(error)


# --- what the hosts list ---------------------------------------------------------------------------------------------


class _LargeFile(BaseModel):
    oid: str


class _TreeEntry(BaseModel):
    """A file or folder as a host lists it."""

    path: str
    type: str
    size: NonNegativeInt = 0
    mode: str = ""
    sha: str = ""
    oid: str = ""
    lfs: _LargeFile | None = None


class _Tree(BaseModel):
    tree: list[_TreeEntry]


class _Revision(BaseModel):
    sha: Annotated[str, Field(pattern="^[0-9a-f]{40}$")]


def _list_files(entry: DataSet, revision: str) -> FetchManifest:
    """Ask the hosts for the files of a data set at a revision."""
    commits, files = [], []
    for origin in entry.origins:
        list_origin = _github if origin.service == "github" else _hub
        commit, origin_files = list_origin(origin, revision)
        if not origin_files:
            raise TurnmarkError(f"{origin.repository}: contains none of the expected files; its layout has changed")
        commits.append(FetchOrigin(where=f"{origin.service} {origin.repository}", commit=commit))
        files += origin_files
    size = sum(file.size for file in files)
    if size > entry.limit:
        raise TurnmarkError(f"{entry.name}: {size:,} bytes in total; at most {entry.limit:,} are fetched")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return FetchManifest(
        name=entry.name, licence=entry.licence, origins=tuple(commits), files=tuple(files), fetched=now
    )


def _github(origin: Origin, revision: str) -> tuple[str, list[FetchedFile]]:
    repository = f"{GITHUB_API}/repos/{origin.repository}"
    commit = _get_json(f"{repository}/commits/{quote(revision)}", _Revision, origin, revision).sha
    listing = _get_json(f"{repository}/git/trees/{commit}?recursive=1", _Tree, origin, revision)
    # 120000 is a symbolic link: a blob too, but its content is a path.
    plain = [row for row in listing.tree if row.type == "blob" and row.mode in ("100644", "100755")]
    return commit, _files(origin, plain, f"{GITHUB_RAW}/{origin.repository}/{commit}/")


def _hub(origin: Origin, revision: str) -> tuple[str, list[FetchedFile]]:
    api = f"{HUB}/api/datasets/{origin.repository}"
    commit = _get_json(f"{api}/revision/{quote(revision)}", _Revision, origin, revision).sha
    rows = _get_json(f"{api}/tree/{commit}?recursive=true", list[_TreeEntry], origin, revision)
    plain = [row for row in rows if row.type == "file"]
    return commit, _files(origin, plain, f"{HUB}/datasets/{origin.repository}/resolve/{commit}/")


def _files(origin: Origin, rows: Sequence[_TreeEntry], base: str) -> list[FetchedFile]:
    files = []
    for row in rows:
        if not origin.wants(row.path):
            continue
        checksum = f"sha256:{row.lfs.oid}" if row.lfs else f"git:{row.sha or row.oid}"
        url = base + quote(row.path)
        try:
            files.append(FetchedFile(path=origin.below + row.path, url=url, size=row.size, announced=checksum))
        except ValidationError:
            message = f"{origin.repository}: {row.path}: {checksum!r} is not a checksum"
            raise TurnmarkError(message) from None
    return files


def _get_json(url: str, kind: type[T], origin: Origin, revision: str) -> T:
    """Send a GET to a host and return its JSON reply as `kind`."""
    import requests

    try:
        response = requests.get(url, timeout=TIMEOUT_SECONDS, headers=_HEADERS)
        if response.status_code in (404, 410, 422):
            raise RequestError(f"{origin.repository} has no revision {revision!r}, or is gone ({url})")
        response.raise_for_status()
        return TypeAdapter(kind).validate_json(response.content)
    except requests.RequestException as error:
        raise TurnmarkError(f"{url}: {_reason(error)}") from error
    except ValidationError as error:
        raise TurnmarkError(f"{url}: an unreadable reply ({mistakes_in(error)[0]})") from None
