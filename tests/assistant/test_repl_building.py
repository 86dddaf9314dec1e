"""The prompt while an index is built: what is typed is kept, a question waits, and leaving stops the build."""

from __future__ import annotations

import io
import re
import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue

import pytest
import typer
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from tests.patience import PATIENCE
from turnmark.assistant.repl import prompt_during_build
from turnmark.assistant.repl.background_build import BuildStatus, BuildStopped
from turnmark.assistant.repl.chat_commands import COMMANDS
from turnmark.assistant.repl.chat_loop import prompt_session
from turnmark.assistant.repl.prompt_during_build import PromptDuringBuild
from turnmark.core.console import Progress
from turnmark.core.errors import TurnmarkError
from turnmark.retrieval.index.build import BuildReport


class HeldBuild:
    """A build that embeds passages until it may end."""

    def __init__(self, failure: str = "", passages: int = 850) -> None:
        self.may_end = threading.Event()
        self.failure, self.passages, self.stopped = failure, passages, False

    def __call__(self, progress: Progress) -> BuildReport:
        progress.start("embedding", self.passages)
        try:
            while not self.may_end.wait(0.02):
                progress.advance()
        except BuildStopped:
            self.stopped = True
            raise
        if self.failure:
            raise TurnmarkError(self.failure)
        return BuildReport("notes", passages=self.passages)


@pytest.fixture
def keyboard(monkeypatch) -> Iterator[PipeInput]:
    monkeypatch.setattr(prompt_during_build, "QUICK_SECONDS", 0.0)
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


def prompt() -> tuple[PromptDuringBuild, io.StringIO]:
    screen = io.StringIO()
    return PromptDuringBuild(Console(file=screen, width=100), prompt_session(COMMANDS, keep=False)), screen


def later(*steps: object) -> threading.Thread:
    """Call each step, a moment after the one before."""

    def work() -> None:
        for step in steps:
            time.sleep(0.5)
            step()  # type: ignore[operator]

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_text_that_was_typed_is_kept_when_the_build_ends(keyboard):
    build, (waiting, screen) = HeldBuild(), prompt()
    later(lambda: keyboard.send_text("What color is"), build.may_end.set)
    report = waiting.carry_out(build)
    assert (report.passages, waiting.question, waiting.typed) == (850, "", "What color is")
    assert "the index is being built" in screen.getvalue()


def test_question_waits_for_the_index(keyboard):
    build, (waiting, _) = HeldBuild(), prompt()
    later(lambda: keyboard.send_text("What color is the kettle?\r"), build.may_end.set)
    assert waiting.carry_out(build).passages == 850
    assert (waiting.question, waiting.typed) == ("What color is the kettle?", "")


@pytest.mark.parametrize(("failure", "said"), [("", "all 9,000 passages have vectors"), ("full disk", "full disk")])
def test_conversation_begins_while_many_passages_are_embedded(keyboard, failure, said):
    build, (waiting, _) = HeldBuild(failure, passages=9000), prompt()
    keyboard.send_text("What color is")
    assert waiting.carry_out(build) is None
    building, news = waiting.building, SimpleQueue()
    assert building is not None
    assert re.match(r"building the index: embedding \d+ of 9,000", building.describe())
    building.announce(news.put)
    build.may_end.set()
    assert said in news.get(timeout=PATIENCE)
    assert building.describe() == ""


def test_leaving_the_conversation_stops_the_build(keyboard):
    build, (waiting, screen) = HeldBuild(passages=9000), prompt()
    waiting.carry_out(build)
    waiting.leave()
    assert build.stopped
    assert "the same command continues it" in screen.getvalue()


@pytest.mark.parametrize("keys", ["\x04", "\x03\x03"])
def test_leaving_stops_the_build(keyboard, keys):
    build, (waiting, screen) = HeldBuild(), prompt()
    later(*(lambda key=key: keyboard.send_text(key) for key in keys))
    with pytest.raises(typer.Exit):
        waiting.carry_out(build)
    assert build.stopped
    assert "the same command continues it" in screen.getvalue()


def test_failed_build_ends_the_prompt_with_its_error(keyboard):
    build, (waiting, _) = HeldBuild("the disk is full"), prompt()
    later(build.may_end.set)
    with pytest.raises(TurnmarkError, match="the disk is full"):
        waiting.carry_out(build)


def test_quick_build_shows_no_prompt(keyboard, monkeypatch):
    monkeypatch.setattr(prompt_during_build, "QUICK_SECONDS", PATIENCE)
    build, (waiting, screen) = HeldBuild(), prompt()
    build.may_end.set()
    assert waiting.carry_out(build).passages == 850
    assert "the index is being built" not in screen.getvalue()


def test_status_tells_phase_count_and_time_left(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(prompt_during_build.time, "monotonic", lambda: now[0])
    status = BuildStatus()
    status.start("reading", None)
    status.advance(3)
    status.tell("reading manual.pdf, page 3 of 90")
    assert status.describe() == "building the index: reading 3, manual.pdf, page 3 of 90"
    status.start("embedding", 1000)
    status.advance(250)
    assert status.describe() == "building the index: embedding 250 of 1,000"
    now[0] += 10
    assert status.describe() == "building the index: embedding 250 of 1,000, 30 s left"
