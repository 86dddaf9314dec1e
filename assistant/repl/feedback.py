"""Commands that judge a turn or take it back: `/rate`, `/edit`, `/undo`, `/retry`, `/revise`."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from turnmark.assistant.repl.editor import edited
from turnmark.assistant.repl.scores import MISSING
from turnmark.assistant.session import Edited, Rated, Rating, Undone, full_text
from turnmark.corpora.console import received, shown
from turnmark.corpora.errors import RequestError
from turnmark.corpora.text import strip_citations

if TYPE_CHECKING:
    from turnmark.assistant.repl.chat import Chat

SHOWN = 60


def rate(chat: Chat, argument: str) -> None:
    """`good`, `neutral` or `bad`, and why."""
    last = chat.need_last("there is no answer to rate yet")
    word, _, comment = argument.partition(" ")
    names = get_args(Rating)
    if word.lower() not in names:
        said = f"/rate {shown(word)}".rstrip()
        raise RequestError(f"{said}: {', '.join(names[:-1])} or {names[-1]} was expected, then a comment if you like")
    event = {"turn": last.turn, "rating": word.lower(), "comment": comment.strip()}
    chat.record(Rated.model_validate(event))
    dropped = last.kind == "revise" and word.lower() == "bad" and last.edit is None
    chat.say(f"rated {word.lower()}{'; the answer before it stands again' if dropped else ''}", style="dim")


def edit(chat: Chat, argument: str) -> None:
    """The person's own version of the last answer: from the editor, or given with the command."""
    last = chat.need_last("there is no answer to edit yet")
    before = last.edit if last.edit is not None else full_text(last.reply)
    text = received(argument or edited(before)).strip()
    if not text:
        raise RequestError("the edited answer is empty; nothing was changed")
    if text == before.strip():
        chat.say("nothing was changed", style="dim")
        return
    original = strip_citations(full_text(last.reply))
    found = chat.scores.similarity(strip_citations(text), original) if chat.scores else None
    metric, score = found or ("", None)
    chat.record(Edited(turn=last.turn, text=text, metric=metric, score=score))
    measured = f"{metric} {score:.2f} to the original" if score is not None else "nothing to compare it with"
    chat.say(f"edited · {measured if chat.scores else MISSING}", style="dim")


def undo(chat: Chat, argument: str) -> None:  # noqa: ARG001
    """The last message and its reply are as if they had not been."""
    last = chat.need_last("there is nothing to take back")
    chat.record(Undone(turn=last.turn))
    question = shown(last.question)
    chat.say(f"taken back: {question[:SHOWN]}{'…' if len(question) > SHOWN else ''}", style="dim")


def retry(chat: Chat, argument: str) -> None:  # noqa: ARG001
    """The last message is answered again."""
    chat.answer_again("retry")


def revise(chat: Chat, argument: str) -> None:
    """The last answer is revised as told."""
    if not argument:
        raise RequestError("/revise: how? For example: /revise make it shorter")
    chat.revise(argument)
