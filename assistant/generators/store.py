"""Where the replies of models are kept: one SQLite file, used by many threads and processes at once.

A cache may fail, never the work that uses it: what cannot be read is not there, what cannot be written is not kept, and
a damaged file is put aside with a note.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from turnmark.assistant.config import section
from turnmark.assistant.generators.notes import tell
from turnmark.corpora.errors import RequestError
from turnmark.corpora.home import home

T = TypeVar("T")

FILE = "responses.db"
MEGABYTES = 512
"""Of replies that are kept, unless `[cache] megabytes` of the configuration says otherwise."""

_BUSY_SECONDS = 10.0  # how long another process may write before we do without
_REST_SECONDS = 30.0  # without it, after it could not be used: each try may cost the seconds above
_AFTER = 0.9  # of the limit that is left when the oldest have gone
_AT_ONCE = 64  # rows that go at a time
_SCHEMA = (
    'CREATE TABLE IF NOT EXISTS reply ("key" TEXT PRIMARY KEY, "value" BLOB NOT NULL, "sum" BLOB NOT NULL, '
    '"used" REAL NOT NULL) WITHOUT ROWID',
    'CREATE INDEX IF NOT EXISTS reply_used ON reply ("used")',
)


class ResponseStore:
    """Texts by key, the least recently used of them dropped when they are too many.

    Args:
        path: the file; it is made, for its owner alone, when first used.
        limit: bytes that it may hold.
    """

    def __init__(self, path: Path, limit: int = MEGABYTES * 1_000_000) -> None:
        self.path, self.limit = path, limit
        self._lock = threading.Lock()
        self._open: tuple[int, sqlite3.Connection] | None = None
        self._told: set[str] = set()
        self._rests_until = float("-inf")

    def get(self, key: str) -> str | None:
        """The text kept under a key; None where there is none that is whole."""

        def read(db: sqlite3.Connection) -> str | None:
            row = db.execute('SELECT "value", "sum" FROM reply WHERE "key" = ?', (key,)).fetchone()
            if row is None:
                return None
            if _sum(row[0]) != row[1]:
                db.execute('DELETE FROM reply WHERE "key" = ?', (key,))
                return None
            db.execute('UPDATE reply SET "used" = ? WHERE "key" = ?', (time.time(), key))
            return str(bytes(row[0]), "utf-8")

        return self._try(read)

    def put(self, key: str, text: str) -> None:
        """Keep a text; what stands under its key already stays. One that would fill the file alone is not kept."""
        value = text.encode("utf-8", "replace")
        if len(value) > self.limit // 4:
            return

        def write(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR IGNORE INTO reply VALUES (?, ?, ?, ?)", (key, value, _sum(value), time.time()))
            if _held(db) > self.limit:
                _evict(db, int(self.limit * _AFTER))

        self._try(write)

    def drop(self, key: str) -> None:
        """Forget what stands under a key."""
        self._try(lambda db: db.execute('DELETE FROM reply WHERE "key" = ?', (key,)).rowcount)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            self._close()

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """What `work` returns; None, and a note, where the file lets it not. Its changes are one transaction."""
        with self._lock:
            if time.monotonic() < self._rests_until:
                return None
            for last in (False, True):
                try:
                    db = self._connection()
                    with db:
                        db.execute("BEGIN IMMEDIATE")
                        return work(db)
                except (sqlite3.OperationalError, OSError) as error:  # locked, full, not ours to write
                    self._close()
                    self._rests_until = time.monotonic() + _REST_SECONDS
                    self._note(f"the response cache {self.path} cannot be used ({error}); models are asked anew")
                    return None
                except (sqlite3.Error, ValueError, TypeError) as error:
                    self._close()
                    if last or not self._put_aside(str(error)):
                        return None
        return None

    def _connection(self) -> sqlite3.Connection:
        """The connection of this process; one that was inherited through a fork is left alone."""
        if self._open is None or self._open[0] != os.getpid():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Made by us first, since SQLite would make it readable for others; its journals take over the mode.
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            db = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            self._open = (os.getpid(), db)
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            for statement in _SCHEMA:
                db.execute(statement)
        return self._open[1]

    def _close(self) -> None:
        if self._open is not None and self._open[0] == os.getpid():
            try:
                self._open[1].close()
            except sqlite3.Error:
                pass
        self._open = None

    def _put_aside(self, error: str) -> bool:
        """Rename a damaged file, unless another process has done so meanwhile; True when a new one can be begun."""
        from filelock import FileLock, Timeout

        try:
            with FileLock(self.path.with_name(f"{FILE}.lock"), timeout=_BUSY_SECONDS, mode=0o600):
                if _sound(self.path):
                    return True
                aside = self.path.with_name(f"{self.path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
                self.path.rename(aside)
                for ending in ("-wal", "-shm"):
                    self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
        except (OSError, Timeout) as failed:
            self._note(f"the response cache {self.path} is damaged ({error}) and cannot be put aside ({failed})")
            return False
        self._note(f"the response cache was damaged ({error}): it is put aside as {aside}, and a new one begun")
        return True

    def _note(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            tell(text)


def _sum(value: bytes) -> bytes:
    """SQLite does not see a bit that flipped inside a text; this does."""
    return hashlib.sha256(value).digest()[:8]


def _held(db: sqlite3.Connection) -> int:
    """Bytes of the file that are in use; what was dropped is used again before the file grows."""
    pages, free, size = (int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in _PAGES)
    return (pages - free) * size


_PAGES = ("page_count", "freelist_count", "page_size")


def _evict(db: sqlite3.Connection, most: int) -> None:
    """Drop the least recently used until at most so many bytes are left."""
    oldest = 'DELETE FROM reply WHERE "key" IN (SELECT "key" FROM reply ORDER BY "used" LIMIT ?)'
    while _held(db) > most and db.execute(oldest, (_AT_ONCE,)).rowcount:
        pass


def _sound(path: Path) -> bool:
    """Whether the file can be read from end to end."""
    try:
        db = sqlite3.connect(path, timeout=_BUSY_SECONDS)
        try:
            return bool(db.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
        finally:
            db.close()
    except sqlite3.Error:
        return False


def default_store() -> ResponseStore:
    """The store in the home, one object for all who use it.

    Raises:
        RequestError: `[cache]` of the configuration is wrong.
    """
    table = section("cache", ("megabytes",))
    megabytes = table.get("megabytes", MEGABYTES)
    if isinstance(megabytes, bool) or not isinstance(megabytes, int) or not 1 <= megabytes <= 1_000_000:
        raise RequestError("config.toml: cache.megabytes: a whole number from 1 to 1000000 was expected")
    return _store(home() / "cache" / FILE, megabytes * 1_000_000)


@lru_cache(maxsize=16)
def _store(path: Path, limit: int) -> ResponseStore:
    return ResponseStore(path, limit)
