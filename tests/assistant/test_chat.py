"""Whole conversations as a person sees them, on a pipe and on a terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from tests.assistant.terminal import assert_golden, steady
from tests.conftest import DEMO, ROOT
from tests.run_checker import problems_of_reply
from turnmark.assistant.assistant import Assistant
from turnmark.assistant.repl.chat import Chat
from turnmark.assistant.repl.loop import handle
from turnmark.assistant.session import where
from turnmark.assistant.types import Citation
from turnmark.corpora.errors import TurnmarkError
from turnmark.retrieval.index import open_index
from turnmark.retrieval.registry import open_retriever

pytestmark = pytest.mark.usefixtures("in_demo_home")


def test_the_demo_conversation(turnmark):
    """The conversation that `make demo` prints, whole."""
    ran = turnmark("chat", "--index", "demo", stdin=(DEMO / "questions.txt").read_text(encoding="utf-8"))
    assert ran.code == 0
    assert_golden("demo_chat.txt", steady(ran.out))


def test_commands_on_a_pipe(turnmark):
    lines = ["/sources", "/nothing", "Thanks!", "/steps 2", "/quit", "never read"]
    ran = turnmark("chat", "--index", "demo", stdin="\n".join(lines) + "\n")
    assert ran.code == 0
    assert "the last answer rests on no sources" in ran.out
    assert "/nothing: not a command; there are: /clear, /edit, /export, /generator, /grade, /help, " in ran.out
    assert "You're welcome." in ran.out
    assert "/steps 2: /steps takes nothing after it" in ran.out
    assert "never read" not in ran.out


def test_without_an_index_it_offers_those_there_are(turnmark, tmp_path):
    (tmp_path / "note.md").write_text("# Note\n\nThe kettle is red.\n", encoding="utf-8")
    assert turnmark("chat", stdin="What colour is the kettle?\n").code == 0
    assert turnmark("index", "build", tmp_path, "--name", "second", "--retriever", "bm25").code == 0
    try:
        ran = turnmark("chat", stdin="What colour is the kettle?\n")
        assert ran.code == 2
        assert "--index is missing; there are: demo, second" in ran.err
    finally:
        assert turnmark("index", "remove", "second").code == 0


def test_ask_prints_the_contracts_object(turnmark):
    ran = turnmark("ask", "How do I bake sourdough the way the Anvick Bakehouse does it?", "--index", "demo", "--json")
    assert ran.code == 0
    reply = json.loads(ran.out)
    assert reply["decision"] == "answer"
    assert [step["step"][:9] for step in reply["procedure"]][:2] == ["At 08:00 ", "Add the s"]
    assert len(reply["procedure"]) == 8
    assert reply["checks"]["procedure_valid"]
    assert problems_of_reply(ran.out) == []


def test_ask_reads_questions_from_standard_input(turnmark):
    ran = turnmark("ask", "-", "--index", "demo", "--json", stdin="Who won the 1998 World Cup?\n\nHi!\n")
    assert ran.code == 0
    replies = [json.loads(line) for line in ran.out.splitlines()]
    assert [reply["decision"] for reply in replies] == ["unknown", "converse"]


def test_history_changes_what_is_understood(turnmark, tmp_path):
    turns = [
        {"role": "user", "content": "When was the lighthouse at Stack Nell lit for the first time?"},
        {"speaker": "agent", "text": "In 1868."},
    ]
    history = tmp_path / "history.json"
    for text in (json.dumps(turns), "\n".join(json.dumps(turn) for turn in turns)):
        history.write_text(text, encoding="utf-8-sig")
        ran = turnmark("ask", "And how tall is it?", "--index", "demo", "--history", history, "--json")
        reply = json.loads(ran.out)
        assert "Stack Nell" in reply["rewrite"]
        assert "almanac/stack-nell-lighthouse.md" in {citation["document"] for citation in reply["citations"]}


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("", ["holds no message"]),
        ("[]", ["holds no message"]),
        ("[" * 100_000, ["nested too deeply"]),
        ('{"role": "user", "content": "a"}\n' + '{"a":' * 100_000, ["line 2: not JSON (nested too deeply)"]),
        ('[{"role": "user", "content": "a"},]', ["not JSON"]),
        ('{"role": "user", "content": " "}\n{"role": "agent", "content": "b"}', ["line 1: the content is empty"]),
        ('{"role": "agent", "content": "b"}\n{"role": "user", "content": "a"}', ["ends with a message of the user"]),
        ('{"role": "king", "content": "b"}\n{nonsense\n' + "1" * 5000,
         ["line 1: expected", "line 2: not JSON", "line 3: not JSON"]),
    ],
)  # fmt: skip
def test_a_history_that_is_none_is_refused_with_every_mistake(turnmark, tmp_path, text, problems):
    history = tmp_path / "history.json"
    history.write_text(text, encoding="utf-8")
    ran = turnmark("ask", "What?", "--index", "demo", "--history", history)
    assert ran.code == 2
    assert ran.err.count("\n") == len(problems)
    assert all(problem in ran.err for problem in problems)


def test_a_scripted_model_answers_with_citations_and_steps(turnmark, tmp_path):
    script = tmp_path / "script.jsonl"
    answer = "Feed it [1]. Elsewhere too [8].\n\nSteps:\n1. Stir it. [1]\n2. Feed it. [1]"
    script.write_text(json.dumps({"text": answer}) + "\n", encoding="utf-8")
    ran = turnmark(
        "ask", "How do I keep a sourdough starter?", "--index", "demo", "--generator", f"replay:{script}", "--json"
    )
    reply = json.loads(ran.out)
    assert reply["answer"] == "Feed it [1]."  # what cites nothing that exists was taken out
    assert all(step["citations"] for step in reply["procedure"])
    assert reply["checks"]["repaired"]
    assert reply["checks"]["citations_valid"]
    assert reply["generator"].startswith("replay:")


def test_every_mistake_of_an_ask_is_named(turnmark):
    words = ["--generator", "bad", "--history", "/nonexist", "--retriever", "foo"]
    ran = turnmark("ask", "", "--index", "nope", *words)
    assert ran.code == 2
    for problem in ("question is empty", "called 'nope'", "generator is called 'bad'", "/nonexist", "called 'foo'"):
        assert problem in ran.err
    assert len(ran.err.splitlines()) == 5
    assert len(turnmark("ask", "", "--index", "demo", *words).err.splitlines()) == 4
    assert len(turnmark("chat", "--index", "nope", "--generator", "bad", "--retriever", "foo").err.splitlines()) == 3
    assert len(turnmark("chat", "--index", "demo", "--generator", "bad", "--retriever", "foo").err.splitlines()) == 2


def test_a_model_that_cannot_be_had_is_no_missing_model(turnmark):
    forms = ["--step", "understand=llm", "--step", "decide=llm"]
    ran = turnmark("ask", "Why?", "--index", "demo", "--generator", "ollama:tiny?deadline=soon", *forms)
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert "deadline='soon'" in ran.err
    ran = turnmark("ask", "Why?", "--index", "demo", *forms)
    assert ran.code == 2
    assert ran.err.count("needs a language model") == 2


QUESTIONS = "How do I keep a sourdough starter?\nHow often is the sourdough starter fed?\nHow do I bake sourdough?\n"


def test_a_json_line_for_every_question_also_for_one_that_fails(turnmark, tmp_path):
    script = tmp_path / "script.jsonl"
    script.write_text('{"text": "It is fed weekly [1].", "match": "How often is the sourdough"}\n', encoding="utf-8")
    ran = turnmark("ask", "-", "--index", "demo", "--json", "--generator", f"replay:{script}", stdin=QUESTIONS)
    assert ran.code == 1
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [row["question"] for row in rows] == QUESTIONS.splitlines()
    assert rows[0]["error"]["kind"] == rows[2]["error"]["kind"] == "bad_reply"
    assert rows[0]["error"]["message"]
    assert rows[1]["answer"].startswith("It is fed weekly [1]")
    assert "2 questions could not be answered" in ran.err


@pytest.mark.parametrize("error", [TurnmarkError("the server is away"), KeyboardInterrupt()])
def test_a_good_answer_stays_when_the_retriever_cannot_hear_it(error):
    retriever = open_retriever("bm25", open_index("demo"))
    heard: list[str] = []

    def hear(answer: str) -> None:
        heard.append(answer)
        raise error

    retriever.heard = hear  # type: ignore[attr-defined]
    out = io.StringIO()
    chat = Chat(Assistant(retriever), Console(file=out, width=80))
    assert handle(chat, "How do I keep a sourdough starter?")
    assert [message.role for message in chat.history] == ["user", "assistant"]
    assert heard == [chat.history[-1].content]
    assert "cancelled" not in out.getvalue()


def test_a_chat_echoes_nothing_that_acts(turnmark):
    ran = turnmark("chat", "--index", "demo", stdin="Thanks\x1b[31m\x9b2J!\n/no\x1b[2J\tthing\n")
    assert ran.code == 0
    assert "\x1b" not in ran.out
    assert "\x9b" not in ran.out
    assert "› Thanks!" in ran.out
    assert "/no thing: not a command" in ran.out


def test_a_source_with_a_newline_in_its_name_takes_one_line():
    citation = Citation(
        n=1, id="a", document="a", title="A\nB\tC", path="a\n[2] forged.md", page=3, start=0, end=1, text="x", score=1.0
    )
    assert where(citation) == "A␤B C — a␤[2] forged.md, page 3"


def test_the_page_of_the_chat_shows_the_conversation_that_is_tested():
    golden = Path(__file__).with_name("golden") / "demo_chat.txt"
    assert golden.read_text(encoding="utf-8").strip() in (ROOT / "docs" / "chat.md").read_text(encoding="utf-8")


def test_a_folder_is_indexed_on_the_way(turnmark, tmp_path):
    folder = tmp_path / "my notes"
    folder.mkdir()
    (folder / "note.md").write_text("# Note\n\nThe kettle is red.\n", encoding="utf-8")
    try:
        ran = turnmark("chat", folder, "--retriever", "bm25", "--no-save", stdin="What colour is the kettle?\n")
        assert ran.code == 0, ran.err
        assert "my-notes: 1 documents" in ran.out
        assert "The kettle is red." in ran.out
        again = turnmark("chat", folder, "--retriever", "bm25", "--no-save", stdin="")
        assert "nothing has changed" in again.out
        other_folder = turnmark("chat", tmp_path, "--index", "my-notes", "--no-save", stdin="")
        assert other_folder.code == 2
        assert "the index 'my-notes' is of" in other_folder.err
        assert turnmark("chat", folder, "--resume", stdin="").code == 2
    finally:
        assert turnmark("index", "remove", "my-notes").code == 0
