"""`--protocol paper`: MTRAG's tasks asked as the paper asks them, without the assistant's turn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turnmark.assistant.llm.calls.protocols import Completion
from turnmark.assistant.types import Usage
from turnmark.evaluation.tasks.turn_samples import with_title

SPEC = "python:tests.evaluation.test_mtrag_protocol:scribe"
HEARD: list[str] = []


class Scribe:
    """Keeps what it was asked. It knows nothing where it was shown nothing."""

    name, context_tokens, reply_tokens = SPEC, 8192, 1024

    def complete(self, messages, schema=None, **_):
        assert schema is None, "the paper asks once, in plain text"
        HEARD.append("\n".join(message.content for message in messages))
        nothing = "(none were found)" in HEARD[-1]
        reply = "I do not have specific information about that." if nothing else "Cast by a founder."
        usage = Usage(calls=1, prompt_tokens=50, completion_tokens=5)
        return Completion(text=reply, finish_reason="stop", usage=usage, model="scribe", max_tokens=1024)


def scribe():
    return Scribe()


@pytest.fixture(autouse=True)
def _quiet():
    HEARD.clear()


def samples(run):
    lines = Path(run, "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    return {line["id"]: line for line in map(json.loads, lines)}


def test_every_task_is_one_prompt_with_passages_conversation_and_question(benchmark_root, turnmark):
    ran = turnmark.json(
        "eval", "mtrag", "--data", benchmark_root, "--protocol", "paper", "--generator", SPEC, "--out", "r"
    )
    rows = samples("r")
    assert len(HEARD) == len(rows) == 9
    assert ran["usage"]["answer"]["calls"] == 9
    assert json.loads(Path("r/manifest.json").read_text())["specs"]["protocol"] == "paper"
    assert {row["decision"] for row in rows.values()} == {"answer", "unknown"}
    prompt = next(text for text in HEARD if "when was it cast" in text)
    assert prompt.index("who made the bell") < prompt.index("when was it cast"), "the conversation comes first"
    assert "fewer than 150 words" in prompt
    assert "<passage-" in prompt
    for row in rows.values():
        assert (row["decision"] == "unknown") == (not row["contexts"]), row["id"]
        assert row["rewrite"] is None


def test_a_title_is_above_a_text_that_does_not_begin_with_it():
    assert with_title("Big Ben", "# Big Ben\nA bell.") == "# Big Ben\nA bell."
    assert with_title("Big Ben", "A bell.") == "Big Ben\n\nA bell."
    assert with_title("", "A bell.") == "A bell."


def test_reports_mistakes_of_a_protocol(benchmark_root, turnmark):
    message = turnmark.refused(
        "eval", "mtrag", "--data", benchmark_root, "--protocol", "paper", "--step", "decide=extractive"
    )
    assert "--protocol paper asks a language model by the paper's prompt: add --generator" in message
    assert "--step is for the steps of the turn" in message
    assert turnmark("eval", "mtrag", "--protocol", "mine").code == 2
    assert (
        "--protocol: inscoqa does not use it; it is for mtrag, mtrag-un, mtrag-s, kiwi"
        in turnmark("eval", "inscoqa", "--protocol", "paper").err
    )


def test_mtrag_un_is_asked_with_its_sentence_on_underspecified_questions(benchmark_root, turnmark):
    words = ("--data", benchmark_root, "--protocol", "paper", "--generator", SPEC)
    for benchmark, asks_back in (("mtrag", False), ("mtrag-un", True)):
        HEARD.clear()
        turnmark.ok("eval", benchmark, *words, "--out", benchmark)
        assert HEARD
        assert all(("If the question is underspecified" in text) == asks_back for text in HEARD)
    manifest = json.loads(Path("mtrag-un/manifest.json").read_text())
    assert "prompt mtrag-un-answer" in manifest["inputs"]
    assert {row["decision"] for row in samples("mtrag-un").values()} == {None}, "whether it asks back is for a judge"
