"""Reads files that may be broken or hostile in a separate process, with limits on memory and time.

A process (`turnmark.corpora.readers.worker`) is reused from file to file. If it crashes or exceeds its time, a new one
is started for the next file. Several threads read at once, each in a process of its own. Both sides write each message
as one line of JSON.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from turnmark.corpora.readers.common.prose import Unreadable, WrongFileType
from turnmark.corpora.types import Document, Problem


def module_process(module: str) -> tuple[list[str], dict[str, str]]:
    """Return the command and environment to run a module that can import what this process can.

    Modules in the current folder are not imported (`-P`).
    """
    path = os.pathsep.join(filter(None, sys.path))
    return [sys.executable, "-P", "-m", module], {**os.environ, "PYTHONPATH": path}


MAX_PROCESSES = min(4, os.cpu_count() or 1)
"""Number of files that are read at the same time; more wait. The limits below apply to each process."""
MAX_MEMORY_BYTES = 2 * 1024**3  # address space of a process
MAX_KEPT_BYTES = 600 * 1024**2  # a process that uses more memory is replaced after its file
MAX_PAGE_SECONDS = 60.0  # for one page
MAX_SLOW_PAGE_SECONDS = 240.0  # for one page whose method is reported, e.g. OCR
MAX_FILE_SECONDS = 900.0  # for one file
_TELL_INTERVAL_SECONDS = 1.0  # between two status lines for a user who is waiting

TellFunction = Callable[[str], None]


def read_isolated(
    target: str, path: Path, relative: str, tell: TellFunction = lambda _: None, pictures: Path | None = None
) -> Iterator[Document | Problem]:
    """Yield the documents of a file, read by the reader that `target` names (`turnmark.corpora.readers.registry`).

    Args:
        tell: called with the current file and page, first at the beginning and then about every second.
        pictures: existing folder to which its pictures are written, or None if they are only counted.

    Raises:
        Unreadable: the file cannot be read, or exceeds the limits.
        WrongFileType: the content does not match the suffix.
        OSError: the file cannot be opened.
    """
    with _borrowed_process() as worker:
        finished = False
        written_to = str(pictures.absolute()) if pictures else ""
        request = {"target": target, "path": str(path.absolute()), "relative": relative, "pictures": written_to}
        try:
            for message in worker.ask(request, relative, tell):
                if "document" in message:
                    yield Document.model_validate(message["document"])
                else:
                    yield Problem.model_validate(message["problem"])
            finished = True
        except (Unreadable, WrongFileType, OSError):
            finished = True
            raise
        finally:
            if not finished:  # the caller stopped early, so the rest of the file is not needed
                worker.end()


def draw_page(path: Path, page: int, marked: str, framed: Sequence[tuple[float, ...]] = ()) -> bytes:
    """Draw a page of a PDF as a PNG with the words of a passage marked, and some pictures framed
    (`turnmark.corpora.readers.pdf.page_picture`).

    Raises:
        Unreadable: the page cannot be drawn, or exceeds the limits.
        OSError: it cannot be opened.
    """
    request = {"target": "", "path": str(path.absolute()), "page": page, "marked": marked, "framed": list(framed)}
    with _borrowed_process() as worker:
        (message,) = worker.ask(request, path.name, lambda _: None)
    return base64.b64decode(message["png"])


@dataclass
class _FileProgress:
    """Progress on one file; `seconds` is the time spent waiting."""

    relative: str
    page: int = 0
    pages: int = 0
    how: str = ""
    seconds: float = 0.0

    def describe(self) -> str:
        """Describe the progress in words."""
        page = f", page {self.page:,} of {self.pages:,}" if self.pages else ""
        how = f" ({self.how})" if self.how else ""
        return f"reading {self.relative}{page}{how}"


class _ReaderProcess:
    """A handle to a worker process."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        command, environment = module_process("turnmark.corpora.readers.worker")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # so that it can be ended together with its child processes
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, output = self._process.stdin, self._process.stdout
        # Bounded, so that only a few documents of a large file wait in memory.
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue(maxsize=32)
        threading.Thread(target=_collect, args=(output, self._messages), daemon=True).start()
        self.ended = False

    def ask(self, request: dict[str, Any], relative: str, tell: TellFunction) -> Iterator[dict[str, Any]]:
        """Send a request about one file and yield the replies."""
        state = _FileProgress(relative)
        tell(state.describe())
        try:
            self._input.write(encode_message(request))
            self._input.flush()
        except OSError:
            raise self._crash_error(state) from None
        while True:
            message = self._message(state, tell)
            if "page" in message:
                state.page, state.pages, state.how = message["page"], message["pages"], message["how"]
                if state.how:
                    tell(state.describe())
                continue
            if "last" in message:
                break
            yield message
        if message["last"]:
            self.end()
        if "errno" in message:
            raise OSError(message["errno"], os.strerror(message["errno"]))
        if "unreadable" in message:
            raise Unreadable(message["unreadable"], message["line"], message["binary"])
        if "other" in message:
            raise WrongFileType

    def _message(self, state: _FileProgress, tell: TellFunction) -> dict[str, Any]:
        """Return the next message. While waiting, keep reporting the progress."""
        waited = 0.0
        while True:
            usual = min(MAX_PAGE_SECONDS - waited, MAX_FILE_SECONDS - state.seconds)
            limit = MAX_SLOW_PAGE_SECONDS - waited if state.how else usual
            if limit <= 0:
                raise self._timeout_error(state)
            began = time.monotonic()
            try:
                message = self._messages.get(timeout=min(limit, _TELL_INTERVAL_SECONDS))
            except queue.Empty:
                message = {}
            spent = time.monotonic() - began
            waited += spent
            state.seconds += 0 if state.how else spent
            if message is None:
                raise self._crash_error(state)
            if message:
                return message
            tell(state.describe())

    def _timeout_error(self, state: _FileProgress) -> Unreadable:
        self.end()
        usual = MAX_FILE_SECONDS if state.seconds >= MAX_FILE_SECONDS else MAX_PAGE_SECONDS
        seconds = MAX_SLOW_PAGE_SECONDS if state.how else usual
        where = f" at page {state.page + 1} of {state.pages}" if state.pages else ""
        return Unreadable(
            f"given up after {seconds:.0f} seconds{where}; open it and print or save it to a new file, or split it"
        )

    def _crash_error(self, state: _FileProgress) -> Unreadable:
        self.end()
        where = f" after page {state.page}" if state.page else ""
        return Unreadable(
            f"stopped its reader{where}: it is broken, or needs more than {MAX_MEMORY_BYTES // 1024**3} GB of memory; "
            "open it and print or save it to a new file"
        )

    def end(self) -> None:
        """End the process and its child processes."""
        self.ended = True
        with suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        with suppress(OSError):
            self._input.close()


def _collect(output: IO[bytes], messages: queue.Queue[dict[str, Any] | None]) -> None:
    with output:
        for line in output:
            messages.put(json.loads(line))
    messages.put(None)


def encode_message(message: dict[str, Any]) -> bytes:
    """Encode a message for the pipe."""
    return json.dumps(message).encode() + b"\n"


_free: queue.LifoQueue[_ReaderProcess | None] = queue.LifoQueue()
for _ in range(MAX_PROCESSES):
    _free.put(None)
_started: weakref.WeakSet[_ReaderProcess] = weakref.WeakSet()


@contextmanager
def _borrowed_process() -> Iterator[_ReaderProcess]:
    """Lend a process that reads nothing else, and keep it for the next file."""
    process = _free.get()
    try:
        if process is None or process.ended or process.owner != os.getpid():
            process = _ReaderProcess()
            _started.add(process)
        yield process
    finally:
        _free.put(process)


@atexit.register
def end_processes() -> None:
    """End all processes; the next file starts a new one."""
    for process in list(_started):
        if not process.ended and process.owner == os.getpid():
            process.end()
