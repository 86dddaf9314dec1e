"""The worker process of `turnmark.corpora.readers.isolation`: reads files on request until its input ends."""

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
from pkgutil import resolve_name
from typing import Any

from turnmark.corpora.readers.common.prose import Unreadable, WrongFileType, first_line
from turnmark.corpora.readers.isolation import MAX_KEPT_BYTES, MAX_MEMORY_BYTES, encode_message
from turnmark.corpora.readers.pictures.collector import pictures_into
from turnmark.corpora.types import Document

_PROGRESS_INTERVAL_SECONDS = 0.5  # between two progress messages

SendFunction = Callable[[dict[str, Any]], None]


def main() -> None:
    """Answer each request with messages. In the final one, `last` says whether this process has grown too large."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep what libraries print out of the messages
    _limit_memory()

    def send(message: dict[str, Any]) -> None:
        output.write(encode_message(message))
        output.flush()

    for line in sys.stdin.buffer:
        end = _handle(json.loads(line), send)
        send({**end, "last": _has_grown()})


def _handle(request: dict[str, Any], send: SendFunction) -> dict[str, Any]:
    """Handle a request and return its final message, which describes any error."""
    try:
        if request["target"]:
            _read(request, send)
        else:
            _draw(request, send)
        return {}
    except Unreadable as error:
        return {"unreadable": str(error), "line": error.line, "binary": error.binary}
    except WrongFileType:
        return {"other": True}
    except MemoryError:
        return _describe_unreadable(f"needs more than {MAX_MEMORY_BYTES // 1024**3} GB of memory; split it")
    except OSError as error:
        return {"errno": error.errno or errno.EIO}
    except RecursionError:
        return _describe_unreadable("nested too deeply; open it and save it again")
    except Exception as error:
        # Third-party readers may raise anything, and a broken file can make a library fail anywhere.
        kind, first = type(error).__name__, first_line(error)
        cause = kind if first == kind else f"{kind}: {first}"
        return _describe_unreadable(f"its reader failed ({cause}); it is broken, or of a kind that cannot be read")


def _read(request: dict[str, Any], send: SendFunction) -> None:
    """Send the documents and problems of a file."""
    told = 0.0  # time of the last message; 0: the next one is sent at once, since a method was reported

    def progress(page: int, pages: int, how: str = "") -> None:
        nonlocal told
        if how or time.monotonic() - told >= _PROGRESS_INTERVAL_SECONDS:
            told = 0.0 if how else time.monotonic()
            send({"page": page, "pages": pages, "how": how})

    folder = Path(request["pictures"]) if request["pictures"] else None
    with pictures_into(folder):
        result = resolve_name(request["target"])(Path(request["path"]), request["relative"], progress)
        for item in [result] if isinstance(result, Document) else result:
            kind = "document" if isinstance(item, Document) else "problem"
            send({kind: item.model_dump(mode="json")})


def _draw(request: dict[str, Any], send: SendFunction) -> None:
    """Send the picture of a page."""
    from turnmark.corpora.readers.pdf.page_picture import page_picture

    picture = page_picture(Path(request["path"]), request["page"], request["marked"], request["framed"])
    send({"png": base64.b64encode(picture).decode("ascii")})


def _describe_unreadable(message: str) -> dict[str, Any]:
    return {"unreadable": message, "line": None, "binary": False}


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
        # On Linux, ru_maxrss starts from the size of the parent process, so it cannot be used here.
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
