"""A real terminal for tests: a process behind a pseudo-terminal, and the screen that it draws."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.patience import PATIENCE

QUIET, LULL = 0.3, 0.03
"""Seconds without output after which a screen counts as drawn, and seconds between looks at it."""


_PASTE_ON, _PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


class Terminal:
    """`turnmark …` on a terminal of 80 columns and 40 lines.

    `raw` is everything that was sent; `screen()` is what a user sees, with the lines above the screen.
    """

    def __init__(self, *arguments: str | Path, env: Mapping[str, str] | None = None, folder: Path = ROOT) -> None:
        self.pexpect: Any = pytest.importorskip("pexpect")
        pyte: Any = pytest.importorskip("pyte")
        self._screen = pyte.HistoryScreen(80, 40, history=5000, ratio=0.5)
        self._stream = pyte.Stream(self._screen)
        self.raw, self._above = "", list[str]()
        surroundings = {**os.environ, "TERM": "xterm-256color", **(env or {})}
        surroundings["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        for name in {"COLUMNS", "LINES", "NO_COLOR"} - set(env or ()):
            surroundings.pop(name, None)
        self.child = self.pexpect.spawn(
            sys.executable,
            ["-c", "from turnmark.cli import main; main()", *map(str, arguments)],
            cwd=str(folder),
            encoding="utf-8",
            timeout=PATIENCE,
            dimensions=(40, 80),
            env=surroundings,
        )
        self.child.delaybeforesend = 0

    def _read(self, seconds: float) -> bool:
        """Read output until there is a pause, for at most some seconds; return whether there was any."""
        ends, text = time.monotonic() + seconds, ""
        while (remaining := ends - time.monotonic()) > 0:
            try:
                text += self.child.read_nonblocking(65536, min(remaining, LULL) if text else remaining)
            except self.pexpect.TIMEOUT:
                break
            except self.pexpect.EOF:
                if not text:
                    raise
                break
        self.raw += text
        self._stream.feed(text)
        # A terminal answers queries for the cursor position.
        for _ in range(text.count("\x1b[6n")):
            self.child.send(f"\x1b[{self._screen.cursor.y + 1};{self._screen.cursor.x + 1}R")
        return bool(text)

    def until(self, condition: str | Callable[[str], bool], patience: float = PATIENCE) -> str:
        """Wait until the screen contains a text or satisfies a condition; return the screen."""
        test = condition if callable(condition) else lambda screen: condition in screen
        ends = time.monotonic() + patience
        while not test(self.screen()):
            assert time.monotonic() < ends, f"not on the screen: {condition!r}\n{self.screen()}"
            try:
                self._read(0.2)
            except self.pexpect.EOF:
                assert test(self.screen()), f"the process has ended; not on the screen: {condition!r}\n{self.screen()}"
        return self.screen()

    def at_prompt(self) -> str:
        """Wait until the last line is an empty prompt and nothing changes; return the screen."""
        self.until(lambda screen: self._asked() and screen.split("\n")[-1] == "›")
        while self._read(QUIET):
            pass
        return self.screen()

    def say(self, line: str) -> str:
        """Type a line and wait for the next prompt."""
        before = self.raw.count(_PASTE_OFF)
        self.child.send(line + "\r")
        self.until(lambda _: self.raw.count(_PASTE_OFF) > before)
        return self.at_prompt()

    def _asked(self) -> bool:
        """Return whether a prompt is waiting: it turns bracketed paste on at its start and off at its end."""
        return self.raw.rfind(_PASTE_ON) > self.raw.rfind(_PASTE_OFF)

    def screen(self) -> str:
        """Return the screen and the lines that have scrolled off it."""
        top = self._screen.history.top
        self._above += [self._line(top[n]) for n in range(len(self._above), len(top))]
        visible = [self._line(self._screen.buffer[y]) for y in range(self._screen.lines)]
        return "\n".join([*self._above, *visible]).rstrip("\n")

    @property
    def columns(self) -> int:
        """The width of the screen."""
        return int(self._screen.columns)

    def rows(self) -> list[list[Any]]:
        """Return the characters of `screen()` with their colors, row by row."""
        rows = [*self._screen.history.top, *(self._screen.buffer[y] for y in range(self._screen.lines))]
        drawn = [[row[x] for x in range(self.columns)] for row in rows]
        return drawn[: len(self.screen().split("\n"))]

    def _line(self, row: Any) -> str:
        return "".join(row[x].data for x in range(self._screen.columns)).rstrip()

    def ended(self) -> int:
        """Wait for the end; return the exit code."""
        while True:
            try:
                self._read(1.0)
            except self.pexpect.EOF:
                break
        self.child.close()
        return int(self.child.exitstatus if self.child.exitstatus is not None else -self.child.signalstatus)


def assert_golden(name: str | Path, text: str, between: str = "") -> None:
    """Assert that a text equals a file of `golden/`, or the first part of another file between two marks.

    TURNMARK_UPDATE_GOLDEN=1 writes it anew.
    """
    path = Path(__file__).parent / "golden" / name
    content = path.read_text(encoding="utf-8") if path.exists() else ""
    before, _, rest = content.partition(between) if between else ("", "", "")
    expected = f"{before}{text}{rest.partition(between)[2]}" if between else text
    if os.environ.get("TURNMARK_UPDATE_GOLDEN"):
        content = expected
        path.write_text(content, encoding="utf-8")
    assert expected == content


def steady(screen: str) -> str:
    """Return a screen without what differs between runs: seconds, dates and names made of the time."""
    screen = re.sub(r"\d+\.\d+ s\b", "_._ s", screen)
    return re.sub(r"\d{8}-\d{6}-[0-9a-f]{4}", "DATE-TIME-NAME", screen)


def screen_of(raw: str, columns: int) -> str:
    """Return what a user sees of the bytes sent to a terminal."""
    pyte = pytest.importorskip("pyte")
    screen = pyte.Screen(columns, 200)
    pyte.Stream(screen).feed(raw.replace("\n", "\r\n"))
    return "\n".join(line.rstrip() for line in screen.display).rstrip("\n")
