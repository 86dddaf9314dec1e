"""`turnmark ask`, `chat` and `sessions` as called by users and scripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.assistant.notes import scripted
from tests.assistant.terminal import assert_golden, steady
from tests.conftest import DEMO, ROOT
from tests.run_checker import problems_of_reply
from turnmark.assistant.sessions.session_files import read_session, session_names, sessions_folder

QUESTION = "How do I keep a sourdough starter?"
QUESTIONS = [QUESTION, "How often is the sourdough starter fed?", "How do I bake sourdough?"]


# --- ask -------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_demo_home")
def test_the_demo_conversation(turnmark):
    """`make demo` prints this conversation, and docs/chat.md shows it."""
    ran = turnmark("chat", "--index", "demo", stdin=(DEMO / "questions.txt").read_text(encoding="utf-8"))
    assert ran.code == 0
    assert_golden("demo_chat.txt", steady(ran.out))
    assert_golden(ROOT / "docs" / "chat.md", f"```text\n{steady(ran.out).strip()}\n```", between="```")


def test_ask_prints_a_json_line_per_question_from_standard_input(home, turnmark):
    ran = turnmark("ask", "-", "--index", "demo", "--json", stdin=f"{QUESTION}\n\nHi!\n")
    assert ran.code == 0
    rows = ran.out.splitlines()
    assert [json.loads(row)["question"] for row in rows] == [QUESTION, "Hi!"]
    assert [problem for row in rows for problem in problems_of_reply(row)] == []
    assert "sourdough" in turnmark("ask", QUESTION, "--index", "demo").out


def test_failed_question_is_a_line_and_the_others_are_answered(home, turnmark, tmp_path):
    script = tmp_path / "script.jsonl"
    script.write_text('{"text": "It is fed weekly [1].", "match": "How often is the sourdough"}\n', encoding="utf-8")
    words = ["--index", "demo", "--generator", f"replay:{script}", "--step", "understand=rules"]
    ran = turnmark("ask", "-", *words, "--json", stdin="\n".join(QUESTIONS))
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [row["question"] for row in rows] == QUESTIONS
    assert rows[1]["answer"].startswith("It is fed weekly [1]")
    assert rows[0]["error"]["kind"] == rows[2]["error"]["kind"] == "bad_reply"
    assert (ran.code, "2 questions could not be answered" in ran.err) == (1, True)
    ran = turnmark("chat", *words, stdin=f"{QUESTION}\nThanks!\n")
    assert (ran.code, "1 question could not be answered" in ran.err) == (1, True)
    assert "You're welcome" in ran.out


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("[]", ["contains no message"]),
        ("[" * 100_000, ["recursion limit"]),
        ('[{"role": "user", "content": "a"}, 7]', ["entry 2: Input should be"]),
        ('{"role": "user", "content": " "}\n{"role": "agent", "content": "b"}', ["line 1, content: String"]),
        ('{"role": "agent", "content": "b"}\n{"role": "user", "content": "a"}', ["ends with a message of the user"]),
        ('{"role": "king", "content": "b"}\n{nonsense\n7', ["line 1, role: ", "line 2: Invalid JSON", "line 3: "]),
    ],
)  # fmt: skip
def test_refuses_an_invalid_history_with_all_mistakes(home, turnmark, tmp_path, text, problems):
    history = tmp_path / "history.json"
    history.write_text(text, encoding="utf-8")
    ran = turnmark("ask", "What?", "--index", "demo", "--history", history)
    assert ran.code == 2
    assert ran.err.count("\n") == len(problems)
    assert all(problem in ran.err for problem in problems)


def test_reports_all_mistakes_of_a_command(home, turnmark):
    words = ["--generator", "bad", "--retriever", "foo"]
    ran = turnmark("ask", "", "--index", "nope", *words, "--history", "/nonexist")
    assert ran.code == 2
    for problem in ("question is empty", "called 'nope'", "generator is called 'bad'", "/nonexist", "called 'foo'"):
        assert problem in ran.err
    assert len(ran.err.splitlines()) == 5
    ran = turnmark("chat", "--resume", "nope", "--index", "nope", *words)
    assert (ran.code, len(ran.err.splitlines())) == (2, 4)
    ran = turnmark("chat", "--index", "demo", *words)
    assert (ran.code, len(ran.err.splitlines())) == (2, 2)
    ran = turnmark("chat", "--index", "demo", "--resume", stdin="")
    assert (ran.code, "no session is saved yet" in ran.err) == (2, True)
    assert turnmark("chat", "--resume", "../x", "--index", "demo", stdin="").code == 2


@pytest.mark.parametrize("command", ["ask", "chat"])
def test_an_error_of_the_endpoint_is_shown_once(home, turnmark, command):
    words = ["--index", "demo", "--generator", "openai:tiny@http://127.0.0.1:9/v1?retries=0"]
    ran = turnmark("ask", QUESTION, *words) if command == "ask" else turnmark("chat", *words, stdin=f"{QUESTION}\n")
    assert ran.code == 1
    assert (ran.out + ran.err).count("cannot be reached") == 1


# --- chat ------------------------------------------------------------------------------------------------------------


def test_chat_indexes_a_folder_and_offers_the_indexes(home, turnmark, tmp_path):
    (home / "indexes").unlink()
    folder = tmp_path / "my notes"
    folder.mkdir()
    (folder / "note.md").write_text("# Note\n\nThe kettle is red.\n", encoding="utf-8")
    words = ["--retriever", "bm25", "--no-save"]
    ran = turnmark("chat", folder, *words, stdin="What colour is the kettle?\n")
    assert ran.code == 0, ran.err
    assert "my-notes: 1 documents" in ran.out
    assert "The kettle is red." in ran.out
    assert "nothing has changed" in turnmark("chat", folder, *words, stdin="").out
    other = turnmark("chat", tmp_path, "--index", "my-notes", *words, stdin="")
    assert (other.code, "the index 'my-notes' is of" in other.err) == (2, True)
    ran = turnmark("chat", folder, "--resume", "--generator", "bad", stdin="")
    assert (ran.code, "FOLDER and --resume" in ran.err, "called 'bad'" in ran.err) == (2, True, True)
    assert "red" in turnmark("chat", "--no-save", stdin="What colour is the kettle?\n").out
    assert turnmark("index", "build", folder, "--name", "second", "--retriever", "bm25").code == 0
    ran = turnmark("chat", stdin="")
    assert (ran.code, "--index is missing (expected one of: my-notes, second)" in ran.err) == (2, True)


# --- sessions --------------------------------------------------------------------------------------------------------


@pytest.fixture
def named(home: Path, turnmark) -> Path:
    """Make a home with the session `first`."""
    assert turnmark("chat", "--index", "demo", stdin=f"{QUESTION}\n/save first\n").code == 0
    return home


def test_resumes_a_named_or_the_last_session_or_reads_it_only(named, turnmark, tmp_path):
    file = sessions_folder() / "first.jsonl"
    assert file.stat().st_mode & 0o777 == 0o600
    before = file.read_bytes()
    ran = turnmark("chat", "--resume", "--no-save", stdin="Thanks!\n")
    assert "1 turn so far" in ran.out
    assert f"› {QUESTION}" in ran.out
    assert "␤" not in ran.out
    assert turnmark("chat", "--index", "demo", "--no-save", stdin=f"{QUESTION}\n").code == 0
    assert (file.read_bytes(), session_names()) == (before, ["first"])
    assert not (named / "chat_history").exists()
    for words in (["--resume"], ["--resume=first"], ["--resume", "--index", "demo"]):
        assert "session first: " in turnmark("chat", *words, stdin="Thanks!\n").out
    assert len(read_session("first")[0].exchanges) == 4
    assert turnmark("chat", "--index", "demo", stdin="Thanks!\n/save second\n").code == 0
    assert "session second: 1 turn" in turnmark("chat", "--resume", stdin="").out
    assert turnmark("chat", "--resume", "first", stdin="Hi!\n").code == 0
    assert "session first: 5 turns" in turnmark("chat", "--resume", stdin="").out
    assert turnmark("chat", "--resume", "first", "--generator", "bad", stdin="").code == 2
    spec = scripted(tmp_path, "The loaves rest in floured baskets for two and a half hours [1].")
    assert turnmark("chat", "--resume", "first", "--generator", spec, stdin="").code == 0
    assert read_session("first")[0].config.generator == spec
    ran = turnmark("chat", "--resume", stdin="Where do the loaves of the Anvick Bakehouse rest?\n")
    assert "floured baskets" in ran.out


def test_lists_and_deletes_sessions(named, turnmark):
    assert "  1 turn  " in turnmark("sessions", "list").out
    (sessions_folder() / "broken.jsonl").write_bytes(b"\xff\x00 nonsense\n")
    (sessions_folder() / "bad name!.jsonl").write_bytes(b"")
    listed = json.loads(turnmark("sessions", "list", "--json").out)
    rows = sorted((session["name"], session["turns"], session["question"]) for session in listed["sessions"])
    assert rows == [("broken", 0, ""), ("first", 1, QUESTION)]
    assert turnmark("remove", "sessions/nope").code == 2
    assert turnmark("remove", "sessions/../first").code == 2
    for name in ("first", "broken"):
        assert turnmark("remove", f"sessions/{name}").code == 0
    assert turnmark("sessions", "list").out == "no session is kept yet\n"


def test_output_on_a_pipe_has_no_control_sequences(home, turnmark, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    lines = [QUESTION, "Thanks\x1b[31m\x9b2J!", "/no\x1b[2J\tthing", "/why", "/help", "/clear", "exit", "never read"]
    ran = turnmark("chat", "--index", "demo", stdin="\n".join(lines))
    assert ran.code == 0
    assert not set("\x1b\x9b\r") & set(ran.out + ran.err)
    assert "› Thanks!" in ran.out
    assert "/no thing: unknown command; /help lists the commands" in ran.out
    assert "never read" not in ran.out
