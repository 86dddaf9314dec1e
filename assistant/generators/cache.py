"""Replies that are not paid for twice: a generator in front of another, with its replies kept in one SQLite file.

The key is everything that can change a reply: what the generator is (model, endpoint, seed, engine arguments), the
messages, the limit, the temperature, the schema, and the number of the repeat, so that repeats of one sample stay
samples. The deadline, retries, the key and whether it is streamed change nothing.

Only a reply that ended by itself is kept: one that was cut or filtered, that is empty, that is not of the form that was
asked for, and every failure is asked for anew. A cache may fail, never the work that uses it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, Unpack

from pydantic import BaseModel, Field, ValidationError

from turnmark.assistant.generators.base import (
    CallOptions,
    Completion,
    Generator,
    GeneratorWrapper,
    PromptMessage,
    traits_of,
)
from turnmark.assistant.generators.schema import strict_schema
from turnmark.assistant.settings import section
from turnmark.assistant.types import Usage
from turnmark.corpora.console import notify, valid_text
from turnmark.corpora.home import home
from turnmark.corpora.types import Record

T = TypeVar("T")

FILE = "responses.db"
MEGABYTES = 512
"""Of replies that are kept, unless `[cache] megabytes` of the configuration says otherwise."""

_BUSY_SECONDS = 10.0  # how long another process may write before we do without
_PAUSE_SECONDS = 30.0  # without it, after it could not be used: each try may cost the seconds above
_REMAINING = 0.9  # of the limit that is left when the oldest have gone
_BATCH = 64  # rows that are dropped at a time
_SCHEMA = """CREATE TABLE IF NOT EXISTS reply ("key" TEXT PRIMARY KEY, "value" TEXT NOT NULL, "used" REAL NOT NULL)
    WITHOUT ROWID"""
_INDEX = 'CREATE INDEX IF NOT EXISTS reply_used ON reply ("used")'


class CacheSettings(Record):
    """`[cache]` of the configuration."""

    megabytes: int = Field(default=MEGABYTES, ge=1, le=1_000_000)


class ResponseStore:
    """Texts by key, the least recently used of them dropped when they are too many; for many threads and processes.

    Args:
        path: the file; it is made, for its owner alone, when first used.
        limit: bytes that it may hold.
    """

    def __init__(self, path: Path, limit: int = MEGABYTES * 1_000_000) -> None:
        self.path, self.limit = path, limit
        self._lock = threading.Lock()
        self._connected: tuple[int, sqlite3.Connection] | None = None
        self._paused_until = float("-inf")

    def get(self, key: str) -> str | None:
        """The text kept under a key; None where there is none."""

        def read(db: sqlite3.Connection) -> str | None:
            row = db.execute('SELECT "value" FROM reply WHERE "key" = ?', (key,)).fetchone()
            db.execute('UPDATE reply SET "used" = ? WHERE "key" = ?', (time.time(), key))
            return row[0] if row else None

        return self._try(read)

    def put(self, key: str, text: str) -> None:
        """Keep a text; what stands under its key already stays. One that would fill the file alone is not kept."""
        text = valid_text(text)
        if len(text) > self.limit // 4:
            return

        def write(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR IGNORE INTO reply VALUES (?, ?, ?)", (key, text, time.time()))
            if _bytes_used(db) > self.limit:
                oldest = 'DELETE FROM reply WHERE "key" IN (SELECT "key" FROM reply ORDER BY "used" LIMIT ?)'
                while _bytes_used(db) > self.limit * _REMAINING and db.execute(oldest, (_BATCH,)).rowcount:
                    pass

        self._try(write)

    def drop(self, key: str) -> None:
        """Forget what stands under a key."""
        self._try(lambda db: db.execute('DELETE FROM reply WHERE "key" = ?', (key,)))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            self._close()

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """What `work` returns, in one transaction; None, and a note, where the file cannot be used."""
        with self._lock:
            for last in (False, True):
                if time.monotonic() < self._paused_until:
                    return None
                try:
                    db = self._connection()
                    with db:
                        db.execute("BEGIN IMMEDIATE")
                        return work(db)
                except (sqlite3.OperationalError, OSError) as error:  # locked, full, not ours to write
                    self._pause(f"cannot be used ({error})")
                except (sqlite3.Error, ValueError) as error:
                    if last:
                        self._pause(f"is damaged ({error})")
                    else:
                        self._begin_anew(error)
        return None

    def _connection(self) -> sqlite3.Connection:
        """The connection of this process; one that was inherited through a fork is left alone."""
        if self._connected is None or self._connected[0] != os.getpid():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Made by us first, since SQLite would make it readable for others; its journals take over the mode.
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            db = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            self._connected = (os.getpid(), db)
            for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", _SCHEMA, _INDEX):
                db.execute(statement)
        return self._connected[1]

    def _close(self) -> None:
        if self._connected is not None and self._connected[0] == os.getpid():
            self._connected[1].close()
        self._connected = None

    def _pause(self, reason: str) -> None:
        self._close()
        self._paused_until = time.monotonic() + _PAUSE_SECONDS
        notify(f"the response cache {self.path} {reason}; models are asked anew")

    def _begin_anew(self, error: Exception) -> None:
        """Delete a damaged file."""
        self._close()
        try:
            for ending in ("", "-wal", "-shm"):
                self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
        except OSError as failure:
            self._pause(f"is damaged ({error}) and cannot be deleted ({failure})")
        else:
            notify(f"the response cache {self.path} was damaged ({error}); a new one is begun")


def _bytes_used(db: sqlite3.Connection) -> int:
    """Bytes of the file that are in use; freed pages are used again before the file grows."""
    pragmas = ("page_count", "freelist_count", "page_size")
    pages, free, size = (int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in pragmas)
    return (pages - free) * size


def default_store() -> ResponseStore:
    """The store in the home, one object for all who use it.

    Raises:
        RequestError: `[cache]` of the configuration is wrong.
    """
    megabytes = section("cache", CacheSettings).megabytes
    return _store(home() / "cache" / FILE, megabytes * 1_000_000)


@lru_cache(maxsize=16)
def _store(path: Path, limit: int) -> ResponseStore:
    return ResponseStore(path, limit)


class Cached(GeneratorWrapper):
    """Answers from a store what it has answered before.

    A reply from the store has `saved`, no calls and no tokens in its `usage`, and is streamed in one piece.

    Args:
        generator: is asked for what is not in the store; its `identity` tells it from others.
        store: keeps the replies.
        repeat: number of the repeat of a sample: each has replies of its own.
    """

    def __init__(self, generator: Generator, store: ResponseStore, repeat: int = 0) -> None:
        super().__init__(generator)
        self.store, self.repeat = store, repeat

    def __repr__(self) -> str:
        return f"Cached({self.generator!r}, repeat={self.repeat})"

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """The reply that is kept, else one from the generator; see `Generator.complete`."""
        max_tokens, temperature = options.get("max_tokens"), options.get("temperature")
        schema, on_text = options.get("schema"), options.get("on_text")
        effective = self.temperature if temperature is None else temperature
        key = self._key(
            messages=[[message.role, message.content] for message in messages],
            max_tokens=self.reply_tokens if max_tokens is None else max_tokens,
            temperature=None if effective is None else float(effective),
            schema=None if schema is None else [schema.__name__, strict_schema(schema)],
        )
        if (reply := self._stored(key)) is not None:
            if on_text is not None:
                on_text(reply.text)
            return reply
        reply = self.generator.complete(messages, **options)
        if _worth_keeping(reply, schema):
            self.store.put(key, reply.model_dump_json())
        return reply

    def _key(self, **request: Any) -> str:
        parts = {"generator": dict(traits_of(self.generator).identity), "repeat": self.repeat, **request}
        # ASCII with escapes: half a surrogate pair in a prompt has no UTF-8, but a key of its own.
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("ascii")).hexdigest()

    def _stored(self, key: str) -> Completion | None:
        text = self.store.get(key)
        if text is None:
            return None
        try:
            reply = Completion.model_validate_json(text)
        except ValidationError:
            self.store.drop(key)
            return None
        return reply.model_copy(update={"saved": reply.usage, "usage": Usage()})


def _worth_keeping(reply: Completion, schema: type[BaseModel] | None) -> bool:
    from turnmark.assistant.structured import parse_object

    if reply.finish_reason != "stop" or not reply.text.strip() or reply.saved is not None:
        return False
    return schema is None or not isinstance(parse_object(reply.text, schema), str)


def with_cache(generator: Generator, repeat: int = 0, store: ResponseStore | None = None) -> Cached:
    """The generator with the response cache in front of it; one that has it already, for another repeat.

    Args:
        repeat: number of the repeat of a sample.
        store: None: the file in the home, `cache/responses.db`.

    Raises:
        RequestError: `[cache]` of the configuration is wrong.
    """
    if isinstance(generator, Cached):
        return Cached(generator.generator, store or generator.store, repeat)
    return Cached(generator, store or default_store(), repeat)
