"""Terminal input and output: reads standard input, prints JSON, shows progress, handles closed pipes."""

from __future__ import annotations

import html
import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

from turnmark.core.untrusted import one_line, valid_text

if TYPE_CHECKING:
    from rich.console import Console

# Characters that are legal in a JSON string but move the cursor, end a line or change the writing direction.
_ACTIVE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def notify(text: str) -> None:
    """Write a one-line note to standard error, e.g. that a server is starting or that a cache is damaged."""
    if sys.stderr is not None:
        sys.stderr.write(f"turnmark: {one_line(text)}\n")
        sys.stderr.flush()


def print_json(value: Any) -> None:
    """Print a JSON value on one line of standard output."""
    text = valid_text(json.dumps(value, ensure_ascii=False, allow_nan=False))
    text = _ACTIVE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text))
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def print_result(value: Any, as_json: bool, draw: Callable[[Console], object]) -> None:
    """Print a result: as a JSON value, or drawn on the screen."""
    if as_json:
        print_json(value)
        return
    from rich.console import Console

    draw(Console())


@contextmanager
def kept_on_interrupt(what: str) -> Iterator[None]:
    """Say on Ctrl-C which work is kept."""
    try:
        yield
    except KeyboardInterrupt:
        notify(f"{what}; the same command continues")
        raise


def print_lines(lines: Iterable[str], console: Console) -> None:
    """Print untrusted lines; the terminal wraps long ones, so that they can be copied."""
    from turnmark.core.untrusted import rich_line

    for line in lines:
        console.print(rich_line(line), soft_wrap=True)


def stdin_is_terminal() -> bool:
    """Return whether standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def stdin_lines() -> Iterator[str]:
    """Yield the lines of standard input, none if it is closed; replace bytes that are not UTF-8 with U+FFFD."""
    if sys.stdin is None:
        return
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "replace":
        sys.stdin.reconfigure(errors="replace")
    for number, line in enumerate(sys.stdin):
        yield valid_text(line.removeprefix("\ufeff") if number == 0 else line)


class OutputClosed(SystemExit):
    """The reader of our output closed the pipe (`turnmark … | head`). The command ends without an error.

    This is a SystemExit, so that no library catches it as an ordinary error.
    """

    def __init__(self) -> None:
        super().__init__(0)


class _GuardedStream:
    """A standard stream that ends the command when writing fails.

    If the pipe is closed, the command ends quietly; if the disk is full, it ends with an error. With `optional`, errors
    are ignored.
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
        # The first failure is raised again at each call, even if a caller has caught it before.
        if self._error is None:
            try:
                function(*arguments)
            except OSError as error:
                self._error = error
                self._silence()
        if isinstance(self._error, BrokenPipeError) and not self._optional:
            raise OutputClosed from None
        if self._error is not None and not self._optional:
            raise self._error

    def _silence(self) -> None:
        """Send buffered output to the null device, since the interpreter would try to write it again at exit."""
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Guard standard output and error against closed pipes, full disks and characters they cannot encode."""
    original_streams = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as null:
        output = original_streams[0] or null
        error_output = original_streams[1] or null
        for stream in (output, error_output):
            if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
                stream.reconfigure(errors="replace")
        sys.stdout = cast("TextIO", _GuardedStream(output, optional=False))
        sys.stderr = cast("TextIO", _GuardedStream(error_output, optional=True))
        try:
            yield
        finally:
            sys.stdout, sys.stderr = original_streams


PLAIN_INTERVAL_SECONDS = 10.0
"""Seconds between lines of `PlainProgress`."""
NOTEBOOK_INTERVAL_SECONDS = 0.3
"""Seconds between updates of `NotebookProgress`."""


class Progress(Protocol):
    """Receives the progress of work: the start of a phase, finished units, and a note, e.g. on failures or cost."""

    def start(self, phase: str, total: int | None) -> None: ...
    def advance(self, n: int = 1) -> None: ...
    def tell(self, text: str) -> None: ...


class NoProgress:
    """Progress that is not shown; for tests, and for callers that draw their own."""

    def start(self, phase: str, total: int | None) -> None: ...
    def advance(self, n: int = 1) -> None: ...
    def tell(self, text: str) -> None: ...


class PlainProgress:
    """Progress as lines of text, for logs and pipes: one at the start of a phase, and one every ten seconds."""

    interval = PLAIN_INTERVAL_SECONDS

    def __init__(self) -> None:
        self._phase, self._total, self._done, self._note = "", 0, 0, ""
        self._started = self._last_shown = 0.0

    def start(self, phase: str, total: int | None) -> None:
        self._phase, self._total, self._done, self._note = phase, total or 0, 0, ""
        self._started = self._last_shown = time.monotonic()
        self._write(f"{phase} …" if total is None else f"{phase}: {total}")

    def advance(self, n: int = 1) -> None:
        self._done += n
        now = time.monotonic()
        if now - self._last_shown < self.interval:
            return
        self._last_shown = now
        rate = self._done / (now - self._started)
        done = f"{self._done}/{self._total}" if self._total else self._done
        left = f"{(self._total - self._done) / rate:.0f} s left" if self._total and rate else ""
        parts = (f"{self._phase}: {done}", f"{rate:.1f}/s", left, self._note)
        self._write(", ".join(filter(None, parts)))

    def tell(self, text: str) -> None:
        self._note = text

    def _write(self, line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


class NotebookProgress(PlainProgress):
    """Progress as a bar and a line below the cell of a notebook, which are updated in place."""

    interval = NOTEBOOK_INTERVAL_SECONDS

    def __init__(self) -> None:
        super().__init__()
        display = import_module("IPython.display").display
        self._place = display({"text/plain": ""}, raw=True, display_id=True)

    def close(self) -> None:
        """Remove the bar."""
        self._place.update({"text/plain": "", "text/html": ""}, raw=True)

    def _write(self, line: str) -> None:
        share = f' max="{self._total}" value="{self._done}"' if self._total else ""
        shown = f"<progress{share}></progress> {html.escape(one_line(line))}"
        self._place.update({"text/plain": line, "text/html": shown}, raw=True)


def _is_notebook() -> bool:
    """Return whether standard error is the output below a cell of a Jupyter notebook."""
    return type(sys.stderr).__module__.partition(".")[0] == "ipykernel"


@contextmanager
def library_progress() -> Iterator[Progress]:
    """Show progress to a person, but write no lines into the log of a program that uses this package."""
    if _is_notebook() or sys.stderr.isatty():
        with shown_progress() as progress:
            yield progress
    else:
        yield NoProgress()


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Show a progress bar on a terminal or in a notebook, otherwise plain lines."""
    if _is_notebook():
        with closing(NotebookProgress()) as progress:
            yield progress
        return
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

        class BarProgress:
            task: TaskID | None = None

            def start(self, phase: str, total: int | None) -> None:
                if self.task is not None:
                    bar.remove_task(self.task)
                self.task = bar.add_task(phase, total=total, rate="", note="")

            def advance(self, n: int = 1) -> None:
                if self.task is not None:
                    bar.advance(self.task, n)
                    speed = bar.tasks[-1].speed
                    bar.update(self.task, rate=f"{speed:.1f}/s" if speed else "")

            def tell(self, text: str) -> None:
                if self.task is not None:
                    bar.update(self.task, note=text)

        yield BarProgress()
