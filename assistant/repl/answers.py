"""Commands about the last answer: what the metrics say of it, what the person does with it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import get_args

from turnmark.assistant.repl.chat import NO_SCORES, Chat
from turnmark.assistant.repl.screen import uninterrupted
from turnmark.assistant.session import Edited, Rating, TurnRated
from turnmark.corpora.console import inert, stdin_is_terminal, valid_text
from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.text import strip_citations

EDITORS = ("editor", "nano", "vi")
"""Tried in this order if the environment names none and a person sits there."""


def grade_answer(chat: Chat, _: str) -> None:
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
    """Revise the last answer as the person says."""
    if not argument:
        raise RequestError("/revise: how? For example: /revise make it shorter")
    chat.revise(argument)


def retry(chat: Chat, _: str) -> None:
    """Answer the last message again."""
    chat.answer_again()


def rate(chat: Chat, argument: str) -> None:
    """`good`, `neutral` or `bad`, and why."""
    last = chat.need_last("there is no answer to rate yet")
    word, _, comment = argument.partition(" ")
    rating: Rating | None = next((name for name in get_args(Rating) if name == word.lower()), None)
    if rating is None:
        line = f"/rate {inert(word)}".rstrip()
        raise RequestError(f"{line}: good, neutral or bad was expected, then a comment if you like")
    chat.record(TurnRated(turn=last.turn, rating=rating, comment=comment.strip()))
    dropped = last.kind == "revise" and rating == "bad" and last.edit is None
    chat.say(f"rated {rating}{'; the answer before it counts again' if dropped else ''}", style="dim")


def edit(chat: Chat, argument: str) -> None:
    """The person's version of the last answer: from the editor, or given with the command."""
    last = chat.need_last("there is no answer to edit yet")
    previous = last.edit if last.edit is not None else last.reply.answer
    text = valid_text(argument or open_editor(previous)).strip()
    if not text:
        raise RequestError("the edited answer is empty; nothing was changed")
    if text == previous.strip():
        chat.say("nothing was changed", style="dim")
        return
    original = strip_citations(last.reply.answer)
    metric, score = (chat.scores and chat.scores.similarity(strip_citations(text), original)) or ("", None)
    chat.record(Edited(turn=last.turn, text=text))
    measured = f"{metric} {score:.2f} to the original" if score is not None else "nothing to compare it with"
    chat.say(f"edited · {measured if chat.scores else NO_SCORES}", style="dim")


# --- the person's editor ---------------------------------------------------------------------------------------------


def editor_command() -> list[str]:
    """What starts the editor: `$VISUAL`, `$EDITOR`, or a usual one. Never run through a shell."""
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


def open_editor(text: str) -> str:
    """The text after the person has edited it, meanwhile in a file of mode 0600 in a new folder."""
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
