"""Commands about the last answer: what it rests on, how it came about, and what the person makes of it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import get_args

from rich.text import Text

from turnmark.assistant.repl.chat import NO_SCORES, Chat
from turnmark.assistant.repl.evidence import candidates, trace_lines
from turnmark.assistant.repl.screen import draw_markdown, uninterrupted
from turnmark.assistant.session import Edited, Rated, Rating, Undone, where
from turnmark.assistant.types import numbered
from turnmark.corpora.console import cut, inert, stdin_is_terminal, valid_text
from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.text import printable, strip_citations

QUESTION_LENGTH, SNIPPET = 60, 160
EDITORS = ("editor", "nano", "vi")
"""Tried in this order where the environment names none and a person sits there."""


def why(chat: Chat, _: str) -> None:
    """How the last turn came to its answer: rewrite, searches with hits and scores, decision, checks, tokens."""
    for line in trace_lines(chat.need_last()):
        heading = not line.startswith(" ")
        chat.console.print(Text(line, style="bold" if heading else ""), soft_wrap=not chat.console.is_terminal)


def sources(chat: Chat, argument: str) -> None:
    """The passages behind the last answer in a line each; with a number, one of them in full."""
    if argument and not (argument.isdecimal() and len(argument) < 10):
        raise RequestError(f"/sources {inert(argument)}: the number of a source was expected")
    last = chat.conversation.last
    citations = candidates(chat, last) if last else ()
    if last and citations and not last.reply.citations:
        chat.say("the last answer rests on no sources; this was found and not used (/relevant takes what fits):")
    elif not citations:
        chat.say("the last answer rests on no sources")
    elif argument and not 1 <= int(argument) <= len(citations):
        chat.say(f"there is no source {int(argument)}; there are 1 to {len(citations)}")
    for n, citation in enumerate(citations, 1):
        if argument and n != int(argument):
            continue
        chat.say(where(citation) if argument else f"[{n}] {where(citation)}", style="bold")
        if argument:
            chat.say(printable(citation.text))
        else:
            chat.say(cut(" ".join(printable(citation.text).split()), SNIPPET), style="dim", indent=4)
        label = last.labels.get(citation.id) if last else None
        if label is not None:
            chat.say(f"    [{n}] you labelled it {'relevant' if label else 'irrelevant'}", style="dim")


def steps(chat: Chat, _: str) -> None:
    """The steps of the last answer, one under the other."""
    rows = numbered(chat.need_last().reply.procedure)
    if not rows:
        chat.say("the last answer has no steps")
    elif chat.console.is_terminal:
        draw_markdown(chat.console, "\n".join(rows))
    else:
        chat.say("\n".join(f"  {printable(row)}" for row in rows))


def grade(chat: Chat, _: str) -> None:
    """What the metrics say of the last answer."""
    last = chat.need_last()
    if chat.scores is None:
        raise RequestError(NO_SCORES)
    rows = chat.scores.grade(last, chat.history_before_last())
    width = max((len(name) for name, _, _ in rows), default=0)
    for name, value, remark in rows:
        figure = "   -" if value is None else f"{value:.2f}" if value <= 1 else f"{value:.0f}"
        chat.say(f"{name:<{width}}  {figure:>5}  {inert(remark)}".rstrip())


def revise(chat: Chat, argument: str) -> None:
    """The last answer is revised as told."""
    if not argument:
        raise RequestError("/revise: how? For example: /revise make it shorter")
    chat.revise(argument)


def rate(chat: Chat, argument: str) -> None:
    """`good`, `neutral` or `bad`, and why."""
    last = chat.need_last("there is no answer to rate yet")
    word, _, comment = argument.partition(" ")
    names = get_args(Rating)
    if word.lower() not in names:
        line = f"/rate {inert(word)}".rstrip()
        raise RequestError(f"{line}: {', '.join(names[:-1])} or {names[-1]} was expected, then a comment if you like")
    event = {"turn": last.turn, "rating": word.lower(), "comment": comment.strip()}
    chat.record(Rated.model_validate(event))
    dropped = last.kind == "revise" and word.lower() == "bad" and last.edit is None
    chat.say(f"rated {word.lower()}{'; the answer before it stands again' if dropped else ''}", style="dim")


def edit(chat: Chat, argument: str) -> None:
    """The person's own version of the last answer: from the editor, or given with the command."""
    last = chat.need_last("there is no answer to edit yet")
    previous = last.edit if last.edit is not None else last.reply.whole
    text = valid_text(argument or edited(previous)).strip()
    if not text:
        raise RequestError("the edited answer is empty; nothing was changed")
    if text == previous.strip():
        chat.say("nothing was changed", style="dim")
        return
    original = strip_citations(last.reply.whole)
    metric, score = (chat.scores and chat.scores.similarity(strip_citations(text), original)) or ("", None)
    chat.record(Edited(turn=last.turn, text=text, metric=metric, score=score))
    measured = f"{metric} {score:.2f} to the original" if score is not None else "nothing to compare it with"
    chat.say(f"edited · {measured if chat.scores else NO_SCORES}", style="dim")


def retry(chat: Chat, _: str) -> None:
    """The last message is answered again."""
    chat.answer_again("retry")


def undo(chat: Chat, _: str) -> None:
    """The last message and its reply are as if they had not been."""
    last = chat.need_last("there is nothing to take back")
    chat.record(Undone(turn=last.turn))
    chat.say(f"taken back: {cut(inert(last.question), QUESTION_LENGTH)}", style="dim")


# --- the person's own editor -----------------------------------------------------------------------------------------


def editor_command() -> list[str]:
    """What starts the editor: `$VISUAL`, `$EDITOR`, or a usual one. Never run through a shell.

    Raises:
        RequestError: there is none, or the variable is not a command.
    """
    for variable in ("VISUAL", "EDITOR"):
        command = os.environ.get(variable, "").strip()
        if command:
            try:
                return shlex.split(command)
            except ValueError as error:
                raise RequestError(f"{variable}={command!r} is not a command: {error}") from error
    editor = next(filter(None, map(shutil.which, EDITORS)), None) if stdin_is_terminal() else None
    if editor is None:
        raise RequestError("no editor: set EDITOR to one, or give the text with the command: /edit TEXT")
    return [editor]


def edited(text: str) -> str:
    """The text after the person has edited it. It lies in a file of mode 0600 meanwhile, in a folder of its own.

    Raises:
        RequestError: there is no editor.
        TurnmarkError: the editor cannot be run, or says that it failed: then nothing is taken over.
    """
    command = editor_command()
    with tempfile.TemporaryDirectory(prefix="turnmark-") as folder:
        path = Path(folder) / "answer.md"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text + "\n")
        try:
            with uninterrupted():
                code = subprocess.run([*command, str(path)], check=False).returncode
            if code:
                raise TurnmarkError(f"the editor {command[0]!r} ended with {code}; nothing was changed")
            return path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise TurnmarkError(f"the editor {command[0]!r} cannot be run ({error.strerror or error})") from error
