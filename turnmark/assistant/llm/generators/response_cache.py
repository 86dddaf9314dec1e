"""The response cache: a wrapper that stores a generator's replies in SQLite, so that none is paid for twice.

The key covers everything that can change a reply: the generator's identity (model, endpoint, seed, engine arguments),
the messages with the hashes of their pictures, maximum tokens, temperature, schema, and the number of the repeat, so
that repeats of a sample are independent. Size, deadline, retries, API key and streaming are not in the key.

Only complete replies are stored. A reply that is cut, filtered, empty or does not follow the schema is requested again,
and so is every failed call. If the cache fails, models are asked without it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Unpack

from pydantic import BaseModel, ValidationError

from turnmark.assistant.llm.calls.protocols import (
    CallOptions,
    Completion,
    Generator,
    GeneratorWrapper,
    OnText,
    PromptMessage,
    Tool,
    ToolMessage,
    traits_of,
)
from turnmark.assistant.llm.calls.reply_schemas import strict_schema
from turnmark.assistant.types import Usage
from turnmark.core.console import notify
from turnmark.core.home import home
from turnmark.core.untrusted import valid_text

STORE_FILE = "replies.db"
MAX_STORE_BYTES = 512_000_000
"""Maximum bytes of the file. Above it, the oldest tenth of the replies is deleted."""
BUSY_SECONDS = 10.0
_CREATE_TABLE = "CREATE TABLE IF NOT EXISTS reply (key TEXT UNIQUE NOT NULL, value TEXT NOT NULL)"
_USED_BYTES = """SELECT (page_count - freelist_count) * page_size
    FROM pragma_page_count, pragma_freelist_count, pragma_page_size"""
_DELETE_OLDEST = """DELETE FROM reply WHERE rowid IN
    (SELECT rowid FROM reply ORDER BY rowid LIMIT 1 + (SELECT COUNT(*) / 10 FROM reply))"""


class ResponseStore:
    """A store of texts by key, for many threads and processes. If its file fails, it writes one note and does nothing.

    Args:
        path: the file, created at first use, readable only by its owner.
        limit: maximum bytes.
    """

    def __init__(self, path: Path, limit: int = MAX_STORE_BYTES) -> None:
        self.path, self.limit = path, limit
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._failed = False

    def get(self, key: str) -> str | None:
        """Return the text of a key, or None."""
        rows = self._run("SELECT value FROM reply WHERE key = ?", key)
        return str(rows[0][0]) if rows else None

    def put(self, key: str, text: str) -> None:
        """Store a text."""
        self._run("INSERT OR REPLACE INTO reply VALUES (?, ?)", key, valid_text(text))
        rows = self._run(_USED_BYTES)
        if rows and rows[0][0] > self.limit:
            self._run(_DELETE_OLDEST)

    def close(self) -> None:
        """Close the file; it is opened again when it is next used."""
        with self._lock:
            if self._db is not None:
                self._db.close()
            self._db = None

    def _run(self, statement: str, *values: str) -> list[Any]:
        with self._lock:
            if self._failed:
                return []
            try:
                self._db = self._db or self._open_file()
                return self._db.execute(statement, values).fetchall()
            except (sqlite3.Error, OSError) as error:  # locked, full, damaged, not ours to write
                self._failed = True
                notify(f"the response cache {self.path} cannot be used ({error}); models are asked again. Delete it")
                return []

    def _open_file(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Created here, since SQLite would make it readable for others; its journals get the same mode.
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        db = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", _CREATE_TABLE):
            db.execute(statement)
        return db


_store = lru_cache(maxsize=16)(ResponseStore)


def default_store() -> ResponseStore:
    """Return the store in the home folder, the same object for all callers."""
    return _store(home() / "cache" / STORE_FILE)


class CachedGenerator(GeneratorWrapper):
    """A generator with a response cache; each repeat of a sample has separate replies.

    A cached reply has `saved`, no calls and no tokens in its `usage`, and is streamed in one piece.
    """

    def __init__(self, generator: Generator, store: ResponseStore, repeat: int = 0) -> None:
        super().__init__(generator)
        self.store, self.repeat = store, repeat

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """Return the cached reply, or one from the generator; see `Generator.complete`."""
        max_tokens, schema = options.get("max_tokens"), options.get("schema")
        key = self._key(
            options.get("temperature"),
            messages=[
                [message.role, message.content, *(picture.sha256 for picture in message.pictures)]
                for message in messages
            ],
            max_tokens=self.reply_tokens if max_tokens is None else max_tokens,
            schema=None if schema is None else [schema.__name__, strict_schema(schema)],
        )
        ask = partial(self.generator.complete, messages, **options)
        return self._stored(key, options.get("on_text")) or self._keep(key, ask(), schema)

    def _converse(self, messages: Sequence[ToolMessage], tools: Sequence[Tool], **options: Any) -> Completion:
        key = self._key(
            options.get("temperature"),
            messages=[message.model_dump(mode="json") for message in messages],
            tools=[tool.model_dump(mode="json") for tool in tools],
            max_tokens=options.get("max_tokens") or self.reply_tokens,
        )
        ask = partial(super()._converse, messages, tools, **options)
        return self._stored(key, options.get("on_text")) or self._keep(key, ask())

    def _key(self, temperature: float | None, **request: Any) -> str:
        effective = self.temperature if temperature is None else temperature
        request["temperature"] = None if effective is None else float(effective)
        parts = {"generator": dict(traits_of(self.generator).identity), "repeat": self.repeat, **request}
        # ASCII with escapes, since a lone surrogate in a prompt cannot be encoded in UTF-8.
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("ascii")).hexdigest()

    def _keep(self, key: str, reply: Completion, schema: type[BaseModel] | None = None) -> Completion:
        """Store a reply if it is complete, and return it."""
        from turnmark.assistant.llm.prompts.structured_output import parse_object

        is_complete = reply.finish_reason == "stop" and reply.saved is None and bool(reply.calls or reply.text.strip())
        if is_complete and (schema is None or not isinstance(parse_object(reply.text, schema), str)):
            self.store.put(key, reply.model_dump_json())
        return reply

    def _stored(self, key: str, on_text: OnText | None) -> Completion | None:
        """Return the stored reply of a key, and pass its text to `on_text`, or None if there is none."""
        text = self.store.get(key)
        if text is None:
            return None
        try:
            reply = Completion.model_validate_json(text, extra="ignore")  # of any version
        except ValidationError:
            return None
        cached = reply.model_copy(update={"saved": reply.usage, "usage": Usage()})
        if on_text is not None:
            on_text(cached.text)
        return cached


def with_cache(generator: Generator) -> CachedGenerator:
    """Wrap a generator with the response cache; a cached generator is not wrapped twice."""
    return generator if isinstance(generator, CachedGenerator) else CachedGenerator(generator, default_store())


def for_repeat(generator: Generator, repeat: int) -> Generator:
    """Return a cached generator for one repeat, which has its own cache entries; another generator stays the same."""
    if not isinstance(generator, CachedGenerator):
        return generator
    return CachedGenerator(generator.generator, generator.store, repeat)
