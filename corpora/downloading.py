"""One file over https: never more of it than was announced, gone on with after a cut, checked before it counts."""

from __future__ import annotations

import hashlib
import re
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
_LONGEST_PAUSE = 60.0  # seconds
_REDIRECTS = 5


class RemoteFile(Record):
    """A file that a host has announced."""

    path: str = Field(description="where it is put, relative to the benchmark's folder, POSIX")
    url: str
    size: int = Field(ge=0, description="bytes, as announced")
    checksum: str = Field(description="`sha256:HEX` of its content, or `git:HEX`, git's id of it as a blob (SHA-1)")

    @field_validator("checksum")
    @classmethod
    def _known(cls, checksum: str) -> str:
        if not _CHECKSUM.fullmatch(checksum):
            raise ValueError(f"the checksum {checksum!r} is neither sha256: nor git: with its hexadecimal digits")
        return checksum


class Limits(Record):
    """How long is waited; all times in seconds."""

    attempts: int = Field(default=5, description="tries of one file or page, the first included")
    pause: float = Field(default=1.0, description="before the second try; doubled before each further one")
    connect: float = 20.0
    silence: float = Field(default=30.0, description="the longest wait for the next bytes")


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
        self._reported: dict[str, int] = {}
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

    def page(self, url: str, max_bytes: int) -> bytes:
        """The body of a small document.

        Raises:
            TurnmarkError: it cannot be had, or is longer than `max_bytes` bytes.
        """
        return self._tried(url, lambda: self._page(url, max_bytes))

    def _page(self, url: str, max_bytes: int) -> bytes:
        body = bytearray()
        with self._opened(url, {"Accept": "application/json"}) as response:
            _check_status(response, url, (200,))
            for block in response.iter_raw():
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
        resumed = 0 < have <= remote.size
        if have != remote.size or not resumed:
            resumed = self._transfer(remote, part, have if resumed else 0, progress)
        if (size := part.stat().st_size) < remote.size:
            raise _Again(f"the connection ended after {size:,} of {remote.size:,} bytes")
        if checksum_of(part, remote.checksum.partition(":")[0]) == remote.checksum:
            return
        part.unlink()
        if resumed:
            raise _Again("the checksum is wrong after going on with a part; begun anew")
        raise TurnmarkError(f"{remote.url}: the checksum is not {remote.checksum}; nothing of it is kept")

    def _transfer(self, remote: RemoteFile, part: Path, have: int, progress: Progress) -> bool:
        """Append what is missing; whether it was appended to a part."""
        with self._opened(remote.url, {"Range": f"bytes={have}-"} if have else {}) as response:
            ranged = response.headers.get("content-range", "").startswith(f"bytes {have}-")
            if have and (response.status_code == 416 or (response.status_code == 206 and not ranged)):
                part.unlink()
                raise _Again("the host has no such range; begun anew")
            _check_status(response, remote.url, (200, 206) if have else (200,))
            have = have if response.status_code == 206 else 0
            self._report(remote, have, progress)
            with open(part, "ab" if have else "wb") as file:
                for block in response.iter_raw():
                    file.write(block)
                    self._report(remote, file.tell(), progress)
                    if file.tell() > remote.size:
                        part.unlink()
                        announced = f"{remote.size:,} bytes announced"
                        raise TurnmarkError(f"{remote.url}: more came than the {announced}; refused")
        return have > 0

    def _report(self, remote: RemoteFile, size: int, progress: Progress) -> None:
        """Tell of what is new; what comes a second time is not told twice."""
        before = self._reported.get(remote.path, 0)
        if size >> 10 > before:
            self._reported[remote.path] = size >> 10
            progress.advance((size >> 10) - before)

    @contextmanager
    def _opened(self, url: str, headers: dict[str, str]) -> Iterator[httpx.Response]:
        """The answer to a GET, after at most so many redirects, each to an address that is allowed."""
        import httpx

        address = self._allowed(url, url)
        for _ in range(_REDIRECTS + 1):
            with self._client.stream("GET", address, headers=headers) as response:
                if not response.has_redirect_location:
                    yield response
                    return
                try:
                    address = self._allowed(str(address.join(response.headers["location"])), url)
                except httpx.InvalidURL as error:
                    raise TurnmarkError(f"{url}: it redirects to what is no address ({error})") from None
        raise TurnmarkError(f"{url}: more than {_REDIRECTS} redirects; refused")

    def _allowed(self, url: str, original: str) -> httpx.URL:
        import httpx

        address = httpx.URL(url)
        is_local = self._loopback and address.scheme == "http" and address.host in _LOOPBACK
        if not is_local and address.scheme != "https":
            reason = "not https" if url == original else f"it redirects to {url}, which is not https"
            raise TurnmarkError(f"{original}: {reason}; refused")
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


def _check_status(response: httpx.Response, url: str, expected: tuple[int, ...]) -> None:
    status = response.status_code
    if status in expected:
        return
    wait = response.headers.get("retry-after", "")
    if status in _LATER:
        raise _Again(f"the host answered {status}", float(wait) if re.fullmatch("[0-9]{1,5}", wait) else 0.0)
    if status in (404, 410, 422):
        raise NotThere(f"{url}: the host answered {status}: there is no such file or revision")
    limited = response.headers.get("x-ratelimit-remaining") == "0"
    detail = ": its limit for this address is used up; try again in an hour" if limited else ""
    raise TurnmarkError(f"{url}: the host answered {status}{detail}")
