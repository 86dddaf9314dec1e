"""Where conversations are kept: `$TURNMARK_HOME/sessions/NAME.jsonl`, an event a line, only ever added to.

The folder has mode 0700 and a file 0600. A line is flushed to the disk before the next prompt is shown, so a process
that is killed loses at most the turn it was at. Then the last line may be torn: it is left out, with a note.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from pydantic import Field, ValidationError

from turnmark.assistant.session import EVENT, Began, Conversation, Named, SessionEvent, Turned, storable
from turnmark.corpora.console import cut, inert
from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.home import check_name, home
from turnmark.corpora.types import Record

SHOWN_NAMES = 10
QUESTION = 50
TORN = "session {name!r}: the last line was written only in part and is left out"


class SessionInfo(Record):
    """A kept session, as a list shows it."""

    name: str
    changed: float = Field(description="seconds since 1970")
    turns: int
    index: str
    question: str = Field(description="the first question; empty where no turn is left")


def session_lines(sessions: Sequence[SessionInfo]) -> list[str]:
    """A line for each kept session: name, when it was used last, turns, index, first question."""
    if not sessions:
        return ["no session is kept yet"]
    width = max(len(session.name) for session in sessions)
    return [
        f"{session.name:<{width}}  {datetime.fromtimestamp(session.changed):%Y-%m-%d %H:%M}  "
        f"{session.turns} turn{'s' if session.turns != 1 else ' '}  {inert(session.index)}  "
        f"{cut(inert(session.question), QUESTION)}"
        for session in sessions
    ]


def sessions_folder() -> Path:
    """`$TURNMARK_HOME/sessions`."""
    return home() / "sessions"


def _path(name: str) -> Path:
    return sessions_folder() / f"{check_name(name, 'session')}.jsonl"


def session_names() -> list[str]:
    """The names of the kept sessions, the one that was used last first."""
    dated: list[tuple[float, str]] = []
    with suppress(OSError):
        for path in filter(Path.is_file, sessions_folder().glob("*.jsonl")):
            with suppress(OSError, RequestError):
                dated.append((path.stat().st_mtime_ns, check_name(path.stem, "session")))
    return [name for _, name in sorted(dated, reverse=True)]


def existing(name: str) -> Path:
    """The file of a session.

    Raises:
        RequestError: the name is none, or no session has it; the message lists those there are.
    """
    path = _path(name)
    if not path.is_file():
        names = session_names()
        more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
        raise RequestError(
            f"no session is called {name!r}; there are: {', '.join(names[:SHOWN_NAMES]) or 'none yet'}{more}"
        )
    return path


def list_sessions() -> list[SessionInfo]:
    """The kept sessions, the one that was used last first. A file that cannot be read is listed without its content."""
    infos = []
    for name in session_names():
        path = _path(name)
        conversation = Conversation()
        with suppress(TurnmarkError):
            conversation, _ = read_session(name)
        first = conversation.exchanges[0].question if conversation.exchanges else ""
        with suppress(OSError):
            changed, turns = path.stat().st_mtime, len(conversation.exchanges)
            infos.append(
                SessionInfo(name=name, changed=changed, turns=turns, index=conversation.parts.index, question=first)
            )
    return infos


def read_session(name: str) -> tuple[Conversation, list[str]]:
    """What stands after the events of a session, and notes on lines that could not be read.

    Raises:
        RequestError: there is no such session, or it is of a later version.
        TurnmarkError: the file cannot be read.
    """
    notes: list[str] = []
    return _folded(_events(name, notes), name), notes


def _folded(events: Iterable[SessionEvent], name: str) -> Conversation:
    conversation = Conversation()
    for event in events:
        try:
            conversation.apply(event)
        except ValueError as error:
            raise RequestError(f"session {name!r}: {error}; use a newer Turnmark") from error
    return conversation


def _events(name: str, notes: list[str]) -> Iterator[SessionEvent]:
    try:
        lines = existing(name).read_bytes().split(b"\n")
    except OSError as error:
        raise TurnmarkError(f"session {name!r} cannot be read ({error.strerror or error})") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield _event(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                notes.append(TORN.format(name=name))
                continue
            problem = f"{error.error_count()} fields are wrong" if isinstance(error, ValidationError) else "not JSON"
            notes.append(f"session {name!r}, line {number}: no event ({problem}); left out")


def _event(line: bytes) -> SessionEvent:
    return EVENT.validate_python(json.loads(line.decode("utf-8")))


def delete_session(name: str) -> None:
    """Delete a session.

    Raises:
        RequestError: there is none by that name, or it is open in another chat.
    """
    path = existing(name)
    file = os.open(path, os.O_RDWR)
    try:
        _lock(file, name)
        path.unlink()
    finally:
        os.close(file)


def _lock(file: int, name: str) -> None:
    """One chat at a time writes a session; the lock goes with the process.

    Raises:
        RequestError: another one has it.
    """
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise RequestError(f"session {name!r} is open in another chat; leave that one first") from error


class Session:
    """A conversation with the file that keeps it; made by `new_session` and `resumed`.

    The file begins with the first turn, so that a chat in which nothing was asked leaves none.
    """

    def __init__(self, conversation: Conversation, name: str, keep: bool, waiting: Sequence[SessionEvent] = ()) -> None:
        self.conversation, self.name, self.keep = conversation, name, keep
        self._file: int | None = None
        self._waiting = list(waiting)

    @property
    def kept(self) -> bool:
        """Whether there is a file."""
        return self._file is not None

    def record(self, event: SessionEvent) -> None:
        """Take in an event and keep it.

        Raises:
            TurnmarkError: it could not be written; the conversation goes on without being kept.
        """
        self.conversation.apply(event)
        if self._file is None:
            self._waiting.append(event)
            if not self.keep or not any(isinstance(waiting, Turned) for waiting in self._waiting):
                return
            self._begin(self.name)
            return
        self._write([event])

    def save(self, name: str | None) -> str:
        """Keep the session from now on, under `name` if one is given; the name that it has then.

        Raises:
            RequestError: the name is none, or taken.
            TurnmarkError: it could not be written.
        """
        if name is not None and name != self.name:
            self._rename(name)
        self.keep = True
        if self._file is None:
            self._begin(self.name)
        return self.name

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _rename(self, name: str) -> None:
        target = _path(name)
        if self._file is None:
            if target.exists():
                raise RequestError(f"a session is called {name!r} already; take another name, or delete that one")
        else:
            try:
                # Unlike a rename, a link never replaces what is there.
                os.link(_path(self.name), target)
                _path(self.name).unlink()
            except FileExistsError as error:
                raise RequestError(
                    f"a session is called {name!r} already; take another name, or delete that one"
                ) from error
            except OSError as error:
                raise TurnmarkError(f"session {name!r} could not be written ({error.strerror or error})") from error
        self.name = name
        self.record(Named(name=name))

    def _begin(self, name: str) -> None:
        try:
            folder = sessions_folder()
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
            self._file = os.open(_path(name), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except OSError as error:
            self.keep = False
            raise _unsaved(error) from error
        _lock(self._file, name)
        waiting, self._waiting = self._waiting, []
        self._write(waiting)
        _flush_folder(folder)

    def reopen(self) -> list[str]:
        """Go on in the file that is there, after what can be read of it; a note where its last line is torn.

        Raises:
            RequestError: there is none, or another chat has it open.
            TurnmarkError: it cannot be written.
        """
        path = existing(self.name)
        try:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND)
            _lock(self._file, self.name)
            os.fchmod(self._file, 0o600)
            data = path.read_bytes()
            last = data[data.rfind(b"\n") + 1 :]
            if not last:
                return []
            try:
                _event(last)
                os.write(self._file, b"\n")
            except (ValueError, RecursionError):
                os.ftruncate(self._file, len(data) - len(last))
                return [TORN.format(name=self.name)]
        except OSError as error:
            self.close()
            raise TurnmarkError(f"session {self.name!r} cannot be written ({error.strerror or error})") from error
        except RequestError:
            self.close()
            raise
        return []

    def _write(self, events: list[SessionEvent]) -> None:
        assert self._file is not None, "there is a file before anything is written"
        rows = (json.dumps(storable(event.model_dump()), ensure_ascii=False, allow_nan=False) for event in events)
        remaining = "".join(f"{row}\n" for row in rows).encode("utf-8")
        try:
            while remaining:
                remaining = remaining[os.write(self._file, remaining) :]
            os.fsync(self._file)
        except OSError as error:
            # Nothing more is added after what may be half a line.
            self.close()
            self.keep = False
            raise _unsaved(error) from error


def _unsaved(error: OSError) -> TurnmarkError:
    return TurnmarkError(
        f"the session could not be kept ({error.strerror or error}); the conversation goes on without being kept"
    )


def _flush_folder(folder: Path) -> None:
    with suppress(OSError):
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def _new_name() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def new_session(began: Began, keep: bool = True) -> Session:
    """A session that begins now; its name is the time until it gets another."""
    session = Session(Conversation(), _new_name(), keep)
    session.record(began)
    return session


def resumed(name: str | None, keep: bool = True) -> tuple[Session, list[str]]:
    """A kept session to go on with, and notes on what could not be read of it.

    Args:
        name: None: the one that was used last.
        keep: False: its file is only read; the session that goes on is a new one.

    Raises:
        RequestError: there is none by that name, it is of a later version, or open in another chat.
        TurnmarkError: it cannot be read or written.
    """
    if name is None:
        names = session_names()
        if not names:
            raise RequestError("there is no session to resume yet; a chat keeps one from its first question on")
        name = names[0]
    notes: list[str] = []
    if not keep:
        events = list(_events(name, notes))
        return Session(_folded(events, name), _new_name(), False, events), notes
    session = Session(Conversation(), name, True)
    notes += session.reopen()
    try:
        session.conversation = _folded(_events(name, notes), name)
    except TurnmarkError:
        session.close()
        raise
    return session, notes
