"""`turnmark chat` on a real terminal. A process takes seconds to start, so each test asks several questions."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.assistant.notes import scripted
from tests.assistant.terminal import Terminal, assert_golden, steady
from tests.conftest import ROOT
from tests.retrieval.conftest import write
from turnmark.assistant.sessions.session_files import read_session

# Each test starts processes and waits like a user: pytest -m slow tests/assistant/test_chat_terminal.py
pytestmark = pytest.mark.slow

ANSWER = """\
It is **fed weekly** with `rye`, half and half. [1] Keep it cool between feeds, and never seal the jar. [1]

1. Stir the starter with a wooden spoon, and throw away, or bake with, all but 30 g of it. [1]
2. Feed it. [1]
"""


def opened(home: Path, *arguments: str, folder: Path = ROOT, **env: str) -> Terminal:
    return Terminal("chat", *arguments, env={"TURNMARK_HOME": str(home), **env}, folder=folder)


def kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the questions of the only saved session."""
    monkeypatch.setenv("TURNMARK_HOME", str(home))
    (session,) = (home / "sessions").glob("*.jsonl")
    return [exchange.question for exchange in read_session(session.stem)[0].exchanges]


def test_conversation_on_a_terminal(home, tmp_path):
    """A streamed answer, a quotation, commands, several lines, a paste, completion; then Ctrl-D leaves with 0."""
    scripted(tmp_path, ANSWER)
    # Runs in the folder of the script, so that the transcript is the same on every machine.
    words = ["--index", "demo", "--generator", "replay:script.jsonl", "--step", "understand=rules"]
    talk = opened(home, *words, folder=tmp_path)
    talk.at_prompt()
    talk.say("How do I keep a sourdough starter?")
    assert "thinking …" in talk.raw
    assert "…" not in talk.screen()
    talk.child.send("/rate g\t")
    talk.until("/rate good")
    talk.say(" just right")
    talk.say("/generator extractive")
    talk.say("How tall is Stack Nell lighthouse?")
    assert "Stack Nell lighthouse" in talk.screen()
    talk.child.send("/edit\x1b\rmost\\\r")
    talk.until(lambda screen: screen.count("\n…") == 2)
    talk.child.send("\x03")
    talk.until("to leave")
    talk.at_prompt()
    talk.child.send("\x1b[200~/nothing\nof the kind\x1b[201~")
    talk.until("of the kind")
    talk.say("")
    assert_golden("terminal.txt", steady(talk.screen()) + "\n")
    talk.child.send("\x04")
    assert talk.ended() == 0
    assert (home / "chat_history").stat().st_mode & 0o777 == 0o600


def test_ctrl_c_cancels_a_streamed_answer(home, tmp_path, monkeypatch):
    lines = "\n\n".join(" ".join(f"word{n}" for n in range(start, start + 20)) for start in range(0, 120, 20))
    slow = " ".join(f"slowly{n}" for n in range(400)) + " [1]"
    words = ["--index", "demo", "--generator", f"{scripted(tmp_path, slow, lines + ' [1]')}?delay=0.02"]
    talk = opened(home, *words, "--step", "understand=rules")
    talk.at_prompt()
    talk.child.send("How often is the sourdough starter fed?\r")
    talk.until("slowly15")
    talk.child.sendintr()
    talk.until("canceled; this question is not part of the conversation")
    assert "slowly399" not in talk.at_prompt()
    assert not (home / "sessions").exists()

    talk.child.send("How often is the sourdough starter fed?\r")
    talk.until("word10")
    talk.child.send("typed ahead")
    screen = talk.until(lambda screen: screen.endswith("› typed ahead"))
    assert screen.count("typed ahead") == 1
    talk.child.send("\x15")
    talk.at_prompt()
    talk.child.sendintr()
    talk.until("press Ctrl-C again, or Ctrl-D, to leave")
    talk.child.sendintr()
    assert talk.ended() == 0
    assert kept(home, monkeypatch) == ["How often is the sourdough starter fed?"]


def test_killed_chat_loses_at_most_the_current_turn(home, tmp_path, monkeypatch):
    spec = scripted(tmp_path, ANSWER, " ".join(["slowly"] * 400), "It is *kept cold* and fed. [1]")
    words = ["--generator", f"{spec}?delay=0.02", "--step", "understand=rules"]
    talk = opened(home, "--index", "demo", *words, NO_COLOR="1")
    talk.at_prompt()
    talk.say("How do I keep a sourdough starter?")
    talk.say("/rate bad not mine")
    # NO_COLOR removes colors; bold, dim and cursor movements are allowed.
    assert not re.search(r"\x1b\[[0-9;]*\b(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])\b[0-9;]*m", talk.raw)
    talk.child.send("Who feeds the sourdough starter?\r")
    talk.until("slowly slowly")
    os.kill(talk.child.pid, signal.SIGKILL)
    assert talk.ended() == -signal.SIGKILL
    assert kept(home, monkeypatch) == ["How do I keep a sourdough starter?"]
    with open(next(iter((home / "sessions").glob("*.jsonl"))), "ab") as file:
        file.write(b'{"event": "turn", "turn": 2, "ques')

    again = opened(home, "--resume", "--generator", scripted(tmp_path, "It is *kept cold* and fed. [1]"))
    screen = again.at_prompt()
    assert "left out, since it is damaged" in screen
    assert "1 turn so far" in screen
    again.child.send("\x1b[A")
    again.until("› Who feeds the sourdough starter?")  # typed in the chat before
    again.say("")
    again.child.send("\x04")
    assert again.ended() == 0
    assert kept(home, monkeypatch) == ["How do I keep a sourdough starter?", "Who feeds the sourdough starter?"]


def test_news_of_a_watched_folder_appears_above_the_prompt(home, tmp_path):
    folder = write(tmp_path / "notes", kettle="# Kettle\n\nThe colour of the kettle is red.\n")
    talk = opened(home, str(folder), "--retriever", "bm25", "--watch", folder=tmp_path)
    talk.at_prompt()
    talk.child.send("Which colour is the ket")
    talk.until("› Which colour is the ket")
    write(folder, kettle="# Kettle\n\nThe colour of the kettle is green.\n")
    screen = talk.until("notes: indexed 1 changed file in ")
    screen = talk.until(lambda screen: screen.endswith("\n› Which colour is the ket"))
    assert screen.count("Which colour") == 1
    assert "green" in talk.say("tle?")
    talk.child.send("\x04")
    assert talk.ended() == 0


def pages(folder: Path) -> Path:
    """Write enough pages that an index of them takes a few seconds."""
    folder.mkdir()
    for number in range(120):
        sections = [f"## Part {part}\n\n{'The kettle stands on the shelf. ' * 20}\n" for part in range(4)]
        text = f"# Kettle {number}\n\nKettle {number} was made in {1800 + number}.\n\n" + "\n".join(sections)
        (folder / f"kettle{number}.md").write_text(text, encoding="utf-8")
    return folder


def test_question_is_answered_when_the_index_is_built(home, tmp_path):
    talk = opened(home, str(pages(tmp_path / "kettles")))
    talk.until("the index is being built")
    talk.child.send("When was kettle 77 made?\r")
    talk.until("was made in 1877")
    screen = talk.at_prompt()
    assert screen.index("kettles: 120 documents") < screen.index("was made in 1877")
    talk.child.send("\x04")
    assert talk.ended() == 0


def test_interrupted_build_is_continued(home, tmp_path):
    folder = pages(tmp_path / "cups")
    talk = opened(home, str(folder))
    talk.until("the index is being built")
    talk.until(lambda screen: bool(re.search(r"embedding [1-9][0-9]* of", screen)))
    talk.child.send("\x04")
    talk.until("the same command continues it")
    assert talk.ended() == 0
    again = opened(home, str(folder))
    again.child.send("When was kettle 3 made?")
    again.until("cups: 120 documents")
    screen = again.until(lambda screen: screen.endswith("› When was kettle 3 made?"))
    assert int(re.findall(r"(\d+) kept", screen)[0]) > 0
    again.child.send("\r")
    again.until("was made in 1803")
    again.at_prompt()
    again.child.send("\x04")
    assert again.ended() == 0
