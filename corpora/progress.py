"""Progress of long work, on standard error: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

PLAIN_EVERY = 10.0


class Progress(Protocol):
    """Told of work as it is done."""

    def start(self, what: str, total: int | None) -> None:
        """A new phase begins; `total` units of it, if known."""
        ...

    def advance(self, n: int = 1) -> None:
        """`n` more units are done."""
        ...

    def tell(self, text: str) -> None:
        """What else is known of the work: failures, tokens, cost. Shown with the next sign of life."""
        ...


class NoProgress:
    """Says nothing; for tests and for callers that draw their own."""

    def start(self, what: str, total: int | None) -> None:
        """See `Progress.start`."""

    def advance(self, n: int = 1) -> None:
        """See `Progress.advance`."""

    def tell(self, text: str) -> None:
        """See `Progress.tell`."""


class PlainProgress:
    """One line at the start of a phase and every ten seconds, with rate and time left; for logs and pipes."""

    def __init__(self) -> None:
        self._what, self._total, self._done, self._told = "", 0, 0, ""
        self._began = self._said = 0.0

    def start(self, what: str, total: int | None) -> None:
        """See `Progress.start`."""
        self._what, self._total, self._done, self._told = what, total or 0, 0, ""
        self._began = self._said = time.monotonic()
        sys.stderr.write(f"{what}: {total if total is not None else '?'}\n")
        sys.stderr.flush()

    def advance(self, n: int = 1) -> None:
        """See `Progress.advance`."""
        self._done += n
        now = time.monotonic()
        if now - self._said >= PLAIN_EVERY:
            self._said = now
            rate = self._done / (now - self._began)
            left = f", {(self._total - self._done) / rate:.0f} s left" if self._total and rate else ""
            told = f", {self._told}" if self._told else ""
            sys.stderr.write(f"{self._what}: {self._done}/{self._total or '?'}, {rate:.1f}/s{left}{told}\n")
            sys.stderr.flush()

    def tell(self, text: str) -> None:
        """See `Progress.tell`."""
        self._told = text


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """A rich bar when standard error is a terminal, plain lines when it is not."""
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
        TextColumn("{task.fields[told]}", markup=False),
        console=Console(stderr=True),
        transient=True,
    ) as bar:

        class Shown:
            task: TaskID | None = None

            def start(self, what: str, total: int | None) -> None:
                if self.task is not None:
                    bar.remove_task(self.task)
                self.task = bar.add_task(what, total=total, rate="", told="")

            def advance(self, n: int = 1) -> None:
                if self.task is not None:
                    bar.advance(self.task, n)
                    speed = bar.tasks[-1].speed
                    bar.update(self.task, rate=f"{speed:.1f}/s" if speed else "")

            def tell(self, text: str) -> None:
                if self.task is not None:
                    bar.update(self.task, told=text)

        yield Shown()
