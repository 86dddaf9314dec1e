"""Where conversations are kept: `$TURNMARK_HOME/sessions/NAME.jsonl`, an event a line, only ever added to.

The folder has mode 0700 and a file 0600. A line is flushed to the disk before the next prompt is shown, so a process
that is killed loses at most the turn it was at. Lines that cannot be read are left out, with a note.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import Field
from pydantic_core import to_jsonable_python

from turnmark.assistant.session import EVENT, Began, Conversation, SessionEvent, Turned
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.home import check_name, home
from turnmark.core.record import Record
from turnmark.corpora.text import spans

SHOWN_NAMES = 10


class SessionInfo(Record):
    """A kept session, as a list shows it."""

    name: str
    changed: float = Field(description="seconds since 1970")
    turns: int
    index: str
    question: str = Field(description="the first question")


def sessions_folder() -> Path:
    """`$TURNMARK_HOME/sessions`."""
    return home() / "sessions"


def _path(name: str) -> Path:
    return sessions_folder() / f"{check_name(name, 'session')}.jsonl"


def session_names() -> list[str]:
    """The names of the kept sessions, the one that was used last first."""
    dated: list[tuple[float, str]] = []
    for path in sessions_folder().glob("*.jsonl"):
        with suppress(OSError, RequestError):
            dated.append((path.stat().st_mtime_ns, check_name(path.stem, "session")))
    return [name for _, name in sorted(dated, reverse=True)]


def list_sessions() -> list[SessionInfo]:
    """The kept sessions, the one that was used last first. A file that cannot be read is listed without its content."""
    infos = []
    for name in session_names():
        talk = Conversation()
        with suppress(TurnmarkError):
            talk, _ = read_session(name)
        first = talk.exchanges[0].question if talk.exchanges else ""
        with suppress(OSError):
            changed, turns = _path(name).stat().st_mtime, len(talk.exchanges)
            infos.append(SessionInfo(name=name, changed=changed, turns=turns, index=talk.config.index, question=first))
    return infos


def _existing(name: str) -> Path:
    """The file of a session; the error lists the sessions there are."""
    path = _path(name)
    if not path.is_file():
        names = session_names()
        more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
        raise RequestError(
            f"no session is called {name!r}; there are: {', '.join(names[:SHOWN_NAMES]) or 'none yet'}{more}"
        )
    return path


def read_session(name: str) -> tuple[Conversation, str]:
    """A kept conversation, and a note on lines that could not be read; empty where all could."""
    events, note = _events(name)
    return _folded(events, name), note


def _events(name: str) -> tuple[list[SessionEvent], str]:
    try:
        lines = _existing(name).read_bytes().split(b"\n")
    except OSError as error:
        raise TurnmarkError(f"session {name!r} cannot be read ({error.strerror or error})") from error
    events, unread = list[SessionEvent](), list[int]()
    for number, line in enumerate(lines, 1):
        try:  # another version may say more of a reply than this one knows
            events += [EVENT.validate_python(json.loads(line), extra="ignore")] if line.strip() else []
        except (ValueError, RecursionError):
            unread.append(number)
    left_out = f"session {name!r}, line {', '.join(spans(unread))}: not an event of this version; left out"
    return events, left_out if unread else ""


def _folded(events: Sequence[SessionEvent], name: str) -> Conversation:
    conversation = Conversation()
    try:
        for event in events:
            conversation.apply(event)
    except ValueError as error:
        raise RequestError(f"session {name!r}: {error}; use a newer Turnmark") from error
    return conversation


def delete_session(name: str) -> None:
    """Delete a session."""
    path = _existing(name)
    try:
        with open(path, "r+b") as file:
            _lock(file.fileno(), name)
            path.unlink()
    except OSError as error:
        raise TurnmarkError(f"session {name!r} could not be deleted ({error.strerror or error})") from error


def _lock(file: int, name: str) -> None:
    """One chat at a time writes a session; the lock goes with the process."""
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise RequestError(f"session {name!r} is open in another chat; close that one first") from error


class ChatSession:
    """A conversation with the file that keeps it; made by `new_session` and `resume_session`.

    The file begins with the first turn, so a chat in which nothing was asked leaves none.
    """

    def __init__(self, conversation: Conversation, name: str, keep: bool, waiting: Sequence[SessionEvent] = ()) -> None:
        self.conversation, self.name, self.keep = conversation, name, keep
        self.note = ""
        """On what could not be read of it, if it goes on."""
        self._file: int | None = None
        self._waiting = list(waiting)

    def record(self, event: SessionEvent) -> None:
        """Take in an event and keep it."""
        self.conversation.apply(event)
        self._waiting.append(event)
        if self.keep and (self._file is not None or any(isinstance(event, Turned) for event in self._waiting)):
            self._write()

    def save(self, name: str | None) -> str:
        """Keep the session from now on, under `name` if one is given; the name that it has then."""
        if name is not None and name != self.name:
            target = _path(name)
            try:
                if target.exists():
                    raise FileExistsError
                if self._file is not None:  # unlike a rename, a link never replaces what is there
                    os.link(_path(self.name), target)
                    _path(self.name).unlink()
            except FileExistsError as error:
                raise RequestError(f"a session called {name!r} exists already; choose another name") from error
            except OSError as error:
                raise TurnmarkError(f"session {name!r} could not be written ({error.strerror or error})") from error
            self.name = name
        self.keep = True
        self._write()
        return self.name

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def reopen(self) -> None:
        """Go on in the file that is there."""
        path = _existing(self.name)
        try:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND)
            _lock(self._file, self.name)
            os.fchmod(self._file, 0o600)
            if not path.read_bytes().endswith(b"\n"):  # what is added begins a line, also after a torn one
                os.write(self._file, b"\n")
            self.conversation, self.note = read_session(self.name)
        except OSError as error:
            self.close()
            raise TurnmarkError(f"session {self.name!r} cannot be written ({error.strerror or error})") from error
        except TurnmarkError:
            self.close()
            raise

    def _write(self) -> None:
        """Write the events that wait, and flush them to the disk."""
        rows = (to_jsonable_python(event, fallback=str, inf_nan_mode="null") for event in self._waiting)
        lines = "".join(f"{json.dumps(row, ensure_ascii=False, allow_nan=False)}\n" for row in rows)
        remaining = lines.encode("utf-8", "replace")  # half a surrogate pair is no UTF-8
        try:
            if self._file is None:
                sessions_folder().mkdir(parents=True, exist_ok=True)
                sessions_folder().chmod(0o700)
                self._file = os.open(_path(self.name), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
                _lock(self._file, self.name)
            while remaining:
                remaining = remaining[os.write(self._file, remaining) :]
            os.fsync(self._file)
        except OSError as error:  # nothing more is added after what may be half a line
            self.close()
            self.keep = False
            reason = error.strerror or error
            raise TurnmarkError(
                f"the session could not be kept ({reason}); the conversation goes on without being kept"
            ) from error
        self._waiting.clear()


def _new_name() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def new_session(began: Began, keep: bool = True) -> ChatSession:
    """A session that begins now; its name is the time until it gets another."""
    session = ChatSession(Conversation(), _new_name(), keep)
    session.record(began)
    return session


def resume_session(name: str | None, keep: bool = True) -> ChatSession:
    """A kept session to go on with.

    Args:
        name: None: the one that was used last.
        keep: False: its file is only read, and nothing of what follows is kept.
    """
    names = [name] if name is not None else session_names()
    if not names:
        raise RequestError("no session is kept yet; a chat keeps one from its first question on")
    if keep:
        session = ChatSession(Conversation(), names[0], True)
        session.reopen()
    else:
        events, note = _events(names[0])
        session = ChatSession(_folded(events, names[0]), _new_name(), False, events)
        session.note = note
    return session
