"""What goes to the terminal and what comes from it: untrusted text escaped, bytes that are not UTF-8, closed pipes."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TextIO, cast

_ONE_LINE = str.maketrans({"\n": "␤", "\u2028": "␤", "\u2029": "␤", "\t": " "})
_SURROGATES = re.compile("[\ud800-\udfff]")
# What JSON lets stand inside a string though it moves a cursor, ends a line or turns the direction of writing.
_ACTIVE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    # OSC, DCS, SOS, PM, APC. None begins inside another: text of nothing but beginnings is read once, not squared.
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\x9d\x90\x98\x9e\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """Untrusted text made safe for a terminal: no escape sequences, control, bidi or zero-width characters.

    Newline and tab stay; half a surrogate pair becomes U+FFFD.
    """
    return _SURROGATES.sub("\ufffd", _UNSEEN.sub("", _ESCAPES.sub("", text)))


def inert(text: object) -> str:
    """A value of unknown origin as one escaped line: control characters go, a line end is seen as ␤, a tab as a space.

    Whatever was named by a file, a person or a model is written through this, so that it cannot forge a line of ours.
    """
    return printable(str(text)).translate(_ONE_LINE)


def valid_text(text: str) -> str:
    """Text from outside with U+FFFD for each byte that is not UTF-8 (half a surrogate pair)."""
    return _SURROGATES.sub("\ufffd", text)


def ellipsize(text: str, most: int) -> str:
    """The first letters of a text; with an ellipsis where there are more."""
    return text if len(text) <= most else f"{text[:most]}…"


def notify(text: str) -> None:
    """A note for the person on standard error, one line: that a server starts, that a cache was damaged."""
    if sys.stderr is not None:
        sys.stderr.write(f"turnmark: {inert(text)}\n")
        sys.stderr.flush()


def print_json(value: Any) -> None:
    """One JSON object on standard output, in one line, and nothing else there."""
    text = valid_text(json.dumps(value, ensure_ascii=False, allow_nan=False))
    text = _ACTIVE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text))
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def stdin_is_terminal() -> bool:
    """Whether a person types standard input."""
    return sys.stdin is not None and sys.stdin.isatty()


def stdin_lines() -> Iterator[str]:
    """The lines of standard input as text; none where it is closed. A byte that is not UTF-8 becomes U+FFFD."""
    if sys.stdin is None:
        return
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "replace":
        sys.stdin.reconfigure(errors="replace")
    for number, line in enumerate(sys.stdin):
        yield valid_text(line.removeprefix("\ufeff") if number == 0 else line)


class ReaderGone(SystemExit):
    """Whoever read our output has left (`turnmark … | head`): the work ends, and that is no failure.

    A SystemExit, so that no library on the way takes it for an error of its own.
    """

    def __init__(self) -> None:
        super().__init__(0)


class _Guarded:
    """A standard stream whose failing writes end the command as they should.

    A closed pipe ends it quietly, a full disk loudly; without standard error (`optional`) the work goes on.
    """

    def __init__(self, stream: TextIO, optional: bool) -> None:
        self._stream, self._optional = stream, optional
        self._error: OSError | None = None

    def write(self, text: str) -> int:
        self._call(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        self._call(self._stream.flush)

    def _call(self, function: Callable[..., object], *arguments: str) -> None:
        # A failure stays one, even if somebody on the way caught it: what could not be written is never forgotten.
        if self._error is None:
            try:
                function(*arguments)
            except OSError as error:
                self._error = error
                self._silence()
        if isinstance(self._error, BrokenPipeError) and not self._optional:
            raise ReaderGone from None
        if self._error is not None and not self._optional:
            raise self._error

    def _silence(self) -> None:
        """Let what is still buffered go nowhere: the interpreter writes it once more at its end."""
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Standard output and error, guarded against closed pipes, full disks and characters they cannot encode."""
    original_streams = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as null:
        output, err = original_streams[0] or null, original_streams[1] or null
        for stream in (output, err):
            if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
                stream.reconfigure(errors="replace")
        sys.stdout = cast("TextIO", _Guarded(output, optional=False))
        sys.stderr = cast("TextIO", _Guarded(err, optional=True))
        try:
            yield
        finally:
            sys.stdout, sys.stderr = original_streams


PLAIN_EVERY = 10.0


class Progress(Protocol):
    """Is notified of work as it is done: a phase begins, units of it are done, what else is known (failures, cost)."""

    def start(self, what: str, total: int | None) -> None: ...
    def advance(self, n: int = 1) -> None: ...
    def tell(self, text: str) -> None: ...


class NoProgress:
    """Says nothing; for tests and for callers that draw their own."""

    def start(self, what: str, total: int | None) -> None: ...
    def advance(self, n: int = 1) -> None: ...
    def tell(self, text: str) -> None: ...


class PlainProgress:
    """One line at the start of a phase and every ten seconds, with rate and time left; for logs and pipes."""

    def __init__(self) -> None:
        self._what, self._total, self._done, self._note = "", 0, 0, ""
        self._began = self._said = 0.0

    def start(self, phase: str, total: int | None) -> None:
        self._what, self._total, self._done, self._note = phase, total or 0, 0, ""
        self._began = self._said = time.monotonic()
        sys.stderr.write(f"{phase} …\n" if total is None else f"{phase}: {total}\n")
        sys.stderr.flush()

    def advance(self, n: int = 1) -> None:
        self._done += n
        seconds = time.monotonic()
        if seconds - self._said >= PLAIN_EVERY:
            self._said = seconds
            rate = self._done / (seconds - self._began)
            eta = f", {(self._total - self._done) / rate:.0f} s left" if self._total and rate else ""
            extra = f", {self._note}" if self._note else ""
            done = f"{self._done}/{self._total}" if self._total else str(self._done)
            sys.stderr.write(f"{self._what}: {done}, {rate:.1f}/s{eta}{extra}\n")
            sys.stderr.flush()

    def tell(self, text: str) -> None:
        self._note = text


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """A rich bar when standard error is a terminal, plain lines when it is not."""
    if not sys.stderr.isatty():
        yield PlainProgress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    with Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=Console(stderr=True),
        transient=True,
    ) as bar:

        class Shown:
            task: TaskID | None = None

            def start(self, what: str, total: int | None) -> None:
                if self.task is not None:
                    bar.remove_task(self.task)
                self.task = bar.add_task(what, total=total, rate="", note="")

            def advance(self, n: int = 1) -> None:
                if self.task is not None:
                    bar.advance(self.task, n)
                    speed = bar.tasks[-1].speed
                    bar.update(self.task, rate=f"{speed:.1f}/s" if speed else "")

            def tell(self, text: str) -> None:
                if self.task is not None:
                    bar.update(self.task, note=text)

        yield Shown()
