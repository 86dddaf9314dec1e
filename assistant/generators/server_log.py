"""What of a server's log is shown to a person when it did not start."""

from __future__ import annotations

import os
import re
from pathlib import Path

from turnmark.corpora.text import printable

TAIL_LINES, TAIL_CHARACTERS, ERROR_CHARACTERS = 15, 2000, 600
_TRACEBACK = "Traceback (most recent call last)"
# The line that a traceback ends with, behind what a logger may have put before it.
_ERROR = re.compile(r"(?:^|\] )((?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)\b.*)$")


def tail(log: Path) -> str:
    """The last lines of a log, safe to print."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4 * TAIL_CHARACTERS))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    # A bar of progress writes one line over and over.
    lines = [line.rpartition("\r")[2].rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    shown = [printable(line) for line in lines if line.strip()][-TAIL_LINES:]
    return "\n".join(f"  {line}" for line in shown)[-TAIL_CHARACTERS:]


def first_error(log: Path) -> str:
    """What the first traceback of a log ends with; empty where there is none.

    A worker that fails takes its engine along, and that the server: the log ends with "see root cause above".
    """
    begun = False
    try:
        with open(log, encoding="utf-8", errors="replace") as file:
            for line in file:
                begun = begun or _TRACEBACK in line
                if begun and (found := _ERROR.search(line)):
                    return printable(found[1].strip())[:ERROR_CHARACTERS]
    except OSError:
        pass
    return ""
