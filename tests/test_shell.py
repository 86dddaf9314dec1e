"""The command line among other programs: invalid bytes, closed pipes, full disks and signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.patience import PATIENCE

COMMAND = [sys.executable, "-c", "from turnmark.cli import main; main()"]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a home with a small BM25 index `tea`, an internal index `corpus-x`, and a file with a forged name."""
    home = tmp_path_factory.mktemp("shelf")
    notes = home / "notes"
    notes.mkdir()
    for n in range(40):
        (notes / f"note{n:02}.md").write_text(f"# Note {n}\n\nThe kettle number {n} is red.\n", encoding="utf-8")
    (notes / "x\nturnmark: all is well\x1b[31m.md").write_text("# Tea\n\nThe teapot is blue.\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(home))
        from turnmark.retrieval.index.build import build_index

        build_index(notes, "tea", retriever="bm25")
        build_index(notes, "corpus-x", retriever="bm25", internal=True)
    return home


@pytest.fixture(autouse=True)
def _in_shelf(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNMARK_HOME", str(shelf))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def run(*arguments: str | bytes | Path, stdin: bytes = b"", **options: object) -> subprocess.CompletedProcess[bytes]:
    """Run `turnmark …` in its own process."""
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [*COMMAND, *arguments], input=stdin, capture_output=True, cwd=ROOT, timeout=PATIENCE, **options
    )


def piped(questions: Path, *arguments: str | Path, lines: int) -> tuple[int, str]:
    """Run `turnmark … < QUESTIONS | head -LINES`, and return its exit code and standard error."""
    reading, writing = os.pipe()
    with (
        open(questions, "rb") as stdin,
        subprocess.Popen(
            [*COMMAND, *arguments], stdin=stdin, stdout=writing, stderr=subprocess.PIPE, cwd=ROOT
        ) as child,
    ):
        os.close(writing)
        with open(reading, "rb") as reader:
            for _ in range(lines):
                reader.readline()
        _, errors = child.communicate(timeout=PATIENCE)
    return child.returncode, errors.decode()


def test_file_name_with_a_newline_forges_no_line(turnmark, tmp_path, monkeypatch):
    source = tmp_path / "so\nturnmark: forged\x1b[2J"
    source.mkdir()
    (source / "good.md").write_text("# Good\n\nText.\n", encoding="utf-8")
    (source / "bad\nturnmark: all is well\x1b[31m.pdf").write_bytes(b"no pdf")
    ran = turnmark("index", "build", source, "--name", "forged", "--retriever", "bm25")
    try:
        assert ran.code == 0
        assert "skipped  bad␤turnmark: all is well.pdf" in ran.err
        monkeypatch.setenv("COLUMNS", "500")
        for words in (["index", "list"], ["index", "info", "forged"]):
            listed = turnmark(*words)
            assert "/so␤turnmark: forged" in listed.out
            assert "\x1b" not in listed.out
        searched = turnmark("search", "teapot", "--index", "tea")
        assert "x␤turnmark: all is well.md" in searched.out
        assert "\x1b" not in searched.out
        answered = turnmark("ask", "What colour is the teapot?", "--index", "tea")
        assert "\x1b" not in answered.out
        assert not [line for line in answered.out.splitlines() if line.startswith("turnmark: all is well")]
    finally:
        turnmark("index", "remove", "forged")


@pytest.mark.parametrize(
    "words",
    [
        ["search", "tea", "--index", "x\x1b[31m\x07"],
        ["search", "tea", "--index", "tea", "--retriever", "bm25?a\x1b[31m\x9b2J=1"],
        ["index", "build", "nowhere\x1b[31m\nturnmark: forged", "--name", "n"],
        ["ask", "tea", "--index", "tea", "--history", "nowhere\x1b[31m\nturnmark: forged"],
        ["list", "x\x1b[31m"],
        ["x\x1b[31m"],
    ],
)
def test_error_messages_contain_no_escape_sequence(turnmark, words):
    ran = turnmark(*words)
    assert ran.code == 2
    assert "\x1b" not in ran.err
    assert "\x9b" not in ran.err
    assert "turnmark: forged" not in ran.err.splitlines()


def test_file_name_in_a_system_error_is_inert(turnmark, tmp_path, monkeypatch):
    """An unexpected OSError is reported in one line with the path and the reason."""
    home = tmp_path / "h\x1b[31m\nturnmark: forged"
    (home / "indexes" / "x" / "manifest.json").mkdir(parents=True)
    monkeypatch.setenv("TURNMARK_HOME", str(home))
    import turnmark.retrieval.search.opened_index as stored

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(home))

    monkeypatch.setattr(stored, "list_indexes", refuse)
    ran = turnmark("index", "list")
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert ran.err.startswith("turnmark: ")
    assert ran.err.endswith("h␤turnmark: forged: Permission denied\n")


def test_json_contains_no_control_character(turnmark):
    ran = turnmark("ask", "What\u2028is\x9b\u202e the teapot?", "--index", "tea", "--json")
    assert ran.code == 0
    assert not set(ran.out) & set("\x9b\u2028\u202e")
    assert json.loads(ran.out)["question"] == "What\u2028is\x9b\u202e the teapot?"


def test_replaces_invalid_utf8():
    ran = run("search", b"teapot \xff", "--index", "tea", "--json", "--where", b"path=*\xff*")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.decode())["query"] == "teapot \ufffd"
    ran = run("ask", "-", "--index", "tea", "--json", stdin=b"\xef\xbb\xbfteapot?\nkettle \xff?\n")
    assert ran.returncode == 0, ran.stderr
    assert [json.loads(line)["question"] for line in ran.stdout.decode().splitlines()] == ["teapot?", "kettle \ufffd?"]
    ran = run("chat", "--index", "tea", stdin=b"teapot \xff?\n/no\xff\n")
    assert ran.returncode == 0, ran.stderr
    assert "› teapot \ufffd?" in ran.stdout.decode()
    assert "/no\ufffd: unknown command" in ran.stdout.decode()


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (
            ["index", "build", "/nonexist", "--name", "../x", "--engine", "spark", "--retriever", "foo", "--embedder",
             "bar", "--include", "!"],
            ["/nonexist", "'../x'", "--engine 'spark'", "retriever is called 'foo'", "embedder is called 'bar'",
             "--include '!'"],
        ),
        (
            ["search", " ", "--where", "bad", "--retriever", "foo", "--index", "nope"],
            ["query is empty", "called 'nope'", "--where 'bad'", "retriever is called 'foo'"],
        ),
    ],
)  # fmt: skip
def test_reports_every_mistake_of_a_request(turnmark, words, messages):
    ran = turnmark(*words)
    assert ran.code == 2
    assert len(ran.err.splitlines()) == len(messages)
    assert not [message for message in messages if message not in ran.err]


def test_lists_internal_indexes_only_on_request(turnmark):
    assert "corpus-x" not in turnmark("index", "list").out
    assert "corpus-x" in turnmark("index", "list", "--all").out
    names = [entry["name"] for entry in json.loads(turnmark("index", "list", "--all", "--json").out)["indexes"]]
    assert names == ["corpus-x", "tea"]
    assert "corpus-x" not in turnmark("search", "tea", "--index", "nope").err
    assert turnmark("chat", stdin="What colour is the teapot?\n").code == 0


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["--help"], 1),
        (["search", "kettle", "--index", "tea", "--json"], 0),
        (["chat", "--index", "tea"], 1),
        (["ask", "-", "--index", "tea", "--json"], 1),
    ],
)
def test_closed_pipe_is_no_failure(words, lines, tmp_path):
    questions = tmp_path / "questions"
    questions.write_bytes(b"What colour is the kettle?\n" * 200)
    code, errors = piped(questions, *words, lines=lines)
    assert (code, errors) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_reports_a_full_disk_in_one_line():
    with open("/dev/full", "wb") as full:
        for words in (["index", "info", "tea"], ["search", "kettle", "--index", "tea", "--json"]):
            ran = subprocess.run([*COMMAND, *words], stdout=full, stderr=subprocess.PIPE, cwd=ROOT, timeout=PATIENCE)
            assert (ran.returncode, ran.stderr) == (1, b"turnmark: No space left on device\n")
        ran = subprocess.run(
            [*COMMAND, "list", "nothing"], stderr=full, stdout=subprocess.PIPE, cwd=ROOT, timeout=PATIENCE
        )
        assert ran.returncode == 2


def test_interrupt_during_startup_exits_with_130(tmp_path):
    """A stub of `typer` sends the signal while it is imported."""
    (tmp_path / "typer.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(30)\n", encoding="utf-8"
    )
    ran = run("list", env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"})
    assert ran.returncode == 130
    assert ran.stderr == b"turnmark: interrupted\n"


def test_interrupt_while_waiting_exits_with_130():
    child = subprocess.Popen(
        [*COMMAND, "ask", "-", "--index", "tea", "--json"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    child.stdin.write(b"teapot?\n")
    child.stdin.flush()
    assert child.stdout.readline().startswith(b"{")
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130
    assert b"Traceback" not in errors
