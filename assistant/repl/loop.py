"""The commands of `turnmark chat` by name, and its loop: a prompt on a terminal; on a pipe a line a turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnmark.assistant.repl import answers, parts
from turnmark.assistant.repl.chat import Chat
from turnmark.corpora.console import inert, stdin_is_terminal, stdin_lines, valid_text
from turnmark.corpora.errors import RequestError, TurnmarkError

KEYS = """\
Alt-Enter, or a backslash at the end: a new line. Tab completes.
Ctrl-C while an answer is written cancels the answer and keeps the conversation; twice at the prompt leaves, and so \
does Ctrl-D."""


def help_(chat: Chat, _: str) -> None:
    """Every command with what it does."""
    usages = {f"{name} {command.arguments}".strip(): command.summary for name, command in COMMANDS.items()}
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", max_width=max(12, chat.console.width * 2 // 5))
    for usage, summary in usages.items():
        table.add_row(Text(usage), Text(summary))
    chat.console.print(table)
    chat.say(KEYS)


def quit_(chat: Chat, _: str) -> None:
    """The conversation is over."""
    chat.over = True


@dataclass(frozen=True)
class Command:
    """A command. `arguments` is what it takes, as `/help` shows it."""

    arguments: str
    summary: str
    run: Callable[[Chat, str], None]


COMMANDS: dict[str, Command] = {
    "/why": Command("[N]", "how the last answer came about; with a number, the text of that source", answers.why),
    "/grade": Command("", "what the metrics say of the last answer", answers.grade_answer),
    "/revise": Command("TEXT", "revise the last answer as you say", answers.revise),
    "/edit": Command("[TEXT]", "replace it with your version, from your editor", answers.edit),
    "/rate": Command("good|neutral|bad [COMMENT]", "say what you think of it", answers.rate),
    "/retry": Command("", "answer the last question again", answers.retry),
    "/index": Command("[NAME]", "continue with another index", parts.index),
    "/retriever": Command("[SPEC]", "continue with another retriever", parts.retriever),
    "/generator": Command("[SPEC]", "continue with another model, or extractive", parts.generator),
    "/save": Command("[NAME]", "keep the session, under a name if you give one", parts.save),
    "/export": Command("mtrag|markdown FILE", "write the conversation to a folder or file", parts.export_chat),
    "/clear": Command("", "begin a new conversation", parts.clear),
    "/help": Command("", "this list", help_),
    "/quit": Command("", "leave", quit_),
}
"""By name, in the order of `/help`."""


def handle(chat: Chat, line: str) -> bool:
    """Answer one message or obey one command; False when the conversation is over."""
    line = valid_text(line).strip()
    if not line:
        return True
    try:
        if line.startswith("/"):
            _obey(chat, line)
        else:
            chat.ask(line)
    except TurnmarkError as error:
        chat.complain(error)
    except KeyboardInterrupt:
        if not chat.interactive:
            raise
        chat.say("cancelled", style="yellow")
    return not chat.over


def _obey(chat: Chat, line: str) -> None:
    name, _, argument = line.partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        near = get_close_matches(name, COMMANDS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        chat.say(f"{inert(line)}: not a command{hint}; there are: {', '.join(COMMANDS)}")
    elif argument.strip() and not command.arguments and name != "/quit":
        chat.say(f"{inert(line)}: {name} takes nothing after it")
    else:
        command.run(chat, argument.strip())


def run_chat(chat: Chat) -> None:
    """Talk until the person leaves."""
    if chat.opened is not None:
        console = chat.console
        console.print(Text(f"{parts.parts_line(chat.opened)} · /help", style="dim"), soft_wrap=not console.is_terminal)
    try:
        for line in _lines(chat):
            if not handle(chat, line):
                break
    finally:
        chat.session.close()
    if chat.failed and not chat.interactive:
        raise TurnmarkError(f"{chat.failed} question{'s'[: chat.failed != 1]} could not be answered")


def _lines(chat: Chat) -> Iterator[str]:
    """What the person types; on a pipe its lines, each shown before it is answered."""
    if chat.interactive:
        yield from _typed(chat)
        return
    for line in stdin_lines():
        if line.strip():
            chat.console.print(Text(f"\n› {inert(line.strip())}", style="bold"), soft_wrap=True)
        yield line


def _typed(chat: Chat) -> Iterator[str]:
    from turnmark.assistant.repl.prompt import make_prompt

    ask: Callable[[], str] = make_prompt(chat.session.keep, COMMANDS)
    interrupted = False
    while True:
        try:
            if interrupted:  # said in here, where the second Ctrl-C can already come
                chat.say("press Ctrl-C again, or Ctrl-D, to leave", style="dim")
            line = ask()
        except KeyboardInterrupt:
            if interrupted:
                return
            interrupted = True
            continue
        except EOFError:
            return
        interrupted = False
        yield line


def make_confirm(console: Console) -> Callable[[str], bool]:
    """Asks a person; anything but yes is no."""

    def ask(question: str) -> bool:
        console.print(Text(f"{question} [y/N] "), end="")
        try:
            return input().strip().lower() in ("y", "yes")
        except (EOFError, KeyboardInterrupt):
            console.print()
            return False

    return ask


def choose_index(names: list[str], console: Console) -> str | None:
    """Which index to talk to, when none was named; None: the person left."""
    if not names:
        raise RequestError("no index is built yet; build one: turnmark index build SOURCE --name NAME")
    if len(names) == 1:
        return names[0]
    if not stdin_is_terminal():
        raise RequestError(f"--index is missing; there are: {', '.join(names)}")
    from rich.prompt import Prompt

    try:
        return Prompt.ask("Which index?", choices=names, console=console)
    except EOFError:
        console.print()
        return None
