"""The turn as a whole, over small real indexes."""

from __future__ import annotations

import pytest

from tests.assistant.notes import conversation, over, script
from turnmark.assistant.forms import all_forms
from turnmark.assistant.generators.base import GeneratorError
from turnmark.assistant.turn import Step, Turn
from turnmark.assistant.types import Draft, Event, Judgement


def test_every_step_is_told_in_order(tmp_path):
    events: list[Event] = []
    assistant = over(tmp_path, kettle="# Kettle\n\nThe kettle is red. It boils in four minutes.\n")
    reply = assistant.reply([], "What colour is the kettle?", events.append)
    steps = ["understand", "retrieve", "decide", "answer", "verify"]
    assert list(dict.fromkeys(event.step for event in events)) == steps
    assert "".join(event.delta for event in events) == reply.answer == "The kettle is red. [1]"
    assert set(reply.timings) == set(steps)
    assert reply.citations[0].text == "# Kettle\n\nThe kettle is red. It boils in four minutes."


def test_sentences_without_spaces_are_answers_too(tmp_path):
    assistant = over(
        tmp_path, pork="# 红烧肉\n\n红烧肉需要五花肉、冰糖和酱油。先把肉切块焯水。\n", tea="# 茶\n\n泡茶用热水。\n"
    )
    reply = assistant.reply([], "红烧肉需要什么？")
    assert reply.decision == "answer"
    assert "五花肉" in reply.answer
    assert reply.citations[0].document == "pork.md"


def test_passages_without_a_sentence_are_an_unknown(tmp_path):
    assistant = over(tmp_path, zebra="# Zebra\n\nzebra\n")
    reply = assistant.reply([], "zebra")
    assert reply.decision == "unknown"
    assert reply.citations == ()
    assert reply.answer.startswith("I don't know")


def test_marks_of_the_documents_are_not_citations(tmp_path):
    assistant = over(
        tmp_path,
        volcano="# Volcano\n\nThe volcano erupted in 1902 [2] and again in 1950.\n",
        soup="# Soup\n\nVolcano soup erupted from leeks.\n",
    )
    reply = assistant.reply([], "When did the volcano erupt?")
    assert "The volcano erupted in 1902 and again in 1950. [1]" in reply.answer
    assert not reply.checks.repaired


def test_a_question_that_does_not_fit_the_model_is_an_error_not_an_answer(tmp_path):
    generator = script(tmp_path, "never said") + "?context=600"
    assistant = over(tmp_path, generator, kettle="# Kettle\n\nThe kettle is red.\n")
    with pytest.raises(GeneratorError, match="does not fit into the context"):
        assistant.reply([], "kettle " * 4000)


def test_a_long_conversation_is_cut_and_the_reply_says_so(tmp_path):
    generator = script(tmp_path, "What colour is the kettle?", "The kettle is red [1].") + "?context=3000"
    assistant = over(tmp_path, generator, steps=("answer=whole",), kettle="# Kettle\n\nThe kettle is red.\n")
    history = conversation(*(f"turn {n} " + "word " * 300 for n in range(12)))
    reply = assistant.reply(history, "What colour is the kettle?")
    assert reply.answer == "The kettle is red [1]."
    assert any("earlier messages were left out" in note for note in reply.notes)
    assert reply.usage["answer"].prompt_tokens < 3000


class Shrug:
    """A step of a third party: decides that nothing is known of kettles."""

    name = "decide"

    def __call__(self, turn: Turn) -> None:
        for part in turn.pending:
            about = "kettle" in part.text
            part.judgement = Judgement(decision="unknown" if about else "answer", confidence=0.5, reason="shrugged")


class Shout:
    """A step of a third party: answers with the first passage in capitals."""

    name = "answer"

    def __call__(self, turn: Turn) -> None:
        text = f"{turn.hits[0].passage.text.splitlines()[-1].upper()} [1]"
        turn.write(Draft(text=text, answers=(text,) * len(turn.group)))


def test_a_step_of_a_third_party_by_its_module(tmp_path):
    steps = (f"decide=python:{__name__}:Shrug", f"answer=python:{__name__}:Shout")
    assistant = over(
        tmp_path, steps=steps, kettle="# Kettle\n\nThe kettle is red.\n", cup="# Cup\n\nThe cup is blue.\n"
    )
    answered, unknown = (assistant.reply([], f"What colour is the {thing}?") for thing in ("cup", "kettle"))
    assert (answered.decision, answered.answer) == ("answer", "THE CUP IS BLUE. [1]")
    assert answered.trace.judgement.reason == "shrugged"
    assert answered.trace.forms["decide"] == f"python:{__name__}:Shrug"
    assert answered.trace.forms["retrieve"] == "active"
    assert unknown.decision == "unknown"
    assert set(answered.timings) == {"understand", "retrieve", "decide", "answer", "verify"}


def test_a_step_of_a_third_party_by_an_entry_point(tmp_path, monkeypatch):
    package = tmp_path / "own-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[turnmark.steps]\ndecide.mine = {__name__}:Shrug\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert all_forms()["decide"]["mine"].summary == "from own"
    assistant = over(tmp_path, steps=("decide=mine",), kettle="# Kettle\n\nThe kettle is red.\n")
    assert assistant.reply([], "What colour is the kettle?").decision == "unknown"


class Recorder:
    """A step that takes down in what order it was called, before the one in whose place it stands."""

    def __init__(self, step: Step, calls: list[str], key: str) -> None:
        self.step, self.calls, self.key, self.name = step, calls, key, step.name

    def __call__(self, turn: Turn) -> None:
        self.calls.append(self.key)
        self.step(turn)


@pytest.mark.parametrize(
    ("talk", "message", "calls"),
    [
        ([], "What colour is the kettle?", ["understand", "retrieve", "decide", "answer", "verify"]),
        ([], "Thank you!", ["understand"]),
        (["What is it?", "The kettle is red. It boils."], "Make it shorter.", ["understand", "revise"]),
        (
            [],
            "Who made the kettle, and when did she die?",
            ["understand", "retrieve", "decide", "answer", *["retrieve", "decide"] * 2, "answer", "verify"],
        ),
    ],
)
def test_the_order_of_the_steps(tmp_path, talk, message, calls):
    assistant = over(tmp_path, kettle="# Kettle\n\nThe kettle is red. It was made by Ada Berg.\n", a="# A\n\nB.\n")
    recorded: list[str] = []
    assistant.steps = {key: Recorder(step, recorded, key) for key, step in assistant.steps.items()}
    assistant.reply(conversation(*talk), message)
    assert recorded == calls
