"""The process that reads files for `turnmark.corpora.readers.isolation`: answers requests until there are no more."""

from __future__ import annotations

import base64
import errno
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from turnmark.corpora.readers.isolation import MAX_KEPT_BYTES, MAX_MEMORY_BYTES, encode_message
from turnmark.corpora.readers.prose import NotOfItsType, Unreadable
from turnmark.corpora.readers.registry import load
from turnmark.corpora.types import Document

_PROGRESS_INTERVAL_SECONDS = 0.5  # seconds between two messages that work goes on

SendFunction = Callable[[dict[str, Any]], None]


def main() -> None:
    """Answer each request with messages; in the last one `last` says whether this process is too large to be kept."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no message
    _limit_memory()

    def send(message: dict[str, Any]) -> None:
        output.write(encode_message(message))
        output.flush()

    for line in sys.stdin.buffer:
        end = _handle(json.loads(line), send)
        send({**end, "last": _has_grown()})


def _handle(request: dict[str, Any], send: SendFunction) -> dict[str, Any]:
    """Do what is asked; what went wrong, as a message."""
    try:
        if request["target"]:
            _read(request, send)
        else:
            _draw(request, send)
        return {}
    except Unreadable as error:
        return {"unreadable": str(error), "line": error.line, "binary": error.binary}
    except NotOfItsType:
        return {"other": True}
    except MemoryError:
        return _unreadable(f"needs more than {MAX_MEMORY_BYTES // 1024**3} GB of memory; split it")
    except OSError as error:
        return {"errno": error.errno or errno.EIO}
    except RecursionError:
        return _unreadable("nested too deeply; open it and save it again")
    except Exception as error:
        # Readers of third parties raise what they like, and a broken file makes a library fail anywhere.
        return _unreadable(f"its reader failed ({_cause(error)}); it is broken, or of a kind that cannot be read")


def _read(request: dict[str, Any], send: SendFunction) -> None:
    """Send the documents and problems of a file."""
    told = 0.0  # when; what follows a page of which it was said how it is read is told at once

    def progress(page: int, pages: int, how: str = "") -> None:
        nonlocal told
        if how or time.monotonic() - told >= _PROGRESS_INTERVAL_SECONDS:
            told = 0.0 if how else time.monotonic()
            send({"page": page, "pages": pages, "how": how})

    result = load(request["target"])(Path(request["path"]), request["relative"], progress)
    for item in [result] if isinstance(result, Document) else result:
        kind = "document" if isinstance(item, Document) else "problem"
        send({kind: item.model_dump(mode="json")})


def _draw(request: dict[str, Any], send: SendFunction) -> None:
    """Send the picture of a page."""
    from turnmark.corpora.readers.pdf.picture import page_picture

    picture = page_picture(Path(request["path"]), request["page"], request["marked"])
    send({"png": base64.b64encode(picture).decode("ascii")})


def _unreadable(message: str) -> dict[str, Any]:
    return {"unreadable": message, "line": None, "binary": False}


def _cause(error: BaseException) -> str:
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first[:200]}" if first else type(error).__name__


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = MAX_MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MAX_MEMORY_BYTES, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _has_grown() -> bool:
    if sys.platform == "linux":
        # ru_maxrss begins with the size of the process that started this one, so it says nothing here.
        resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return resident * os.sysconf("SC_PAGE_SIZE") > MAX_KEPT_BYTES
    try:
        import resource
    except ImportError:
        return False
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used * (1 if sys.platform == "darwin" else 1024) > MAX_KEPT_BYTES


if __name__ == "__main__":
    main()
