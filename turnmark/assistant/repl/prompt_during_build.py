"""The prompt of `turnmark chat FOLDER` while the index is being built: the user types, and the build goes on.

The conversation begins as soon as the index can be asked by words. Vectors are added during it.
"""

from __future__ import annotations

import asyncio
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

from turnmark.assistant.repl.background_build import STATUS_SECONDS, BackgroundBuild
from turnmark.core.console import Progress
from turnmark.retrieval.index.build import BuildReport

QUICK_SECONDS = 1.0
"""Time within which most updates of an index end. Until then, there is no prompt."""


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
