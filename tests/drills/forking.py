"""Run `turnmark` in a fork of this process, which has imported the libraries. This saves a second per try.

Nothing here may have started a thread before it forks: a lock that another thread holds would be held for ever.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

SECONDS = 300.0
"""A child that takes longer hangs."""


@dataclass(frozen=True)
class Ended:
    """The end of a child: its exit code (negative: the signal), its output, and its duration."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def killed(self) -> bool:
        """Return whether the child was killed before it ended by itself."""
        return self.code == -signal.SIGKILL


def warm() -> None:
    """Import the modules that the children need."""
    import bm25s  # noqa: F401
    import chromadb  # noqa: F401
    import numpy  # noqa: F401
    import sentence_transformers  # noqa: F401
    import watchfiles  # noqa: F401

    import turnmark.app
    import turnmark.assistant.repl.chat_loop
    import turnmark.assistant.steps.answer.answer_quotes
    import turnmark.assistant.turn.reopen
    import turnmark.retrieval.index.build  # noqa: F401


def turnmark(
    *words: str | Path,
    home: Path,
    folder: Path,
    stdin: str = "",
    kill_after: float | None = None,
    environment: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
    meanwhile: Callable[[], None] = lambda: None,
    seconds: float = SECONDS,
) -> Ended:
    """Run the command in a fork: killed after `kill_after` seconds, else TimeoutError if it does not end.

    What is printed goes into files of `folder`, where it works; `before` is called in the child, such as to limit it;
    `meanwhile` is called here about every millisecond while it runs.
    """
    out, err = folder / ".out", folder / ".err"
    (folder / ".in").write_text(stdin, encoding="utf-8")
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        _child([str(word) for word in words], home, folder, dict(environment or {}), before)
    code = _wait(child, began, kill_after, seconds, meanwhile)
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in (out, err)]
    return Ended(code, *texts, time.monotonic() - began)


def _wait(child: int, began: float, kill_after: float | None, seconds: float, meanwhile: Callable[[], None]) -> int:
    ends = began + (seconds if kill_after is None else kill_after)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= ends:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            if kill_after is None:
                raise TimeoutError(f"hangs: no end after {seconds:.0f} s")
            return os.waitstatus_to_exitcode(status)
        meanwhile()
        time.sleep(0.001)


def _child(
    words: list[str], home: Path, folder: Path, environment: dict[str, str], before: Callable[[], None] | None
) -> None:
    """Run in the child; never return."""
    code = 70
    try:
        for stream, name, mode in ((0, ".in", os.O_RDONLY), (1, ".out", _FRESH), (2, ".err", _FRESH)):
            file = os.open(folder / name, mode, 0o600)
            os.dup2(file, stream)
            os.close(file)
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False, buffering=1)
        os.chdir(folder)
        os.environ.update({"TURNMARK_HOME": str(home), "NO_COLOR": "1", "COLUMNS": "200"} | environment)
        sys.argv = ["turnmark", *words]
        if before is not None:
            before()
        from turnmark.app import run_command_line

        code = run_command_line()
        sys.stdout.flush()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 70
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


_FRESH = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def fine(ended: Ended, *codes: int) -> Ended:
    """Assert that a child ended with one of these exit codes (default: 0) and a readable message."""
    last_line = ended.err.strip().splitlines()[-1:] or [""]
    assert "Traceback (most recent call last)" not in ended.err + ended.out, f"a traceback: {last_line[0]}"
    assert ended.code in (codes or (0,)), f"exit {ended.code}: {last_line[0]}"
    return ended
