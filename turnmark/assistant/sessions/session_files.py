"""Session files: `$TURNMARK_HOME/sessions/NAME.jsonl`, one event per line, only appended to.

The folder has mode 0700 and each file 0600. Each line is flushed to disk before the next prompt is shown, so a killed
process loses at most the current turn. Lines that cannot be read are left out with a note.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from pydantic import Field
from pydantic_core import to_jsonable_python

from turnmark.assistant.sessions.conversation import (
    EVENT_ADAPTER,
    Conversation,
    SessionBegan,
    SessionEvent,
    TurnAnswered,
)
from turnmark.core.errors import RequestError, TurnmarkError, unknown_name
from turnmark.core.home import check_name, home
from turnmark.core.plural import count_phrase
from turnmark.core.record import Record
from turnmark.core.untrusted import ellipsize, one_line
from turnmark.corpora.text.segmentation import spans

NO_SESSION = "no session is kept yet"
MAX_QUESTION_CHARACTERS = 50
"""Length to which a session's first question is cut in a list."""


class SessionInfo(Record):
    """A saved session in a list."""

    name: str
    changed: float = Field(description="time of the last change, in seconds since 1970")
    turns: int
    index: str
    question: str = Field(description="the first question")

    @property
    def line(self) -> str:
        """The session in one line: its name, when it was used, its turns and index, and the first question."""
        changed = f"{datetime.fromtimestamp(self.changed):%Y-%m-%d %H:%M}"
        question = ellipsize(one_line(self.question), MAX_QUESTION_CHARACTERS)
        return f"{self.name}  {changed}  {count_phrase(self.turns, 'turn')}  {one_line(self.index)}  {question}"


def sessions_folder() -> Path:
    """Return the folder of the session files, `$TURNMARK_HOME/sessions`."""
    return home() / "sessions"


def _path(name: str) -> Path:
    return sessions_folder() / f"{check_name(name, 'session')}.jsonl"


def session_names() -> list[str]:
    """Return the names of the saved sessions, most recently used first."""
    dated: list[tuple[float, str]] = []
    for path in sessions_folder().glob("*.jsonl"):
        with suppress(OSError, RequestError):
            dated.append((path.stat().st_mtime_ns, check_name(path.stem, "session")))
    return [name for _, name in sorted(dated, reverse=True)]


def list_sessions() -> list[SessionInfo]:
    """Return the saved sessions, most recently used first; list a file that cannot be read without its content."""
    infos = []
    for name in session_names():
        conversation = Conversation()
        with suppress(TurnmarkError):
            conversation, _ = read_session(name)
        exchanges = conversation.exchanges
        with suppress(OSError):
            info = SessionInfo(
                name=name,
                changed=_path(name).stat().st_mtime,
                turns=len(exchanges),
                index=conversation.config.index,
                question=exchanges[0].question if exchanges else "",
            )
            infos.append(info)
    return infos


def _existing_file(name: str) -> Path:
    """Return the file of a session; raise RequestError with the names of sessions if it does not exist."""
    path = _path(name)
    if not path.is_file():
        names = session_names()
        raise RequestError(unknown_name("session", name, names))
    return path


def read_session(name: str) -> tuple[Conversation, str]:
    """Read a saved conversation; return it with a note on lines that could not be read, which may be empty."""
    conversation, note, _ = _read_file(name)
    return conversation, note


def _read_file(name: str) -> tuple[Conversation, str, list[SessionEvent]]:
    try:
        lines = _existing_file(name).read_bytes().split(b"\n")
    except OSError as error:
        raise TurnmarkError(f"session {name!r} cannot be read ({error.strerror or error})") from error
    conversation = Conversation()
    events: list[SessionEvent] = []
    unread: list[int] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:  # another version may store further fields of a reply
            events.append(EVENT_ADAPTER.validate_python(json.loads(line), extra="ignore"))
        except (ValueError, RecursionError):
            unread.append(number)
            continue
        try:
            conversation.apply(events[-1])
        except ValueError as error:
            raise RequestError(f"session {name!r}: {error}; use a newer Turnmark") from error
    left_out = f"session {name!r}, line {', '.join(spans(unread))}: left out, since it is damaged or of another version"
    return conversation, left_out if unread else "", events


def delete_session(name: str) -> None:
    """Delete a saved session; raise RequestError if it does not exist or another chat has it open."""
    path = _existing_file(name)
    try:
        with open(path, "r+b") as file:
            _lock(file.fileno(), name)
            path.unlink()
    except OSError as error:
        raise TurnmarkError(f"session {name!r} cannot be deleted ({error.strerror or error})") from error


def _lock(file: int, name: str) -> None:
    """Lock an open session file against other chats; the lock ends with the process."""
    try:
        import fcntl
    except ImportError:  # not available on Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise RequestError(f"session {name!r} is open in another chat; close that chat first") from error


class ChatSession:
    """A conversation and its session file, created by `new_session` or `resume_session`.

    The file is created with the first turn, so a chat without turns leaves no file.

    Attributes:
        keep: whether events are written to the file.
        note: which lines of a resumed session could not be read; empty if all could.
    """

    def __init__(self, conversation: Conversation, name: str, keep: bool, note: str = "") -> None:
        self.conversation, self.name, self.keep, self.note = conversation, name, keep, note
        self._file: int | None = None
        self._waiting: list[SessionEvent] = []

    def record(self, event: SessionEvent) -> None:
        """Apply an event to the conversation, and write it to the file if the session is saved."""
        self.conversation.apply(event)
        self._waiting.append(event)
        has_turn = any(isinstance(waiting, TurnAnswered) for waiting in self._waiting)
        if self.keep and (self._file is not None or has_turn):
            self._write()

    def save(self, name: str | None) -> str:
        """Save the session from now on, under `name` if it is given; return its name."""
        if name is not None and name != self.name:
            target = _path(name)
            try:
                if target.exists():
                    raise FileExistsError
                if self._file is not None:  # unlike a rename, a link never replaces an existing file
                    os.link(_path(self.name), target)
                    _path(self.name).unlink()
            except FileExistsError as error:
                raise RequestError(f"session {name!r} exists already; choose another name") from error
            except OSError as error:
                raise TurnmarkError(f"session {name!r} cannot be written ({error.strerror or error})") from error
            self.name = name
        self.keep = True
        self._write()
        return self.name

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self) -> None:
        """Append the waiting events to the file, and flush it to disk."""
        rows = (to_jsonable_python(event, fallback=str, inf_nan_mode="null") for event in self._waiting)
        lines = "".join(f"{json.dumps(row, ensure_ascii=False, allow_nan=False)}\n" for row in rows)
        remaining = lines.encode("utf-8", "replace")  # half of a surrogate pair cannot be encoded as UTF-8
        try:
            if self._file is None:
                sessions_folder().mkdir(parents=True, exist_ok=True)
                sessions_folder().chmod(0o700)
                self._file = os.open(_path(self.name), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
                _lock(self._file, self.name)
            while remaining:
                remaining = remaining[os.write(self._file, remaining) :]
            os.fsync(self._file)
        except OSError as error:  # the last line may be incomplete, so nothing is appended to it
            self.close()
            self.keep = False
            reason = error.strerror or error
            raise TurnmarkError(
                f"the session cannot be saved ({reason}); the conversation continues without being saved"
            ) from error
        self._waiting.clear()


def _new_name() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def new_session(began: SessionBegan, keep: bool = True) -> ChatSession:
    """Start a session; its name is the current time until `save` renames it."""
    session = ChatSession(Conversation(), _new_name(), keep)
    session.record(began)
    return session


def resume_session(name: str | None, keep: bool = True) -> ChatSession:
    """Open a saved session to continue it.

    Args:
        name: name of the session, or None for the most recently used session.
        keep: whether new turns are saved. If False, the file is only read.
    """
    if name is None:
        names = session_names()
        if not names:
            raise RequestError("no session is saved yet; a chat is saved from its first answer on")
        name = names[0]
    if not keep:
        conversation, note, events = _read_file(name)
        session = ChatSession(conversation, _new_name(), False, note)
        session._waiting += events  # written if the session is saved after all
        return session
    path = _existing_file(name)
    session = ChatSession(Conversation(), name, True)
    try:
        session._file = os.open(path, os.O_RDWR | os.O_APPEND)
        _lock(session._file, name)
        os.fchmod(session._file, 0o600)
        if not path.read_bytes().endswith(b"\n"):  # an incomplete last line must not swallow the next event
            os.write(session._file, b"\n")
        session.conversation, session.note = read_session(name)
    except OSError as error:
        session.close()
        raise TurnmarkError(f"session {name!r} cannot be written ({error.strerror or error})") from error
    except TurnmarkError:
        session.close()
        raise
    return session
