"""Invented replies and turns of a session."""

from __future__ import annotations

from turnmark.assistant.sessions.conversation import Conversation, SessionEvent, TurnAnswered
from turnmark.assistant.types import Citation, Reply


def folded(*events: SessionEvent) -> Conversation:
    """Return the conversation after these events."""
    conversation = Conversation()
    for event in events:
        conversation.apply(event)
    return conversation


def citation(n: int, name: str, section: str = "") -> Citation:
    return Citation(
        n=n, id=name, document=name, title=name.title(), section=section, path=f"{name}.md", page=None, start=0, end=4,
        text="text", score=1.0,
    )  # fmt: skip


def reply(answer: str, *names: str, **more: object) -> Reply:
    cited = tuple(citation(n, *name.split(" › ")) for n, name in enumerate(names, 1))
    return Reply.model_validate(
        {"question": "?", "answer": answer, "citations": cited, "decision": "answer", "rewrite": "?",
         "generator": "extractive", **more}
    )  # fmt: skip


def turned(turn: int, question: str, answer: str, *names: str, **more: object) -> TurnAnswered:
    return TurnAnswered.model_validate({"turn": turn, "question": question, "reply": reply(answer, *names), **more})
