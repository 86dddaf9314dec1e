"""Judges that answer from a script, and a case for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnmark.assistant.llm.calls.protocols import PromptMessage
from turnmark.assistant.llm.generators.replay import ReplayGenerator, ScriptLine
from turnmark.corpora.types import Message
from turnmark.evaluation.tasks.items import Case
from turnmark.evaluation.tasks.rubric import Outcome


def say(text: str, **more: Any) -> ScriptLine:
    return ScriptLine(text=text, **more)


def replay(*lines: ScriptLine, **more: Any) -> ReplayGenerator:
    return ReplayGenerator("replay:x", lines, **more)


def scored(value: float, label: str | None = None, **more: Any) -> Outcome:
    return Outcome(status="scored", value=value, label=label, **{"reason": f"said {value:g}"} | more)


FAILED = Outcome(status="failed", reason="invalid: no verdict, twice", kind="invalid", raw="Hm.")


CASE = Case(
    question="who owns it now", answer="Nobody does.", history=(Message(role="user", content="how tall is the tower"),
    Message(role="assistant", content="96 metres")), reference="A trust owns it.", passages=("the tower has a clock",),
    answerability="ANSWERABLE",
)  # fmt: skip


class Heard(ReplayGenerator):
    """Takes down what it is asked."""

    def __init__(self, *lines: ScriptLine, **more: Any) -> None:
        super().__init__("replay:x", lines, **more)
        self.asked: list[str] = []

    def complete(self, messages: Sequence[PromptMessage], **more: Any) -> Any:
        self.asked.append("\n".join(message.content for message in messages))
        return super().complete(messages, **more)
