"""A build of an index in a thread of its own, while a conversation or a server goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from turnmark.core.console import Progress
from turnmark.core.errors import TurnmarkError
from turnmark.core.untrusted import one_line
from turnmark.retrieval.index.build import MAX_UNPUBLISHED_CONTENTS, BuildReport

STATUS_SECONDS = 0.2
"""Seconds between two looks at the status of the build."""
STOP_SECONDS = 20.0
"""Time that a build is given to notice a request to stop."""
MIN_ESTIMATED_SECONDS = 2.0
"""Time after the start of a phase from which on the time left is shown."""


class BuildStopped(Exception):
    """The user left during a build. The next build continues it."""


class BuildStatus:
    """The progress of a build that runs in another thread. It ends the build at its next step once `stop` is set."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self._phase, self._total, self._done, self._note, self._began = "starting", 0, 0, "", time.monotonic()

    def start(self, phase: str, total: int | None) -> None:
        self._check()
        self._phase, self._total, self._done, self._note, self._began = phase, total or 0, 0, "", time.monotonic()

    def advance(self, n: int = 1) -> None:
        self._check()
        self._done += n

    def tell(self, text: str) -> None:
        self._check()
        self._note = text

    def _check(self) -> None:
        if self.stop.is_set():
            raise BuildStopped

    @property
    def can_be_asked(self) -> bool:
        """Whether the index can be asked by words, while many passages are embedded."""
        return self._phase == "embedding" and self._total > MAX_UNPUBLISHED_CONTENTS

    def describe(self) -> str:
        """Return a line such as "building the index: embedding 420 of 850, 12 s left"."""
        line = f"building the index: {self._phase}"
        if self._total:
            line += f" {min(self._done, self._total):,} of {self._total:,}"
            seconds = time.monotonic() - self._began
            if self._done and seconds > MIN_ESTIMATED_SECONDS:
                line += f", {max(0, self._total - self._done) * seconds / self._done:.0f} s left"
        elif self._done:
            line += f" {self._done:,}"
        note = self._note.removeprefix(f"{self._phase} ")
        return f"{line}, {note}" if note else line


class BackgroundBuild:
    """A build in a thread of its own.

    Args:
        build: builds the index, and reports to the given progress.
    """

    def __init__(self, build: Callable[[Progress], BuildReport]) -> None:
        self.status = BuildStatus()
        self._build = build
        self._report: BuildReport | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="turnmark-build", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._report = self._build(self.status)
        except BaseException as error:  # raised again by `report`
            self._error = error

    @property
    def is_running(self) -> bool:
        """Whether the build has not ended yet."""
        return self._thread.is_alive()

    @property
    def is_awaited(self) -> bool:
        """Whether there is nothing yet that can be asked."""
        return self.is_running and not self.status.can_be_asked

    def wait(self, seconds: float | None = None) -> None:
        """Wait for the end of the build, at most some seconds if they are given."""
        self._thread.join(seconds)

    def report(self) -> BuildReport:
        """Return the report of the build when it has ended; raise its error if it failed."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._report is not None, "the build has ended without an error"
        return self._report

    def describe(self) -> str:
        """Return how far the build is, or "" after its end."""
        return self.status.describe() if self.is_running else ""

    def announce(self, say: Callable[[str], None]) -> None:
        """Call `say` from another thread with how the build ended."""

        def wait() -> None:
            try:
                say(f"all {self.report().passages:,} passages have vectors")
            except BuildStopped:
                pass
            except TurnmarkError as error:
                say(f"the build failed; the same command continues it: {one_line(error)}")

        threading.Thread(target=wait, daemon=True).start()

    def stop(self) -> None:
        """End the build at its next step. What is embedded is kept for the next build."""
        self.status.stop.set()
        self._thread.join(STOP_SECONDS)
