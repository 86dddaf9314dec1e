"""Wrong command lines: every command reports all mistakes at once, and suggests the name that was meant."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.main import get_command

from turnmark.app import app
from turnmark.assistant.repl.chat_loop import choose_index
from turnmark.core.errors import ErrorCollector
from turnmark.retrieval.index.build import build_index


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with its words."""
    for name, command in group.commands.items():
        if getattr(command, "commands", None):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


COMMANDS = dict(commands(get_command(app)))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_reports_all_mistakes_of_its_command_line(turnmark, words):
    ran = turnmark(*words, "--nonsense", "--jsonn")
    assert (ran.code, ran.out) == (2, "")
    mistakes = ran.err.splitlines()
    assert all(line.startswith("turnmark: ") for line in mistakes)
    assert f"turnmark: unknown option --nonsense (see turnmark {' '.join(words)} --help)" in mistakes
    assert any("unknown option --jsonn" in line for line in mistakes)
    required = [parameter for parameter in COMMANDS[words].params if parameter.required]
    for parameter in required:
        spelling = parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[0]
        assert any(line.startswith(f"turnmark: {spelling or parameter.name.upper()} is missing: ") for line in mistakes)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_refuses_a_flag_without_its_value(turnmark, words):
    options = [parameter for parameter in COMMANDS[words].params if parameter.param_type_name == "option"]
    flags = [max(option.opts, key=len) for option in options if not option.is_flag and "--resume" not in option.opts]
    for flag in flags[:1]:
        message = turnmark.refused(*words, flag)
        assert f"turnmark: {flag} needs a value" in message
        assert f"{flag} is missing" not in message


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_shows_its_help_next_to_a_mistake(turnmark, words):
    assert f"Usage: turnmark {' '.join(words)}" in turnmark.ok(*words, "--nonsense", "--help").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["serach", "x"], "no command is called 'serach' (did you mean 'search'?); there are: search, "),
        (["index", "lst"], "no command of turnmark index is called 'lst' (did you mean 'list'?); there are: "),
        (["--nonsense", "ask"], "unknown option --nonsense (see turnmark --help)"),
        (["ask", "x", "--generater", "y"], "unknown option --generater (did you mean --generator?)"),
        (["compare", "a", "b", "--missing", "ones"], "--missing ones: expected leave-out or zero"),
        (["list", "retriever"], "no role is called 'retriever' (did you mean 'retrievers'?)"),
        (["model", "get", "splade-tyni"], "no model is called 'splade-tyni' (did you mean 'splade-tiny'?)"),
        (["eval", "mtragg"], "no benchmark is called 'mtragg' (did you mean 'mtrag'?)"),
        (["eval", "mtrag", "--setting", "reg"], "no setting of mtrag is called 'reg' (did you mean 'rag'?)"),
        (["eval", "mtrag", "--task", "retreival"], "is called 'retreival' (did you mean 'retrieval'?)"),
        (["eval", "mtrag", "--step", "decid=llm"], "no step is called 'decid' (did you mean 'decide'?)"),
        (["eval", "mtrag", "--generator", "opnai:x"], "no generator is called 'opnai' (did you mean 'openai'?)"),
        (["eval", "mtrag", "--retriever", "bm52"], "no retriever is called 'bm52' (did you mean 'bm25'?)"),
    ],
)  # fmt: skip
def test_suggests_the_name_that_was_meant(turnmark, words, message):
    assert message in turnmark.refused(*words)


def test_misspelt_option_does_not_turn_its_value_into_an_argument(turnmark):
    message = turnmark.refused("search", "tea", "--indx", "notes", "--top-k", "0")
    assert "unknown option --indx (did you mean --index?)" in message
    assert "--top-k 0: expected at least 1" in message
    assert "unexpected" not in message
    assert "no such file" not in message


def test_text_without_quotes_is_explained(turnmark):
    assert "unexpected arguments 'a' 'kettle'; put a text that contains spaces in quotes" in turnmark.refused(
        "ask", "how", "to", "a", "kettle"
    )


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["ask", "notes", "How is tea made?"], "the arguments are swapped; write 'How is tea made?' --index notes"),
        (["ask", "nots", "How is tea made?"], "the question comes first, then the folder, but there is no folder or"),
        (["search", "notes", "tea"], "the arguments are swapped; write tea --index notes"),
        (
            ["ask", "How is tea made?", "notes"],
            "no such file or folder; for the index of that name, write --index notes",
        ),
        (["mcp", "notes"], "unexpected argument 'notes'; write --index before it"),
        (["score", "mtrag", "answers.jsonl"], "unexpected argument 'answers.jsonl'; write --predictions before it"),
        (["ask", "x", "--index", "notes", "--generator", "gpt-4o-mini"], "write openai:gpt-4o-mini for that model"),
    ],
)
def test_swapped_and_misplaced_arguments_get_the_right_advice(turnmark, notes, monkeypatch, words, advice):
    monkeypatch.chdir(notes.parent.parent)
    assert advice in turnmark.refused(*words)


# --- which index -----------------------------------------------------------------------------------------------------


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Build the index `notes` of a folder with this name."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is red.\n", encoding="utf-8")
    build_index(folder, "notes", retriever="bm25")
    return folder


@pytest.mark.parametrize(("answer", "chosen"), [("\n", "notes"), ("2\n", "work"), ("x\nwork\n", "work")])
def test_chat_asks_which_index_with_numbers_and_a_default(notes, monkeypatch, answer, chosen):
    build_index(notes, "work", retriever="bm25")
    monkeypatch.setattr("turnmark.assistant.repl.chat_loop.stdin_is_terminal", lambda: True)
    monkeypatch.setattr("sys.stdin", StringIO(answer))
    console = Console(file=StringIO())
    assert choose_index(console, ErrorCollector()) == chosen
    assert "  2  work" in console.file.getvalue()
    assert "Which index? (1)" in console.file.getvalue()


NEEDING_AN_INDEX = [
    ["ask", "What colour is the kettle?"],
    ["search", "kettle"],
    ["chat"],
    ["index", "info"],
    ["index", "verify"],
]


@pytest.mark.parametrize("words", NEEDING_AN_INDEX, ids=str)
def test_the_only_index_is_used(turnmark, notes, words):
    turnmark.ok(*words, stdin="")


@pytest.mark.parametrize("words", [*NEEDING_AN_INDEX, ["check"]], ids=str)
def test_several_indexes_are_listed_and_without_any_the_way_to_one(turnmark, tmp_path, words):
    assert "there is no index yet; build one with: turnmark index build SOURCE" in turnmark.refused(*words, stdin="")
    for name in ("notes", "work"):
        (tmp_path / "note.md").write_text("# Kettle\n\nThe kettle is red.\n", encoding="utf-8")
        build_index(tmp_path, name, retriever="bm25")
    assert "is missing (expected one of: notes, work)" in turnmark.refused(*words, stdin="")


def test_mcp_without_any_index_says_the_way_to_one(turnmark):
    assert "there is no index yet; build one with: turnmark index build SOURCE" in turnmark.refused("mcp", stdin="")


def test_misspelt_index_is_suggested(turnmark, notes):
    for words in (["ask", "x", "--index", "Nots"], ["search", "x", "--index", "Nots"], ["check", "Nots"],
                  ["check", "--index", "Nots"], ["index", "info", "Nots"], ["serve", "--index", "Nots"]):  # fmt: skip
        assert "no index is called 'Nots' (did you mean 'notes'?); there are: notes" in turnmark.refused(*words)


def test_check_takes_the_index_as_argument_or_flag(turnmark, notes):
    for words in (["check", "notes"], ["check", "--index", "notes"], ["check"]):
        assert "index 'notes': no passage has a sentence that can be removed" in turnmark.refused(*words)
    assert "name one of them" in turnmark.refused("check", "notes", "--index", "work")
    assert "one index is checked at a time" in turnmark.refused("check", "--index", "notes", "--index", "work")


# --- a folder in place of an index -----------------------------------------------------------------------------------


def test_ask_and_search_index_a_folder_on_the_way(turnmark, tmp_path):
    folder = tmp_path / "my notes"
    folder.mkdir()
    (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is red.\n", encoding="utf-8")
    ran = turnmark.ok("search", "kettle", folder, "--retriever", "bm25", "--json")
    assert ran.out.startswith('{"query": "kettle"')
    assert ran.out.count("\n") == 1
    assert "my-notes: 1 documents" in ran.err
    asked = turnmark.ok("ask", "What colour is the kettle?", folder, "--retriever", "bm25")
    assert "The kettle is red." in asked.out
    assert "nothing has changed" in asked.err
    (folder / "oven.md").write_text("# Oven\n\nThe oven is green.\n", encoding="utf-8")
    assert "green" in turnmark.ok("ask", "What colour is the oven?", folder, "--retriever", "bm25").out


def test_no_folder_is_indexed_for_a_wrong_request(turnmark, notes):
    for words in (["ask", " ", "--history", "nowhere", "--generator", "opnai:x"], ["search", " ", "--where", "x"]):
        message = turnmark.refused(*words, notes.parent)
        assert "is empty" in message
        assert ("opnai" in message and "nowhere" in message) or "--where 'x'" in message
    assert [each["name"] for each in turnmark.json("index", "list")["indexes"]] == ["notes"]
    assert "the index 'notes' is of" in turnmark.refused("ask", "x", notes.parent, "--index", "notes")


def test_mistakes_are_reported_before_a_chat_asks_for_an_index(turnmark, tmp_path):
    for name in ("notes", "work"):
        (tmp_path / "note.md").write_text("# Kettle\n\nThe kettle is red.\n", encoding="utf-8")
        build_index(tmp_path, name, retriever="bm25")
    message = turnmark.refused("chat", "--resume", "nowhere", "--generator", "opnai:x")
    assert "no session is called 'nowhere'; there is none yet" in message
    assert "no generator is called 'opnai' (did you mean 'openai'?)" in message
    assert "--index" not in message


# --- the documents of an index ---------------------------------------------------------------------------------------


def test_lists_the_documents_of_an_index(turnmark, notes):
    listed = turnmark.json("documents", "notes")
    (document,) = listed["documents"]
    assert (listed["index"], document["title"], document["path"], document["passages"]) == (
        "notes", "Kettle", "kettle.md", 1,
    )  # fmt: skip
    assert "language" in document
    assert "Kettle" in turnmark.ok("documents").out
    assert "1 of 1 documents" in turnmark.ok("chat", stdin="/documents kettle\n").out
    assert "name one of them" in turnmark.refused("documents", "notes", "--index", "work")


def test_home_that_cannot_be_written_is_named_with_the_way_out(turnmark, tmp_path, monkeypatch):
    (tmp_path / "note.md").write_text("# Kettle\n\nThe kettle is red.\n", encoding="utf-8")
    monkeypatch.setenv("TURNMARK_HOME", "/proc/turnmark")
    ran = turnmark("index", "build", str(tmp_path / "note.md"), "--name", "notes")
    assert ran.code == 1
    assert "Turnmark keeps its state in /proc/turnmark: make it writable, or set TURNMARK_HOME" in ran.err


def test_data_without_a_network_says_so(turnmark, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    ran = turnmark("data", "fetch", "kiwi")
    assert ran.code == 1
    assert "cannot be reached (is the network up? HTTPS_PROXY names a proxy)" in ran.err


def test_documents_and_index_info_are_readable_at_80_columns(turnmark, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))
    folder = tmp_path / "notes/long-name-of-a-folder"
    folder.mkdir(parents=True)
    (folder / "kettle-manual.md").write_text("# How to descale the big kettle in the staff kitchen\n\nUse vinegar.\n")
    turnmark.ok("index", "build", tmp_path / "notes", "--name", "kitchen", "--retriever", "bm25")
    monkeypatch.setenv("COLUMNS", "80")
    listed = turnmark.ok("documents", "kitchen").out
    assert "long-name-of-a-folder/kettle-manual.md" in listed
    assert "date" not in listed
    assert max(map(len, listed.splitlines())) <= 80
    info = dict(line.split(maxsplit=1) for line in turnmark.ok("index", "info", "kitchen").out.splitlines())
    assert info["languages"] == "en 1"
    assert info["bm25"] == "k1 0.9, b 0.4, language auto"
    assert not {"digest", "embedder", "server"} & info.keys()
