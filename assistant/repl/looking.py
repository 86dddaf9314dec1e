"""Commands that show: `/help`, `/sources`, `/steps`, `/why`, `/grade`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from turnmark.assistant.repl.evidence import candidates
from turnmark.assistant.repl.scores import MISSING
from turnmark.assistant.repl.screen import draw_markdown
from turnmark.assistant.repl.why import show_why
from turnmark.assistant.show import show_sources
from turnmark.corpora.console import shown
from turnmark.corpora.errors import RequestError
from turnmark.corpora.text import printable

if TYPE_CHECKING:
    from turnmark.assistant.repl.chat import Chat

KEYS = """\
Alt-Enter, or a backslash at the end: a new line. Tab completes.
Ctrl-C while an answer is written cancels the answer and keeps the conversation; twice at the prompt, it leaves, and \
so does Ctrl-D."""


def help_(chat: Chat, argument: str) -> None:  # noqa: ARG001
    """Every command with what it does."""
    from turnmark.assistant.repl.table import COMMANDS

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


def sources(chat: Chat, argument: str) -> None:
    """The passages behind the last answer; with a number, one of them in full."""
    if argument and not (argument.isdecimal() and len(argument) < 10):
        raise RequestError(f"/sources {shown(argument)}: the number of a source was expected")
    last = chat.conversation.last
    found = candidates(chat, last) if last else ()
    if last and found and not last.reply.citations:
        chat.say("the last answer rests on no sources; this was found and not used (/relevant takes what fits):")
    show_sources(chat.console, found, int(argument) if argument else None)
    for n, citation in enumerate(found, 1):
        label = last.labels.get(citation.id) if last else None
        if label is not None and argument in ("", str(n)):
            chat.say(f"    [{n}] you labelled it {'relevant' if label else 'irrelevant'}", style="dim")


def steps(chat: Chat, argument: str) -> None:  # noqa: ARG001
    """The steps of the last answer, one under the other."""
    last = chat.need_last()
    if not last.reply.procedure:
        chat.say("the last answer has no steps")
        return
    rows = [
        f"{number}. {step.step}{''.join(f' [{n}]' for n in step.citations)}"
        for number, step in enumerate(last.reply.procedure, 1)
    ]
    if chat.console.is_terminal:
        draw_markdown(chat.console, "\n".join(rows))
    else:
        chat.say("\n".join(f"  {printable(row)}" for row in rows))


def why(chat: Chat, argument: str) -> None:  # noqa: ARG001
    """How the last turn came to its answer."""
    show_why(chat.console, chat.need_last())


def grade(chat: Chat, argument: str) -> None:  # noqa: ARG001
    """What the metrics say of the last answer."""
    last = chat.need_last()
    if chat.scores is None:
        raise RequestError(MISSING)
    before = chat.conversation.history(len(chat.conversation.exchanges) - 1)
    rows = chat.scores.grade(last, before)
    width = max((len(name) for name, _, _ in rows), default=0)
    for name, value, remark in rows:
        figure = "   -" if value is None else f"{value:.2f}" if value <= 1 else f"{value:.0f}"
        chat.say(f"{name:<{width}}  {figure:>5}  {shown(remark)}".rstrip())
