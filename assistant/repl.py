"""`turnwise chat`: a conversation in a terminal, or on a pipe a line a turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from rich.console import Console
from rich.text import Text

from assistant.agent import Assistant
from assistant.show import TurnView, show_sources
from assistant.types import Reply
from corpora.console import received, shown, stdin_is_terminal, stdin_lines
from corpora.errors import RequestError, TurnwiseError
from corpora.text import printable, strip_citations
from corpora.types import Message

HELP = """\
/sources [n]  the passages behind the last answer, or one of them in full
/help         this list
/quit         leave (so do Ctrl-D, and Ctrl-C twice at the prompt)
Ctrl-C while an answer is written cancels the answer and keeps the conversation."""

COMMANDS = ("/help", "/quit", "/sources")


class Chat:
    """One conversation: the message list is all its state."""

    def __init__(self, assistant: Assistant, console: Console) -> None:
        self._assistant, self._console = assistant, console
        self.history: list[Message] = []
        self._last: Reply | None = None

    def handle(self, line: str) -> bool:
        """Answer one line or obey one command; False when the conversation is over."""
        line = received(line).strip()
        if not line:
            return True
        if line.startswith("/"):
            return self._command(line)
        view = TurnView(self._console, streaming=self._assistant.generator is not None)
        try:
            reply = self._assistant.reply(self.history, line, view.on_event)
        except KeyboardInterrupt:
            self._console.print(Text("\ncancelled; the conversation goes on without this question", style="yellow"))
            return True
        except TurnwiseError as error:
            self._console.print(Text(f"\nno answer: {printable(str(error))}", style="red"), soft_wrap=True)
            return True
        view.finish(reply)
        self._last = reply
        said = strip_citations(reply.answer)
        self.history += [Message(role="user", content=line), Message(role="assistant", content=said)]
        # While the person reads; the next question is then understood the sooner. It can be done without.
        listens = getattr(self._assistant.retriever, "heard", None)
        with suppress(TurnwiseError, KeyboardInterrupt):
            if listens:
                listens(said)
        return True

    def _command(self, line: str) -> bool:
        name, *arguments = line.split()
        if name == "/quit":
            return False
        if name == "/help":
            self._console.print(HELP, markup=False, highlight=False)
        elif name == "/sources" and (not arguments or (arguments[0].isdecimal() and len(arguments[0]) < 10)):
            citations = self._last.citations if self._last else ()
            show_sources(self._console, citations, int(arguments[0]) if arguments else None)
        else:
            self._console.print(Text(f"{shown(line)}: not a command; there are: {', '.join(COMMANDS)}"))
        return True


def run_chat(assistant: Assistant, index: str, console: Console) -> None:
    """Talk until the person leaves."""
    chat = Chat(assistant, console)
    mode = "" if assistant.generator else " (no language model: answers are sentences of the documents)"
    console.print(Text(f"{index} · {shown(assistant.name)}{mode} · /help", style="dim"), soft_wrap=True)
    for line in _lines(console):
        if not chat.handle(line):
            return


def _lines(console: Console) -> Iterator[str]:
    """What the person types; on a pipe its lines, each shown before it is answered."""
    if not stdin_is_terminal():
        for line in stdin_lines():
            if line.strip():
                console.print(Text(f"\n› {shown(line.strip())}", style="bold"), soft_wrap=True)
            yield line
        return
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter

    session: PromptSession[str] = PromptSession(completer=WordCompleter(list(COMMANDS), sentence=True))
    interrupted = False
    while True:
        try:
            if interrupted:  # said in here, where the second Ctrl-C can already come
                console.print(Text("Ctrl-C again, or Ctrl-D, leaves", style="dim"))
            line = session.prompt("› ")
        except KeyboardInterrupt:
            if interrupted:
                return
            interrupted = True
            continue
        except EOFError:
            return
        interrupted = False
        yield line


def choose_index(names: list[str], console: Console) -> str | None:
    """Which index to talk to, when none was named; None: the person left.

    Raises:
        RequestError: there is none, or nobody is there to choose.
    """
    if not names:
        raise RequestError("there is no index yet; build one: turnwise index build SOURCE --name NAME")
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
