"""Files that may be broken or hostile are read in a process of their own, with a limit of memory and of time.

The process is kept from file to file; one that crashes, or is ended for its time, is replaced for the next file. Both
sides write a line of JSON for each message.
"""

from __future__ import annotations

import atexit
import base64
import errno
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from turnmark.corpora.readers.prose import Unreadable
from turnmark.corpora.types import Document

MEMORY = 2 * 1024**3  # bytes of address space that the process may have
KEPT = 600 * 1024**2  # bytes: a process that has grown larger is replaced after its file
STEP = 60.0  # seconds that one page may take
TOTAL = 900.0  # seconds that one file may take
_PULSE = 0.5  # seconds between two messages that work goes on

Progress = Callable[[int, int], None]
Reader = Callable[[Path, str, Progress], Document]


def _reader(kind: str) -> Reader:
    if kind == "pdf":
        from turnmark.corpora.readers.pdf import read_pdf

        return read_pdf
    raise ValueError(kind)


def read_apart(kind: str, path: Path, relative: str) -> Document:
    """The Document of a file, read by the reader called `kind`.

    Raises:
        Unreadable: it cannot be read, or not within the limits.
        OSError: it cannot be opened.
    """
    with _lock:
        message = _running().ask({"kind": kind, "path": str(path.absolute()), "relative": relative})
    return Document.model_validate(message["document"])


def draw_page(path: Path, page: int, marked: str) -> bytes:
    """A page of a PDF as a PNG, with the words of a passage marked; see `turnmark.corpora.readers.pdf.picture`.

    Raises:
        Unreadable: it cannot be drawn, or not within the limits.
        OSError: it cannot be opened.
    """
    with _lock:
        message = _running().ask({"kind": "picture", "path": str(path.absolute()), "page": page, "marked": marked})
    return base64.b64decode(message["png"])


class _Worker:
    """The process, seen from outside."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        # -P keeps modules that lie in the current folder from being imported.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "turnmark.corpora.readers.apart"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, output = self._process.stdin, self._process.stdout
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=_collect, args=(output, self._messages), daemon=True).start()
        self.ended = False

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request about one file."""
        page, pages = 0, 0
        began = time.monotonic()
        try:
            self._input.write(_line(request))
            self._input.flush()
            while True:
                left = min(STEP, TOTAL - (time.monotonic() - began))
                message = self._messages.get(timeout=max(left, 0.01))
                if message is None:
                    raise self._crashed(page)
                if "page" not in message:
                    break
                page, pages = message["page"], message["pages"]
        except queue.Empty:
            self.end()
            seconds = TOTAL if time.monotonic() - began >= TOTAL else STEP
            where = f"page {page + 1} of {pages}" if pages else "its first page"
            raise Unreadable(
                f"given up after {seconds:.0f} seconds at {where}; open it and print it to a new file, or split it"
            ) from None
        except OSError:
            raise self._crashed(page) from None
        if message["last"]:
            self.end()
        if "errno" in message:
            raise OSError(message["errno"], os.strerror(message["errno"]))
        if "unreadable" in message:
            raise Unreadable(message["unreadable"], message["line"], message["binary"])
        return message

    def _crashed(self, page: int) -> Unreadable:
        self.end()
        where = f" after page {page}" if page else ""
        return Unreadable(
            f"stopped its reader{where}: it is broken, or needs more than {MEMORY // 1024**3} GB of memory; "
            "open it and print it to a new file"
        )

    def end(self) -> None:
        """End the process."""
        self.ended = True
        self._process.kill()
        self._process.wait()
        with suppress(OSError):
            self._input.close()


def _collect(output: IO[bytes], messages: queue.Queue[dict[str, Any] | None]) -> None:
    with output:
        for line in output:
            messages.put(json.loads(line))
    messages.put(None)


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


_lock = threading.Lock()
_worker: _Worker | None = None


def _running() -> _Worker:
    global _worker
    if _worker is None or _worker.ended or _worker.owner != os.getpid():
        _worker = _Worker()
    return _worker


@atexit.register
def _end() -> None:
    if _worker is not None and not _worker.ended and _worker.owner == os.getpid():
        _worker.end()


# --- inside the process ----------------------------------------------------------------------------------------------


def main() -> None:
    """Answer requests until there are no more."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no message
    _limit_memory()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        answer = _answer(request, output)
        answer["last"] = _grown()
        output.write(_line(answer))
        output.flush()


def _answer(request: dict[str, Any], output: IO[bytes]) -> dict[str, Any]:
    last = 0.0

    def progress(page: int, pages: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _PULSE:
            last = time.monotonic()
            output.write(_line({"page": page, "pages": pages}))
            output.flush()

    try:
        if request["kind"] == "picture":
            from turnmark.corpora.readers.pdf.picture import page_picture

            picture = page_picture(Path(request["path"]), request["page"], request["marked"])
            return {"png": base64.b64encode(picture).decode("ascii")}
        document = _reader(request["kind"])(Path(request["path"]), request["relative"], progress)
        return {"document": document.model_dump(mode="json")}
    except Unreadable as error:
        return {"unreadable": str(error), "line": error.line, "binary": error.binary}
    except MemoryError:
        return {
            "unreadable": f"needs more than {MEMORY // 1024**3} GB of memory; split it",
            "line": None,
            "binary": False,
        }
    except OSError as error:
        return {"errno": error.errno or errno.EIO}


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _grown() -> bool:
    if sys.platform == "linux":
        # ru_maxrss begins with the size of the process that started this one, so it says nothing here.
        resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return resident * os.sysconf("SC_PAGE_SIZE") > KEPT
    try:
        import resource
    except ImportError:
        return False
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used * (1 if sys.platform == "darwin" else 1024) > KEPT


if __name__ == "__main__":
    main()
