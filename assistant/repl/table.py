"""Every command: its name, what it takes, what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnmark.assistant.repl import evidence, feedback, keeping, looking, parts

if TYPE_CHECKING:
    from turnmark.assistant.repl.chat import Chat


@dataclass(frozen=True)
class Command:
    """A command. `arguments` is what it takes, as `/help` shows it."""

    arguments: str
    summary: str
    run: Callable[[Chat, str], None]


def _leave(chat: Chat, argument: str) -> None:
    """`/quit` is seen before the table is."""


COMMANDS: Mapping[str, Command] = {
    "/why": Command("", "how the last answer came about: searches, decision, checks, cost", looking.why),
    "/sources": Command("[N]", "the passages behind the last answer, or one of them in full", looking.sources),
    "/steps": Command("", "the steps of the last answer", looking.steps),
    "/grade": Command("", "what the metrics say of the last answer", looking.grade),
    "/revise": Command("TEXT", "have the last answer revised as you say", feedback.revise),
    "/edit": Command("[TEXT]", "put your own version in its place, from your editor", feedback.edit),
    "/rate": Command("good|neutral|bad [COMMENT]", "say what you think of it", feedback.rate),
    "/relevant": Command("N…", "answer again from these sources alone", evidence.relevant),
    "/irrelevant": Command("N…", "answer again without these sources", evidence.irrelevant),
    "/retry": Command("", "answer the last question again", feedback.retry),
    "/undo": Command("", "take the last question back", feedback.undo),
    "/index": Command("[NAME]", "go on over another index", parts.index),
    "/retriever": Command("[SPEC]", "go on with another retriever", parts.retriever),
    "/generator": Command("[SPEC]", "go on with another model, or extractive", parts.generator),
    "/set": Command("[NAME [VALUE]]", "show or change a setting", parts.set_),
    "/save": Command("[NAME]", "keep the session, under a name", keeping.save),
    "/load": Command("NAME", "go on with another session", keeping.load),
    "/sessions": Command("[delete NAME]", "list the sessions, or delete one", keeping.sessions),
    "/export": Command("mtrag|kiwi|markdown FILE", "write the conversation to a file or folder", keeping.export),
    "/clear": Command("", "begin a new conversation", keeping.clear),
    "/help": Command("", "this list", looking.help_),
    "/quit": Command("", "leave", _leave),
}
