"""Commands about the last answer: what the metrics say of it, what the person does with it."""

from __future__ import annotations

import os
from typing import get_args

import click

from turnmark.assistant.repl.chat import Chat
from turnmark.assistant.repl.screen import uninterrupted
from turnmark.assistant.session import Edited, Rating, TurnRated
from turnmark.corpora.console import inert, stdin_is_terminal, valid_text
from turnmark.corpora.errors import RequestError, TurnmarkError


def grade_answer(chat: Chat, _: str) -> None:
    """What the metrics say of the last answer."""
    last = chat.need_last()
    if chat.grade is None:
        raise RequestError("there are no metrics in this chat")
    rows = chat.grade(last, chat.history_before_last())
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
    chat.record(Edited(turn=last.turn, text=text))
    chat.say("edited; /grade compares it with the answer", style="dim")


def open_editor(text: str) -> str:
    """The text after the person has edited it in `$VISUAL`, `$EDITOR` or a usual editor."""
    if not (os.environ.get("VISUAL") or os.environ.get("EDITOR") or stdin_is_terminal()):
        raise RequestError("no editor: set EDITOR to one, or give the text with the command: /edit TEXT")
    try:
        with uninterrupted():
            return click.edit(text, require_save=False, extension=".md") or ""
    except (click.ClickException, ValueError, OSError) as error:
        raise TurnmarkError(f"{error}; nothing was changed") from error
