"""The prompt of `turnmark chat FOLDER` while the index is being built: the user types, and the build goes on.

The conversation begins as soon as the index can be asked by words. Vectors are added during it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console
from rich.live import Live
from rich.text import Text

from turnmark.core.console import Progress
from turnmark.core.errors import TurnmarkError
from turnmark.core.untrusted import one_line
from turnmark.retrieval.index.build import MAX_UNPUBLISHED_CONTENTS, BuildReport

STATUS_SECONDS = 0.2
"""Seconds between two updates of the status of the build."""
QUICK_SECONDS = 1.0
"""Time within which most updates of an index end. Until then, there is no prompt."""
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
        return f"{line}, {self._note}" if self._note else line


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


class _Unsent(str):
    """Text that was typed, but not entered, when the build ended."""


class PromptDuringBuild:
    """Lets the user type while an index is built. A question waits until the index can be asked, and the progress is
    shown.

    Attributes:
        building: the build that goes on during the conversation, or None.
        question: the line that the user entered during the build, or "" if there is none.
        typed: text that was typed, but not entered.
    """

    def __init__(self, console: Console, session: PromptSession[str]) -> None:
        self._console, self._session = console, session
        self.question, self.typed = "", ""
        self.building: BackgroundBuild | None = None

    def carry_out(self, build: Callable[[Progress], BuildReport]) -> BuildReport | None:
        """Run a build until it has ended or the index can be asked by words; return its report if it has ended.

        Ctrl-D, or Ctrl-C twice, stops it and leaves.
        """
        building = BackgroundBuild(build)
        try:
            if not self._wait(building, QUICK_SECONDS):
                self._say("the index is being built; a question is answered as soon as the files are read")
            while building.is_awaited and not self.question:
                self._ask(building)
                if self.question:
                    self._wait_or_cancel(building)
        except (KeyboardInterrupt, EOFError):
            self.building = building
            self.leave()
            raise typer.Exit from None
        except BaseException:
            building.stop()
            raise
        if building.is_running:
            self.building = building
            return None
        return building.report()

    def leave(self) -> None:
        """Stop a build that goes on during the conversation."""
        if self.building is not None and self.building.is_running:
            self.building.stop()
            self._say("the build was interrupted; the same command continues it")

    def _ask(self, building: BackgroundBuild) -> None:
        """Read a line; the prompt ends when the index can be asked."""
        interrupted = False
        while building.is_awaited:
            try:
                # `patch_stdout` prints warnings from the build thread above the prompt.
                with patch_stdout(raw=True):
                    line = self._session.prompt(
                        "› ", default=self.typed, bottom_toolbar=building.status.describe,
                        refresh_interval=STATUS_SECONDS, pre_run=lambda: _exit_after(building),
                    )  # fmt: skip
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
                self._say("press Ctrl-C again, or Ctrl-D, to leave")
                continue
            self.typed = line if isinstance(line, _Unsent) else ""
            if line.strip() and not isinstance(line, _Unsent):
                self.question = line
                return

    def _wait_or_cancel(self, building: BackgroundBuild) -> None:
        """Wait until the index can be asked, or Ctrl-C cancels the question."""
        try:
            self._wait(building, None)
        except KeyboardInterrupt:
            self.question = ""
            self._console.print(Text("canceled; the index is still being built", style="yellow"))

    def _wait(self, building: BackgroundBuild, seconds: float | None) -> bool:
        """Show the progress until the index can be asked, at most some seconds; return whether it can."""
        ends = None if seconds is None else time.monotonic() + seconds
        with Live(console=self._console, transient=True, auto_refresh=False) as live:
            while building.is_awaited and (ends is None or time.monotonic() < ends):
                live.update(Text(building.status.describe(), style="dim"), refresh=True)
                building.wait(STATUS_SECONDS)
        return not building.is_awaited

    def _say(self, text: str) -> None:
        self._console.print(Text(text, style="dim"))


def _exit_after(building: BackgroundBuild) -> None:
    """End the prompt with the text typed so far when the index can be asked."""
    app = get_app()

    async def watch() -> None:
        while building.is_awaited:
            await asyncio.sleep(STATUS_SECONDS)
        with suppress(Exception):  # the user may have ended the prompt at the same moment
            app.exit(result=_Unsent(app.current_buffer.text))

    app.create_background_task(watch())
