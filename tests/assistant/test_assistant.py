"""Steps of third parties, by their module and by an entry point."""

from __future__ import annotations

from tests.assistant.notes import over
from turnmark.assistant.forms import all_forms
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Draft, Judgement


class Shrug:
    """A step of a third party: decides that nothing is known of kettles."""

    name = "decide"

    def __call__(self, turn: Turn) -> None:
        about = "kettle" in turn.message
        turn.decide(Judgement(decision="unknown" if about else "answer", confidence=0.5, reason="shrugged"))


class Shout:
    """A step of a third party: answers with the first passage in capitals."""

    name = "answer"

    def __call__(self, turn: Turn) -> None:
        text = f"{turn.hits[0].passage.text.splitlines()[-1].upper()} [1]"
        turn.draft = Draft(text=text)


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
