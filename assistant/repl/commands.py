"""The registry of commands: a name, what it takes, what it does. `COMMANDS` is in the order of `/help`."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

import turnmark.assistant.repl.answers as answers
import turnmark.assistant.repl.evidence as evidence
import turnmark.assistant.repl.parts as parts
import turnmark.assistant.repl.sessions as sessions
from turnmark.assistant.repl.chat import COMMANDS, Chat, Command

KEYS = """\
Alt-Enter, or a backslash at the end: a new line. Tab completes.
Ctrl-C while an answer is written cancels the answer and keeps the conversation; twice at the prompt, it leaves, and \
so does Ctrl-D."""


def help_(chat: Chat, _: str) -> None:
    """Every command with what it does."""
    rows = [(f"{name} {command.arguments}".strip(), command.summary) for name, command in COMMANDS.items()]
    if chat.console.is_terminal:
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(style="bold", max_width=max(12, chat.console.width * 2 // 5))
        table.add_column()
        for usage, summary in rows:
            table.add_row(Text(usage), Text(summary))
        chat.console.print(table)
    else:
        width = max(len(usage) for usage, _ in rows)
        for usage, summary in rows:
            chat.say(f"{usage:<{width}}  {summary}")
    chat.say(KEYS)


def quit_(chat: Chat, _: str) -> None:
    """The conversation is over."""
    chat.over = True


COMMANDS.update(
    {
        "/why": Command("", "how the last answer came about: searches, decision, checks, cost", answers.why),
        "/sources": Command("[N]", "the passages behind the last answer, or one of them in full", answers.sources),
        "/steps": Command("", "the steps of the last answer", answers.steps),
        "/grade": Command("", "what the metrics say of the last answer", answers.grade),
        "/revise": Command("TEXT", "have the last answer revised as you say", answers.revise),
        "/edit": Command("[TEXT]", "put your own version in its place, from your editor", answers.edit),
        "/rate": Command("good|neutral|bad [COMMENT]", "say what you think of it", answers.rate),
        "/relevant": Command("N…", "answer again from these sources alone", evidence.relevant),
        "/irrelevant": Command("N…", "answer again without these sources", evidence.irrelevant),
        "/retry": Command("", "answer the last question again", answers.retry),
        "/undo": Command("", "take the last question back", answers.undo),
        "/index": Command("[NAME]", "go on over another index", parts.index),
        "/retriever": Command("[SPEC]", "go on with another retriever", parts.retriever),
        "/generator": Command("[SPEC]", "go on with another model, or extractive", parts.generator),
        "/set": Command("[NAME [VALUE]]", "show or change a setting", parts.set_),
        "/save": Command("[NAME]", "keep the session, under a name", sessions.save),
        "/load": Command("NAME", "go on with another session", sessions.load),
        "/sessions": Command("[delete NAME]", "list the sessions, or delete one", sessions.sessions),
        "/export": Command("mtrag|kiwi|markdown FILE", "write the conversation to a file or folder", sessions.export),
        "/clear": Command("", "begin a new conversation", sessions.clear),
        "/help": Command("", "this list", help_),
        "/quit": Command("", "leave", quit_),
    }
)
