"""The loop of `turnmark chat`: a prompt on a terminal; on a pipe a line a turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import Console
from rich.text import Text

from turnmark.assistant.repl.chat import Chat
from turnmark.assistant.repl.parts import parts_line
from turnmark.corpora.console import inert, stdin_is_terminal, stdin_lines
from turnmark.corpora.errors import RequestError, TurnmarkError


def run_chat(chat: Chat) -> None:
    """Talk until the person leaves.

    Raises:
        TurnmarkError: nobody sits there, and questions could not be answered.
    """
    if chat.opened is not None:
        console = chat.console
        console.print(Text(f"{parts_line(chat.opened)} · /help", style="dim"), soft_wrap=not console.is_terminal)
    try:
        for line in _lines(chat):
            if not chat.handle(line):
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

    ask: Callable[[], str] = make_prompt(chat)
    interrupted = False
    while True:
        try:
            if interrupted:  # said in here, where the second Ctrl-C can already come
                chat.say("Ctrl-C again, or Ctrl-D, leaves", style="dim")
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


def confirmed(console: Console) -> Callable[[str], bool]:
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
    """Which index to talk to, when none was named; None: the person left.

    Raises:
        RequestError: there is none, or nobody is there to choose.
    """
    if not names:
        raise RequestError("there is no index yet; build one: turnmark index build SOURCE --name NAME")
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
