"""Whole conversations as a person sees them, on a pipe and on a terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import DEMO, ROOT

GOLDEN = Path(__file__).parent / "golden"

pytestmark = pytest.mark.usefixtures("in_demo_home")


def steady(transcript: str) -> str:
    """A transcript without what differs from run to run: the seconds."""
    return re.sub(r"\d+\.\d\d s\b", "_.__ s", transcript)


def test_the_demo_conversation(turnwise):
    """The conversation that `make demo` prints, whole. TURNWISE_UPDATE_GOLDEN=1 writes it anew."""
    ran = turnwise("chat", "--index", "demo", stdin=(DEMO / "questions.txt").read_text(encoding="utf-8"))
    assert ran.code == 0
    golden = GOLDEN / "demo_chat.txt"
    if os.environ.get("TURNWISE_UPDATE_GOLDEN"):
        golden.write_text(steady(ran.out), encoding="utf-8")
    assert steady(ran.out) == golden.read_text(encoding="utf-8")


def test_commands_on_a_pipe(turnwise):
    lines = [
        "/help",
        "/sources",
        "/nothing",
        "Thanks!",
        "How do I keep a sourdough starter?",
        "/sources 1",
        "/sources 99",
    ]
    ran = turnwise("chat", "--index", "demo", stdin="\n".join([*lines, "/quit", "never read"]) + "\n")
    assert ran.code == 0
    assert "Ctrl-C while an answer is written" in ran.out
    assert "the last answer rests on no sources" in ran.out
    assert "/nothing: not a command; there are: /help, /quit, /sources" in ran.out
    assert "You're welcome." in ran.out
    assert "How to keep a sourdough starter — handbook/" in ran.out
    assert "there is no source 99; there are 1 to" in ran.out
    assert "never read" not in ran.out


def test_without_an_index_it_offers_those_there_are(turnwise, tmp_path):
    (tmp_path / "note.md").write_text("# Note\n\nThe kettle is red.\n", encoding="utf-8")
    assert turnwise("chat", stdin="What colour is the kettle?\n").code == 0
    assert turnwise("index", "build", tmp_path, "--name", "second", "--retriever", "bm25").code == 0
    try:
        ran = turnwise("chat", stdin="What colour is the kettle?\n")
        assert ran.code == 2
        assert "--index is missing; there are: demo, second" in ran.err
    finally:
        assert turnwise("index", "remove", "second").code == 0


def test_ask_prints_the_contracts_object(turnwise):
    ran = turnwise("ask", "How do I bake sourdough the way the Anvick Bakehouse does it?", "--index", "demo", "--json")
    assert ran.code == 0
    reply = json.loads(ran.out)
    assert reply["decision"] == "answer"
    assert [step["step"][:9] for step in reply["procedure"]][:2] == ["At 08:00 ", "Add the s"]
    assert len(reply["procedure"]) == 8
    assert reply["checks"]["procedure_valid"]
    checker = ROOT.parent / "shared" / "tools" / "check_run.py"
    if checker.is_file():
        checked = subprocess.run([sys.executable, str(checker), "--ask"], input=ran.out, capture_output=True, text=True)
        assert checked.stdout == "holds\n"


def test_ask_reads_questions_from_standard_input(turnwise):
    ran = turnwise("ask", "-", "--index", "demo", "--json", stdin="Who won the 1998 World Cup?\n\nHi!\n")
    assert ran.code == 0
    replies = [json.loads(line) for line in ran.out.splitlines()]
    assert [reply["decision"] for reply in replies] == ["unknown", "converse"]


def test_history_changes_what_is_understood(turnwise, tmp_path):
    turns = [
        {"role": "user", "content": "When was the lighthouse at Stack Nell lit for the first time?"},
        {"speaker": "agent", "text": "In 1868."},
    ]
    history = tmp_path / "history.json"
    for text in (json.dumps(turns), "\n".join(json.dumps(turn) for turn in turns)):
        history.write_text(text, encoding="utf-8")
        ran = turnwise("ask", "And how tall is it?", "--index", "demo", "--history", history, "--json")
        reply = json.loads(ran.out)
        assert "Stack Nell" in reply["rewrite"]
        assert "almanac/stack-nell-lighthouse.md" in {citation["document"] for citation in reply["citations"]}


def test_every_mistake_of_a_history_is_named(turnwise, tmp_path):
    history = tmp_path / "h.jsonl"
    history.write_text(
        '{"role": "user", "content": "a"}\n{"role": "king", "content": "b"}\n{nonsense\n', encoding="utf-8"
    )
    ran = turnwise("ask", "What?", "--index", "demo", "--history", history)
    assert ran.code == 2
    assert "line 2: expected" in ran.err
    assert "line 3: not JSON" in ran.err


def test_a_scripted_model_answers_with_citations_and_steps(turnwise, tmp_path):
    script = tmp_path / "script.jsonl"
    said = "Feed it on Mondays [1]. Elsewhere too [8].\n\nSteps:\n1. Stir it. [1]\n2. Feed it. [1]"
    script.write_text(json.dumps({"text": said}) + "\n", encoding="utf-8")
    ran = turnwise(
        "ask", "How do I keep a sourdough starter?", "--index", "demo", "--generator", f"replay:{script}", "--json"
    )
    reply = json.loads(ran.out)
    assert reply["answer"] == "Feed it on Mondays [1]. Elsewhere too."
    assert [step["citations"] for step in reply["procedure"]] == [[1], [1]]
    assert reply["checks"]["repaired"]
    assert not reply["checks"]["citations_valid"]
    assert reply["generator"].startswith("replay:")


def test_a_models_i_dont_know_is_an_unknown(turnwise, tmp_path):
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps({"text": "I don't know; the passages do not mention it."}) + "\n", encoding="utf-8")
    ran = turnwise(
        "ask", "Who feeds the sourdough starter?", "--index", "demo", "--generator", f"replay:{script}", "--json"
    )
    assert json.loads(ran.out)["decision"] == "unknown"


def test_on_a_terminal_ctrl_c_cancels_the_answer_and_keeps_the_session(tmp_path):
    pexpect = pytest.importorskip("pexpect")
    script = tmp_path / "script.jsonl"
    slow = " ".join(["slowly"] * 400) + " [1]"
    script.write_text(
        json.dumps({"text": slow}) + "\n" + json.dumps({"text": "It is fed weekly [1]."}) + "\n", encoding="utf-8"
    )
    arguments = ["-c", "from evaluation.cli import main; main()", "chat", "--index", "demo"]
    arguments += ["--generator", f"replay:{script}?delay=0.05"]
    child = pexpect.spawn(sys.executable, arguments, cwd=str(ROOT), encoding="utf-8", timeout=60, dimensions=(30, 80))
    child.expect("›")
    child.sendline("How often is the sourdough starter fed?")
    child.expect("slowly slowly")
    child.sendintr()
    child.expect("cancelled; the conversation goes on")
    child.expect("›")
    child.sendline("How often is the sourdough starter fed?")
    child.expect("It is fed weekly")
    child.expect("›")
    child.sendintr()
    child.expect("leaves")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
