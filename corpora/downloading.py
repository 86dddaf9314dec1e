"""One file over https: never more of it than was announced, gone on with after a cut, checked before it counts."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field, field_validator

from turnmark.corpora.console import NoProgress, Progress
from turnmark.corpora.errors import TurnmarkError
from turnmark.corpora.types import Record

if TYPE_CHECKING:
    import httpx
    from tenacity import RetryCallState

T = TypeVar("T")

_CHECKSUM = re.compile(r"(sha256:[0-9a-f]{64}|git:[0-9a-f]{40})")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_LATER = (408, 425, 429, 500, 502, 503, 504)
_LFS = b"version https://git-lfs.github.com/"
_LONGEST_PAUSE = 60.0  # seconds


def unsafe(path: str) -> str | None:
    """What is wrong with a path from outside that is to lie inside a folder of ours; None where nothing is."""
    parts = path.split("/")
    if not path or len(path) > 500 or not path.isprintable() or "\\" in path or ":" in path:
        return "is empty, too long, or has characters that a path here cannot have"
    if path.startswith("/") or any(part in ("", ".", "..") for part in parts):
        return "leads out of the folder"
    return None


class RemoteFile(Record):
    """A file that a host has announced."""

    path: str = Field(description="where it is put, relative to the benchmark's folder, POSIX")
    url: str
    size: int = Field(ge=0, description="bytes, as announced")
    checksum: str = Field(description="`sha256:HEX` of its content, or `git:HEX`, git's id of it as a blob (SHA-1)")

    @field_validator("path")
    @classmethod
    def _inside(cls, path: str) -> str:
        if reason := unsafe(path):
            raise ValueError(f"the path {path!r} {reason}")
        return path

    @field_validator("checksum")
    @classmethod
    def _known(cls, checksum: str) -> str:
        if not _CHECKSUM.fullmatch(checksum):
            raise ValueError(f"the checksum {checksum!r} is neither sha256: nor git: with its hexadecimal digits")
        return checksum


class Limits(Record):
    """How long is waited, and for how little; all times in seconds."""

    attempts: int = Field(default=5, description="tries of one file or page, the first included")
    pause: float = Field(default=1.0, description="before the second try; doubled before each further one")
    connect: float = 20.0
    silence: float = Field(default=30.0, description="the longest wait for the next bytes")
    slow_after: float = Field(default=60.0, description="from then on the mean rate must be `slow_rate` or more")
    slow_rate: float = Field(default=2000.0, description="bytes a second")
    redirects: int = 5


class NotThere(TurnmarkError):
    """The host knows no such file, repository or revision."""


class _Again(Exception):
    """This try failed, the next one may not."""

    def __init__(self, why: str, pause: float = 0.0) -> None:
        super().__init__(why)
        self.pause = min(pause, _LONGEST_PAUSE)


def checksum_of(path: Path, kind: str) -> str:
    """`sha256:HEX`, or with the kind `git` `git:HEX`, of a file's content."""
    digest: Any = hashlib.sha256()
    if kind == "git":
        digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return f"{kind}:{digest.hexdigest()}"


class Downloads:
    """A connection to the hosts of the benchmarks. Use it in a `with` statement.

    Args:
        limits: how long is waited.
        loopback: also plain http to this machine itself, for tests. No command sets it.
    """

    def __init__(self, limits: Limits | None = None, loopback: bool = False) -> None:
        import httpx

        self._limits, self._loopback = limits or Limits(), loopback
        self._told: dict[str, int] = {}
        self._client = httpx.Client(
            follow_redirects=False,
            trust_env=not loopback,
            timeout=httpx.Timeout(self._limits.silence, connect=self._limits.connect),
            headers={"User-Agent": "turnmark", "Accept-Encoding": "identity"},
        )

    def __enter__(self) -> Downloads:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def page(self, url: str, max_bytes: int, accept: str = "application/json") -> bytes:
        """The body of a small document.

        Raises:
            TurnmarkError: it cannot be had, or is longer than `max_bytes` bytes.
        """
        return self._tried(url, lambda: self._page(url, max_bytes, accept))

    def _page(self, url: str, max_bytes: int, accept: str) -> bytes:
        body = bytearray()
        with self._opened(url, {"Accept": accept}) as response:
            _accepted(response, url, (200,))
            for block in self._blocks(response):
                body += block
                if len(body) > max_bytes:
                    raise TurnmarkError(f"{url}: the reply is longer than {max_bytes:,} bytes; refused")
        return bytes(body)

    def file(self, remote: RemoteFile, target: Path, progress: Progress | None = None) -> None:
        """Fetch a file to `target`, which is there only when size and checksum are right.

        What has arrived stands in `<target>.part` meanwhile; a later call goes on from there.

        Args:
            progress: told of every KiB.

        Raises:
            TurnmarkError: it cannot be had, or is not what was announced.
        """
        part = target.with_name(f"{target.name}.part")
        target.parent.mkdir(parents=True, exist_ok=True)
        self._tried(remote.url, lambda: self._receive(remote, part, progress or NoProgress()))
        part.replace(target)

    def _receive(self, remote: RemoteFile, part: Path, progress: Progress) -> None:
        have = part.stat().st_size if part.is_file() else 0
        if have > remote.size:
            part.unlink()
            have = 0
        resumed = have > 0
        if have < remote.size or not resumed:
            resumed = self._transfer(remote, part, have, progress)
        if (size := part.stat().st_size) < remote.size:
            raise _Again(f"the connection ended after {size:,} of {remote.size:,} bytes")
        if checksum_of(part, remote.checksum.partition(":")[0]) == remote.checksum:
            return
        with open(part, "rb") as file:
            lfs = file.read(len(_LFS)) == _LFS
        part.unlink()
        if resumed:
            raise _Again("the checksum is wrong after going on with a part; begun anew")
        detail = ": a Git LFS pointer came in its place" if lfs else ""
        raise TurnmarkError(f"{remote.url}: the checksum is not {remote.checksum}{detail}; nothing of it is kept")

    def _transfer(self, remote: RemoteFile, part: Path, have: int, progress: Progress) -> bool:
        """Append what is missing; whether it was appended to a part."""
        with self._opened(remote.url, {"Range": f"bytes={have}-"} if have else {}) as response:
            if have and response.status_code == 416:
                part.unlink()
                raise _Again("the host has no such range; begun anew")
            _accepted(response, remote.url, (200, 206) if have else (200,))
            if have and response.status_code == 206:
                if not response.headers.get("content-range", "").startswith(f"bytes {have}-"):
                    part.unlink()
                    raise _Again("the host sent another range than was asked for; begun anew")
            else:
                have = 0
            declared = response.headers.get("content-length", "")
            if declared.isascii() and declared.isdigit() and have + int(declared) != remote.size:
                offered = have + int(declared)
                raise TurnmarkError(
                    f"{remote.url}: {offered:,} bytes are offered where {remote.size:,} were announced; refused"
                )
            at = have
            self._tell(remote, at, progress)
            with open(part, "ab" if have else "wb") as file:
                for block in self._blocks(response):
                    at += len(block)
                    if at > remote.size:
                        raise self._too_much(remote, part)
                    file.write(block)
                    self._tell(remote, at, progress)
        return have > 0

    def _tell(self, remote: RemoteFile, at: int, progress: Progress) -> None:
        """Tell of what is new; what comes a second time is not told twice."""
        told_so_far = self._told.get(remote.path, 0)
        if at >> 10 > told_so_far:
            self._told[remote.path] = at >> 10
            progress.advance((at >> 10) - told_so_far)

    @staticmethod
    def _too_much(remote: RemoteFile, part: Path) -> TurnmarkError:
        part.unlink()
        return TurnmarkError(f"{remote.url}: more came than the {remote.size:,} bytes announced; refused")

    def _blocks(self, response: httpx.Response) -> Iterator[bytes]:
        """The body as it was sent, watched for its pace."""
        began, received = time.monotonic(), 0
        for block in response.iter_raw():
            received += len(block)
            spent = time.monotonic() - began
            if spent > self._limits.slow_after and received < spent * self._limits.slow_rate:
                raise _Again(f"too slow: {received:,} bytes in {spent:.0f} s")
            yield block

    @contextmanager
    def _opened(self, url: str, headers: dict[str, str]) -> Iterator[httpx.Response]:
        """The answer to a GET, after at most so many redirects, each to an address that is allowed."""
        import httpx

        at = self._allowed(url, url)
        for _ in range(self._limits.redirects + 1):
            with self._client.stream("GET", at, headers=headers) as response:
                if not response.has_redirect_location:
                    yield response
                    return
                try:
                    at = self._allowed(str(at.join(response.headers["location"])), url)
                except httpx.InvalidURL as error:
                    raise TurnmarkError(f"{url}: it redirects to what is no address ({error})") from None
        raise TurnmarkError(f"{url}: more than {self._limits.redirects} redirects; refused")

    def _allowed(self, url: str, original: str) -> httpx.URL:
        import httpx

        address = httpx.URL(url)
        is_local = self._loopback and address.scheme == "http" and address.host in _LOOPBACK
        if not is_local and address.scheme != "https":
            reason = "not https" if url == original else f"it redirects to {url}, which is not https"
            raise TurnmarkError(f"{original}: {reason}; refused")
        if address.userinfo:
            raise TurnmarkError(f"{original}: an address with a name or password in it; refused")
        return address

    def _tried(self, url: str, once: Callable[[], T]) -> T:
        import httpx
        from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

        def guarded() -> T:
            try:
                return once()
            except httpx.TransportError as error:
                if "CERTIFICATE_VERIFY_FAILED" in str(error):
                    raise TurnmarkError(f"{url}: the host's certificate does not hold ({error}); refused") from error
                raise _Again(str(error) or type(error).__name__) from error

        def pause(state: RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            doubled: float = self._limits.pause * 2.0 ** (state.attempt_number - 1)
            return min(max(doubled, error.pause if isinstance(error, _Again) else 0.0), _LONGEST_PAUSE)

        try:
            return Retrying(
                stop=stop_after_attempt(self._limits.attempts),
                wait=pause,
                retry=retry_if_exception_type(_Again),
                reraise=True,
            )(guarded)
        except _Again as error:
            raise TurnmarkError(
                f"{url}: {error} (tried {self._limits.attempts} times); what has arrived is kept, and the same command "
                "goes on from there"
            ) from error


def _accepted(response: httpx.Response, url: str, statuses: tuple[int, ...]) -> None:
    status = response.status_code
    if status in statuses:
        if response.headers.get("content-encoding", "identity") not in ("", "identity"):
            raise TurnmarkError(f"{url}: the body comes compressed, though it was asked for as it is; refused")
        return
    wait = response.headers.get("retry-after", "")
    pause = float(wait) if wait.isascii() and wait.isdigit() and len(wait) < 6 else 0.0
    if status in _LATER:
        raise _Again(f"the host answered {status}", pause)
    if status in (404, 410, 422):
        raise NotThere(f"{url}: the host answered {status}: there is no such file or revision")
    limited = response.headers.get("x-ratelimit-remaining") == "0"
    detail = ": its limit for this address is used up; try again in an hour" if limited else ""
    raise TurnmarkError(f"{url}: the host answered {status}{detail}")
