"""The benchmarks' repositories, and fetching them: complete and right in `$TURNMARK_HOME/data/<folder>`, or not there.

Files arrive in a folder next to it, each checked against the id that the host lists for it (git's id of a blob, or the
SHA-256 of a large file); an interrupted fetch keeps what is complete. The manifest is written last: it pins the commit
and the checksum of every file. pooch retries, and replaces a file only by a complete one.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, Field, NonNegativeInt, TypeAdapter, ValidationError

from turnmark.core.console import NoProgress, Progress
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.home import file_sha256, home, write_atomic
from turnmark.core.record import Record

MANIFEST = "turnmark-manifest.json"
RETRIES = 4
SILENCE = 30.0
"""Seconds: the longest wait for the next bytes."""
GITHUB_API, GITHUB_RAW = "https://api.github.com", "https://raw.githubusercontent.com"
HUB = "https://huggingface.co"
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_BLOCK = 1 << 16
_HEADERS = {"User-Agent": "turnmark", "Accept-Encoding": "identity"}

T = TypeVar("T")


class Origin(Record):
    """A repository, and what is taken of it."""

    service: Literal["github", "huggingface"]
    repository: str = Field(description="owner/name")
    wanted: tuple[str, ...] = Field(description="regular expressions for full paths in the repository")
    below: str = Field(default="", description="folder inside the benchmark's that its files are put into, with a '/'")

    @property
    def page(self) -> str:
        """Its page, for people."""
        host = "https://github.com" if self.service == "github" else f"{HUB}/datasets"
        return f"{host}/{self.repository}"

    def wants(self, path: str) -> bool:
        """Whether a path in the repository is taken."""
        return any(re.fullmatch(pattern, path, re.ASCII) for pattern in self.wanted)


class DataSet(Record):
    """A set of data that can be fetched, or the reason why it cannot."""

    name: str
    benchmarks: tuple[str, ...] = Field(description="what `eval` calls the benchmarks that it serves")
    folder: str = Field(description="its folder: the child of TURNMARK_DATA that the loaders look for")
    licence: str = Field(description="as the authors state it")
    origins: tuple[Origin, ...] = ()
    limit: int = Field(default=0, description="bytes of all files together; more is refused")
    why_not: str = Field(default="", description="why it cannot be fetched; empty if it can")


# One folder of Compound-QA is called Knowleage upstream, and a type is written with '_' or with '-'.
CATALOG: dict[str, DataSet] = {
    entry.name: entry
    for entry in TypeAdapter(tuple[DataSet, ...]).validate_json(Path(__file__).with_name("datasets.json").read_bytes())
}


def entry_named(name: str) -> DataSet:
    """An entry by its own name, or by that of a benchmark it serves."""
    entry = next((entry for entry in CATALOG.values() if name == entry.name or name in entry.benchmarks), None)
    if entry is None:
        raise RequestError(f"no data is called {name!r}; there are: {', '.join(CATALOG)}")
    if entry.why_not:
        raise RequestError(f"{name}: {entry.why_not}")
    return entry


# --- what is there ---------------------------------------------------------------------------------------------------


class FetchedFile(Record, extra="ignore"):
    """A file as the host lists it, and as it arrived."""

    path: str = Field(description="relative to the benchmark's folder, POSIX")
    url: str
    size: int = Field(description="bytes")
    announced: str = Field(
        description="`sha256:HEX` of its content, or `git:HEX`, git's id of it as a blob (SHA-1)",
        pattern="^(sha256:[0-9a-f]{64}|git:[0-9a-f]{40})$",
    )


class FetchedFrom(Record):
    """A repository."""

    where: str = Field(description="service and repository")
    commit: str


class FetchManifest(Record, extra="ignore"):
    """What was fetched, from where, when."""

    name: str
    licence: str
    origins: tuple[FetchedFrom, ...]
    files: tuple[FetchedFile, ...]
    fetched: str = Field(description="when it was complete, UTC, ISO 8601")


class Fetched(Record):
    """Where a benchmark is now."""

    folder: Path
    manifest: FetchManifest
    new: bool = Field(description="False: it was there already, and every file holds")
    repaired: tuple[str, ...] = Field(default=(), description="files that were missing or changed, fetched again")


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


# --- fetching --------------------------------------------------------------------------------------------------------


def fetch(entry: DataSet, revision: str | None = None, progress: Progress | None = None) -> Fetched:
    """Fetch a benchmark; of one that is there, fetch again what is missing or changed. `progress` gets KiB.

    `revision` is a branch, tag or commit; default: what is there, else the branch `main` as it is now.
    """
    if revision is not None and not _REVISION.fullmatch(revision):
        raise RequestError(f"--revision {revision!r}: a branch, tag or commit was expected")
    from filelock import FileLock, Timeout

    folder = folder_of(entry)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder.with_name(f".{entry.folder}.lock"), timeout=0):
            return _fetch(entry, folder, revision, progress or NoProgress())
    except Timeout:
        raise TurnmarkError(f"{entry.name}: another command is fetching it") from None


def _fetch(entry: DataSet, folder: Path, revision: str | None, progress: Progress) -> Fetched:
    manifest = manifest_of(entry)
    if manifest is not None:
        commits = [origin.commit for origin in manifest.origins]
        if revision is not None and revision not in commits:
            held = f"{entry.name}: {str(folder)!r} holds commit {', '.join(commits)}"
            raise RequestError(f"{held}; to have {revision!r} remove the folder first")
        repaired = _receive(folder, manifest, progress, keep_changed=True)
        return Fetched(folder=folder, manifest=manifest, new=False, repaired=tuple(repaired))
    if folder.exists():
        raise RequestError(f"{entry.name}: {str(folder)!r} was not fetched by Turnmark; use it with --data, or move it")
    manifest = _listed(entry, revision or "main")
    staging = folder.with_name(f".{entry.folder}.part")
    wanted = {staging / file.path for file in manifest.files}
    for left in [path for path in staging.rglob("*") if path.is_file() and path not in wanted]:
        left.unlink()  # of another commit
    _receive(staging, manifest, progress)
    write_atomic(staging / MANIFEST, manifest.model_dump_json(indent=2) + "\n")
    staging.rename(folder)
    return Fetched(folder=folder, manifest=manifest, new=True)


def _receive(folder: Path, manifest: FetchManifest, progress: Progress, keep_changed: bool = False) -> list[str]:
    """Fetch the files that a folder lacks, or has otherwise; their paths. `keep_changed`: as PATH.before."""
    lacking = [
        file
        for file in manifest.files
        if not (folder / file.path).is_file()
        or checksum_of(folder / file.path, file.announced.partition(":")[0]) != file.announced
    ]
    progress.start(f"{manifest.name} (KiB)", sum(file.size for file in lacking) >> 10)
    for file in lacking:
        target = folder / file.path
        if keep_changed and target.exists():  # somebody may have changed it on purpose
            shutil.copyfile(target, target.with_name(f"{target.name}.before"))
        download(file.url, target, file.announced, progress)
    return [file.path for file in lacking]


def download(url: str, target: Path, checksum: str, progress: Progress) -> None:
    """Fetch a file, which replaces what is at `target` only if it is right; see `checksum_of`."""
    import pooch
    import requests

    pooch.get_logger().setLevel("ERROR")

    def receive(url: str, part: str, _: Any) -> None:
        with requests.get(url, stream=True, timeout=SILENCE, headers=_HEADERS) as response, open(part, "wb") as file:
            response.raise_for_status()
            for block in response.iter_content(_BLOCK):
                file.write(block)
                progress.advance(len(block) >> 10)
        if checksum_of(Path(part), checksum.partition(":")[0]) != checksum:
            raise ValueError(f"the checksum is not {checksum}")

    # pooch takes a file that is there for the right one, since it knows no checksum of git's.
    fresh = target.with_name(f"{target.name}.fresh")
    store = pooch.create(
        target.parent, base_url="", registry={fresh.name: None}, urls={fresh.name: url}, retry_if_failed=RETRIES
    )
    try:
        fresh.unlink(missing_ok=True)
        store.fetch(fresh.name, downloader=receive)
    except (requests.RequestException, ValueError, OSError) as error:
        raise TurnmarkError(f"{url}: {error} (tried {1 + RETRIES} times); what is complete is kept") from error
    fresh.replace(target)


# --- what the hosts list ---------------------------------------------------------------------------------------------


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


class _Revision(BaseModel):
    sha: Annotated[str, Field(pattern="^[0-9a-f]{40}$")]


def _listed(entry: DataSet, revision: str) -> FetchManifest:
    """The files of an entry at a revision, none of which is there yet."""
    commits, files = [], []
    for origin in entry.origins:
        commit, found = (_github if origin.service == "github" else _hub)(origin, revision)
        if not found:
            raise TurnmarkError(f"{origin.repository}: nothing is there that is wanted; its layout has changed")
        commits.append(FetchedFrom(where=f"{origin.service} {origin.repository}", commit=commit))
        files += found
    if (size := sum(file.size for file in files)) > entry.limit:
        raise TurnmarkError(f"{entry.name}: {size:,} bytes in all; at most {entry.limit:,} are fetched")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return FetchManifest(
        name=entry.name, licence=entry.licence, origins=tuple(commits), files=tuple(files), fetched=now
    )


def _github(origin: Origin, revision: str) -> tuple[str, list[FetchedFile]]:
    repository = f"{GITHUB_API}/repos/{origin.repository}"
    commit = _asked(f"{repository}/commits/{quote(revision)}", _Revision, origin, revision).sha
    listing = _asked(f"{repository}/git/trees/{commit}?recursive=1", _Tree, origin, revision)
    # 120000 is a symbolic link: a blob too, but its content is a path.
    plain = [row for row in listing.tree if row.type == "blob" and row.mode in ("100644", "100755")]
    return commit, _files(origin, plain, f"{GITHUB_RAW}/{origin.repository}/{commit}/")


def _hub(origin: Origin, revision: str) -> tuple[str, list[FetchedFile]]:
    api = f"{HUB}/api/datasets/{origin.repository}"
    commit = _asked(f"{api}/revision/{quote(revision)}", _Revision, origin, revision).sha
    rows = _asked(f"{api}/tree/{commit}?recursive=true", list[_Row], origin, revision)
    plain = [row for row in rows if row.type == "file"]
    return commit, _files(origin, plain, f"{HUB}/datasets/{origin.repository}/resolve/{commit}/")


def _files(origin: Origin, rows: Sequence[_Row], base: str) -> list[FetchedFile]:
    files = []
    for row in rows:
        if origin.wants(row.path):
            checksum = f"sha256:{row.lfs.oid}" if row.lfs else f"git:{row.sha or row.oid}"
            url = base + quote(row.path)
            try:
                files.append(FetchedFile(path=origin.below + row.path, url=url, size=row.size, announced=checksum))
            except ValidationError:
                message = f"{origin.repository}: {row.path}: {checksum!r} is no checksum"
                raise TurnmarkError(message) from None
    return files


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
