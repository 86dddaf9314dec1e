"""What stops one file and nothing else."""

from __future__ import annotations


class Unreadable(Exception):
    """A file that gives no document; becomes a Problem. The message says what is wrong and what to do.

    Args:
        line: 1-based line, where there is one to point at.
        binary: the file is no text at all, so a glob that matches everything cannot have meant it.
    """

    def __init__(self, what: str, line: int | None = None, binary: bool = False) -> None:
        super().__init__(what)
        self.line = line
        self.binary = binary
