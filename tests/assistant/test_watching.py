"""An open chat and a server switch to the newest generation of their index, which `--watch` builds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.assistant.serving import said, serving
from tests.conftest import ROOT
from tests.patience import PATIENCE
from tests.retrieval.conftest import write
from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.turn.reopen import up_to_date
from turnmark.retrieval.index.build import build_again, build_index
from turnmark.retrieval.index.components import remove_index
from turnmark.retrieval.search.opened_index import open_index

ASK = "Which colour is the kettle?"
NEW = "# Kettle\n\nThe colour of the kettle is green.\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))
    folder = write(
        tmp_path / "notes", kettle="# Kettle\n\nThe colour of the kettle is red.\n", radio="# Radio\n\nIt is loud.\n"
    )
    build_index(folder, "notes", retriever="bm25")
    build_index(write(tmp_path / "work", hull="# Boat\n\nWash the hull.\n"), "work", retriever="bm25")
    return folder


@pytest.mark.parametrize("indexes", ["notes", "work,notes"])
def test_assistant_switches_to_the_newest_generation(folder, indexes):
    before = Assistant.from_config(AssistantConfig(index=indexes))
    assert up_to_date(before) is before
    assert "red" in before.reply([], ASK).answer
    for number in range(3):  # the generation that is open is deleted by the second build
        (folder / "kettle.md").write_text(f"{NEW}It is number {number}.\n", encoding="utf-8")
        build_again(open_index("notes").manifest)
    assert "red" in before.reply([], ASK).answer
    after = up_to_date(before)
    assert "green" in after.reply([], ASK).answer
    assert (after.config, after.generator) == (before.config, before.generator)
    assert up_to_date(after) is after


def test_assistant_survives_the_removal_of_its_index(folder):
    assistant = Assistant.from_config(AssistantConfig(index="notes"))
    assistant.reply([], ASK)
    remove_index("notes")
    assert up_to_date(assistant) is assistant
    assert "red" in assistant.reply([], ASK).answer


def test_chat_uses_an_index_rebuilt_by_another_process(folder, turnmark):
    (folder / "kettle.md").write_text(NEW, encoding="utf-8")
    ran = turnmark("chat", str(folder), "--retriever", "bm25", stdin=f"{ASK}\n")
    assert "green" in ran.out


@pytest.mark.server
def test_chat_over_a_watched_folder_uses_changed_files(folder):
    program = "from turnmark.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", program, "chat", str(folder), "--retriever", "bm25", "--watch"],
        cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=os.environ.copy(),
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None

    def answered() -> str:
        """Return the output for one question, up to the line with its seconds."""
        process.stdin.write(f"{ASK}\n")
        process.stdin.flush()
        printed = ""
        for line in process.stdout:
            printed += line
            if line.startswith(("answer ·", "partial ·", "unknown ·")):
                return printed
        pytest.fail(printed)

    assert "red" in answered()
    (folder / "kettle.md").write_text(NEW, encoding="utf-8")
    printed, ends = "", time.monotonic() + PATIENCE
    while "notes: indexed 1 changed file in " not in printed and time.monotonic() < ends:
        printed = answered()
    assert "green" in answered()
    process.stdin.close()
    rest = process.stdout.read()
    assert (process.wait(PATIENCE), "Traceback" in rest) == (0, False)


@pytest.mark.server
def test_server_over_watched_folders_uses_changed_files(folder):
    with serving(Path(os.environ["TURNMARK_HOME"]), "--watch", indexes=("notes", "work")) as server:
        asked = {**said(ASK), "model": "notes,work"}
        first = server.post(asked).json()
        assert "red" in first["turnmark"]["answer"]
        (folder / "kettle.md").write_text(NEW, encoding="utf-8")
        assert server.process.stderr is not None
        while "notes: indexed 1 changed file in " not in server.process.stderr.readline():
            assert server.process.poll() is None
        reply = server.post(asked).json()["turnmark"]
        assert "green" in reply["answer"]
        assert reply["citations"][0]["index"] == "notes"
        assert json.loads(server.get("/v1/models").text)["data"][0]["turnmark"]["documents"] == 3
