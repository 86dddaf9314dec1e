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

PATIENCE = 60.0
QUIET, LULL = 0.3, 0.03
"""Seconds without a byte after which a screen is taken to be drawn, and after which it is worth a look."""


_PASTE_ON, _PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


class Terminal:
    """`turnmark …` on a terminal of 80 columns and 40 lines.

    `raw` is everything that was sent; `screen()` what a person would see, the history above the screen included.
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
        """Take in what comes, for some seconds at most and until nothing comes for a moment; whether anything did."""
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
        # A terminal answers when it is asked where the cursor is.
        for _ in range(text.count("\x1b[6n")):
            self.child.send(f"\x1b[{self._screen.cursor.y + 1};{self._screen.cursor.x + 1}R")
        return bool(text)

    def until(self, condition: str | Callable[[str], bool], patience: float = PATIENCE) -> str:
        """Wait until the screen shows a text, or a test of it holds; the screen then."""
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
        """Wait until an empty prompt is on the last line, and nothing moves; the screen then."""
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
        """Whether a prompt waits: one begins by taking pastes as a whole, and ends by not."""
        return self.raw.rfind(_PASTE_ON) > self.raw.rfind(_PASTE_OFF)

    def screen(self) -> str:
        """What is on the screen, and what has scrolled away above it."""
        top = self._screen.history.top
        self._above += [self._line(top[n]) for n in range(len(self._above), len(top))]
        visible = [self._line(self._screen.buffer[y]) for y in range(self._screen.lines)]
        return "\n".join([*self._above, *visible]).rstrip("\n")

    def _line(self, row: Any) -> str:
        return "".join(row[x].data for x in range(self._screen.columns)).rstrip()

    def ended(self) -> int:
        """Wait for the end; the exit code."""
        while True:
            try:
                self._read(1.0)
            except self.pexpect.EOF:
                break
        self.child.close()
        return int(self.child.exitstatus if self.child.exitstatus is not None else -self.child.signalstatus)


def assert_golden(name: str | Path, text: str, between: str = "") -> None:
    """A text is what a file of `golden/` holds, or the first stretch of another between two marks.

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
    """A screen without what differs from run to run: seconds, dates, names made of the time."""
    screen = re.sub(r"\d+\.\d+ s\b", "_._ s", screen)
    return re.sub(r"\d{8}-\d{6}-[0-9a-f]{4}", "DATE-TIME-NAME", screen)


def screen_of(raw: str, columns: int) -> str:
    """What a person sees of what was sent to a terminal."""
    pyte = pytest.importorskip("pyte")
    screen = pyte.Screen(columns, 200)
    pyte.Stream(screen).feed(raw.replace("\n", "\r\n"))
    return "\n".join(line.rstrip() for line in screen.display).rstrip("\n")
